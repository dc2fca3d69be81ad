/* SPDX-License-Identifier: BSD-2-Clause */
/* See tcp_host.h. */
#include "tcp_host.h"
#include "place.h"
#include "progress.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CANARY     512 /* octets before and behind each area */
#define QUIET_LEN  3000
#define QUIET_AREA 8192

#define KEY_REQUEST "4d504120494420526571204672616d65 "
#define KEY_REPLY   "4d504120494420526570204672616d65 "

/* --- memory ---------------------------------------------------------------------------------- */

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 7 + (i >> 8) + 0x5a);
}

static void area_fill(struct host_area *a, size_t len)
{
    memset(a->block, 0xa5, len + 2 * CANARY);
    for (size_t i = 0; i < len; i++) {
        a->p[i] = pattern(i);
    }
}

static void area_open(struct host_area *a, struct iwarp_pd *pd, size_t len, unsigned access)
{
    a->block = malloc(len + 2 * CANARY);
    assert_non_null(a->block);
    a->p = a->block + CANARY;
    area_fill(a, len);
    assert_int_equal(iwarp_mr_register(pd, a->p, len, access, &a->mr), IWARP_OK);
}

static void area_close(struct host_area *a)
{
    assert_int_equal(iwarp_mr_deregister(a->mr), IWARP_OK);
    free(a->block);
}

static void area_check(const struct host_area *a, size_t from, const char *name)
{
    for (size_t i = 0; i < CANARY; i++) {
        if (a->block[i] != 0xa5 || a->p[HOST_AREA + i] != 0xa5) {
            fail_msg("octets outside area %s were written", name);
        }
    }
    for (size_t i = from; i < HOST_AREA; i++) {
        if (a->p[i] != pattern(i)) {
            fail_msg("octet %zu of area %s was written", i, name);
        }
    }
}

void host_check_memory(struct tcp_host *h)
{
    area_check(&h->w, 0, "W");
    area_check(&h->r, 0, "R");
    area_check(&h->p, 0, "P");
    area_check(&h->l, HOST_READ_AT + HOST_READ_LEN, "L");
    for (size_t i = 0; i < HOST_READ_AT; i++) { /* between the receives */
        bool receive = i % 128 < HOST_RECV_LEN && i / 128 < HOST_RECEIVES;
        if (!receive && h->l.p[i] != pattern(i)) {
            fail_msg("octet %zu of area L, in no receive, was written", i);
        }
    }
}

void host_reset_memory(struct tcp_host *h)
{
    area_fill(&h->w, HOST_AREA);
    area_fill(&h->r, HOST_AREA);
    area_fill(&h->l, HOST_AREA);
    area_fill(&h->p, HOST_AREA);
}

static void name_area(struct tcp_host *h, char stag, char to, const struct host_area *a)
{
    raw_name(&h->names, stag, iwarp_mr_stag(a->mr), 4);
    raw_name(&h->names, to, (uint64_t)(uintptr_t)a->p, 8);
}

static void open_areas(struct tcp_host *h)
{
    const unsigned local = IWARP_ACCESS_LOCAL_WRITE;

    area_open(&h->w, h->pd, HOST_AREA, local | IWARP_ACCESS_REMOTE_WRITE);
    area_open(&h->r, h->pd, HOST_AREA, local | IWARP_ACCESS_REMOTE_READ);
    area_open(&h->l, h->pd, HOST_AREA, local);
    area_open(&h->p, h->foreign_pd, HOST_AREA,
              local | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ);
    name_area(h, 'W', 'T', &h->w);
    name_area(h, 'R', 'U', &h->r);
    name_area(h, 'L', 'Q', &h->l);
    name_area(h, 'P', 'V', &h->p);
    raw_name(&h->names, 'X', iwarp_mr_stag(h->w.mr) ^ 1, 4);
}

/* --- events and completions ------------------------------------------------------------------ */

static const char *event_name(enum iwarp_event_type type)
{
    static const char *const names[] = {"none",     "REQUEST", "ESTABLISHED",
                                        "REJECTED", "FAILED",  "DISCONNECTED"};

    return names[type];
}

struct iwarp_event host_event(struct tcp_host *h, enum iwarp_event_type type)
{
    struct iwarp_event e;

    memset(&e, 0, sizeof e);
    if (iwarp_eq_get(h->eq, &e, RAW_PATIENCE_MS) != IWARP_OK) {
        fail_msg("no event within %d ms, expected %s", RAW_PATIENCE_MS, event_name(type));
    }
    assert_string_equal(event_name(e.type), event_name(type));
    if (h->conn && type != IWARP_EVENT_REQUEST) {
        assert_ptr_equal(e.conn, h->conn);
    }
    return e;
}

