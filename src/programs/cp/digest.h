/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SHA-256 of a file while it is being copied, through OpenSSL. An object that was never begun costs
 * nothing and may be updated: callers need not ask whether sums are wanted.
 */
#ifndef CP_DIGEST_H
#define CP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp_digest {
    void *context; /* EVP_MD_CTX, NULL until begun */
    bool on;
};

/* False if there is no memory or no SHA-256. */
bool cp_digest_begin(struct cp_digest *digest);
void cp_digest_update(struct cp_digest *digest, const void *data, size_t len);

/* Writes 32 octets and returns true, or false if it was not begun. */
bool cp_digest_finish(struct cp_digest *digest, uint8_t *sum);
void cp_digest_free(struct cp_digest *digest);

#endif
