/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target: everything that one process serves, in a loop that belongs to its caller. In each
 * turn of the loop, before it sleeps and after it was woken up, it looks at connection events,
 * completions of the device and completions of disks until there are none. So nothing has to wake
 * the loop up but the sockets of the device and the ring of the disks.
 */
#ifndef NVMF_TARGET_H
#define NVMF_TARGET_H

#include "controller.h"
#include "stats.h"

struct nvmf_target {
    uv_loop_t *loop;
    struct nvmf_net net;
    struct disk_engine *engine;
    struct nvmf_store store;
    struct nvmf_controllers controllers;
    struct nvmf_stats stats;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t tick;
    uint64_t began_ns, ticked_ms;
    bool ticked_late; /* the process stood still before the last tick */
    bool stopping;
    void (*stopped)(struct nvmf_target *target);
};

/* memory: octets of all I/O buffers. tls: as for nvmf_net_open. False after iwarp_last_error has
 * the reason. */
bool nvmf_target_open(struct nvmf_target *target, uv_loop_t *loop, size_t memory, bool uring,
                      const char *tls);

/* From now on hosts may come; crc: ask them for CRC32c. False as above. */
bool nvmf_target_listen(struct nvmf_target *target, const struct sockaddr *addr, socklen_t len,
                        bool crc);

/* The same at a socket that is bound, or listens already. */
bool nvmf_target_listen_socket(struct nvmf_target *target, int fd, bool crc);

/* End all connections; `stopped` is called when there are none, after two seconds at most. */
void nvmf_target_stop(struct nvmf_target *target, void (*stopped)(struct nvmf_target *target));

/* Release everything. Then run the loop until its handles are closed. */
void nvmf_target_close(struct nvmf_target *target);

#endif
