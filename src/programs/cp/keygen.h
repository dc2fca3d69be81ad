/* SPDX-License-Identifier: BSD-2-Clause */
/* Certificates for a trial: iwarp-cp keygen. */
#ifndef CP_KEYGEN_H
#define CP_KEYGEN_H

#include "options.h"

/* Returns an exit status. */
int cp_run_keygen(const struct cp_options *options);

#endif
