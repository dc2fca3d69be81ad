/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the target is asked for: by the command line, by a configuration file, which has the same
 * options as YAML, or both.
 */
#ifndef NVMF_OPTIONS_H
#define NVMF_OPTIONS_H

#include "programs/nvmf-target/store.h"

#include <sys/socket.h>

struct nvmf_config;

enum nvmf_command_word { NVMF_RUN_SERVE, NVMF_RUN_HELP, NVMF_RUN_VERSION };

/* A subsystem as it was asked for. Texts are those of the command line or of the file. */
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
    char *tls; /* as in iwarp/tls.h; NULL: what IWARP_TLS says */
    struct sockaddr_storage metrics;
    socklen_t metrics_len;      /* 0: none */
    const char *config_file;    /* NULL: none */
    const char *secrets;        /* the file; NULL: none */
    struct nvmf_config *config; /* what was read of config_file, which texts above are part of */
};

/* The command line alone. False after it has printed what is wrong; the options are to be freed
 * then, too. */
bool nvmf_options_parse(int argc, char **argv, struct nvmf_options *options);

/* One option, by its letter on the command line. next: what the namespaces that follow are like,
 * which an option may change. False as above. */
bool nvmf_options_set(struct nvmf_options *options, int letter, const char *value,
                      struct nvmf_wanted_disk *next);

/* The command line and the file that it names. False as above. */
bool nvmf_options_read(int argc, char **argv, struct nvmf_options *options);

void nvmf_options_help(void);
void nvmf_options_free(struct nvmf_options *options);

#endif