void host_no_event(struct tcp_host *h, int ms)
{
    struct iwarp_event e;

    if (iwarp_eq_get(h->eq, &e, ms) == IWARP_OK) {
        fail_msg("unexpected event %s", event_name(e.type));
    }
}

struct iwarp_wc host_completion(struct tcp_host *h)
{
    struct iwarp_wc wc;

    memset(&wc, 0, sizeof wc);
    if (iwarp_cq_wait(h->cq, &wc, 1, RAW_PATIENCE_MS) != 1) {
        fail_msg("no completion within %d ms", RAW_PATIENCE_MS);
    }
    assert_ptr_equal(wc.qp, h->qp);
    return wc;
}

void host_check_fault(const struct iwarp_fault *fault, enum iwarp_fault_code code)
{
    char text[400];

    assert_string_equal(iwarp_fault_name(iwarp_fault_code(fault)), iwarp_fault_name(code));
    if (code == IWARP_FAULT_NONE) {
        assert_null(fault);
        return;
    }
    size_t len = iwarp_fault_text(fault, text, sizeof text);
    assert_in_range(len, 20, sizeof text - 1);
    assert_non_null(strstr(text, "RFC "));
    assert_non_null(strstr(text, iwarp_fault_name(code)));
    assert_null(strchr(text, '{'));
}

/* --- the other connection -------------------------------------------------------------------- */

static void quiet_qp(struct tcp_host *h, int i)
{
    struct iwarp_qp_options o;

    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = h->quiet_cq;
    assert_int_equal(iwarp_qp_create(h->pd, &o, &h->quiet_qp[i]), IWARP_OK);
    area_open(&h->quiet[i], h->pd, QUIET_AREA,
              IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
}

static void be_patient(struct iwarp_conn_options *o)
{
    iwarp_conn_options_init(o);
    o->connect_timeout_ms = RAW_PATIENCE_MS;
    o->startup_timeout_ms = 2 * RAW_PATIENCE_MS; /* a responder waits half of it for the Request */
    o->close_timeout_ms = RAW_PATIENCE_MS;
    o->remind = false; /* by the clock: it would come between literal octets */
    /* Tables of cases are client-server; peer-to-peer start-ups have tests of their own. */
    o->peer_to_peer = false;
    o->mpa_fallback = false;
}

void host_options(struct tcp_host *h)
{
    be_patient(&h->options);
}

static void open_quiet(struct tcp_host *h)
{
    struct iwarp_conn_options patient;

    be_patient(&patient);
    quiet_qp(h, 0);
    quiet_qp(h, 1);
    assert_int_equal(iwarp_connect(h->quiet_qp[0], (const struct sockaddr *)&h->addr,
                                   sizeof h->addr, &patient, NULL, 0, NULL, NULL,
                                   &h->quiet_conn[0]),
                     IWARP_OK);
    h->quiet_conn[1] = host_event(h, IWARP_EVENT_REQUEST).conn;
    assert_int_equal(iwarp_accept(h->quiet_conn[1], h->quiet_qp[1], NULL, NULL, 0, NULL), IWARP_OK);
    host_event(h, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(iwarp_conn_wait(h->quiet_conn[0], RAW_PATIENCE_MS), IWARP_OK);
}

/* From i to the other: a Write into the upper half of its area, a Send into the lower one. */
static void quiet_one_way(struct tcp_host *h, int i)
{
    struct host_area *from = &h->quiet[i], *to = &h->quiet[1 - i];
    struct iwarp_sge in = {to->p, 64, iwarp_mr_stag(to->mr)};
    const struct iwarp_recv_wr recv = {NULL, 1, &in, 1, 0};
    struct iwarp_sge note = {from->p + 100, 16, iwarp_mr_stag(from->mr)};
    struct iwarp_sge data = {from->p + 200, QUIET_LEN, iwarp_mr_stag(from->mr)};
    const struct iwarp_send_wr send = {
        .wr_id = 2, .opcode = IWARP_WR_SEND, .sg_list = &note, .num_sge = 1};
    const struct iwarp_send_wr write = {.next = &send,
                                        .wr_id = 3,
                                        .opcode = IWARP_WR_WRITE,
                                        .sg_list = &data,
                                        .num_sge = 1,
                                        .remote_stag = iwarp_mr_stag(to->mr),
                                        .remote_to = (uint64_t)(uintptr_t)(to->p + 4096)};
    struct iwarp_wc wc;

    memset(note.addr, (int)h->round, note.len);
    memset(data.addr, (int)(h->round * 3 + 1), data.len);
    assert_int_equal(iwarp_post_recv(h->quiet_qp[1 - i], &recv, NULL), IWARP_OK);
    assert_int_equal(iwarp_post_send(h->quiet_qp[i], &write, NULL), IWARP_OK);
    if (iwarp_cq_wait(h->quiet_cq, &wc, 1, RAW_PATIENCE_MS) != 1) {
        fail_msg("the well-behaved connection is stuck");
    }
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.byte_len, note.len);
    assert_memory_equal(to->p, note.addr, note.len);
    assert_memory_equal(to->p + 4096, data.addr, data.len);
}

void host_check_quiet(struct tcp_host *h)
{
    h->round++;
    quiet_one_way(h, 0);
    quiet_one_way(h, 1);
}

static void close_quiet(struct tcp_host *h)
{
    assert_int_equal(iwarp_disconnect(h->quiet_conn[0]), IWARP_OK);
    struct iwarp_event e = host_event(h, IWARP_EVENT_DISCONNECTED);
    assert_ptr_equal(e.conn, h->quiet_conn[1]);
    assert_int_equal(e.status, IWARP_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_conn_wait_end(h->quiet_conn[i], RAW_PATIENCE_MS), IWARP_OK);
        assert_null(iwarp_conn_fault(h->quiet_conn[i]));
        assert_int_equal(iwarp_conn_destroy(h->quiet_conn[i]), IWARP_OK);
        assert_int_equal(iwarp_qp_destroy(h->quiet_qp[i]), IWARP_OK);
        area_close(&h->quiet[i]);
    }
}

