/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other side, for `iwarp-nvmf bench` and for the tests: a host of NVMe over RDMA, as far as it
 * takes to send commands and to see what comes of them. It knows nothing of what commands mean but
 * Connect; its caller makes the 64 octets.
 *
 * The device is embedded in the caller's loop. Functions that wait run the loop meanwhile.
 */
#ifndef NVMF_HOST_H
#define NVMF_HOST_H

#include "programs/nvmf-wire/capsule.h"

#include <iwarp/iwarp.h>
#include <uv.h>

/* A command under way. `done` is called with its response; the connection's end calls nobody. */
struct nvmf_host_slot {
    bool busy;
    struct nvmf_response response;
    void (*done)(struct nvmf_host_slot *slot);
    void *arg;
    uint64_t began_ns;
};

struct nvmf_host {
    uv_loop_t *loop;
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    uint8_t *memory; /* which the target may read and write */
    size_t memory_len;
    struct iwarp_mr *mr;
    struct sockaddr_storage source; /* that queues connect from; all 0: the system chooses */
    uint16_t announce;              /* entries that queues claim to have; 0: those that they have */
};

struct nvmf_host_queue {
    struct nvmf_host *host;
    uint16_t id, entries;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    struct iwarp_mr *mr; /* of capsules */
    uint8_t *capsules;   /* a command with its data and a response for each slot */
    struct nvmf_host_slot *slots;
    bool ended;
};

/* tls: as in iwarp/tls.h; NULL: what IWARP_TLS says. */
bool nvmf_host_open(struct nvmf_host *host, uv_loop_t *loop, size_t memory, const char *tls);
void nvmf_host_close(struct nvmf_host *host);

/* Connect a queue, but send no Connect command. NULL after iwarp_last_error has the reason. */
struct nvmf_host_queue *nvmf_host_queue_open(struct nvmf_host *host, const struct sockaddr *addr,
                                             socklen_t len, uint16_t id, uint16_t entries,
                                             bool crc);
void nvmf_host_queue_close(struct nvmf_host_queue *queue);

/* Where data of a command are: `octets` at memory + offset. */
void nvmf_host_data(const struct nvmf_host *host, uint8_t command[NVMF_COMMAND_LEN], size_t offset,
                    uint32_t octets);

/* Send a command, with in_capsule octets of data behind it; its identifier is filled in. NULL: all
 * slots are busy, or it could not be posted. */
struct nvmf_host_slot *nvmf_host_send(struct nvmf_host_queue *queue,
                                      const uint8_t command[NVMF_COMMAND_LEN], const void *data,
                                      uint32_t in_capsule,
                                      void (*done)(struct nvmf_host_slot *slot), void *arg);

/* Look at what has come. True if there was anything. */
bool nvmf_host_turn(struct nvmf_host *host);

/* The same as nvmf_host_send, and wait for the response. The status, or -1 if the queue has ended.
 */
int nvmf_host_do(struct nvmf_host_queue *queue, const uint8_t command[NVMF_COMMAND_LEN],
                 const void *data, uint32_t in_capsule, uint64_t *result);

/* Send Connect, and of an admin queue also enable the controller. The status, or -1. */
int nvmf_host_join(struct nvmf_host_queue *queue, const struct nvmf_connect *connect,
                   uint32_t kato_ms, uint16_t *controller_id);

#endif
