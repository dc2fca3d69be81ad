/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target and a host of iwarp-nvmf in one loop, on one thread, over TCP on the loopback interface.
 * Functions that cannot go on end the program.
 */
#ifndef TESTS_NVMF_SIDE_H
#define TESTS_NVMF_SIDE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/nvmf-host/host.h"
#include "programs/nvmf-target/net.h"
#include "programs/nvmf-target/target.h"
#include "programs/nvmf-wire/octets.h"

#define SIDE_NQN    "nqn.2014-08.org.example:disks"
#define SIDE_HOST   "nqn.2014-08.org.example:host"
#define SIDE_MEMORY ((size_t)8 << 20) /* of the host */

struct side {
    uv_loop_t loop;
    struct nvmf_target target;
    struct nvmf_subsystem *subsystem;
    struct nvmf_host host;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    struct nvmf_host_queue *admin, *io;
    struct nvmf_connect connect; /* as it was sent last */
    uint64_t result;             /* of the last command */
    char file[64];               /* a disk, 1 MiB; "": none */
};

static inline void side_must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, iwarp_last_error());
        abort();
    }
}

/* A target with one subsystem that has no namespaces. */
static inline void side_open(struct side *s, size_t memory, bool uring)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    memset(s, 0, sizeof *s);
    uv_loop_init(&s->loop);
    side_must(nvmf_target_open(&s->target, &s->loop, memory, uring, NULL), "target");
    s->subsystem = nvmf_store_add(&s->target.store, SIDE_NQN);
    side_must(s->subsystem != NULL, "subsystem");
    side_must(nvmf_target_listen(&s->target, (struct sockaddr *)&any, sizeof any, true), "listen");
    iwarp_listener_addr(s->target.listener, &s->addr, &s->addr_len);
    side_must(nvmf_host_open(&s->host, &s->loop, SIDE_MEMORY, NULL), "host");
    memset(s->host.memory, 0, SIDE_MEMORY);
}

static inline struct nvmf_namespace *side_disk(struct side *s, const char *name, bool read_only)
{
    const char *why = "";
    struct nvmf_namespace *ns = nvmf_namespace_add(
        &s->target.store, s->subsystem, &(struct nvmf_wanted_disk){name, read_only, 0, 0}, &why);

    side_must(ns != NULL, why);
    return ns;
}

/* A file of so many octets as the next namespace. */
static inline struct nvmf_namespace *side_file(struct side *s, off_t octets)
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    snprintf(s->file, sizeof s->file, "%.40s/disk-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(s->file);
    side_must(fd >= 0 && ftruncate(fd, octets) == 0, s->file);
    close(fd);
    return side_disk(s, s->file, false);
}

static inline struct nvmf_host_queue *side_queue(struct side *s, uint16_t id, uint16_t entries)
{
    struct nvmf_host_queue *queue =
        nvmf_host_queue_open(&s->host, (struct sockaddr *)&s->addr, s->addr_len, id, entries, true);

    side_must(queue != NULL, "queue");
    return queue;
}

/* Connect command to a queue. */
static inline int side_join_as(struct side *s, struct nvmf_host_queue *queue, const char *subsystem,
                               const char *host, uint16_t controller, uint32_t kato_ms)
{
    memset(&s->connect, 0, sizeof s->connect);
    snprintf(s->connect.subsystem, sizeof s->connect.subsystem, "%s", subsystem);
    snprintf(s->connect.host, sizeof s->connect.host, "%s", host);
    memset(s->connect.host_id, 0x5a, sizeof s->connect.host_id);
    s->connect.controller_id = controller;
    return nvmf_host_join(queue, &s->connect, kato_ms, &s->connect.controller_id);
}

/* An admin queue and one for I/O, with a controller that is enabled. */
static inline void side_join(struct side *s)
{
    s->admin = side_queue(s, 0, 32);
    side_must(side_join_as(s, s->admin, SIDE_NQN, SIDE_HOST, 0xffff, 0) == 0, "Connect");
    s->io = side_queue(s, 1, 32);
    side_must(side_join_as(s, s->io, SIDE_NQN, SIDE_HOST, s->connect.controller_id, 0) == 0,
              "Connect of queue 1");
}

static inline void side_leave(struct side *s)
{
    if (s->io) {
        nvmf_host_queue_close(s->io);
    }
    if (s->admin) {
        nvmf_host_queue_close(s->admin);
    }
    s->io = s->admin = NULL;
}

static inline void side_close(struct side *s)
{
    side_leave(s);
    nvmf_host_close(&s->host);
    nvmf_target_close(&s->target);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    side_must(uv_loop_close(&s->loop) == 0, "handles are left");
    if (s->file[0]) {
        unlink(s->file);
    }
}

/* An admin command with octets of data at the begin of the host's memory. */
static inline int side_admin(struct side *s, uint8_t opcode, uint32_t nsid, uint32_t dw10,
                             uint32_t dw11, uint32_t octets)
{
    uint8_t command[NVMF_COMMAND_LEN] = {opcode};

    nvmf_put32(command + 4, nsid);
    nvmf_put32(command + 40, dw10);
    nvmf_put32(command + 44, dw11);
    nvmf_host_data(&s->host, command, 0, octets);
    return nvmf_host_do(s->admin, command, NULL, 0, &s->result);
}

static inline void side_put_io(struct side *s, uint8_t command[NVMF_COMMAND_LEN], uint8_t opcode,
                               uint64_t lba, uint32_t dw12, size_t offset, uint32_t octets)
{
    memset(command, 0, NVMF_COMMAND_LEN);
    command[0] = opcode;
    nvmf_put32(command + 4, 1);
    nvmf_put64(command + 40, lba);
    nvmf_put32(command + 48, dw12);
    nvmf_host_data(&s->host, command, offset, octets);
}

/* An I/O command to namespace 1; its data are at offset of the host's memory. */
static inline int side_io(struct side *s, uint8_t opcode, uint64_t lba, uint32_t dw12,
                          size_t offset, uint32_t octets)
{
    uint8_t command[NVMF_COMMAND_LEN];

    side_put_io(s, command, opcode, lba, dw12, offset, octets);
    return nvmf_host_do(s->io, command, NULL, 0, &s->result);
}

/* Run the loop for so long, or until the queue has ended (NULL: none). */
static inline void side_run(struct side *s, const struct nvmf_host_queue *queue, unsigned ms)
{
    uint64_t until = uv_hrtime() + ms * UINT64_C(1000000);

    while (uv_hrtime() < until && !(queue && queue->ended)) {
        nvmf_host_turn(&s->host);
        uv_run(&s->loop, UV_RUN_NOWAIT);
    }
}

static inline void side_await_answer(struct side *s, const struct nvmf_host_slot *slot)
{
    for (unsigned i = 0; i < 500 && slot->busy; i++) {
        side_run(s, NULL, 10);
    }
    side_must(!slot->busy, "no answer");
}

#endif
