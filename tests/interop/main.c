/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One exchange, on one end: iwarp-peer (libiwarp) and siw-peer (libibverbs) are this, with one
 * side or the other. Arguments are the words of settings.h.
 */
#include "exchange.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    static struct settings settings;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!settings_read(&settings, argc - 1, argv + 1)) {
        return 2;
    }
    side_open(&settings);
    if (settings.server) {
        side_listen();
    }
    exchange_run(&settings);
    side_close();
    return 0;
}