/* --- the host -------------------------------------------------------------------------------- */

struct tcp_host *host_open(const struct iwarp_device_options *device,
                           const struct iwarp_conn_options *listen)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = place_of_device()};
    struct iwarp_conn_options patient;
    struct tcp_host *h = calloc(1, sizeof *h);
    struct sockaddr_storage at;
    socklen_t len;

    assert_non_null(h);
    setenv("IWARP_LOG", "error", 0); /* each hostile peer is worth a warning */
    h->fd = -1;
    be_patient(&patient);
    host_options(h);
    assert_int_equal(progress_open(device, &h->device), IWARP_OK);
    assert_int_equal(iwarp_pd_create(h->device, &h->pd), IWARP_OK);
    assert_int_equal(iwarp_pd_create(h->device, &h->foreign_pd), IWARP_OK);
    assert_int_equal(iwarp_cq_create(h->device, 4096, NULL, &h->cq), IWARP_OK);
    assert_int_equal(iwarp_cq_create(h->device, 64, NULL, &h->quiet_cq), IWARP_OK);
    assert_int_equal(iwarp_eq_create(h->device, &h->eq), IWARP_OK);
    assert_int_equal(iwarp_listen(h->device, (const struct sockaddr *)&any, sizeof any,
                                  listen ? listen : &patient, 512, h->eq, h, &h->listener),
                     IWARP_OK);
    assert_int_equal(iwarp_listener_addr(h->listener, &at, &len), IWARP_OK);
    assert_int_equal(len, sizeof h->addr);
    memcpy(&h->addr, &at, sizeof h->addr);
    open_areas(h);
    open_quiet(h);
    host_check_quiet(h);
    return h;
}

void host_close(struct tcp_host *h)
{
    host_check_quiet(h);
    close_quiet(h);
    area_close(&h->w);
    area_close(&h->r);
    area_close(&h->l);
    area_close(&h->p);
    assert_int_equal(iwarp_listener_close(h->listener), IWARP_OK);
    assert_int_equal(iwarp_eq_destroy(h->eq), IWARP_OK);
    assert_int_equal(iwarp_cq_destroy(h->cq), IWARP_OK);
    assert_int_equal(iwarp_cq_destroy(h->quiet_cq), IWARP_OK);
    assert_int_equal(iwarp_pd_destroy(h->pd), IWARP_OK);
    assert_int_equal(iwarp_pd_destroy(h->foreign_pd), IWARP_OK);
    assert_int_equal(progress_close(h->device), IWARP_OK);
    free(h);
}

/* --- the connection under test --------------------------------------------------------------- */

void host_qp(struct tcp_host *h, unsigned receives)
{
    struct iwarp_qp_options o;

    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = h->cq;
    assert_int_equal(iwarp_qp_create(h->pd, &o, &h->qp), IWARP_OK);
    for (unsigned i = 0; i < receives; i++) {
        struct iwarp_sge sge = {h->l.p + i * 128, HOST_RECV_LEN, iwarp_mr_stag(h->l.mr)};
        const struct iwarp_recv_wr recv = {NULL, 100 + i, &sge, 1, 0};
        assert_int_equal(iwarp_post_recv(h->qp, &recv, NULL), IWARP_OK);
    }
}

