/* SPDX-License-Identifier: BSD-2-Clause */
/* See raw_peer.h. Nothing of src/ is used. */
#include "raw_peer.h"
#include "place.h"
#include "progress.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* --- texts ----------------------------------------------------------------------------------- */

void raw_name(struct raw_names *names, char letter, uint64_t value, unsigned size)
{
    assert_in_range(letter, 'A', 'Z');
    names->value[letter - 'A'] = value;
    names->size[letter - 'A'] = (uint8_t)size;
}

/* RFC 3720 12.1, one bit at a time. */
static uint32_t crc_bitwise(const uint8_t *p, size_t n)
{
    uint32_t state = 0xffffffffu;

    for (size_t i = 0; i < n; i++) {
        state ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            state = state & 1 ? state >> 1 ^ 0x82f63b78u : state >> 1;
        }
    }
    return ~state;
}

static void put_crc(struct octets *o, size_t start)
{
    uint32_t crc = crc_bitwise(o->p + start, o->n - start);

    for (int i = 0; i < 4; i++) {
        octets_fill(o, (uint8_t)(crc >> 8 * i), 1);
    }
}

/* A name with what is added to it. Returns where the text goes on. */
static const char *put_name(struct octets *o, const struct raw_names *names, const char *text)
{
    unsigned index = (unsigned)(*text++ - 'A');
    uint64_t offset = 0;
    bool minus = *text == '-';

    assert_non_null(names);
    assert_int_not_equal(names->size[index], 0);
    if (*text == '+' || *text == '-') {
        char *end;
        offset = strtoull(text + 1, &end, 16);
        text = end;
    }
    octets_be(o, minus ? names->value[index] - offset : names->value[index] + offset,
              names->size[index]);
    return text;
}

static const char *put_fill(struct octets *o, const char *text)
{
    char *end;
    uint8_t value = (uint8_t)strtoul(text + 1, &end, 16);

    assert_int_equal(*end, '*');
    octets_fill(o, value, strtoul(end + 1, &end, 10));
    return end;
}

void raw_text(struct octets *o, const struct raw_names *names, const char *text)
{
    size_t start = o->n;

    while (*text) {
        if (isspace((unsigned char)*text)) {
            text++;
        } else if (*text == '|') {
            start = o->n;
            text++;
        } else if (*text == 'C') {
            put_crc(o, start);
            text++;
        } else if (*text == 'N') {
            text = put_fill(o, text);
        } else if (isupper((unsigned char)*text)) {
            text = put_name(o, names, text);
        } else {
            const char digits[3] = {text[0], text[1], 0};
            assert_true(isxdigit((unsigned char)text[0]) && isxdigit((unsigned char)text[1]));
            octets_fill(o, (uint8_t)strtoul(digits, NULL, 16), 1);
            text += 2;
        }
    }
}

/* --- sockets --------------------------------------------------------------------------------- */

static void no_delay(int fd)
{
    const int on = 1;

    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
}

int raw_connect(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0) {
        fail_msg("connect: %s", strerror(errno));
    }
    no_delay(fd);
    return fd;
}

