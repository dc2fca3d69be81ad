/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive buffer grows for a peer that waits, and for no other. Its length is what a peer can
 * write while nobody reads. Each octet is checked.
 */
#include "rsockets.h"

#include "rsocket/rs.h"

#define AT_FIRST (1u << 19)
#define AT_MOST  (2u * RS_HALF_MAX)
#define PIECE    (1u << 17)

#define KEPT_AT_MOST (1u << 19) /* SO_SNDBUF of the sender */

struct stream {
    int fds[2]; /* written; read */
    uint64_t sent, got;
    uint8_t *buf;
};

static void begin(struct stream *s)
{
    *s = (struct stream){.buf = malloc(PIECE)};
    make_pair(s->fds);
}

static void end(struct stream *s)
{
    assert_int_equal(s->got, s->sent);
    close_pair(s->fds);
    free(s->buf);
}

static void put(struct stream *s, size_t octets)
{
    for (size_t n; octets > 0; octets -= n) {
        n = octets < PIECE ? octets : PIECE;
        fill(s->buf, n, s->sent, 3);
        send_octets(s->fds[0], s->buf, n);
        s->sent += n;
    }
}

static void get(struct stream *s, int flags)
{
    size_t left = (size_t)(s->sent - s->got);
    ssize_t n = works(rrecv(s->fds[1], s->buf, left < PIECE ? left : PIECE, flags));

    check(s->buf, (size_t)n, s->got, 3);
    s->got += (uint64_t)n;
}

static void get_all(struct stream *s)
{
    while (s->got < s->sent) {
        get(s, 0);
    }
}

/* This end learns of what has come, as one that waits would. */
static void look(struct stream *s)
{
    assert_int_equal(polled(s->fds[1], POLLIN, RS_WAIT_MS), POLLIN);
}

static uint64_t unread(struct stream *s)
{
    return (uint64_t)works(iwarp_rs_octets(s->fds[1], false));
}

static uint64_t unsent(struct stream *s)
{
    return (uint64_t)works(iwarp_rs_octets(s->fds[0], true));
}

/*
 * An octet the other way comes behind the credits and halves that its sender has granted. All that
 * this end has sent has come when it is unread there, or kept here.
 */
static void settle(struct stream *s)
{
    const uint64_t until = now_ms() + RS_WAIT_MS;
    uint64_t there;

    do {
        send_octets(s->fds[1], "", 1);
        expect_octets(s->fds[0], "", 1);
        there = unread(s) + unsent(s);
        assert_true(now_ms() < until);
    } while (there != s->sent - s->got);
}

/* Octets that go out while nobody reads, without those that the sender keeps; then all are read. */
static uint64_t room(struct stream *s)
{
    uint64_t before = s->sent;

    for (unsigned quiet = 0; quiet < 2;) {
        fill(s->buf, PIECE, s->sent, 3);
        ssize_t n = rsend(s->fds[0], s->buf, PIECE, MSG_DONTWAIT);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            settle(s);
            quiet += polled(s->fds[0], POLLOUT, 0) == 0;
            continue;
        }
        quiet = 0;
        s->sent += (uint64_t)n;
        look(s);
        assert_true(s->sent - before <= AT_MOST + KEPT_AT_MOST);
    }
    before = s->sent - before - unsent(s);
    get_all(s);
    return before;
}

static void buffer__that_is_full_when_all_is_read__grows(void **state)
{
    struct stream s;
    uint64_t before, now;

    (void)state;
    begin(&s);
    before = now = room(&s);
    assert_int_equal(now, AT_FIRST);
    for (unsigned i = 0; i < 20; i++) {
        now = room(&s);
        assert_true(now >= before);
        before = now;
    }
    assert_true(now > AT_MOST / 2);
    end(&s);
}

/* The program always finds something: a longer buffer would not help it. */
static void buffer__that_is_never_empty__stays(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    for (unsigned i = 0; i < 100; i++) {
        if (s.sent - s.got <= AT_FIRST / 2) {
            put(&s, PIECE);
            settle(&s); /* it is here */
            continue;
        }
        look(&s);
        get(&s, MSG_WAITALL); /* a whole piece: more than that is there */
    }
    get_all(&s);
    assert_true(room(&s) <= AT_FIRST); /* less if a half is begun */
    end(&s);
}

/*
 * As a peer that is far away: more than half of the buffer comes at once, and then nothing for a
 * while. It grows until that is less than half.
 */
