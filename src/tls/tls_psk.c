/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pre-shared keys: reading their file, and the two moments of a handshake that ask for them (RFC
 * 8446 4.2.11). Each is used with SHA-256 and an ephemeral Diffie-Hellman, so a key that becomes
 * known later does not open what was recorded before.
 */
#include "tls/tls_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512, KEY_MIN = 16, KEYS_MAX = 4096 };

/* Identities of a peer that are looked up: a ClientHello has room for 9000, of anybody. */
enum { OFFERS_MAX = 16 };

/* TLS_AES_128_GCM_SHA256: the session of a key needs a cipher of its hash. */
static const unsigned char cipher_of_keys[] = {0x13, 0x01};

const unsigned char iwarp_tls_alpn[TLS_ALPN_LEN] = {5, 'i', 'w', 'a', 'r', 'p'};

/* --- the file -------------------------------------------------------------------------------- */

static int digit(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

/* False: not an even number of hexadecimal digits, or too few or too many. */
static bool parse_key(const char *text, struct tls_psk *psk)
{
    size_t n = strlen(text);

    psk->len = n / 2;
    if (n % 2 != 0 || psk->len < KEY_MIN || psk->len > TLS_KEY_MAX) {
        return false;
    }
    for (size_t i = 0; i < psk->len; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        psk->key[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

/* NULL, or what is wrong with the line. */
static const char *parse_line(char *line, struct tls_psk *psk)
{
    char *colon = strrchr(line, ':');

    if (!colon || colon == line) {
        return "expected IDENTITY:KEY";
    }
    *colon = '\0';
    if (strlen(line) >= sizeof psk->identity) {
        return "the identity is longer than 255 octets";
    }
    memcpy(psk->identity, line, strlen(line) + 1);
    return parse_key(colon + 1, psk) ? NULL : "expected a key of 16 to 64 octets in hexadecimal";
}

static enum iwarp_status add(struct tls_creds *creds, const struct tls_psk *psk)
{
    struct tls_psk *grown =
        creds->psks < KEYS_MAX ? realloc(creds->psk, (creds->psks + 1) * sizeof *grown) : NULL;

    if (!grown) {
        return iwarp_fail(IWARP_NO_MEMORY, "TLS: no memory for pre-shared keys, or more than %d",
                          KEYS_MAX);
    }
    creds->psk = grown;
    grown[creds->psks++] = *psk;
    return IWARP_OK;
}

/* The text of a line is not repeated in a complaint: it may be a key. */
static enum iwarp_status read_lines(FILE *file, const char *path, struct tls_creds *creds)
{
    enum iwarp_status status = IWARP_OK;
    char line[LINE];

    for (unsigned n = 1; status == IWARP_OK && fgets(line, sizeof line, file); n++) {
        struct tls_psk psk;
        bool whole = strchr(line, '\n') || feof(file);
        line[strcspn(line, " \t\r\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        const char *why = whole ? parse_line(line, &psk) : "it is too long";
        status =
            why ? iwarp_fail(IWARP_MISUSE, "TLS: %s, line %u: %s", path, n, why) : add(creds, &psk);
        OPENSSL_cleanse(&psk, sizeof psk);
    }
    OPENSSL_cleanse(line, sizeof line);
    return status;
}

static const struct tls_psk *find(const struct tls_creds *creds, const char *identity, size_t len)
{
    for (unsigned i = 0; i < creds->psks; i++) {
        if (strlen(creds->psk[i].identity) == len &&
            memcmp(creds->psk[i].identity, identity, len) == 0) {
            return &creds->psk[i];
        }
    }
    return NULL;
}

enum iwarp_status iwarp_tls_psk_read(const struct tls_text *text, struct tls_creds *creds)
{
    FILE *file = fopen(text->psk, "re");

    if (!file) {
        return iwarp_fail(IWARP_MISUSE, "TLS: cannot read %s: %s", text->psk, strerror(errno));
    }
    setvbuf(file, NULL, _IONBF, 0); /* no copy of the keys is left in a buffer */
    enum iwarp_status status = read_lines(file, text->psk, creds);
    fclose(file);
    if (status == IWARP_OK && creds->psks == 0) {
        status = iwarp_fail(IWARP_MISUSE, "TLS: %s has no key", text->psk);
    }
    if (status != IWARP_OK) {
        return status;
    }
    const char *own = text->identity ? text->identity : creds->psk[0].identity;
    const struct tls_psk *psk = find(creds, own, strlen(own));
    if (!psk) {
        return iwarp_fail(IWARP_MISUSE, "TLS: %s has no key for identity \"%s\"", text->psk, own);
    }
    creds->psk_own = (unsigned)(psk - creds->psk);
    memcpy(creds->own, psk->identity, sizeof creds->own);
    return IWARP_OK;
}

/* --- handshakes ------------------------------------------------------------------------------ */

/* NULL: no memory. */
static SSL_SESSION *session_of(SSL *ssl, const struct tls_psk *psk)
{
    SSL_SESSION *s = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_of_keys);

    if (!s || !cipher || !SSL_SESSION_set1_master_key(s, psk->key, psk->len) ||
        !SSL_SESSION_set1_id_context(s, iwarp_tls_alpn, sizeof iwarp_tls_alpn) ||
        !SSL_SESSION_set_cipher(s, cipher) ||
        !SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION)) {
        SSL_SESSION_free(s);
        return NULL;
    }
    return s;
}

/* The initiator offers its key. 0: the handshake fails. */
static int use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
               SSL_SESSION **session)
{
    const struct iwarp_tls *t = SSL_get_app_data(ssl);
    const struct tls_psk *psk = &t->creds->psk[t->creds->psk_own];

    *session = NULL;
    if (md && EVP_MD_get_type(md) != NID_sha256) {
        *id = NULL; /* the peer wants another hash: there is no key for that */
        *id_len = 0;
        return 1;
    }
    *session = session_of(ssl, psk);
    *id = (const unsigned char *)psk->identity;
    *id_len = strlen(psk->identity);
    return *session != NULL;
}

/* The responder looks for a key that was offered. Without one it has nothing to go on with. */
static int look_up(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **session)
{
    struct iwarp_tls *t = SSL_get_app_data(ssl);
    const struct tls_psk *psk =
        t->offers++ < OFFERS_MAX ? find(t->creds, (const char *)id, id_len) : NULL;

    *session = NULL;
    t->psk_unknown = !psk;
    if (!psk || !iwarp_tls_admit(t, psk->identity)) {
        return 1;
    }
    memcpy(t->peer, psk->identity, sizeof t->peer);
    *session = session_of(ssl, psk);
    return *session != NULL;
}

void iwarp_tls_psk_use(SSL_CTX *ssl)
{
    SSL_CTX_set_psk_use_session_callback(ssl, use);
    SSL_CTX_set_psk_find_session_callback(ssl, look_up);
}
