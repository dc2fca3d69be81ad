/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets that wait to be written to the endpoint below, and what a connection holds in all.
 *
 * A write fills one block, which the threads share, and is mostly taken whole.  What is not taken
 * stays in an allocation of its own size, so that a connection that cannot send holds little.
 */
#include "tls/tls_inner.h"

#include "base/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = TLS_BLOCK_RECORDS * (TLS_RECORD + TLS_OVERHEAD) + 512, /* room for KeyUpdates */
    OUT_MIN = 4096,
    OUT_MAX = 1 << 20 /* nothing that a handshake says is as long */
};

/* One block for whoever sends next. */
static struct iwarp_spare spare_block;

static bool grow(struct tls_out *out, size_t room)
{
    unsigned char *data = room <= OUT_MAX ? realloc(out->data, room) : NULL;

    if (data) {
        out->data = data;
        out->room = room;
    }
    return data != NULL;
}

unsigned char *iwarp_tls_out_room(struct iwarp_tls *t, size_t n)
{
    struct tls_out *out = &t->out;

    return n <= out->room - out->len || grow(out, out->len + n + OUT_MIN) ? out->data + out->len
                                                                          : NULL;
}

static void out_fini(struct tls_out *out)
{
    if (out->room == BLOCK) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&spare_block.memory, &none, out->data)) {
            out->data = NULL;
        }
    }
    free(out->data);
    *out = (struct tls_out){.data = NULL};
}

void iwarp_tls_out_fini(struct iwarp_tls *t)
{
    out_fini(&t->out);
    iwarp_budget_return(t->below.budget, t->counted);
    t->counted = 0;
}

/* OpenSSL keeps its buffer for reading while there is something in it. */
bool iwarp_tls_out_count(struct iwarp_tls *t)
{
    size_t held = t->out.room + (SSL_has_pending(t->ssl) ? TLS_READ_AHEAD : 0);

    if (held > t->counted && !iwarp_budget_reserve(t->below.budget, held - t->counted)) {
        iwarp_fault_set(&t->fault, IWARP_FAULT_LOCAL_BUFFER_LIMIT, IWARP_SIDE_LOCAL, held,
                        t->below.budget->limit, 0);
        return false;
    }
    if (held < t->counted) {
        iwarp_budget_return(t->below.budget, t->counted - held);
    }
    t->counted = held;
    return true;
}

/* A connection that cannot send keeps no block, only what it has to. */
static void shrink(struct tls_out *out)
{
    size_t left = out->len - out->sent;
    unsigned char *data = out->room == BLOCK ? malloc(left) : NULL;

    if (data) {
        memcpy(data, out->data + out->sent, left);
        out_fini(out);
        *out = (struct tls_out){.data = data, .room = left, .len = left};
    }
}

int iwarp_tls_out_flush(struct iwarp_tls *t)
{
    struct tls_out *out = &t->out;

    ssize_t n = 0;

    if (out->sent < out->len) {
        struct iovec iov = {out->data + out->sent, out->len - out->sent};
        n = t->below.ep->ops->writev(t->below.ep, &iov, 1);
        out->sent += n > 0 ? (size_t)n : 0;
    }
    if (out->sent < out->len) { /* the endpoint below is full, or has failed */
        shrink(out);
        return n < 0 ? (int)n : -EAGAIN;
    }
    if (out->data) {
        out_fini(out);
    }
    return t->kernel.goodbye ? iwarp_tls_kernel_goodbye(t) : 0;
}

bool iwarp_tls_out_block(struct iwarp_tls *t)
{
    struct tls_out *out = &t->out;

    out->data = atomic_exchange(&spare_block.memory, NULL);
    out->data = out->data ? out->data : malloc(BLOCK);
    out->room = out->data ? BLOCK : 0;
    return out->data != NULL;
}
