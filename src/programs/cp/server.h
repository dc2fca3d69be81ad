/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp-cp serve: exports one directory until a signal ends it. */
#ifndef CP_SERVER_H
#define CP_SERVER_H

#include "options.h"

/* Returns an exit status. */
int cp_run_serve(const struct cp_options *options);

#endif
