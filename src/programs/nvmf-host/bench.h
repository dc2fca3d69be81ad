/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-nvmf bench: a host that asks a target for as much as it can, and measures.
 */
#ifndef NVMF_HOST_BENCH_H
#define NVMF_HOST_BENCH_H

/* The words behind `bench`. Returns the exit status. */
int nvmf_bench(int argc, char **argv);

#endif
