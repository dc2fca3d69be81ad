/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory that is not there when it is used: never mapped (any more), read-only, or a
 * mapped file that was cut short, in every role that memory has. Only the stream that used it ends;
 * another connection of the same device goes on. RFC 5040 7.1.
 */
#include "verbs_pair.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA 65536u

enum role { WRITE_TARGET, RECV_BUFFER, READ_SINK, SEND_SOURCE, WRITE_SOURCE, READ_SOURCE, ROLES };
enum kind { UNMAPPED, INACCESSIBLE, READ_ONLY, TRUNCATED, KINDS };

static const char *const role_names[] = {"Write target", "receive buffer", "Read sink",
                                         "Send source",  "Write source",   "Read source"};
static const char *const kind_names[] = {"unmapped", "inaccessible", "read-only", "truncated"};

struct case_ {
    enum pair_transport transport;
    bool crc;
    enum iwarp_placement placement;
    enum role role;
    enum kind kind;
    size_t there; /* octets in front that stay */
};

/* Does the memory belong to side 1, which the request goes to? */
static bool is_remote(enum role role)
{
    return role == WRITE_TARGET || role == RECV_BUFFER || role == READ_SOURCE;
}

/* AddressSanitizer has its heap among the addresses that the kernel gives, and would fill the gap.
 */
#ifdef __SANITIZE_ADDRESS__
#define FAR_OFF ((void *)0x100100000000)
#else
#define FAR_OFF NULL
#endif

/* Memory whose octets from `there` on go away; a file behind it if that is cut. */
static uint8_t *map_area(enum kind kind, int *fd)
{
    *fd = kind == TRUNCATED ? memfd_create("area", MFD_CLOEXEC) : -1;
    if (*fd >= 0) {
        assert_int_equal(ftruncate(*fd, AREA), 0);
    }
    uint8_t *p = mmap(FAR_OFF, AREA, PROT_READ | PROT_WRITE,
                      *fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, *fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, 0x11, AREA);
    return p;
}

static void take_away(const struct case_ *c, uint8_t *p, int fd)
{
    switch (c->kind) {
    case UNMAPPED:
        assert_int_equal(munmap(p + c->there, AREA - c->there), 0);
        break;
    case INACCESSIBLE:
        assert_int_equal(mprotect(p + c->there, AREA - c->there, PROT_NONE), 0);
        break;
    case READ_ONLY:
        assert_int_equal(mprotect(p + c->there, AREA - c->there, PROT_READ), 0);
        break;
    case TRUNCATED:
        assert_int_equal(ftruncate(fd, (off_t)c->there), 0);
        break;
    case KINDS:
        break;
    }
}

/* Use the whole area in its role; side 1 owns it if it is remote to the request. */
static void use(struct pair *p, const struct case_ *c, uint8_t *area, struct iwarp_mr *mr)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];
    struct iwarp_sge theirs = {area, AREA, iwarp_mr_stag(mr)};
    struct iwarp_sge ours = pair_sge(c->role == RECV_BUFFER ? b : a, 0, AREA);
    const struct iwarp_recv_wr recv = {.wr_id = 9, .sg_list = &theirs, .num_sge = 1};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, &theirs);

    switch (c->role) {
    case RECV_BUFFER:
        must(iwarp_post_recv(b->qp, &recv, NULL));
        ours = pair_sge(a, 0, AREA);
        wr.sg_list = &ours;
        break;
    case WRITE_TARGET:
    case READ_SOURCE:
        wr.opcode = c->role == WRITE_TARGET ? IWARP_WR_WRITE : IWARP_WR_READ;
        wr.sg_list = &ours;
        wr.remote_stag = theirs.lkey;
        wr.remote_to = (uint64_t)(uintptr_t)area;
        break;
    case READ_SINK:
    case WRITE_SOURCE:
        wr.opcode = c->role == WRITE_SOURCE ? IWARP_WR_WRITE : IWARP_WR_READ;
        wr.remote_stag = iwarp_mr_stag(b->mr);
        wr.remote_to = (uint64_t)(uintptr_t)b->p;
        break;
    case SEND_SOURCE:
        pair_recv(b, 9, 0, AREA);
        break;
    case ROLES:
        break;
    }
    must(iwarp_post_send(a->qp, &wr, NULL));
}

/* The side whose memory is missing found out, and the other heard of the end. */
static void check_end(const struct pair *p, const struct case_ *c)
{
    int owner = is_remote(c->role);
    const struct iwarp_fault *own, *other;

    must(iwarp_conn_wait_end(p->side[owner].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p->side[1 - owner].conn, PAIR_WAIT_MS));
    own = iwarp_conn_fault(p->side[owner].conn);
    other = iwarp_conn_fault(p->side[1 - owner].conn);
    if (iwarp_fault_code(own) != IWARP_FAULT_LOCAL_MEMORY || !other ||
        iwarp_fault_side(own) != IWARP_SIDE_LOCAL || iwarp_fault_status(other) == IWARP_PROTOCOL) {
        char text[400], more[400];
        iwarp_fault_text(own, text, sizeof text);
        iwarp_fault_text(other, more, sizeof more);
        fail_msg("%s %s after %zu octets, %s, CRC %d, placement %d: %s; the peer: %s",
                 role_names[c->role], kind_names[c->kind], c->there,
                 pair_transport_names[c->transport], c->crc, c->placement, text, more);
    }
    struct iwarp_wc wc;
    for (int i = 0; i < 2; i++) {
        while (iwarp_cq_poll(p->side[i].send_cq, &wc, 1) == 1 ||
               iwarp_cq_poll(p->side[i].recv_cq, &wc, 1) == 1) {
            /* An RDMA Write may be complete here before it fails there. */
            assert_true(wc.status != IWARP_WC_SUCCESS || wc.opcode == IWARP_WC_WRITE ||
                        (wc.opcode == IWARP_WC_SEND && c->role == RECV_BUFFER));
        }
    }
}

