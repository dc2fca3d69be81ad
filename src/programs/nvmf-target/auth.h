/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DH-HMAC-CHAP (NVM Express base 2.0, 8.13): a host shows that it knows its secret, and if it asks,
 * the target shows that it knows its own. The host sends by Authentication Send, and asks for each
 * answer by Authentication Receive. One exchange on one queue:
 *
 *   step              event                     action                              next
 *   EXPECT_NEGOTIATE  Negotiate                 choose hash and group, draw C1      GIVE_CHALLENGE
 *   GIVE_CHALLENGE    Receive                   give Challenge                      EXPECT_REPLY
 *   EXPECT_REPLY      Reply, right, no C2       the host may use the queue          GIVE_SUCCESS
 *                     Reply, right, with C2     remember C2                         GIVE_SUCCESS
 *   GIVE_SUCCESS      Receive                   give Success1; without C2: the end  EXPECT_SUCCESS
 *   EXPECT_SUCCESS    Success2                  the host may use the queue; the end
 *                     Failure2                  answer, close the queue             DISBELIEVED
 *   any               anything else that came   note why                            GIVE_FAILURE
 *   GIVE_FAILURE      Receive                   give Failure1, close the queue
 *
 * A host may begin anew once an exchange has come to its end.
 */
#ifndef NVMF_AUTH_H
#define NVMF_AUTH_H

#include "controller.h"

/* Has the host to show that it knows a secret, before it may use a queue of the controller? */
bool nvmf_auth_wanted(const struct nvmf_controller *controller);

/* Authentication Send and Receive, on a queue with a controller. */
void nvmf_auth_send(struct nvmf_request *request);
void nvmf_auth_receive(struct nvmf_request *request);

/* The queue has ended. */
void nvmf_auth_end(struct nvmf_queue *queue);

#endif
