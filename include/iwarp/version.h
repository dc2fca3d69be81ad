/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The version of libiwarp: what a program was compiled against (the macros) and what it runs
 * with (the function).  This is the only place that holds the number; the Makefile reads it
 * from here for the file name of the library, the pkg-config file and the man pages.
 */
#ifndef IWARP_VERSION_H
#define IWARP_VERSION_H

#include <iwarp/api.h>

#define IWARP_VERSION "0.1.0"

/* The same number for comparisons: major * 10000 + minor * 100 + patch. */
#define IWARP_VERSION_NUMBER 100

IWARP_BEGIN_DECLS

/* Version of the library in use, in the form of IWARP_VERSION.  Static storage; any thread. */
IWARP_API const char *iwarp_version(void);

/* The same as a number, in the form of IWARP_VERSION_NUMBER. */
IWARP_API unsigned int iwarp_version_number(void);

IWARP_END_DECLS

#endif
