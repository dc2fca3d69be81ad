/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share. */
#ifndef IWARP_TLS_TLS_INNER_H
#define IWARP_TLS_TLS_INNER_H

#include "tls/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum {
    TLS_IDENTITY = 256,  /* octets of an identity, with its end */
    TLS_RECORD = 16384,  /* of plain text in a record (RFC 8446 5.1) */
    TLS_IV = 12,         /* octets of a nonce (RFC 8446 5.3) */
    TLS_OVERHEAD = 22,   /* octets of a record around its text, for all ciphers of TLS 1.3 */
    TLS_KEY_MAX = 64,    /* of a pre-shared key */
    TLS_REKEY = 1 << 22, /* records under one key: RFC 8446 5.5 allows 2^24.5 */
    TLS_MESSAGES = 32,   /* of TLS itself that a peer may send in a row, without payload */
    /* Octets that one read may bring: whole records, and what OpenSSL aligns them by. */
    TLS_READ_AHEAD = 4 * (TLS_RECORD + TLS_OVERHEAD) + 8
};

/* --- a text: tls_text.c ---------------------------------------------------------------------- */

/* The strings lie in `words`. */
struct tls_text {
    char *words;
    const char *psk, *identity, *cert, *key, *ca, *name;
    const char **allow;
    unsigned allowed;
    bool crc;
    unsigned rekey;
};

/* Not OK: nothing is left, and iwarp_last_error says what is wrong. */
enum iwarp_status iwarp_tls_text_parse(const char *text, struct tls_text *out);
void iwarp_tls_text_free(struct tls_text *text);

/* --- credentials: tls_creds.c, tls_psk.c ----------------------------------------------------- */

struct tls_psk {
    char identity[TLS_IDENTITY];
    size_t len;
    unsigned char key[TLS_KEY_MAX];
};

/* What the files held when they were read. Counted: a handshake goes on with what it began with. */
struct tls_creds {
    _Atomic unsigned refs;
    SSL_CTX *ssl;
    OSSL_LIB_CTX *library; /* of all of them */
    struct tls_psk *psk;   /* NULL: certificates */
    unsigned psks, psk_own;
    char own[TLS_IDENTITY];
};

/* What is offered by ALPN, in its format; it is the name of all sessions as well. */
enum { TLS_ALPN_LEN = 6 };
extern const unsigned char iwarp_tls_alpn[TLS_ALPN_LEN];

enum iwarp_status iwarp_tls_creds_open(const struct tls_text *text, struct tls_creds **creds);
void iwarp_tls_creds_put(struct tls_creds *creds);

/* Reads the file, and finds the key that an initiator uses. */
enum iwarp_status iwarp_tls_psk_read(const struct tls_text *text, struct tls_creds *creds);
void iwarp_tls_psk_use(SSL_CTX *ssl);

/* --- contexts -------------------------------------------------------------------------------- */

enum { TLS_FILES = 3 };

struct iwarp_tls_context {
    struct iwarp_tls_context *next; /* of the store */
    char *whole;                    /* the text as it was given */
    struct tls_text text;
    pthread_mutex_t lock; /* of what follows */
    struct tls_creds *creds;
    struct stat seen[TLS_FILES]; /* the files as they were read */
    int64_t looked_ms;
};

/* With a reference. Reads the files again if they have changed. */
struct tls_creds *iwarp_tls_context_creds(struct iwarp_tls_context *context);

/* --- peers: tls_peer.c ----------------------------------------------------------------------- */

void iwarp_tls_cert_identity(X509 *cert, char identity[TLS_IDENTITY]);
/* Is the peer with this identity allowed? */
bool iwarp_tls_admit(struct iwarp_tls *t, const char *identity);
int iwarp_tls_verify(int ok, X509_STORE_CTX *store);
/* False: no memory, or there is nothing to expect. */
bool iwarp_tls_expect_name(SSL *ssl, const char *name, const struct sockaddr *peer);

/* --- keys: tls_keys.c ------------------------------------------------------------------------ */

/* Of which all keys of one direction are made. len 0: not known. */
struct tls_secret {
    unsigned char octets[48];
    size_t len;
};

enum { TLS_OF_CLIENT, TLS_OF_SERVER };

/* A line for a log of keys has come. */
void iwarp_tls_keys_note(struct iwarp_tls *t, const char *line);
bool iwarp_tls_expand(OSSL_LIB_CTX *library, const struct tls_secret *secret, const char *label,
                      unsigned char *out, size_t len);

/* --- one connection -------------------------------------------------------------------------- */

/* Octets for the endpoint below. */
struct tls_out {
    unsigned char *data;
    size_t room, len, sent;
};

/* What the kernel does of it. */
struct tls_kernel {
    int fd; /* -1: nothing */
    bool may_send, may_receive;
    bool sends, receives;
    bool goodbye; /* close_notify is due */
};

/* Records for sending that the kernel does not make: tls_seal.c. */
struct tls_seal {
    bool on;
    bool asked;             /* the peer wants a KeyUpdate */
    EVP_CIPHER_CTX *cipher; /* with the key */
    struct tls_secret secret;
    unsigned char iv[TLS_IV];
    uint64_t number; /* of the next record under this key */
};