struct iwarp_conn *host_request(struct tcp_host *h)
{
    struct iwarp_event e = host_event(h, IWARP_EVENT_REQUEST);

    assert_int_equal(e.status, IWARP_OK);
    assert_ptr_equal(e.listener, h->listener);
    assert_ptr_equal(e.user, h);
    assert_non_null(e.conn);
    return e.conn;
}

void host_accept(struct tcp_host *h, struct iwarp_conn *conn, unsigned receives)
{
    host_qp(h, receives);
    h->conn = conn;
    assert_int_equal(iwarp_accept(conn, h->qp, &h->options, NULL, 0, NULL), IWARP_OK);
}

static void connect_to_listener(struct tcp_host *h, unsigned rev, unsigned receives)
{
    h->fd = raw_connect(&h->addr);
    raw_say(h->fd, NULL,
            rev == 1 ? KEY_REQUEST "40010000" : KEY_REQUEST "50020004 00100008"); /* M01, M05 */
    host_accept(h, host_request(h), receives);
    const char *reply = rev == 1              ? KEY_REPLY "40010000"
                        : h->options.ird == 0 ? KEY_REPLY "50020004 00000010"
                                              : KEY_REPLY "50020004 00080010"; /* M06 */
    raw_hear(h->fd, NULL, reply, "the Reply");
}

static void be_connected_to(struct tcp_host *h, unsigned rev, unsigned receives)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    host_qp(h, receives);
    h->options.mpa_rev = rev;
    assert_int_equal(iwarp_connect(h->qp, (const struct sockaddr *)&at, sizeof at, &h->options,
                                   NULL, 0, h->eq, NULL, &h->conn),
                     IWARP_OK);
    h->fd = raw_accept(listener);
    raw_close(listener);
    const char *request = rev == 1              ? KEY_REQUEST "40010000"
                          : h->options.ird == 0 ? KEY_REQUEST "50020004 00000020"
                                                : KEY_REQUEST "50020004 00200020";
    raw_hear(h->fd, NULL, request, "the Request");
    raw_say(h->fd, NULL,
            rev == 1              ? KEY_REPLY "40010000"
            : h->options.ird == 0 ? KEY_REPLY "50020004 00100000"
                                  : KEY_REPLY "50020004 00100010");
}

void host_connect(struct tcp_host *h, enum host_role role, unsigned rev, unsigned receives)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    h->conn = NULL;
    if (role == HOST_RESPONDER) {
        connect_to_listener(h, rev, receives);
    } else {
        be_connected_to(h, rev, receives);
    }
    struct iwarp_event e = host_event(h, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(e.status, IWARP_OK);
    assert_ptr_equal(e.conn, h->conn);
    assert_int_equal(iwarp_conn_info(h->conn, &info), IWARP_OK);
    assert_int_equal(info.mpa_rev, rev);
    assert_true(info.crc);
    assert_int_equal(iwarp_qp_state(h->qp), IWARP_QP_RTS);
}

void host_post_read(struct tcp_host *h)
{
    struct iwarp_sge sge = {h->l.p + HOST_READ_AT, HOST_READ_LEN, iwarp_mr_stag(h->l.mr)};
    const struct iwarp_send_wr read = {.wr_id = 200,
                                       .opcode = IWARP_WR_READ,
                                       .flags = IWARP_WR_SIGNALED,
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .remote_stag = 0x11223344,
                                       .remote_to = 0x2000};

    assert_int_equal(iwarp_post_send(h->qp, &read, NULL), IWARP_OK);
}

void host_post(struct tcp_host *h, enum iwarp_wr_opcode opcode, uint64_t wr_id, uint32_t n)
{
    struct iwarp_sge sge = {h->r.p, n, iwarp_mr_stag(h->r.mr)};
    const struct iwarp_send_wr wr = {.wr_id = wr_id,
                                     .opcode = opcode,
                                     .flags = IWARP_WR_SIGNALED,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .remote_stag = 0x11223344,
                                     .remote_to = 0x3000};

    assert_int_equal(iwarp_post_send(h->qp, &wr, NULL), IWARP_OK);
}

