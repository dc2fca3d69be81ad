/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static probes (USDT) for perf, bpftrace and SystemTap: IWARP_PROBE2(name, 2 numbers) and so on.
 * Where nobody looks, a probe is one `nop`, and its operands stay in whatever registers or memory
 * they are in. docs/probes.md lists names and operands, which are kept like an interface. Without
 * systemtap-sdt-dev, or with IWARP_NO_PROBES defined, there are none.
 */
#ifndef IWARP_BASE_PROBE_H
#define IWARP_BASE_PROBE_H

#if !defined(IWARP_NO_PROBES) && defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#ifdef __clang__ /* the macros of sdt.h warn at each place that uses them */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#if __has_warning("-Wc23-extensions") /* the same warning since clang 19 */
#pragma clang diagnostic ignored "-Wc23-extensions"
#endif
#endif
#define IWARP_PROBE2(name, a, b)          STAP_PROBE2(iwarp, name, a, b)
#define IWARP_PROBE4(name, a, b, c, d)    STAP_PROBE4(iwarp, name, a, b, c, d)
#define IWARP_PROBE5(name, a, b, c, d, e) STAP_PROBE5(iwarp, name, a, b, c, d, e)
#endif
#endif

#ifndef IWARP_PROBE2
#define IWARP_PROBE2(name, a, b)          ((void)0)
#define IWARP_PROBE4(name, a, b, c, d)    ((void)0)
#define IWARP_PROBE5(name, a, b, c, d, e) ((void)0)
#endif

#endif
