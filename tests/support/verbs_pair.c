/* SPDX-License-Identifier: BSD-2-Clause */
/* See verbs_pair.h. */
#include "verbs_pair.h"
#include "loop/lease.h"
#include "place.h"
#include "progress.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAIR_LWIP_ADDR "10.9.0.1"

const char *const pair_transport_names[PAIR_TRANSPORTS] = {
    [PAIR_MEMORY] = "memory",
    [PAIR_TCP4] = "TCP over IPv4",
    [PAIR_TCP6] = "TCP over IPv6",
#ifdef IWARP_HAVE_LWIP
    [PAIR_LWIP] = "lwIP",
#endif
};

void pair_must(enum iwarp_status status, const char *what, const char *file, int line)
{
    if (status != IWARP_OK) {
        print_error("%s: %s (%s)\n", what, iwarp_status_text(status), iwarp_last_error());
        _fail(file, line);
    }
}

void pair_must_fail(enum iwarp_status got, enum iwarp_status expected, const char *part,
                    const char *what, const char *file, int line)
{
    if (got != expected || !strstr(iwarp_last_error(), part)) {
        print_error("%s: %s (%s), expected %s (...%s...)\n", what, iwarp_status_text(got),
                    got == IWARP_OK ? "" : iwarp_last_error(), iwarp_status_text(expected), part);
        _fail(file, line);
    }
}

/* --- putting it together --------------------------------------------------------------------- */

void pair_options_init(struct pair_options *o, enum pair_transport transport)
{
    memset(o, 0, sizeof *o);
    o->transport = transport;
#ifdef IWARP_HAVE_LWIP
    const char *wish = getenv("TEST_TRANSPORT");
    if (transport == PAIR_TCP4 && wish && strcmp(wish, "lwip") == 0) {
        o->transport = PAIR_LWIP; /* what is meant for kernel TCP is tried over it */
    }
#endif
    iwarp_device_options_init(&o->device);
    iwarp_qp_options_init(&o->qp);
    for (int i = 0; i < 2; i++) {
        iwarp_conn_options_init(&o->conn[i]);
        o->conn[i].connect_timeout_ms = PAIR_WAIT_MS;
        o->conn[i].startup_timeout_ms = 2 * PAIR_WAIT_MS; /* a responder waits half of it */
        o->conn[i].close_timeout_ms = PAIR_WAIT_MS;
        o->conn[i].remind = false; /* by the clock: it would come between literal octets */
    }
    o->cq_entries = 1024;
    o->memory = 65536;
}

void pair_side_open(struct pair_side *s, struct iwarp_device *device, const struct pair_options *o)
{
    struct iwarp_qp_options qp = o->qp;

    memset(s, 0, sizeof *s);
    must(iwarp_pd_create(device, &s->pd));
    must(iwarp_cq_create(device, o->cq_entries, s, &s->send_cq));
    must(iwarp_cq_create(device, o->cq_entries, s, &s->recv_cq));
    qp.send_cq = s->send_cq;
    qp.recv_cq = s->recv_cq;
    qp.user = s;
    if (o->srq) {
        struct iwarp_srq_options srq;
        iwarp_srq_options_init(&srq);
        srq.max_wr = o->srq;
        srq.user = s;
        must(iwarp_srq_create(s->pd, &srq, &s->srq));
        qp.srq = s->srq;
    }
    must(iwarp_qp_create(s->pd, &qp, &s->qp));
    s->p = calloc(1, o->memory ? o->memory : 1);
    assert_non_null(s->p);
    must(iwarp_mr_register(s->pd, s->p, o->memory, PAIR_ALL, &s->mr));
}

