/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line: which command, its options, its arguments. Everything that can be judged
 * without looking at files or the network is judged here.
 */
#ifndef CP_OPTIONS_H
#define CP_OPTIONS_H

#include "net.h"
#include "tls.h"

#include <iwarp/conn.h>

#define CP_ALLOW_MAX 64

/* What the program ends with; documented in the manual page. */
enum cp_exit {
    CP_EXIT_OK = 0,
    CP_EXIT_FAILED = 1,     /* some file could not be copied, or a name not be listed */
    CP_EXIT_USAGE = 2,      /* the command line is wrong */
    CP_EXIT_CONNECTION = 3, /* no connection to an iwarp-cp server */
    CP_EXIT_BROKEN = 4      /* the connection ended in the middle */
};

enum cp_command {
    CP_COMMAND_SERVE = 1 << 0,
    CP_COMMAND_PUT = 1 << 1,
    CP_COMMAND_GET = 1 << 2,
    CP_COMMAND_LIST = 1 << 3,
    CP_COMMAND_PLAIN = 1 << 4, /* hidden: the same over plain TCP, for comparison */
    CP_COMMAND_HELP = 1 << 5,
    CP_COMMAND_VERSION = 1 << 6,
    CP_COMMAND_KEYGEN = 1 << 7
};

struct cp_options {
    enum cp_command command;
    char **arguments; /* what is left of the command line */
    size_t argument_count;
    struct iwarp_conn_options conn;
    char tls[CP_TLS_MAX]; /* what conn.tls is; "": --tls was not given */
    unsigned slots;       /* of a transfer, at most */
    bool all_slots;       /* --depth was given: a client uses so many however near the server is */
    uint32_t slot_size;
    bool recursive;
    bool checksum;
    bool sync;
    bool json;
    bool quiet;
    unsigned timeout_s;
    /* serve */
    struct cp_address listen;
    struct cp_network allow[CP_ALLOW_MAX];
    size_t allow_count;
    bool insecure;
    bool read_only;
    bool verbose;
    unsigned max_connections;
    unsigned max_per_address; /* 0: the default share of max_connections */
    unsigned idle_s;
    uint64_t keep_free; /* octets, or CP_KEEP_FREE_AUTO */
};

/* False after it has printed what is wrong. */
bool cp_options_parse(int argc, char **argv, struct cp_options *options);
void cp_options_help(void);

#endif
