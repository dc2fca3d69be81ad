/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one symbol by which OpenSSL finds a provider in a loadable module, and nothing else.
 *
 * It is apart from provider.c because the library contains that file too, and a program linked
 * statically with the library must remain free to be a provider itself.
 */
#include "provider/provider.h"

__attribute__((visibility("default"))) int OSSL_provider_init(const OSSL_CORE_HANDLE *handle,
                                                              const OSSL_DISPATCH *in,
                                                              const OSSL_DISPATCH **out,
                                                              void **provctx)
{
    return iwarp_provider_init(handle, in, out, provctx);
}
