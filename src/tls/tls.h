/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 below MPA: an endpoint (iwarp/transport.h) on top of another one, of whatever transport.
 * What it takes is encrypted and written to the endpoint below; what comes from there is decrypted.
 * The records and the handshake are OpenSSL's. docs/tls.md has the whole picture.
 *
 * A context is what one text says: credentials, and rules for peers. It outlives all connections
 * that use it. Contexts: any thread. Everything else: as the table of iwarp/transport.h says, with
 * the lock of the connection.
 */
#ifndef IWARP_TLS_TLS_H
#define IWARP_TLS_TLS_H

#include "base/budget.h"
#include "base/fault.h"
#include "transport/stack.h"
#include "transport/transport.h"

#include <iwarp/tls.h>
#include <pthread.h>

struct iwarp_tls;
struct iwarp_tls_context;

/* --- contexts: tls_context.c ----------------------------------------------------------------- */

/* The contexts of a device, each opened once and kept until the device is closed. */
struct iwarp_tls_store {
    pthread_mutex_t lock;
    struct iwarp_tls_context *first;
};

void iwarp_tls_store_init(struct iwarp_tls_store *store);
void iwarp_tls_store_fini(struct iwarp_tls_store *store);

/*
 * The context for this text (iwarp/tls.h), which is read the first time. "" and "off": *context is
 * NULL, which means plain connections. Not OK: iwarp_last_error says what is wrong with the text or
 * a file.
 */
enum iwarp_status iwarp_tls_store_find(struct iwarp_tls_store *store, const char *text,
                                       struct iwarp_tls_context **context);

/* Its text, which stays as long as the context; of NULL: "off". */
const char *iwarp_tls_text(const struct iwarp_tls_context *context);

/* Does the option `crc` of a connection count all the same? */
bool iwarp_tls_leaves_crc(const struct iwarp_tls_context *context);

/* --- one connection: tls.c, tls_io.c --------------------------------------------------------- */

struct iwarp_tls_below {
    struct iwarp_endpoint *ep;         /* connected; its `user` is that of the endpoint on top */
    const struct iwarp_stack_ops *ops; /* of the stack that made it; NULL: no stack did */
    const struct sockaddr *peer;       /* the initiator expects this address in the certificate, if
                                        * the context names nobody; family 0: there is none */
    struct iwarp_budget *budget;       /* for what is read ahead, and what waits to be written */
    bool responder;
    iwarp_wake_fn wake; /* has `poll` of the endpoint on top called, soon; gets its `user` */
};

/* NULL: no memory. The endpoint below is the caller's still. */
struct iwarp_tls *iwarp_tls_new(struct iwarp_tls_context *context,
                                const struct iwarp_tls_below *below);

/* After `close` of its endpoint, or if that was never used. NULL does nothing. */
void iwarp_tls_free(struct iwarp_tls *tls);

/* The endpoint on top. Its `close` closes the one below, which calls `closed`. */
struct iwarp_endpoint *iwarp_tls_endpoint(struct iwarp_tls *tls);

/* The endpoint below is ready. On the worker, without a lock. */
void iwarp_tls_ready(struct iwarp_tls *tls, bool readable, bool writable);

enum iwarp_tls_step {
    IWARP_TLS_READ,  /* wait until the endpoint is readable */
    IWARP_TLS_WRITE, /* or writable */
    IWARP_TLS_DONE,
    IWARP_TLS_FAILED /* see iwarp_tls_fault; a word for the peer is on its way */
};

/* Go on with the handshake, until it needs the peer. */
enum iwarp_tls_step iwarp_tls_handshake(struct iwarp_tls *tls);

/* Why a call has returned -EPROTO; NULL: none has. tls may be NULL. */
const struct iwarp_fault *iwarp_tls_fault(const struct iwarp_tls *tls);

/* Who is there, once the handshake is done. The strings stay as long as tls. */
void iwarp_tls_describe(const struct iwarp_tls *tls, struct iwarp_tls_info *info);

/* For endpoints on top of one that a stack has made: what is asked is asked of that stack. Only
 * the operations of endpoints. */
extern const struct iwarp_stack_ops iwarp_tls_stack_ops;

#endif
