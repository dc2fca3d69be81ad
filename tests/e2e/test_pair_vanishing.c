/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes away in the middle of a transfer: unmapped, made inaccessible or read-only, its
 * file cut short, or deregistered; in every role that memory has, with and without CRC, in both
 * placements, with and without markers. The stream that uses it ends and says why; another
 * connection of the same worker goes on. RFC 5040 7.1, RFC 5041 8.3.1.
 *
 * Memory that is gone before it is first used: test_pair_missing_memory.c.
 */
#include "child.h"
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA     ((size_t)1 << 20)
#define REQUESTS 48u
#define OTHERS   12u /* Writes of the other connection */

enum role { WRITE_TARGET, RECV_BUFFER, READ_SINK, SEND_SOURCE, WRITE_SOURCE, READ_SOURCE, ROLES };
enum kind { UNMAPPED, INACCESSIBLE, TRUNCATED, DEREGISTERED, READ_ONLY, KINDS };

static const char *const role_names[] = {"Write target", "receive buffer", "Read sink",
                                         "Send source",  "Write source",   "Read source"};
static const char *const kind_names[] = {"unmapped", "inaccessible", "truncated", "deregistered",
                                         "read-only"};

struct vanishing {
    enum pair_transport transport;
    enum role role;
    enum kind kind;
    bool crc, early, markers;
    struct pair pair;
    struct pair_side other[2];
    uint8_t *area;
    int fd;
    struct iwarp_mr *mr;
};

/* Does the memory belong to side 1, which the requests go to? */
static bool is_remote(enum role role)
{
    return role == WRITE_TARGET || role == RECV_BUFFER || role == READ_SOURCE;
}

static bool is_sink(enum role role)
{
    return role == WRITE_TARGET || role == RECV_BUFFER || role == READ_SINK;
}

static void map_area(struct vanishing *v)
{
    v->fd = v->kind == TRUNCATED ? memfd_create("area", MFD_CLOEXEC) : -1;
    if (v->fd >= 0) {
        assert_int_equal(ftruncate(v->fd, (off_t)AREA), 0);
    }
    v->area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
                   v->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, v->fd, 0);
    assert_ptr_not_equal(v->area, MAP_FAILED);
    memset(v->area, 0x11, AREA);
}

/* All of it, or its second half. */
static void take_away(struct vanishing *v, size_t there)
{
    switch (v->kind) {
    case UNMAPPED:
        assert_int_equal(munmap(v->area + there, AREA - there), 0);
        break;
    case INACCESSIBLE:
        assert_int_equal(mprotect(v->area + there, AREA - there, PROT_NONE), 0);
        break;
    case READ_ONLY:
        assert_int_equal(mprotect(v->area + there, AREA - there, PROT_READ), 0);
        break;
    case TRUNCATED:
        assert_int_equal(ftruncate(v->fd, (off_t)there), 0);
        break;
    case DEREGISTERED:
        must(iwarp_mr_deregister(v->mr));
        assert_int_equal(mprotect(v->area, AREA, PROT_NONE), 0); /* a look would be a fault */
        break;
    case KINDS:
        break;
    }
}

/* n requests that use all of the area. */
static void use(struct vanishing *v, uint32_t stag, unsigned n)
{
    struct pair_side *a = &v->pair.side[0], *b = &v->pair.side[1];
    struct iwarp_sge with = {v->area, (uint32_t)AREA, stag};
    struct iwarp_sge ours = pair_sge(a, 0, AREA);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, is_remote(v->role) ? &ours : &with);
    struct iwarp_sge into = v->role == RECV_BUFFER ? with : pair_sge(b, 0, AREA);
    const struct iwarp_recv_wr recv = {.wr_id = 9, .sg_list = &into, .num_sge = 1};

    if (v->role == READ_SINK || v->role == READ_SOURCE) {
        wr.opcode = IWARP_WR_READ;
    } else if (v->role == WRITE_TARGET || v->role == WRITE_SOURCE) {
        wr.opcode = IWARP_WR_WRITE;
    }
    wr.remote_stag = is_remote(v->role) ? stag : iwarp_mr_stag(b->mr);
    wr.remote_to = (uint64_t)(uintptr_t)(is_remote(v->role) ? v->area : b->p);
    for (unsigned i = 0; i < n; i++) {
        if (wr.opcode == IWARP_WR_SEND) {
            must(iwarp_post_recv(b->qp, &recv, NULL));
        }
        must(iwarp_post_send(a->qp, &wr, NULL));
    }
}

/* A fault found here; a Write's target may be found invalid by its own side only. */
static bool is_expected(const struct vanishing *v, enum iwarp_fault_code code)
{
    if (v->kind != DEREGISTERED) {
        return code == IWARP_FAULT_LOCAL_MEMORY;
    }
    switch (v->role) {
    case WRITE_TARGET:
        return code == IWARP_FAULT_DDP_STAG_INVALID;
    case READ_SOURCE:
        return code == IWARP_FAULT_RDMAP_STAG_INVALID || code == IWARP_FAULT_LOCAL_DEREGISTERED;
    case RECV_BUFFER:
    case READ_SINK:
    case SEND_SOURCE:
    case WRITE_SOURCE:
        return code == IWARP_FAULT_LOCAL_SGE || code == IWARP_FAULT_LOCAL_DEREGISTERED;
    case ROLES:
        break;
    }
    return false;
}

