/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lwIP's time-outs would cost, seen from the link: two devices, and between them a relay that
 * loses chosen segments and takes the time until they come again. One quick round is enough: a busy
 * machine makes any of them late, and a time-out would be in all.
 */
#include "progress.h"
#include "verbs_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#ifdef IWARP_HAVE_LWIP

#define FRAME_MAX 2048
#define MEMORY    ((size_t)1 << 20)
#define ROUNDS    10
#define LOST_MAX  8
#define AT_ONCE   30000000u  /* ns; without a question for it, and without a time-out */
#define ASKED     150000000u /* the least time-out is 200 ms */

struct lost {
    uint32_t seq;
    uint64_t gone, back; /* ns; 0: not yet */
};

struct relay {
    int fd[2];
    _Atomic uint32_t
        pattern;      /* bit 0: lose the next new segment of side 0 with payload, and so on */
    _Atomic bool cut; /* lose all frames */
    _Atomic bool stop;
    pthread_mutex_t lock; /* of what is below */
    struct lost lost[LOST_MAX];
    unsigned count;
    uint32_t end; /* of what side 0 has sent */
    pthread_t thread;
};

struct ends {
    struct iwarp_device *device[2];
    struct iwarp_eq *eq[2];
    struct iwarp_listener *listener;
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* IPv4 and TCP with payload: its sequence numbers. */
static bool read_segment(const uint8_t *frame, uint32_t *seq, uint32_t *octets)
{
    const uint8_t *ip = frame + 14, *tcp = ip + 20;

    if (frame[12] != 8 || frame[13] != 0 || ip[9] != 6) {
        return false;
    }
    *seq = be32(tcp + 4);
    *octets = ((uint32_t)ip[2] << 8 | ip[3]) - 20 - 4 * (uint32_t)(tcp[12] >> 4);
    return *octets > 0;
}

static bool is_to_be_lost(struct relay *r, const uint8_t *frame)
{
    uint32_t seq, octets, pattern = atomic_load(&r->pattern);
    bool lose = false;

    if (!read_segment(frame, &seq, &octets)) {
        return false;
    }
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < r->count; i++) {
        if (r->lost[i].seq == seq && r->lost[i].back == 0) {
            r->lost[i].back = uv_hrtime();
        }
    }
    if ((int32_t)(seq + octets - r->end) > 0 || r->end == 0) {
        r->end = seq + octets;
        lose = (pattern & 1) != 0;
        atomic_store(&r->pattern, pattern >> 1);
    }
    if (lose) {
        assert_true(r->count < LOST_MAX);
        r->lost[r->count++] = (struct lost){seq, uv_hrtime(), 0};
    }
    pthread_mutex_unlock(&r->lock);
    return lose;
}

static bool relay_one(struct relay *r, int side)
{
    uint8_t frame[FRAME_MAX];
    ssize_t n = recv(r->fd[side], frame, sizeof frame, MSG_DONTWAIT);

    if (n > 0 && !atomic_load(&r->cut) && !(side == 0 && is_to_be_lost(r, frame))) {
        while (send(r->fd[1 - side], frame, (size_t)n, MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
            struct pollfd room = {r->fd[1 - side], POLLOUT, 0};
            (void)poll(&room, 1, 100);
        }
    }
    return n > 0;
}

static void *relay(void *arg)
{
    struct relay *r = arg;

    while (!atomic_load(&r->stop)) {
        struct pollfd fds[2] = {{r->fd[0], POLLIN, 0}, {r->fd[1], POLLIN, 0}};
        (void)poll(fds, 2, 20);
        while (relay_one(r, 0) || relay_one(r, 1)) {
        }
    }
    return NULL;
}

/* --- two devices ----------------------------------------------------------------------------- */

static void open_ends(struct ends *e, struct relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.2")};

    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    for (int i = 0; i < 2; i++) {
        struct iwarp_device_options o;
        char text[64];
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        snprintf(text, sizeof text, "lwip:fd=%d,addr=10.9.0.%d/24", pair[0], i + 1);
        iwarp_device_options_init(&o);
        o.transport = text;
        must(iwarp_device_open(&o, &e->device[i]));
        must(iwarp_eq_create(e->device[i], &e->eq[i]));
        close(pair[0]);
        r->fd[i] = pair[1];
    }
    assert_int_equal(pthread_create(&r->thread, NULL, relay, r), 0);
    must(iwarp_listen(e->device[1], (const struct sockaddr *)&at, sizeof at, NULL, 8, e->eq[1],
                      NULL, &e->listener));
}

static void connect_sides(struct ends *e, struct pair_side side[2])
{
    struct sockaddr_storage addr;
    struct pair_options o;
    socklen_t len;

    pair_options_init(&o, PAIR_MEMORY);
    o.memory = MEMORY;
    for (int i = 0; i < 2; i++) {
        pair_side_open(&side[i], e->device[i], &o);
    }
    must(iwarp_listener_addr(e->listener, &addr, &len));
    must(iwarp_connect(side[0].qp, (const struct sockaddr *)&addr, len, &o.conn[0], NULL, 0,
                       e->eq[0], NULL, &side[0].conn));
    side[1].conn = pair_event(e->eq[1], IWARP_EVENT_REQUEST).conn;
    must(iwarp_accept(side[1].conn, side[1].qp, NULL, NULL, 0, NULL));
    pair_event(e->eq[0], IWARP_EVENT_ESTABLISHED);
    pair_event(e->eq[1], IWARP_EVENT_ESTABLISHED);
    pair_fill(side[0].p, MEMORY, 1);
}

static void close_ends(struct ends *e, struct relay *r)
{
    must(iwarp_listener_close(e->listener));
    for (int i = 0; i < 2; i++) {
        must(iwarp_eq_destroy(e->eq[i]));
        must(iwarp_device_close(e->device[i]));
    }
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    pthread_mutex_destroy(&r->lock);
    close(r->fd[0]);
    close(r->fd[1]);
}

/* An RDMA Write (octets 0: none) and a Read, of whose segments some are lost. Returns the longest
 * time until one came again. */
static uint64_t lose(struct relay *r, struct pair_side side[2], size_t octets, uint32_t pattern,
                     unsigned losses)
{
    uint64_t longest = 0;

    pthread_mutex_lock(&r->lock);
    r->count = 0;
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->pattern, pattern);
    memset(side[1].p, 0, MEMORY);
    if (octets > 0) {
        pair_write(&side[0], 7, 0, octets, &side[1], 0);
    }
    pair_read(&side[0], 8, octets, 1, &side[1], 0); /* its answer comes behind the Write */
    if (octets > 0) {
        pair_wc(side[0].send_cq, 7, IWARP_WC_SUCCESS);
    }
    pair_wc(side[0].send_cq, 8, IWARP_WC_SUCCESS);
    assert_memory_equal(side[1].p, side[0].p, octets);
    pthread_mutex_lock(&r->lock);
    assert_int_equal(r->count, losses);
    for (unsigned i = 0; i < r->count; i++) {
        assert_true(r->lost[i].back > 0);
        uint64_t took = r->lost[i].back - r->lost[i].gone;
        longest = took > longest ? took : longest;
    }
    pthread_mutex_unlock(&r->lock);
    return longest;
}

