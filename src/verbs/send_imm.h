/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agreement of two ends on Sends with Immediate Data, during the start-up. The mark is the last
 * 8 octets of the private data. It is in a Reply only if it was in the Request, so an initiator
 * that does not ask never sees it. All functions: conn.lock held, and conn.startup is there.
 */
#ifndef IWARP_VERBS_SEND_IMM_H
#define IWARP_VERBS_SEND_IMM_H

#include "verbs/conn.h"

#include <iwarp/protocol.h>
#include <string.h>

static inline void iwarp_send_imm_default(struct iwarp_conn_options *o, enum iwarp_send_imm instead)
{
    if (o->send_imm == IWARP_SEND_IMM_DEFAULT) {
        o->send_imm = instead;
    }
}

/* Write private data with the mark behind it: there is room for both. Returns the length. */
static inline size_t iwarp_send_imm_mark(uint8_t *out, const void *pd, size_t pd_len)
{
    if (pd_len > 0) {
        memcpy(out, pd, pd_len);
    }
    memcpy(out + pd_len, IWARP_SEND_IMM_MARK, IWARP_SEND_IMM_MARK_LEN);
    return pd_len + IWARP_SEND_IMM_MARK_LEN;
}

/* Does the private data of the peer's frame end in a mark for this end? */
static inline bool iwarp_send_imm_marked(const struct iwarp_conn *conn, const uint8_t *pd,
                                         size_t pd_len)
{
    return conn->options.send_imm == IWARP_SEND_IMM_ASK && pd_len >= IWARP_SEND_IMM_MARK_LEN &&
           memcmp(pd + pd_len - IWARP_SEND_IMM_MARK_LEN, IWARP_SEND_IMM_MARK,
                  IWARP_SEND_IMM_MARK_LEN) == 0;
}

/* Will the Reply have the mark? options: those of the answer, which may say otherwise; or NULL. */
static inline bool iwarp_send_imm_answers(const struct iwarp_conn *conn,
                                          const struct iwarp_conn_options *options)
{
    bool says = options && options->send_imm != IWARP_SEND_IMM_DEFAULT;

    return conn->startup->marked &&
           (says ? options : &conn->options)->send_imm == IWARP_SEND_IMM_ASK;
}

/* The peer's frame has come. */
static inline bool iwarp_send_imm_agreed(const struct iwarp_conn *conn)
{
    return conn->options.send_imm == IWARP_SEND_IMM_AGREED ||
           (conn->options.send_imm == IWARP_SEND_IMM_ASK && conn->startup->marked);
}

#endif
