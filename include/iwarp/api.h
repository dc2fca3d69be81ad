/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every public declaration is wrapped in.
 *
 * IWARP_API makes a symbol visible outside the shared library; everything without it stays
 * hidden, because the library is compiled with hidden visibility.  IWARP_BEGIN_DECLS and
 * IWARP_END_DECLS give the declarations between them C linkage in C++ programs.  There some
 * functions have the name of a struct, as stat has: -Wshadow, which takes that for a mistake, is
 * off meanwhile.
 */
#ifndef IWARP_API_H
#define IWARP_API_H

#if defined(__GNUC__)
#define IWARP_API __attribute__((visibility("default")))
#else
#define IWARP_API
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#define IWARP_BEGIN_DECLS                                                                          \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C"       \
    {
#define IWARP_END_DECLS                                                                            \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#elif defined(__cplusplus)
#define IWARP_BEGIN_DECLS extern "C" {
#define IWARP_END_DECLS   }
#else
#define IWARP_BEGIN_DECLS
#define IWARP_END_DECLS
#endif

#endif