static void lose_in_rounds(size_t octets, uint32_t pattern, unsigned losses, uint64_t most)
{
    static struct relay r;
    struct pair_side side[2];
    struct ends e;
    uint64_t best = UINT64_MAX;

    open_ends(&e, &r);
    connect_sides(&e, side);
    lose(&r, side, MEMORY / 2, 0, 0); /* the congestion window grows */
    for (int i = 0; i < ROUNDS && best >= most; i++) {
        uint64_t took = lose(&r, side, octets, pattern, losses);
        best = took < best ? took : best;
    }
    print_message("%u lost: all came again after %.1f ms\n", losses, (double)best / 1e6);
    assert_true(best < most);
    must(iwarp_disconnect(side[0].conn));
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(side[i].conn, PAIR_WAIT_MS));
        pair_side_close(&side[i]);
    }
    close_ends(&e, &r);
}

static void two_segments_of_one_window__lost__both_come_again_at_once(void **state)
{
    (void)state;
    lose_in_rounds(40000, 1u << 12 | 1u << 19, 2,
                   AT_ONCE); /* 28 segments: nothing more comes behind them */
}

static void first_of_few_segments__lost__comes_again_at_once(void **state)
{
    (void)state;
    lose_in_rounds(2000, 1, 1, AT_ONCE); /* two segments, and the Read's */
}

#ifdef IWARP_OWN_LWIP
static void last_segment__lost__is_sent_as_a_question_before_the_time_out(void **state)
{
    (void)state;
    lose_in_rounds(0, 1, 1, ASKED); /* the Read's request alone */
}

/* lwIP sends again from memory of the application: until that is acknowledged, it is referred to.
 */
static void memory__deregistered_while_referred_to__ends_that_stream_only(void **state)
{
    static struct relay r;
    struct pair_side side[2], other[2];
    struct ends e;

    (void)state;
    open_ends(&e, &r);
    connect_sides(&e, side);
    connect_sides(&e, other);
    atomic_store(&r.cut, true);
    pair_write(&side[0], 1, 0, 60000, &side[1], 0);
    pair_write(&other[0], 2, 0, 60000, &other[1], 0);
    usleep(20000);
    pair_no_wc(side[0].send_cq); /* sent, and not released */
    must(iwarp_mr_deregister(side[0].mr));
    side[0].mr = NULL;
    memset(side[0].p, 0xee, MEMORY);
    atomic_store(&r.cut, false);
    pair_wc(side[0].send_cq, 1, IWARP_WC_FLUSHED);
    pair_wc(other[0].send_cq, 2, IWARP_WC_SUCCESS);
    pair_read(&other[0], 3, 60000, 1, &other[1], 0);
    pair_wc(other[0].send_cq, 3, IWARP_WC_SUCCESS);
    assert_memory_equal(other[1].p, other[0].p, 60000);
    assert_int_equal(side[1].p[0], 0); /* nothing of it has arrived, and nothing does */
    must(iwarp_conn_wait_end(side[0].conn, PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(side[0].conn)),
                     IWARP_FAULT_LOCAL_DEREGISTERED);
    must(iwarp_disconnect(other[0].conn));
    must(iwarp_conn_wait_end(side[1].conn, PAIR_WAIT_MS));
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(other[i].conn, PAIR_WAIT_MS));
        pair_side_close(&side[i]);
        pair_side_close(&other[i]);
    }
    close_ends(&e, &r);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_segments_of_one_window__lost__both_come_again_at_once),
        cmocka_unit_test(first_of_few_segments__lost__comes_again_at_once),
#ifdef IWARP_OWN_LWIP
        cmocka_unit_test(last_segment__lost__is_sent_as_a_question_before_the_time_out),
        cmocka_unit_test(memory__deregistered_while_referred_to__ends_that_stream_only),
#endif
    };

    return cmocka_run_group_tests_name("lwip_losses", tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without lwIP");
    return 77;
}

#endif
