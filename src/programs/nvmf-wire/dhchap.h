/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The computations of DH-HMAC-CHAP (NVM Express base 2.0, 8.13): secrets, Diffie-Hellman, and the
 * response to a challenge. No function keeps anything; auth.c has the exchange.
 */
#ifndef NVMF_DHCHAP_H
#define NVMF_DHCHAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVMF_DIGEST_MAX 64   /* octets of a SHA-512 */
#define NVMF_DH_MAX     1024 /* octets of a public value of ffdhe8192 */

/* What a host, or a controller, has to know. */
struct nvmf_secret {
    uint8_t hash; /* 0: the key is used as it is; else how it is bound to a name */
    size_t len;   /* 32, 48 or 64 octets */
    uint8_t key[NVMF_DIGEST_MAX];
};

/* "DHHC-1:HH:BASE64:" as `nvme gen-dhchap-key` prints it. False: it is not that, or its checksum
 * is wrong. */
bool nvmf_secret_read(const char *text, struct nvmf_secret *secret);

/* Octets of a digest. 0: an identifier that is not known. */
size_t nvmf_hash_len(uint8_t hash);

/* Octets of a public value. 0: the null group, or an identifier that is not known. */
size_t nvmf_group_len(uint8_t group);
const char *nvmf_group_name(uint8_t group); /* NULL: it is not known */

/* A new pair of keys, to be given to nvmf_dh_free. NULL: OpenSSL could not. */
struct evp_pkey_st *nvmf_dh_new(uint8_t group);
void nvmf_dh_free(struct evp_pkey_st *pair);

/* The public value, nvmf_group_len octets. */
bool nvmf_dh_public(struct evp_pkey_st *pair, uint8_t *value);

/* What both ends know then, as many octets. False: the peer's value is not one of the group. */
bool nvmf_dh_agree(struct evp_pkey_st *pair, const uint8_t *peer, size_t len, uint8_t *shared);

/* What a response is computed from. */
struct nvmf_proof {
    uint8_t hash; /* as agreed */
    const struct nvmf_secret *secret;
    const uint8_t *challenge; /* nvmf_hash_len octets */
    const uint8_t *shared;    /* by Diffie-Hellman */
    size_t shared_len;        /* 0: the null group */
    uint32_t sequence;
    uint16_t transaction;
    bool by_host;          /* or by the controller */
    const char *from, *to; /* names (NQN): of the side that responds, of the other one */
};

/* nvmf_hash_len octets. False: OpenSSL could not. */
bool nvmf_prove(const struct nvmf_proof *proof, uint8_t response[NVMF_DIGEST_MAX]);

#endif
