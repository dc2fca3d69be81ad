/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records for sending, from the end of the handshake on, where the kernel makes none (RFC
 * 8446 5.2). OpenSSL's SSL would copy what it is given, and hand each record on by itself; its
 * ciphers read the memory of the application and write where the records are sent from.
 *
 * Invariant: by then no record has passed under this key, since no tickets are sent, so its first
 * record has number 0.  SSL makes the handshake and receives; what it would send afterwards goes
 * nowhere (tls_io.c), and is made here: alerts, and the answer to a KeyUpdate that asks for one.
 */
#include "base/guard.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

enum { HEADER = 5, TAG = 16, KEY_MAX = 32, KEY_UPDATE = 24 };

/* NULL: a cipher that set_rules does not offer. */
static const char *cipher_name(const SSL *ssl)
{
    switch (SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl))) {
    case 0x1301:
        return "AES-128-GCM";
    case 0x1302:
        return "AES-256-GCM";
    case 0x1303:
        return "ChaCha20-Poly1305";
    default:
        return NULL;
    }
}

/* RFC 8446 7.3 */
static bool use_key(struct iwarp_tls *t, const EVP_CIPHER *cipher)
{
    struct tls_seal *s = &t->seal;
    unsigned char key[KEY_MAX];
    size_t len = (size_t)EVP_CIPHER_CTX_get_key_length(s->cipher);
    bool good;

    if (cipher) {
        len = (size_t)EVP_CIPHER_get_key_length(cipher);
    }
    good = len <= sizeof key && iwarp_tls_expand(t->creds->library, &s->secret, "key", key, len) &&
           iwarp_tls_expand(t->creds->library, &s->secret, "iv", s->iv, sizeof s->iv) &&
           EVP_EncryptInit_ex(s->cipher, cipher, NULL, key, NULL) == 1;
    OPENSSL_cleanse(key, sizeof key);
    s->number = 0;
    return good;
}

bool iwarp_tls_seal_begin(struct iwarp_tls *t)
{
    struct tls_seal *s = &t->seal;
    const char *name = cipher_name(t->ssl);

    s->secret = t->secret[t->below.responder ? TLS_OF_SERVER : TLS_OF_CLIENT];
    s->cipher = EVP_CIPHER_CTX_new();
    EVP_CIPHER *cipher = name ? EVP_CIPHER_fetch(t->creds->library, name, NULL) : NULL;
    s->on = s->secret.len > 0 && s->cipher && cipher && use_key(t, cipher);
    EVP_CIPHER_free(cipher);
    return s->on;
}

void iwarp_tls_seal_fini(struct iwarp_tls *t)
{
    EVP_CIPHER_CTX_free(t->seal.cipher);
    OPENSSL_cleanse(&t->seal, sizeof t->seal);
}

/* --- one record ------------------------------------------------------------------------------ */

static size_t length_of(const struct tls_offer *o)
{
    size_t n = 0;

    for (int i = 0; i < o->n && n < TLS_RECORD + o->at; i++) {
        n += o->iov[i].iov_len;
    }
    n -= o->n > 0 ? o->at : 0;
    return n < TLS_RECORD ? n : TLS_RECORD;
}

/* The number of the record is in its nonce (RFC 8446 5.3), and its header is authenticated. */
static bool begin(struct tls_seal *s, const unsigned char header[HEADER])
{
    unsigned char nonce[TLS_IV];
    int n;

    memcpy(nonce, s->iv, sizeof nonce);
    for (unsigned i = 0; i < 8; i++) {
        nonce[sizeof nonce - 1 - i] ^= (unsigned char)(s->number >> (8 * i));
    }
    return EVP_EncryptInit_ex(s->cipher, NULL, NULL, NULL, nonce) == 1 &&
           EVP_EncryptUpdate(s->cipher, NULL, &n, header, HEADER) == 1;
}

struct piece {
    EVP_CIPHER_CTX *cipher;
    unsigned char *to;
    const unsigned char *from;
    int n;
    bool good;
};

static void encrypt(void *arg)
{
    struct piece *p = arg;
    int n;

    p->good = EVP_EncryptUpdate(p->cipher, p->to, &n, p->from, p->n) == 1 && n == p->n;
}

/* 0, -EFAULT or -EPROTO. */
static int encrypt_text(struct tls_seal *s, unsigned char *to, struct tls_offer *o, size_t n)
{
    while (n > 0) {
        size_t left = o->iov->iov_len - o->at, take = left < n ? left : n;
        struct piece p = {s->cipher, to, (const unsigned char *)o->iov->iov_base + o->at, (int)take,
                          false};
        if (iwarp_guard_run(p.from, take, encrypt, &p) != 0) {
            return -EFAULT;
        }
        if (!p.good) {
            return -EPROTO;
        }
        to += take;
        n -= take;
        iwarp_tls_skip(o, take);
    }
    return 0;
}

/* The type is the last octet that is encrypted. */
static bool finish(struct tls_seal *s, unsigned char *to, unsigned char type)
{
    int n, none;

    return EVP_EncryptUpdate(s->cipher, to, &n, &type, 1) == 1 && n == 1 &&
           EVP_EncryptFinal_ex(s->cipher, to + 1, &none) == 1 && none == 0 &&
           EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_GET_TAG, TAG, to + 1) == 1;
}

ssize_t iwarp_tls_seal(struct iwarp_tls *t, enum tls_type type, struct tls_offer *o)
{
    size_t n = length_of(o), len = n + 1 + TAG;
    unsigned char *p = iwarp_tls_out_room(t, HEADER + len);
    int rc = p ? 0 : -ENOMEM;

    if (rc == 0) {
        const unsigned char header[HEADER] = {TLS_PAYLOAD, 3, 3, (unsigned char)(len >> 8),
                                              (unsigned char)len};
        memcpy(p, header, HEADER);
        rc = begin(&t->seal, header) ? encrypt_text(&t->seal, p + HEADER, o, n) : -EPROTO;
    }
    if (rc == 0 && !finish(&t->seal, p + HEADER + n, (unsigned char)type)) {
        rc = -EPROTO;
    }
    if (rc < 0) {
        return rc;
    }
    t->out.len += HEADER + len;
    t->seal.number++;
    return (ssize_t)n;
}

/* --- messages of TLS itself ------------------------------------------------------------------ */

static bool say(struct iwarp_tls *t, enum tls_type type, const unsigned char *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};
    struct tls_offer o = {&iov, 1, 0};

    return iwarp_tls_seal(t, type, &o) == (ssize_t)n;
}

void iwarp_tls_seal_alert(struct iwarp_tls *t, unsigned char level, unsigned char number)
{
    const unsigned char alert[2] = {level, number};

    (void)say(t, TLS_ALERT, alert, sizeof alert);
}

/* RFC 8446 4.6.3, 7.2 */
bool iwarp_tls_seal_update(struct iwarp_tls *t)
{
    static const unsigned char update[] = {KEY_UPDATE, 0, 0, 1, 0};
    struct tls_secret next = {.len = t->seal.secret.len};

    if (!say(t, TLS_HANDSHAKE, update, sizeof update) ||
        !iwarp_tls_expand(t->creds->library, &t->seal.secret, "traffic upd", next.octets,
                          next.len)) {
        return false;
    }
    t->seal.secret = next;
    OPENSSL_cleanse(&next, sizeof next);
    t->seal.asked = false;
    return use_key(t, NULL);
}