static void check_end(const struct vanishing *v)
{
    int owner = is_remote(v->role);
    const struct iwarp_fault *own, *theirs;

    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(v->pair.side[i].conn, PAIR_WAIT_MS));
    }
    own = iwarp_conn_fault(v->pair.side[owner].conn);
    theirs = iwarp_conn_fault(v->pair.side[1 - owner].conn);
    if (!is_expected(v, iwarp_fault_code(own)) || iwarp_fault_side(own) != IWARP_SIDE_LOCAL ||
        !theirs || iwarp_fault_status(theirs) == IWARP_PROTOCOL) {
        char text[400], more[400];
        iwarp_fault_text(own, text, sizeof text);
        iwarp_fault_text(theirs, more, sizeof more);
        fail_msg("%s %s, %s, CRC %d, early %d, markers %d: %s; the peer: %s", role_names[v->role],
                 kind_names[v->kind], pair_transport_names[v->transport], v->crc, v->early,
                 v->markers, text, more);
    }
}

static void open_all(struct vanishing *v)
{
    struct pair_options o;

    pair_options_init(&o, v->transport);
    o.memory = AREA;
    for (int i = 0; i < 2; i++) {
        o.conn[i].crc = v->crc;
        o.conn[i].placement = v->early ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        o.conn[i].markers = v->markers;
    }
    pair_open(&v->pair, &o);
    o.memory = 65536;
    pair_side_open(&v->other[0], v->pair.device, &o);
    pair_side_open(&v->other[1], v->pair.device, &o);
    must(iwarp_connect_pair(v->other[0].qp, v->other[1].qp, &o.conn[0], NULL, &v->other[0].conn,
                            &v->other[1].conn));
    must(iwarp_conn_wait(v->other[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait(v->other[1].conn, PAIR_WAIT_MS));
    map_area(v);
    must(iwarp_mr_register(v->pair.side[is_remote(v->role)].pd, v->area, AREA, PAIR_ALL, &v->mr));
}

static void try_case(struct vanishing *v, unsigned wait_us, size_t there)
{
    open_all(v);
    uint32_t stag = iwarp_mr_stag(v->mr);
    pair_fill(v->other[0].p, 65536, wait_us);
    for (uint64_t n = 0; n < OTHERS; n++) {
        pair_write(&v->other[0], n, 0, 65536, &v->other[1], 0);
    }
    use(v, stag, REQUESTS);
    progress_sleep(wait_us);
    take_away(v, there);
    use(v, stag, 1); /* even if all others were quicker */
    for (uint64_t n = 0; n < OTHERS; n++) {
        pair_wc(v->other[0].send_cq, n, IWARP_WC_SUCCESS);
    }
    check_end(v);
    pair_recv(&v->other[1], 30, 0, 8);
    pair_send(&v->other[0], 31, 0, 8);
    pair_wc(v->other[1].recv_cq, 30, IWARP_WC_SUCCESS);
    assert_memory_equal(v->other[0].p, v->other[1].p, 65536);
    if (v->kind != DEREGISTERED) {
        must(iwarp_mr_deregister(v->mr));
    }
    pair_side_close(&v->other[0]);
    pair_side_close(&v->other[1]);
    pair_close(&v->pair);
    munmap(v->area, v->kind == UNMAPPED ? there : AREA);
    if (v->fd >= 0) {
        close(v->fd);
    }
}

/*
 * All combinations, or under a sanitizer some of them. There nothing is unmapped: its runtime might
 * map something of its own in that place.
 */
static void try_all(enum pair_transport transport)
{
    const unsigned each = (unsigned)ROLES * KINDS, all = each * 8, step = CHILD_SANITIZED ? 7 : 1;
    struct chance chance = {chance_seed()};

    for (unsigned i = CHILD_SANITIZED ? (unsigned)chance_below(&chance, step) : 0; i < all;
         i += step) {
        struct vanishing v = {.transport = transport,
                              .role = (enum role)(i % ROLES),
                              .kind = (enum kind)(i / ROLES % KINDS),
                              .crc = i / each % 2,
                              .early = i / (each * 2) % 2,
                              .markers = i / (each * 4) % 2};
        if ((v.kind == READ_ONLY && !is_sink(v.role)) || (v.kind == UNMAPPED && CHILD_SANITIZED)) {
            continue;
        }
        try_case(&v, (unsigned)chance_below(&chance, 3000), AREA / 2);
    }
}

static void use__of_memory_that_vanishes_in_memory__ends_that_stream(void **state)
{
    (void)state;
    try_all(PAIR_MEMORY);
}

static void use__of_memory_that_vanishes_over_tcp__ends_that_stream(void **state)
{
    (void)state;
    try_all(PAIR_TCP4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use__of_memory_that_vanishes_in_memory__ends_that_stream),
        cmocka_unit_test(use__of_memory_that_vanishes_over_tcp__ends_that_stream),
    };

    return cmocka_run_group_tests_name("pair_vanishing", tests, NULL, NULL);
}
