/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting to a queue pair of datagrams: each request becomes a Send of the outer native queue pair
 * to the inner one, with a head in front that says where it goes (struct ud_to). Heads are a ring
 * in registered memory, as long as two send queues: a head is written anew only after so many
 * requests that the one which used it has left the queue.
 */
#include "base/process.h"
#include "compat/gid.h"
#include "compat/ud.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

enum { PIECES_MOST = 32 }; /* of a native request, with the head */

#define OWN_QKEY 0x80000000u /* a Q_Key with this bit stands for the queue pair's own */

static uint32_t own_qkey(const struct ud *ud)
{
    return ud->qp->num->set.qkey;
}

static const char *fill_head(const struct ud *ud, const struct ibv_send_wr *wr, struct ud_to *to)
{
    const struct compat_ah *ah =
        wr->wr.ud.ah ? compat_of(wr->wr.ud.ah, struct compat_ah, ibv) : NULL;
    struct sockaddr_in6 in;
    union ibv_gid gid;

    if (!ah) {
        return "a datagram has no address handle";
    }
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
        return "datagrams (UD) are sent by IBV_WR_SEND and IBV_WR_SEND_WITH_IMM alone";
    }
    iwarp_compat_gid_of(&ah->path.peer, &gid);
    memcpy(&in, &ah->path.peer, sizeof in);
    *to = (struct ud_to){.scope = in.sin6_family == AF_INET6 ? in.sin6_scope_id : 0,
                         .number = wr->wr.ud.remote_qpn & 0xffffffu,
                         .qkey = wr->wr.ud.remote_qkey & OWN_QKEY ? own_qkey(ud)
                                                                  : wr->wr.ud.remote_qkey,
                         .imm = wr->opcode == IBV_WR_SEND_WITH_IMM ? ntohl(wr->imm_data) : 0,
                         .traffic_class = ah->traffic_class,
                         .hop_limit = ah->hop_limit,
                         .has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM,
                         .solicited = wr->send_flags & IBV_SEND_SOLICITED};
    memcpy(to->addr, gid.raw, sizeof to->addr);
    return NULL;
}

/* NULL, or why it cannot be posted. sge has room for one piece more than the request has. */
static const char *fill(const struct ud *ud, uint32_t at, const struct ibv_send_wr *wr,
                        struct iwarp_send_wr *to, struct iwarp_sge *sge)
{
    struct ud_to *head = &ud->heads[at % ud->head_count];
    uint64_t len = 0;

    if (wr->num_sge < 0 || (unsigned)wr->num_sge > ud->qp->cap.max_send_sge) {
        return "a datagram has more pieces than max_send_sge";
    }
    const char *why = fill_head(ud, wr, head);
    sge[0] = (struct iwarp_sge){.addr = head, .len = UD_HEAD, .lkey = iwarp_mr_stag(ud->head_mr)};
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *s = &wr->sg_list[i];
        sge[i + 1] = (struct iwarp_sge){
            .addr = (void *)(uintptr_t)s->addr, .len = s->length, .lkey = s->lkey};
        len += s->length;
    }
    *to = (struct iwarp_send_wr){.wr_id = wr->wr_id,
                                 .opcode = IWARP_WR_SEND,
                                 .flags = iwarp_compat_send_flags(wr->send_flags) &
                                          ~(unsigned)(IWARP_WR_SOLICITED | IWARP_WR_FENCE),
                                 .sg_list = sge,
                                 .num_sge = (unsigned)wr->num_sge + 1};
    to->flags |= ud->qp->sig_all ? IWARP_WR_SIGNALED : 0u;
    return why ? why : len > UD_MOST ? "a datagram (UD) has at most 4096 octets" : NULL;
}

static int refuse(const char *why)
{
    return iwarp_compat_refuse("verbs", EINVAL, "ibv_post_send: %s", why);
}

static int error_of(enum iwarp_status status)
{
    if (status == IWARP_OK || status == IWARP_AGAIN) { /* a full queue is ordinary */
        return status == IWARP_OK ? 0 : ENOMEM;
    }
    return iwarp_compat_failed("verbs", status, "ibv_post_send");
}

static void has_posted(struct ud *ud, unsigned count)
{
    ud->head_next = (ud->head_next + count) % ud->head_count;
    atomic_fetch_add_explicit(&ud->posted, count, memory_order_relaxed);
}

/* post held. */
static int post_one(struct ud *ud, const struct ibv_send_wr *wr)
{
    struct iwarp_sge sge[PIECES_MOST];
    struct iwarp_send_wr native;
    const char *why = fill(ud, ud->head_next, wr, &native, sge);

    if (why) {
        return refuse(why);
    }
    enum iwarp_status status = iwarp_post_send(ud->qp->native, &native, NULL);
    has_posted(ud, status == IWARP_OK);
    return error_of(status);
}

static int post_all(struct ud *ud, const struct ibv_send_wr *first, unsigned count)
{
    const unsigned pieces = ud->qp->cap.max_send_sge + 1;
    struct iwarp_send_wr *native = calloc(count, sizeof *native);
    struct iwarp_sge *sge = calloc((size_t)count * pieces, sizeof *sge);
    const char *why = NULL;
    unsigned i = 0;
    int error = ENOMEM;

    if (native && sge) {
        for (const struct ibv_send_wr *wr = first; wr && !why; wr = wr->next, i++) {
            why = fill(ud, ud->head_next + i, wr, &native[i], &sge[(size_t)i * pieces]);
            native[i].next = i + 1 < count ? &native[i + 1] : NULL;
        }
        error =
            why ? refuse(why) : error_of(iwarp_post_send_together(ud->qp->native, native, NULL));
    }
    has_posted(ud, error ? 0 : count);
    free(native);
    free(sge);
    return error;
}

static int post_together(struct ud *ud, const struct ibv_send_wr *first)
{
    unsigned count = 0;

    for (const struct ibv_send_wr *wr = first; wr; wr = wr->next) {
        count++;
    }
    /* So the ring has a head for each. */
    return count > ud->qp->cap.max_send_wr ? ENOMEM : post_all(ud, first, count);
}

int iwarp_ud_post(struct compat_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
                  bool together)
{
    IWARP_UNCANCELLED;
    struct ud *ud = qp->ud;
    int error = 0;

    *bad = wr;
    if (qp->born != iwarp_compat_generation()) {
        return refuse("the queue pair was made before a fork, by another process");
    }
    if (!atomic_load_explicit(&qp->connecting, memory_order_relaxed) &&
        iwarp_qp_state(qp->native) != IWARP_QP_ERROR) { /* there it is flushed */
        return refuse("the queue pair is not in RTS");
    }
    compat_qp_keep(qp);
    pthread_mutex_lock(&ud->post);
    if (together) {
        error = post_together(ud, wr);
    }
    for (; !together && wr && !error; wr = wr->next) {
        *bad = wr;
        error = post_one(ud, wr);
    }
    pthread_mutex_unlock(&ud->post);
    compat_qp_release(qp);
    errno = error ? error : errno;
    return error;
}
