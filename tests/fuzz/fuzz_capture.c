/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing what writes recordings: flows of one connection, from one end or from both, in pieces and
 * with comments that the input chooses, into a file with or without a bound that is reached. The
 * octets themselves are what a peer sends, so the search for STags reads them, too.
 *
 * Checked: the file is read by tests/support/recording.c, which knows nothing of src/ and looks at
 * every length, checksum and sequence number; and the octets of each side are those that went in,
 * or, at the bound, the first of them.
 */
#include "fuzz.h"

#include "capture/flow.h"
#include "recording.h"

#include <string.h>
#include <unistd.h>

#define PIECES 3

enum { SECOND = 1, BOTH = 2, IPV6 = 4, BOUND = 8 };
enum { NOTE = 1, END, RESET }; /* all other numbers: octets are sent */

struct input {
    const uint8_t *p;
    size_t n;
};

struct ends {
    struct iwarp_flow *flow[2]; /* NULL: this end is not recorded */
    bool over[2];               /* what this side sends has ended */
    uint8_t *octets[2];
    size_t n[2];
};

/* An assertion of the test support ends the program instead of a test that does not run. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

static uint8_t take(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

/* What an STag stands for is text of the application: anything but the end of a string. */
static void describe(void *arg, uint32_t stag, char *text, size_t size)
{
    (void)arg;
    for (size_t i = 0; i + 1 < size && i < (stag & 0xff); i++) {
        text[i] = (char)(stag >> (8 * (i % 4)) | 1);
        text[i + 1] = '\0';
    }
}

/* len octets of the input in up to PIECES pieces, copied where a sanitizer sees their ends. */
static size_t cut(struct input *in, size_t len, struct iovec iov[PIECES])
{
    size_t done = 0;

    len = len < in->n ? len : in->n;
    for (unsigned i = 0; i < PIECES; i++) {
        size_t n = i + 1 == PIECES ? len - done : (len - done) / (1 + (len & 3));
        iov[i] = (struct iovec){malloc(n + !n), n};
        FUZZ_EXPECT(iov[i].iov_base);
        memcpy(iov[i].iov_base, in->p + done, n);
        done += n;
    }
    in->p += len;
    in->n -= len;
    return len;
}

/*
 * `side` sends. Its own end records it; if that is not recorded, the other end, which receives it.
 * With both, what the other end receives is told, too, and must not be there twice.
 */
static void transfer(struct ends *e, unsigned side, struct input *in)
{
    struct iovec iov[PIECES];
    size_t len = take(in) * (size_t)(1 + (take(in) & 15));

    if (e->over[side]) {
        return;
    }
    const uint8_t *from = in->p;
    len = cut(in, len, iov);
    memcpy(e->octets[side] + e->n[side], from, len);
    e->n[side] += len;
    if (e->flow[side]) {
        iwarp_flow_hold(e->flow[side]);
        iwarp_flow_sent(e->flow[side], side, iov, len);
        iwarp_flow_release(e->flow[side]);
    }
    if (e->flow[!side]) {
        iwarp_flow_received(e->flow[!side], !side, iov, len);
    }
    for (unsigned i = 0; i < PIECES; i++) {
        free(iov[i].iov_base);
    }
}

static void end(struct ends *e, unsigned side, bool reset)
{
    if (e->over[side]) {
        return;
    }
    e->over[side] = true;
    e->over[!side] = e->over[!side] || reset;
    if (e->flow[side]) {
        iwarp_flow_hold(e->flow[side]);
        iwarp_flow_ended(e->flow[side], side, reset);
        iwarp_flow_release(e->flow[side]);
    }
    if (e->flow[!side]) {
        iwarp_flow_received_end(e->flow[!side], !side, reset);
    }
}

static void note(struct ends *e, unsigned side, struct input *in)
{
    char text[64];
    size_t n = take(in) % sizeof text;

    n = n < in->n ? n : in->n;
    memcpy(text, in->p, n);
    text[n] = '\0';
    in->p += n;
    in->n -= n;
    if (e->flow[side]) {
        iwarp_flow_note(e->flow[side], side, text);
    }
}

static void play(struct ends *e, struct input *in)
{
    while (in->n > 0) {
        uint8_t what = take(in);
        unsigned side = what >> 7;
        switch (what % 8) {
        case NOTE:
            note(e, side, in);
            break;
        case END:
        case RESET:
            end(e, side, what % 8 == RESET);
            break;
        default:
            transfer(e, side, in);
        }
    }
}

static void check(const char *path, const struct ends *e, bool bound)
{
    struct recording r;

    recording_load(&r, path);
    FUZZ_EXPECT(r.connections <= 1 && (bound || r.connections == 1));
    for (unsigned side = 0; side < 2 && r.connections == 1; side++) {
        const struct octets *found = &r.connection[0].octets[side];
        FUZZ_EXPECT(bound ? found->n <= e->n[side] : found->n == e->n[side]);
        FUZZ_EXPECT(found->n == 0 || memcmp(found->p, e->octets[side], found->n) == 0);
    }
    recording_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t head = take(&in);
    struct ends e = {.octets = {malloc(size + 1), malloc(size + 1)}};
    struct iwarp_headers_addr addr[2];
    char path[64];

    snprintf(path, sizeof path, "/dev/shm/fuzz-capture.%d", (int)getpid());
    unlink(path);
    struct iwarp_capture *c =
        iwarp_capture_open(path, head & BOUND ? IWARP_CAPTURE_LEAST + take(&in) : 1 << 24);
    FUZZ_EXPECT(c && e.octets[0] && e.octets[1]);
    iwarp_flow_made_up(1, addr);
    addr[0].v6 = addr[1].v6 = (head & IPV6) != 0;
    for (unsigned side = 0; side < 2; side++) {
        if (head & BOTH || side == (head & SECOND)) {
            e.flow[side] = iwarp_flow_join(c, addr, side);
            FUZZ_EXPECT(e.flow[side]);
            iwarp_flow_describe(e.flow[side], side, describe, NULL);
        }
    }
    play(&e, &in);
    for (unsigned side = 0; side < 2; side++) {
        if (e.flow[side]) {
            iwarp_flow_leave(e.flow[side], side);
        }
    }
    iwarp_capture_close(c);
    check(path, &e, head & BOUND);
    unlink(path);
    free(e.octets[0]);
    free(e.octets[1]);
    return 0;
}