int raw_listen(struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = place_of_peer()};
    assert_int_equal(bind(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

/* Poll for at most ms. 0: time is up. */
static int wait_for(int fd, short events, int ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do {
        n = progress_poll(&p, 1, ms);
    } while (n < 0 && errno == EINTR);
    return n;
}

int raw_accept(int listener)
{
    if (wait_for(listener, POLLIN, RAW_PATIENCE_MS) != 1) {
        fail_msg("nobody connected within %d ms", RAW_PATIENCE_MS);
    }
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    no_delay(fd);
    return fd;
}

void raw_send(int fd, const void *p, size_t n)
{
    const uint8_t *octet = p;

    while (n > 0) {
        if (wait_for(fd, POLLOUT, RAW_PATIENCE_MS) != 1) {
            fail_msg("could not send within %d ms, %zu octets are left", RAW_PATIENCE_MS, n);
        }
        ssize_t sent = send(fd, octet, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            fail_msg("send: %s", strerror(errno));
        }
        octet += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
}

void raw_send_pieces(int fd, const void *p, size_t n, size_t piece, struct chance *chance)
{
    const uint8_t *octet = p;

    while (n > 0) {
        size_t take = piece ? piece : 1 + chance_size(chance, n - 1);
        take = take < n ? take : n;
        raw_send(fd, octet, take);
        octet += take;
        n -= take;
    }
}

/* At most n octets, at least one; 0 is FIN, -errno a failure, -ETIMEDOUT included. */
static ssize_t read_some(int fd, void *p, size_t n)
{
    if (wait_for(fd, POLLIN, RAW_PATIENCE_MS) != 1) {
        return -ETIMEDOUT;
    }
    ssize_t got = recv(fd, p, n, MSG_DONTWAIT);
    return got < 0 ? -errno : got;
}

void raw_read(int fd, void *p, size_t n, const char *what)
{
    uint8_t *octet = p;
    size_t have = 0;

    while (have < n) {
        ssize_t got = read_some(fd, octet + have, n - have);
        if (got == 0) {
            octets_expect("octets before the FIN", p, have, NULL, 0);
        }
        if (got <= 0) {
            fail_msg("%s: %zu of %zu octets, then %s", what, have, n,
                     got ? strerror((int)-got) : "FIN");
        }
        have += (size_t)got;
    }
}

void raw_expect(int fd, const void *p, size_t n, const char *what)
{
    struct octets got = {0};

    octets_fill(&got, 0, n);
    raw_read(fd, got.p, n, what);
    octets_expect(what, got.p, n, p, n);
    octets_free(&got);
}

void raw_say(int fd, const struct raw_names *names, const char *text)
{
    struct octets o = {0};

    raw_text(&o, names, text);
    raw_send(fd, o.p, o.n);
    octets_free(&o);
}

void raw_hear(int fd, const struct raw_names *names, const char *text, const char *what)
{
    struct octets o = {0};

    raw_text(&o, names, text);
    raw_expect(fd, o.p, o.n, what);
    octets_free(&o);
}

enum raw_end raw_end(int fd, const char *what)
{
    uint8_t octets[256];
    ssize_t got = read_some(fd, octets, sizeof octets);

    if (got > 0) {
        octets_expect(what, octets, (size_t)got, NULL, 0);
    }
    if (got != 0 && got != -ECONNRESET) {
        fail_msg("%s: no end of the connection: %s", what, strerror((int)-got));
    }
    return got == 0 ? RAW_FIN : RAW_RESET;
}

void raw_expect_fin(int fd, const char *what)
{
    if (raw_end(fd, what) != RAW_FIN) {
        fail_msg("%s: ended by a reset, not by FIN", what);
    }
}

void raw_expect_silence(int fd, int ms, const char *what)
{
    uint8_t octets[256];

    if (wait_for(fd, POLLIN, ms) == 0) {
        return;
    }
    ssize_t got = recv(fd, octets, sizeof octets, MSG_DONTWAIT);
    octets_expect(what, octets, got > 0 ? (size_t)got : 0, NULL, 0);
    fail_msg("%s: expected silence, the connection ended", what);
}

size_t raw_drain(int fd)
{
    static uint8_t sink[65536];
    size_t total = 0;
    ssize_t got;

    while ((got = read_some(fd, sink, sizeof sink)) > 0) {
        total += (size_t)got;
    }
    if (got != 0 && got != -ECONNRESET) {
        fail_msg("no end of the connection after %zu octets: %s", total, strerror((int)-got));
    }
    return total;
}

void raw_fin(int fd)
{
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
}

void raw_reset(int fd)
{
    const struct linger now = {1, 0};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(fd);
}

void raw_close(int fd)
{
    close(fd);
}