void pair_side_close(struct pair_side *s)
{
    if (s->conn) {
        must(iwarp_conn_destroy(s->conn));
    }
    if (s->qp) {
        must(iwarp_qp_destroy(s->qp));
    }
    if (s->srq) {
        must(iwarp_srq_destroy(s->srq));
    }
    if (s->mr) {
        must(iwarp_mr_deregister(s->mr));
    }
    if (s->send_cq) {
        must(iwarp_cq_destroy(s->send_cq));
    }
    if (s->recv_cq) {
        must(iwarp_cq_destroy(s->recv_cq));
    }
    if (s->pd) {
        must(iwarp_pd_destroy(s->pd));
    }
    free(s->p);
    memset(s, 0, sizeof *s);
}

/* lwIP needs a link, even if nothing ever goes there. */
static void open_device(struct pair *p)
{
    struct iwarp_device_options device = p->options.device;
#ifdef IWARP_HAVE_LWIP
    char text[64];
    int link[2] = {-1, -1};

    if (p->options.transport == PAIR_LWIP) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link), 0);
        snprintf(text, sizeof text, "lwip:fd=%d,addr=%s/24", link[0], PAIR_LWIP_ADDR);
        device.transport = text;
    }
#endif
    must(progress_open(&device, &p->device));
#ifdef IWARP_HAVE_LWIP
    if (link[0] >= 0) {
        close(link[0]);
        p->link = link[1];
    }
#endif
}

void pair_prepare(struct pair *p, const struct pair_options *o)
{
    memset(p, 0, sizeof *p);
    p->options = *o;
    open_device(p);
    for (int i = 0; i < 2; i++) {
        must(iwarp_eq_create(p->device, &p->eq[i]));
        pair_side_open(&p->side[i], p->device, o);
    }
    if (o->transport != PAIR_MEMORY) {
        p->listener = pair_listen(p->device, o->transport, &o->conn[1], p->eq[1]);
    }
}

socklen_t pair_loopback(enum pair_transport transport, struct sockaddr_storage *addr)
{
    memset(addr, 0, sizeof *addr);
    if (transport == PAIR_TCP6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)addr;
        in6->sin6_family = AF_INET6;
        in6->sin6_addr = in6addr_loopback;
        if (place_is_lwip()) {
            inet_pton(AF_INET6, "fd00::1", &in6->sin6_addr);
        }
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)addr;
    in->sin_family = AF_INET;
    in->sin_addr = place_of_device();
#ifdef IWARP_HAVE_LWIP
    if (transport == PAIR_LWIP) {
        in->sin_addr.s_addr = inet_addr(PAIR_LWIP_ADDR);
    }
#endif
    return sizeof *in;
}

struct iwarp_listener *pair_listen(struct iwarp_device *device, enum pair_transport transport,
                                   const struct iwarp_conn_options *o, struct iwarp_eq *eq)
{
    struct iwarp_listener *listener = NULL;
    struct sockaddr_storage addr;
    socklen_t len = pair_loopback(transport, &addr);

    must(iwarp_listen(device, (const struct sockaddr *)&addr, len, o, 64, eq, NULL, &listener));
    return listener;
}

static void connect_tcp(struct pair *p)
{
    struct sockaddr_storage addr;
    socklen_t len;

    must(iwarp_listener_addr(p->listener, &addr, &len));
    must(iwarp_connect(p->side[0].qp, (const struct sockaddr *)&addr, len, &p->options.conn[0],
                       NULL, 0, p->options.no_events ? NULL : p->eq[0], &p->side[0],
                       &p->side[0].conn));
    p->side[1].conn = pair_event(p->eq[1], IWARP_EVENT_REQUEST).conn;
    must(iwarp_accept(p->side[1].conn, p->side[1].qp, NULL, NULL, 0, &p->side[1]));
    pair_event(p->eq[1], IWARP_EVENT_ESTABLISHED);
    if (!p->options.no_events) {
        pair_event(p->eq[0], IWARP_EVENT_ESTABLISHED);
    }
    must(iwarp_conn_wait(p->side[0].conn, PAIR_WAIT_MS));
}

