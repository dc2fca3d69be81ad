/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line.
 */
#ifndef NVMF_OPTIONS_H
#define NVMF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum nvmf_command_word { NVMF_RUN_SERVE, NVMF_RUN_HELP, NVMF_RUN_VERSION };

/* A subsystem as it was asked for. Texts are those of the command line. */
struct nvmf_wanted_disk {
    const char *name;
    bool read_only;
    uint32_t block; /* 0: the usual */
};

struct nvmf_wanted {
    const char *nqn;
    struct nvmf_wanted_disk *disks;
    size_t disk_count;
    const char **hosts;
    size_t host_count;
};

struct nvmf_options {
    enum nvmf_command_word command;
    struct sockaddr_storage listen;
    socklen_t listen_len;
    struct nvmf_wanted *subsystems;
    size_t subsystem_count;
    size_t memory; /* octets */
    bool uring, crc;
};

/* False after it has printed what is wrong. */
bool nvmf_options_parse(int argc, char **argv, struct nvmf_options *options);
void nvmf_options_help(void);
void nvmf_options_free(struct nvmf_options *options);

/* "192.0.2.1:4420", "[::1]:4420", with or without port. */
bool nvmf_parse_address(const char *text, uint16_t port, struct sockaddr_storage *addr,
                        socklen_t *len);

#endif
