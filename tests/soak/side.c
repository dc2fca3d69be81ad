/* SPDX-License-Identifier: BSD-2-Clause */
#include "side.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Local places, exposed ones, receives: one more for the word at the end of a round. */
#define OCTETS (3 * SIDE_AREA + SCRIPT_SLOT)

#define BUSY_MS 50000

void side_options(struct iwarp_conn_options *o, const char *tls)
{
    iwarp_conn_options_init(o);
    o->connect_timeout_ms = o->close_timeout_ms = BUSY_MS;
    o->startup_timeout_ms = 2 * BUSY_MS; /* a responder has half of it */
    o->send_imm = IWARP_SEND_IMM_ASK;
    o->tls = tls;
}

void side_fail(const struct side *s, const char *format, ...)
{
    char text[600];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* that of Python's time.monotonic, too */
    fprintf(stderr, "soak: session %016llx, %s, %s: %s, at %lld.%03ld\n",
            (unsigned long long)s->script.seed, s->responder ? "responder" : "initiator",
            s->lane->doing, text, (long long)now.tv_sec, now.tv_nsec / 1000000);
    _exit(3);
}

bool side_ok(const struct side *s, enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK && !(s->breaks && status == IWARP_NO_MEMORY)) {
        side_fail(s, "%s: %s", what, iwarp_last_error());
    }
    return status == IWARP_OK;
}

uint8_t *side_local(const struct side *s, unsigned i)
{
    return s->octets + (size_t)i * SCRIPT_SLOT;
}

uint8_t *side_target(const struct side *s, unsigned i)
{
    return s->octets + SIDE_AREA + (size_t)i * SCRIPT_SLOT;
}

uint8_t *side_buffer(const struct side *s, unsigned i)
{
    return s->octets + 2 * SIDE_AREA + (size_t)i * SCRIPT_SLOT;
}

bool side_open(struct side *s)
{
    struct iwarp_qp_options o;

    s->octets = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->octets == MAP_FAILED) {
        s->octets = NULL;
        side_fail(s, "mmap: no memory");
    }
    iwarp_qp_options_init(&o);
    o.max_send_wr = 2 * SCRIPT_STEPS + 8;
    o.srq = s->script.srq[s->responder] ? s->soak->pool.srq : NULL;
    board_add(s->soak->board, BOARD_registrations, 3);
    if (!side_ok(s, iwarp_pd_create(s->soak->device, &s->pd), "protection domain") ||
        !side_ok(s, iwarp_cq_create(s->soak->device, 256, NULL, &s->cq), "completion queue") ||
        !side_ok(s,
                 iwarp_mr_register(s->pd, s->octets, OCTETS, IWARP_ACCESS_LOCAL_WRITE, &s->memory),
                 "register") ||
        !side_ok(s,
                 iwarp_mr_register(s->pd, side_target(s, 0), SIDE_AREA,
                                   SIDE_RIGHTS | IWARP_ACCESS_MW_BIND, &s->exposed),
                 "register") ||
        !side_ok(s, iwarp_mr_alloc(s->pd, &s->fast), "region") ||
        !side_ok(s, iwarp_mw_alloc(s->pd, IWARP_MW_TYPE_1, &s->window[0]), "window") ||
        !side_ok(s, iwarp_mw_alloc(s->pd, IWARP_MW_TYPE_2, &s->window[1]), "window")) {
        return false;
    }
    o.send_cq = o.recv_cq = s->cq;
    return side_ok(s, iwarp_qp_create(s->pd, &o, &s->qp), "queue pair");
}

static void gone(const struct side *s, enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        side_fail(s, "cannot release a %s: %s", what, iwarp_last_error());
    }
}

static void close_conn(struct side *s)
{
    if (s->conn) {
        gone(s, iwarp_conn_destroy(s->conn), "connection");
        s->conn = NULL;
    }
}

void side_close(struct side *s)
{
    struct iwarp_mr *const mr[] = {s->of_round, s->sink, s->fast, s->exposed, s->memory};

    if (s->script.connection_goes_first) {
        close_conn(s);
    }
    if (s->qp) {
        gone(s, iwarp_qp_destroy(s->qp), "queue pair");
    }
    close_conn(s);
    if (s->cq) {
        gone(s, iwarp_cq_destroy(s->cq), "completion queue");
    }
    for (int i = 0; i < 2; i++) {
        if (s->window[i]) {
            gone(s, iwarp_mw_free(s->window[i]), "window");
        }
    }
    for (unsigned i = 0; i < sizeof mr / sizeof *mr; i++) {
        if (mr[i]) {
            gone(s, iwarp_mr_deregister(mr[i]), "region");
        }
    }
    if (s->pd) {
        gone(s, iwarp_pd_destroy(s->pd), "protection domain");
    }
    if (s->octets) {
        munmap(s->octets, OCTETS);
    }
}