void host_ended(struct tcp_host *h, enum iwarp_fault_code code, unsigned left)
{
    struct iwarp_event e = host_event(h, IWARP_EVENT_DISCONNECTED);
    struct iwarp_wc wc;

    host_check_fault(e.fault, code);
    host_check_fault(iwarp_conn_fault(h->conn), code);
    host_check_fault(iwarp_qp_fault(h->qp), code);
    assert_int_equal(e.status, iwarp_fault_status(e.fault));
    assert_int_equal(code == IWARP_FAULT_NONE, e.status == IWARP_OK);
    for (unsigned i = 0; i < left; i++) {
        wc = host_completion(h);
        assert_int_not_equal(wc.status, IWARP_WC_SUCCESS);
        if (wc.wr_id >= 100 && wc.wr_id < 200) { /* a receive */
            bool too_short = code == IWARP_FAULT_DDP_TOO_LONG && wc.status == IWARP_WC_LOCAL_LENGTH;
            assert_true(wc.status == IWARP_WC_FLUSHED || (too_short && i == 0));
        }
        host_check_fault(wc.fault, code);
    }
    assert_int_equal(iwarp_cq_poll(h->cq, &wc, 1), 0);
    assert_int_equal(iwarp_conn_wait_end(h->conn, 0), IWARP_OK);
    assert_int_equal(iwarp_qp_state(h->qp), IWARP_QP_ERROR);
}

void host_finish(struct tcp_host *h)
{
    if (h->fd >= 0) {
        raw_close(h->fd);
        h->fd = -1;
    }
    if (h->conn) {
        assert_int_equal(iwarp_conn_destroy(h->conn), IWARP_OK);
        h->conn = NULL;
    }
    if (h->qp) {
        assert_int_equal(iwarp_qp_destroy(h->qp), IWARP_OK);
        h->qp = NULL;
    }
}

/* --- tables of cases ------------------------------------------------------------------------- */

static struct tcp_host *table_host;

static int table_setup(void **state)
{
    (void)state;
    table_host = host_open(NULL, NULL);
    return 0;
}

static int table_teardown(void **state)
{
    (void)state;
    host_close(table_host);
    return 0;
}

void host_begin_read(struct tcp_host *h)
{
    host_post_read(h);
    raw_say(h->fd, NULL, "000ec140 00000001 00000000 00000000 ebd34c5f"); /* V24 */
    raw_hear(h->fd, &h->names,
             "002e4141 00000000 00000001 00000001 00000000 L Q+400 00000100"
             "11223344 00000000 00002000 C",
             "the RDMA Read Request");
}

static void run_case(struct tcp_host *h, const struct hostile_case *c, enum host_role role,
                     unsigned rev)
{
    unsigned receives = c->no_receive ? 0 : HOST_RECEIVES;

    host_connect(h, role, rev, receives);
    if (c->read) {
        host_begin_read(h);
    }
    raw_say(h->fd, &h->names, c->sent);
    raw_hear(h->fd, &h->names, c->answer, "the Terminate");
    raw_expect_fin(h->fd, "behind the Terminate");
    for (unsigned i = 0; i < c->delivered; i++) {
        struct iwarp_wc wc = host_completion(h);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 100 + i);
    }
    if (c->read_done) {
        struct iwarp_wc wc = host_completion(h);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.opcode, IWARP_WC_READ);
        assert_int_equal(wc.byte_len, HOST_READ_LEN);
    }
    host_ended(h, c->fault, receives - c->delivered + (c->read && !c->read_done));
    host_finish(h);
    host_check_memory(h);
    host_check_quiet(h);
}

static void case_test(void **state)
{
    const struct hostile_case *c = *state;
    struct tcp_host *h = table_host;

    for (int i = 0; i < 8; i++) {
        enum host_role role = i & 1 ? HOST_INITIATOR : HOST_RESPONDER;
        unsigned rev = i & 2 ? 2 : 1;
        if (c->no_ird && role == HOST_RESPONDER && rev == 1) {
            continue; /* revision 1 always leaves room for one Read */
        }
        host_options(h);
        h->options.placement = i & 4 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        h->options.ird = c->no_ird ? 0 : h->options.ird;
        printf("# %s: this end is the %s, revision %u, placement %s\n", c->name,
               role == HOST_INITIATOR ? "initiator" : "responder", rev,
               i & 4 ? "early" : "verified");
        fflush(stdout);
        host_reset_memory(h);
        run_case(h, c, role, rev);
    }
}

int hostile_run(const char *group, const struct hostile_case *cases, size_t n)
{
    struct CMUnitTest *tests = calloc(n, sizeof *tests);
    union {
        const struct hostile_case *c;
        void *p;
    } state;

    if (!tests) {
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        state.c = &cases[i];
        tests[i] = (struct CMUnitTest){cases[i].name, case_test, NULL, NULL, state.p};
    }
    int failed = _cmocka_run_group_tests(group, tests, n, table_setup, table_teardown);
    free(tests);
    return failed;
}