static void buffer__whose_peer_has_waited__grows(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < 9; k++) { /* not both halves at once */
            put(&s, AT_FIRST / 16);
            get_all(&s);
        }
        sleep_ms(20);
    }
    assert_true(room(&s) > AT_FIRST + AT_FIRST / 4);
    end(&s);
}

/*
 * It is read as it comes, so the second half is never full. The scheduler may cause a growth or
 * two, and on a busy machine more, since there what is on its way is late.
 */
static void buffer__of_small_messages__stays(void **state)
{
    uint64_t least = UINT64_MAX;

    (void)state;
    for (unsigned tries = 0; tries < 20 && least >= AT_MOST / 4; tries++) {
        struct stream s;
        begin(&s);
        for (unsigned i = 0; i < 8 * AT_FIRST / 1000; i++) {
            put(&s, 1000);
            get_all(&s);
        }
        uint64_t now = room(&s);
        least = now < least ? now : least;
        end(&s);
    }
    assert_true(least < AT_MOST / 4);
}

static void buffer__whose_peer_was_idle__stays(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    for (unsigned i = 0; i < 4; i++) {
        put(&s, AT_FIRST / 2);
        get_all(&s);
        sleep_ms(1100);
    }
    assert_int_equal(room(&s), AT_FIRST);
    end(&s);
}

/* Of a listener, or later of the socket itself. */
static void buffer__of_a_length_that_was_asked_for__stays(void **state)
{
    int octets = AT_FIRST / 4;

    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct stream s = {.buf = malloc(PIECE)};
        uint16_t port;
        int listener = listener_at(&port, 1);
        if (!late) {
            works(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
        }
        s.fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
        connect_through(listener, port, s.fds);
        works(rclose(listener));
        works(rsetsockopt(s.fds[1], SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(room(&s), late ? AT_FIRST : AT_FIRST / 4);
        }
        end(&s);
    }
}

/* A program of sockets says it of the TCP connection, before that becomes an rsocket. */
static void buffer__of_a_connection_that_was_adopted__stays_if_its_length_was_set(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 2; set++) {
        struct stream s = {.buf = malloc(PIECE)};
        int octets = AT_FIRST / 4, locks = 0;
        socklen_t len = sizeof locks;
        tcp_pair(s.fds);
        if (getsockopt(s.fds[1], SOL_SOCKET, SO_BUF_LOCK, &locks, &len) != 0) {
            skip(); /* before Linux 5.14 nobody can know it */
        }
        if (set) {
            works(setsockopt(s.fds[1], SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
        }
        adopt(s.fds);
        uint64_t now = 0;
        for (unsigned i = 0; i < 8; i++) {
            now = room(&s);
        }
        assert_true(set ? now == AT_FIRST : now > AT_FIRST);
        end(&s);
    }
}

/* By TCP's own figures. Pairs that were not adopted have none, so they grow as for any peer. */
static void buffer__of_a_near_peer__grows_less(void **state)
{
    struct stream s = {.buf = malloc(PIECE)};
    uint64_t now = 0;

    (void)state;
    tcp_pair(s.fds);
    adopt(s.fds);
    for (unsigned i = 0; i < 20; i++) {
        now = room(&s);
        assert_true(now <= 2 * RS_NEAR_MAX);
    }
    assert_true(now > RS_NEAR_MAX);
    end(&s);
}

#define MANY 28u

/* Each would have some 6 MiB, together more than all may have. */
static void buffers__of_many__have_a_bound_together(void **state)
{
    struct stream streams[MANY];
    uint64_t sum = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        begin(&streams[i]);
        for (unsigned k = 0; k < 8; k++) {
            (void)room(&streams[i]);
        }
        sum += room(&streams[i]);
    }
    assert_true(sum > MANY * AT_FIRST + RS_GROWN_MAX / 2);
    assert_true(sum <= MANY * AT_FIRST + RS_GROWN_MAX);
    for (unsigned i = 0; i < MANY; i++) {
        end(&streams[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer__that_is_full_when_all_is_read__grows),
        cmocka_unit_test(buffer__that_is_never_empty__stays),
        cmocka_unit_test(buffer__whose_peer_has_waited__grows),
        cmocka_unit_test(buffer__of_small_messages__stays),
        cmocka_unit_test(buffer__whose_peer_was_idle__stays),
        cmocka_unit_test(buffer__of_a_length_that_was_asked_for__stays),
        cmocka_unit_test(buffer__of_a_connection_that_was_adopted__stays_if_its_length_was_set),
        cmocka_unit_test(buffer__of_a_near_peer__grows_less),
        cmocka_unit_test(buffers__of_many__have_a_bound_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
