/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues come and go: the device, the Requests of hosts, memory and queue pairs of a queue, its
 * end.
 */
#ifndef NVMF_NET_H
#define NVMF_NET_H

#include "queue.h"

/* Queues at a time, admin queues included. One address has no more than are free beside them: half
 * of them, if it is alone. */
#define NVMF_NET_QUEUES 1024

/* memory: octets of all buffers. tls: as in iwarp/tls.h; NULL: what IWARP_TLS says. False after
 * iwarp_last_error has the reason. */
bool nvmf_net_open(struct nvmf_net *net, uv_loop_t *loop, size_t memory, const char *tls);
void nvmf_net_close(struct nvmf_net *net); /* no queue may be left */

/* Accept a Request, or reject it. */
void nvmf_net_request(struct nvmf_net *net, struct iwarp_conn *conn, uint64_t now_ms);

/* More queues that the address of this one may have now. */
unsigned nvmf_net_room(const struct nvmf_queue *queue);

/* The connection of the queue has ended, as its event says. */
void nvmf_net_gone(struct nvmf_queue *queue, const struct iwarp_event *event);

/* Free queues that are ENDED and have nothing with a disk. Not within nvmf_net_turn. */
void nvmf_net_sweep(struct nvmf_net *net);

/* Once a second: close queues that have lent a buffer to an RDMA Read or Write for longer. */
void nvmf_net_stuck(struct nvmf_net *net, uint64_t now_ms, uint64_t limit_ms);

/* Close queues that have no controller for that long: no Connect command came, or it waits. */
void nvmf_net_idle(struct nvmf_net *net, uint64_t now_ms, uint64_t limit_ms);

#endif