struct iwarp_tls {
    struct iwarp_endpoint ep; /* the one on top */
    struct iwarp_tls_context *context;
    struct tls_creds *creds;
    struct iwarp_tls_below below;
    SSL *ssl; /* NULL: closed */
    struct tls_out out;
    size_t counted; /* octets, against the budget */
    struct tls_kernel kernel;
    struct tls_seal seal;
    struct tls_secret secret[2]; /* of both directions, until the handshake is over */
    struct iwarp_fault fault;
    unsigned records;       /* that the kernel has made */
    unsigned offers;        /* identities of pre-shared keys that the peer has offered */
    unsigned messages;      /* of TLS itself that have come since the reader asked for payload */
    int error;              /* errno with which the endpoint below failed */
    bool told;              /* a call has returned the fault */
    bool done;              /* the handshake is over */
    bool owed;              /* the last octet that was encrypted counts as not taken: tls_io.c */
    bool dry;               /* the endpoint below has nothing more at the moment */
    bool more;              /* the last read left something here, that nobody below will report */
    bool ended;             /* the peer's close_notify has come */
    bool cut;               /* the peer's FIN has come without it */
    bool want_read;         /* what is watched */
    bool closing;           /* a FIN is to follow what is in `out` */
    bool psk_unknown;       /* the peer offered a key that is not there, or not allowed */
    bool forbidden;         /* its certificate or key is right, but not allowed */
    bool alpn;              /* agreed on */
    unsigned char first[4]; /* octets of the peer */
    unsigned firsts;
    const char *cipher;
    char peer[TLS_IDENTITY];
};

static inline struct iwarp_tls *tls_of(struct iwarp_endpoint *ep)
{
    return (struct iwarp_tls *)(void *)ep;
}

/* --- octets: tls_io.c ------------------------------------------------------------------------ */

bool iwarp_tls_io_open(struct iwarp_tls *t); /* gives t->ssl its BIO; false: no memory */
ssize_t iwarp_tls_io_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n);
ssize_t iwarp_tls_io_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n);

/* --- what waits to be written below: tls_out.c ------------------------------------------------ */

enum {
    TLS_BLOCK_RECORDS = 16
}; /* that one write fills: more than a small batch of the stream has */

/* A block for so many records; nothing waits. False: no memory. */
bool iwarp_tls_out_block(struct iwarp_tls *t);
/* Room for n octets behind those that wait; NULL: no memory. */
unsigned char *iwarp_tls_out_room(struct iwarp_tls *t, size_t n);
/* 0: nothing is left; -EAGAIN: something is; else -errno. */
int iwarp_tls_out_flush(struct iwarp_tls *t);
void iwarp_tls_out_fini(struct iwarp_tls *t);
/* Counts what is held now. False: it is over the budget, which is t->fault from now on. */
bool iwarp_tls_out_count(struct iwarp_tls *t);

/* --- records for sending: tls_seal.c ---------------------------------------------------------- */

/* Of a record (RFC 8446 5.1). */
enum tls_type { TLS_ALERT = 21, TLS_HANDSHAKE = 22, TLS_PAYLOAD = 23 };

/* Where a call stands in what it was offered. */
struct tls_offer {
    const struct iovec *iov;
    int n;
    size_t at; /* in the first piece */
};

static inline void iwarp_tls_skip(struct tls_offer *o, size_t n)
{
    o->at += n;
    while (o->n > 0 && o->at >= o->iov->iov_len) {
        o->at -= o->iov->iov_len;
        o->iov++;
        o->n--;
    }
}

/* When the handshake is over. False: no memory. */
bool iwarp_tls_seal_begin(struct iwarp_tls *t);
void iwarp_tls_seal_fini(struct iwarp_tls *t);
/* A record of up to TLS_RECORD octets behind what waits to be sent. Returns them, or -errno; then
 * nothing has been added. -EFAULT: memory is gone. */
ssize_t iwarp_tls_seal(struct iwarp_tls *t, enum tls_type type, struct tls_offer *o);
void iwarp_tls_seal_alert(struct iwarp_tls *t, unsigned char level, unsigned char number);
/* A KeyUpdate, and the next key. False: no memory; the connection cannot send any more. */
bool iwarp_tls_seal_update(struct iwarp_tls *t);

/* --- kernel TLS: tls_kernel.c ---------------------------------------------------------------- */

/* Before the handshake: may it be used? */
void iwarp_tls_kernel_init(struct iwarp_tls *t);
/* After it: what can be done by the kernel is from now on. */
void iwarp_tls_kernel_begin(struct iwarp_tls *t);
/* For a direction that it does. 0 of readv: the peer's close_notify. */
ssize_t iwarp_tls_kernel_readv(struct iwarp_tls *t, const struct iovec *iov, int n);
ssize_t iwarp_tls_kernel_writev(struct iwarp_tls *t, const struct iovec *iov, int n);
int iwarp_tls_kernel_alert(struct iwarp_tls *t, unsigned char level, unsigned char number);
/* 0: it is out, and so is all in front of it. -EAGAIN: again, once there is room. */
int iwarp_tls_kernel_goodbye(struct iwarp_tls *t);

/* --- faults: tls_fault.c --------------------------------------------------------------------- */

/* A call of OpenSSL has failed for good: find out why, and keep it in t->fault. */
void iwarp_tls_fail(struct iwarp_tls *t);

/* Are the peer's first octets those of no record? There is no use in waiting for more. */
bool iwarp_tls_is_strange(const struct iwarp_tls *t);

#endif