static void unmap_area(const struct case_ *c, uint8_t *p, int fd)
{
    size_t left = c->kind == UNMAPPED ? c->there : AREA;

    if (left > 0) {
        munmap(p, left);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void try_case(const struct case_ *c)
{
    struct pair_options o;
    struct pair p;
    struct iwarp_mr *mr;
    int fd;

    pair_options_init(&o, c->transport);
    for (int i = 0; i < 2; i++) {
        o.conn[i].crc = c->crc;
        o.conn[i].placement = c->placement;
    }
    pair_open(&p, &o);
    uint8_t *area = map_area(c->kind, &fd);
    must(iwarp_mr_register(p.side[is_remote(c->role)].pd, area, AREA, PAIR_ALL, &mr));
    take_away(c, area, fd);
    use(&p, c, area, mr);
    check_end(&p, c);
    must(iwarp_mr_deregister(mr));
    pair_close(&p);
    unmap_area(c, area, fd);
}

static void try_all(enum pair_transport transport)
{
    const unsigned each = (unsigned)ROLES * KINDS;

    for (unsigned i = 0; i < each * 2 * 2 * 2; i++) {
        const struct case_ c = {.transport = transport,
                                .role = (enum role)(i % ROLES),
                                .kind = (enum kind)(i / ROLES % KINDS),
                                .crc = i / each % 2,
                                .placement = (enum iwarp_placement)(i / (each * 2) % 2),
                                .there = i / (each * 4) ? 16384 : 0};
        if (c.kind == READ_ONLY && c.role >= SEND_SOURCE) {
            continue; /* may be read */
        }
        try_case(&c);
    }
}

static void use__of_missing_memory_in_memory__ends_that_stream(void **state)
{
    (void)state;
    try_all(PAIR_MEMORY);
}

static void use__of_missing_memory_over_tcp__ends_that_stream(void **state)
{
    (void)state;
    try_all(PAIR_TCP4);
}

/* Both connections of one device, one worker: the second has traffic before, between and after. */
static void try_with_another(const struct case_ *c, unsigned seed)
{
    struct pair_side other[2];
    struct pair_options o;
    struct pair p;
    struct iwarp_mr *mr;
    int fd;

    pair_options_init(&o, c->transport);
    o.conn[0].crc = o.conn[1].crc = c->crc;
    pair_open(&p, &o);
    pair_side_open(&other[0], p.device, &o);
    pair_side_open(&other[1], p.device, &o);
    must(iwarp_connect_pair(other[0].qp, other[1].qp, NULL, NULL, &other[0].conn, &other[1].conn));
    must(iwarp_conn_wait(other[0].conn, PAIR_WAIT_MS));
    uint8_t *area = map_area(c->kind, &fd);
    must(iwarp_mr_register(p.side[is_remote(c->role)].pd, area, AREA, PAIR_ALL, &mr));
    take_away(c, area, fd);
    pair_fill(other[0].p, AREA, seed);
    for (uint64_t n = 0; n < 20; n++) {
        pair_write(&other[0], n, 0, AREA, &other[1], 0);
    }
    use(&p, c, area, mr);
    for (uint64_t n = 0; n < 20; n++) {
        pair_wc(other[0].send_cq, n, IWARP_WC_SUCCESS);
    }
    check_end(&p, c);
    pair_recv(&other[1], 30, 0, 8);
    pair_send(&other[0], 31, 0, 8);
    pair_wc(other[1].recv_cq, 30, IWARP_WC_SUCCESS);
    assert_memory_equal(other[0].p, other[1].p, AREA);
    must(iwarp_mr_deregister(mr));
    pair_side_close(&other[0]);
    pair_side_close(&other[1]);
    pair_close(&p);
    unmap_area(c, area, fd);
}

static void use__of_missing_memory__leaves_other_connections_alone(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * ROLES; i++) {
        const struct case_ c = {.transport = PAIR_TCP4,
                                .role = (enum role)(i % ROLES),
                                .kind = i % 2 ? UNMAPPED : TRUNCATED,
                                .crc = i < ROLES};
        try_with_another(&c, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use__of_missing_memory_in_memory__ends_that_stream),
        cmocka_unit_test(use__of_missing_memory_over_tcp__ends_that_stream),
        cmocka_unit_test(use__of_missing_memory__leaves_other_connections_alone),
    };

    return cmocka_run_group_tests_name("pair_missing_memory", tests, NULL, NULL);
}
