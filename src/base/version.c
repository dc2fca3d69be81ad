/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells a program which version of the library it runs with.
 *
 * The macros of version.h are fixed when the program is compiled; these functions answer for
 * the shared library that was found at run time.
 */
#include <iwarp/version.h>

const char *iwarp_version(void)
{
    return IWARP_VERSION;
}

unsigned int iwarp_version_number(void)
{
    return IWARP_VERSION_NUMBER;
}