void pair_connect(struct pair *p)
{
    if (p->options.transport != PAIR_MEMORY) {
        connect_tcp(p);
        return;
    }
    must(iwarp_connect_pair(p->side[0].qp, p->side[1].qp, &p->options.conn[0],
                            p->options.no_events ? NULL : p->eq[0], &p->side[0].conn,
                            &p->side[1].conn));
    if (!p->options.no_events) {
        pair_event(p->eq[0], IWARP_EVENT_ESTABLISHED);
        pair_event(p->eq[0], IWARP_EVENT_ESTABLISHED);
    }
    must(iwarp_conn_wait(p->side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait(p->side[1].conn, PAIR_WAIT_MS));
}

void pair_open(struct pair *p, const struct pair_options *o)
{
    pair_prepare(p, o);
    pair_connect(p);
}

void pair_close(struct pair *p)
{
    pair_side_close(&p->side[0]);
    pair_side_close(&p->side[1]);
    if (p->listener) {
        must(iwarp_listener_close(p->listener));
    }
    for (int i = 0; i < 2; i++) {
        if (p->eq[i]) {
            must(iwarp_eq_destroy(p->eq[i]));
        }
    }
    must(progress_close(p->device));
    if (p->link > 0) {
        close(p->link);
    }
    memset(p, 0, sizeof *p);
}

/* --- waiting --------------------------------------------------------------------------------- */

struct iwarp_event pair_event(struct iwarp_eq *eq, enum iwarp_event_type type)
{
    struct iwarp_event event;
    char text[400];

    memset(&event, 0, sizeof event);
    must(iwarp_eq_get(eq, &event, PAIR_WAIT_MS));
    if (event.type != type) {
        iwarp_fault_text(event.fault, text, sizeof text);
        fail_msg("event %d, expected %d: %s", (int)event.type, (int)type, text);
    }
    return event;
}

struct iwarp_async_event pair_async(struct pair *p, enum iwarp_async_type type)
{
    struct iwarp_async_event event;

    memset(&event, 0, sizeof event);
    must(iwarp_async_get(p->device, &event, PAIR_WAIT_MS));
    if (event.type != type) {
        fail_msg("%s (%s), expected %s", iwarp_async_text(event.type),
                 iwarp_fault_name(event.fault), iwarp_async_text(type));
    }
    return event;
}

struct iwarp_wc pair_wc(struct iwarp_cq *cq, uint64_t wr_id, enum iwarp_wc_status status)
{
    struct iwarp_wc wc;
    char text[400];
    int n = iwarp_cq_wait(cq, &wc, 1, PAIR_WAIT_MS);

    if (n != 1) {
        fail_msg("no completion %llu (%s): %d %s", (unsigned long long)wr_id,
                 iwarp_wc_status_text(status), n, n < 0 ? iwarp_last_error() : "");
    }
    if (wc.wr_id != wr_id || wc.status != status) {
        iwarp_fault_text(wc.fault, text, sizeof text);
        fail_msg("completion %llu: %s (%s), expected %llu: %s", (unsigned long long)wc.wr_id,
                 iwarp_wc_status_text(wc.status), text, (unsigned long long)wr_id,
                 iwarp_wc_status_text(status));
    }
    return wc;
}

void pair_no_wc(struct iwarp_cq *cq)
{
    struct iwarp_wc wc;
    int n = iwarp_cq_poll(cq, &wc, 1);

    if (n != 0) {
        fail_msg("unexpected completion: %d, wr_id %llu, %s", n, (unsigned long long)wc.wr_id,
                 iwarp_wc_status_text(wc.status));
    }
}

/* --- requests -------------------------------------------------------------------------------- */

struct iwarp_sge pair_sge(const struct pair_side *s, size_t off, size_t len)
{
    return (struct iwarp_sge){s->p + off, (uint32_t)len, iwarp_mr_stag(s->mr)};
}

void pair_recv(struct pair_side *s, uint64_t wr_id, size_t off, size_t len)
{
    const struct iwarp_sge sge = pair_sge(s, off, len);
    const struct iwarp_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

    must(iwarp_post_recv(s->qp, &wr, NULL));
}

void pair_srq_recv(struct pair_side *s, uint64_t wr_id, size_t off, size_t len)
{
    const struct iwarp_sge sge = pair_sge(s, off, len);
    const struct iwarp_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

    must(iwarp_srq_post_recv(s->srq, &wr, NULL));
}

struct iwarp_send_wr pair_wr(enum iwarp_wr_opcode opcode, uint64_t wr_id, struct iwarp_sge *sge)
{
    return (struct iwarp_send_wr){.wr_id = wr_id,
                                  .opcode = opcode,
                                  .flags = IWARP_WR_SIGNALED,
                                  .sg_list = sge,
                                  .num_sge = sge ? 1 : 0};
}

void pair_send(struct pair_side *s, uint64_t wr_id, size_t off, size_t len)
{
    struct iwarp_sge sge = pair_sge(s, off, len);
    const struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, wr_id, &sge);

    must(iwarp_post_send(s->qp, &wr, NULL));
}

