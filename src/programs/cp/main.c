/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp: copies files and trees by RDMA over TCP. This file chooses the command; options.c reads
 * the command line, server.c is the one side, put.c, get.c and list.c are the other; keygen.c
 * makes certificates for both.
 */
#include "client.h"
#include "keygen.h"
#include "plain.h"
#include "programs/service/standard.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static struct cp_options options;

    if (!fill_standard_descriptors()) {
        return CP_EXIT_FAILED;
    }
    if (!cp_options_parse(argc, argv, &options)) {
        return CP_EXIT_USAGE;
    }
    /* Each error of a client gets one line of ours. A server is told by the library whom it has
     * turned away and why: nobody else knows. */
    setenv("IWARP_LOG", options.command == CP_COMMAND_SERVE ? "warn" : "error", 0);
    /* A file that grows past a limit is an error of that file, not the end of the program. */
    signal(SIGXFSZ, SIG_IGN);
    switch (options.command) {
    case CP_COMMAND_SERVE:
        return cp_run_serve(&options);
    case CP_COMMAND_PUT:
        return cp_run_put(&options);
    case CP_COMMAND_GET:
        return cp_run_get(&options);
    case CP_COMMAND_LIST:
        return cp_run_list(&options);
    case CP_COMMAND_PLAIN:
        return cp_run_plain(&options);
    case CP_COMMAND_KEYGEN:
        return cp_run_keygen(&options);
    case CP_COMMAND_HELP:
        cp_options_help();
        break;
    case CP_COMMAND_VERSION:
        printf("iwarp-cp %s\n", iwarp_version());
        break;
    }
    return cp_output_flush() ? CP_EXIT_OK : CP_EXIT_FAILED;
}
