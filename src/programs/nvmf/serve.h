/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From what is asked for to what is served: at the start, and again when the configuration has
 * changed, while hosts use what stays.
 */
#ifndef NVMF_SERVE_H
#define NVMF_SERVE_H

#include "options.h"

/* Serve the subsystems of the options and no others. What cannot be served is reported and left
 * out; false then. */
bool nvmf_serve(struct nvmf_store *store, const struct nvmf_options *options);

#endif
