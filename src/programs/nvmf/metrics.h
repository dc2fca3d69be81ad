/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target has done and does, as text: for Prometheus, and for people.
 */
#ifndef NVMF_METRICS_H
#define NVMF_METRICS_H

#include "programs/nvmf-target/target.h"

/* The text of "/metrics" or "/status", which free() takes; NULL: another path, or no memory.
 * target: a struct nvmf_target. */
char *nvmf_metrics_page(void *target, const char *path);

#endif
