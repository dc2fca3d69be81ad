/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What commands do: three sets of them. Each function answers the request, now or later.
 */
#ifndef NVMF_COMMANDS_H
#define NVMF_COMMANDS_H

#include "controller.h"

/* Commands of opcode NVMF_FABRICS, on any queue: Connect, properties, authentication. */
void nvmf_fabrics(struct nvmf_request *request);

/* A disk has done what it had of a queue that has ended: Connect commands may wait for that. */
void nvmf_connect_again(struct nvmf_net *net);

/* Of an admin queue with a controller that is ready. */
void nvmf_admin(struct nvmf_request *request);

/* Of an I/O queue. */
void nvmf_io(struct nvmf_request *request);

#endif