static void post_tagged(struct pair_side *s, enum iwarp_wr_opcode opcode, uint64_t wr_id,
                        struct iwarp_sge sge, const struct pair_side *other, size_t off)
{
    struct iwarp_send_wr wr = pair_wr(opcode, wr_id, &sge);

    wr.remote_stag = iwarp_mr_stag(other->mr);
    wr.remote_to = (uint64_t)(uintptr_t)(other->p + off);
    must(iwarp_post_send(s->qp, &wr, NULL));
}

void pair_write(struct pair_side *s, uint64_t wr_id, size_t off, size_t len,
                const struct pair_side *other, size_t to_off)
{
    post_tagged(s, IWARP_WR_WRITE, wr_id, pair_sge(s, off, len), other, to_off);
}

void pair_read(struct pair_side *s, uint64_t wr_id, size_t off, size_t len,
               const struct pair_side *other, size_t from_off)
{
    post_tagged(s, IWARP_WR_READ, wr_id, pair_sge(s, off, len), other, from_off);
}

/* --- memory ---------------------------------------------------------------------------------- */

__attribute__((no_sanitize_thread)) /* slow there, and nothing to be found */
void pair_fill(uint8_t *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 11);
    }
}

static bool any(const char *name)
{
    (void)name;
    return true;
}

/* A thread that was joined may be listed a little longer: PF_EXITING of its flags, proc(5). */
static bool lives(const char *tid)
{
    char text[512] = "";
    unsigned flags = 0;

    snprintf(text, sizeof text, "/proc/self/task/%s/stat", tid);
    FILE *f = fopen(text, "r");
    if (!f) {
        return false;
    }
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    char *end = strrchr(text, ')'); /* of its name */
    return end && sscanf(end, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && !(flags & 4);
}

static unsigned entries_of(const char *path, bool (*counts)(const char *name))
{
    unsigned n = 0;
    DIR *dir = opendir(path);

    assert_non_null(dir);
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        n += d->d_name[0] != '.' && counts(d->d_name);
    }
    closedir(dir);
    return n;
}

unsigned pair_fd_count(void)
{
    return entries_of("/proc/self/fd", any) - 1; /* but that of the folder itself */
}

void pair_await_homes(struct iwarp_device *device)
{
    for (unsigned i = 0; i < device->workers; i++) {
        for (unsigned ms = 0; iwarp_lease_is_out(&device->worker[i].loop.lease); ms++) {
            assert_true(ms < PAIR_WAIT_MS);
            usleep(1000);
        }
    }
}

/* In qemu-user a thread that was joined lives on for a moment: ask until nothing has changed. */
static unsigned settled_threads(void)
{
    unsigned n = 0, now;

    for (int same = 0; same < 5; same = now == n ? same + 1 : 0, n = now) {
        usleep(20000);
        now = entries_of("/proc/self/task", lives);
    }
    return n;
}

unsigned pair_thread_count(void)
{
    return getenv("TEST_EMULATED") ? settled_threads() : entries_of("/proc/self/task", lives);
}
