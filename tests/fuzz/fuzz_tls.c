/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing what lies below MPA when TLS is asked for. The first octet says what the rest is:
 *
 *   0, 1    octets of a peer: of an initiator, of a responder; the second octet is the piece size
 *   2       a certificate (DER), whose identity is taken
 *   3       the text of a context
 *   4       a file of pre-shared keys
 *   5 to 7  two ends with a key in common and somebody on the path: steps of two octets
 *
 * Checked is, above all, that what an end reads is the beginning of what the other one wrote, and
 * that nothing fails as long as nobody does harm. The random numbers are OpenSSL's own, so records
 * differ from run to run.
 */
#include "fuzz.h"

#include "tls/tls_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 8192, WINDOW = 300000 };

struct wire {
    unsigned char octets[WINDOW];
    size_t len;
    bool ended;
};

/* An end: what it writes goes into its own wire, what it reads was carried into `in`. */
struct side {
    struct iwarp_endpoint ep;
    struct wire out, in;
    struct iwarp_tls *tls;
    uint64_t wrote, read;
    bool up, failed, over, ended; /* over: the peer has closed; ended: this end has */
};

static char key_path[] = "/dev/shm/fuzz-tls-XXXXXX", file_path[] = "/dev/shm/fuzz-psk-XXXXXX";
static struct iwarp_tls_store store;
static struct iwarp_tls_context *context;

/* --- memory as a transport ------------------------------------------------------------------- */

static struct side *side_of(struct iwarp_endpoint *ep)
{
    return (struct side *)(void *)ep;
}

static void take(struct wire *w, size_t n)
{
    memmove(w->octets, w->octets + n, w->len - n);
    w->len -= n;
}

static ssize_t mem_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct wire *w = &side_of(ep)->in;
    size_t total = 0;

    for (int i = 0; i < n && w->len > 0; i++) {
        size_t k = iov[i].iov_len < w->len ? iov[i].iov_len : w->len;
        memcpy(iov[i].iov_base, w->octets, k);
        take(w, k);
        total += k;
    }
    return total > 0 ? (ssize_t)total : w->ended ? 0 : -EAGAIN;
}

static ssize_t mem_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct wire *w = &side_of(ep)->out;
    size_t total = 0;

    for (int i = 0; i < n; i++) {
        size_t room = w->len < ROOM ? ROOM - w->len : 0;
        size_t k = iov[i].iov_len < room ? iov[i].iov_len : room;
        memcpy(w->octets + w->len, iov[i].iov_base, k);
        w->len += k;
        total += k;
    }
    return total > 0 ? (ssize_t)total : -EAGAIN;
}

static void mem_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    (void)ep;
    (void)read;
    (void)write;
}

static void mem_shutdown(struct iwarp_endpoint *ep)
{
    side_of(ep)->out.ended = true;
}

static void mem_close(struct iwarp_endpoint *ep, bool reset)
{
    (void)reset;
    mem_shutdown(ep);
}

static uint32_t mem_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 1448;
}

static const struct iwarp_transport mem_transport = {"fuzz",       mem_readv, mem_writev, mem_watch,
                                                     mem_shutdown, mem_close, mem_emss,   NULL};

static void nothing(void *user)
{
    (void)user;
}

static void ready(void *user, bool readable, bool writable)
{
    (void)user;
    (void)readable;
    (void)writable;
}

static void open_side(struct side *s, bool responder)
{
    static struct iwarp_budget budget = {.limit = 1 << 20};
    const struct iwarp_tls_below below = {
        .ep = &s->ep, .budget = &budget, .responder = responder, .wake = nothing};

    memset(s, 0, sizeof *s);
    s->ep = (struct iwarp_endpoint){
        .ops = &mem_transport, .user = s, .ready = ready, .closed = nothing};
    s->tls = iwarp_tls_new(context, &below);
    FUZZ_EXPECT(s->tls != NULL);
}

static void close_side(struct side *s)
{
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s->tls);

    ep->ops->close(ep, s->failed);
    iwarp_tls_free(s->tls);
}

/* --- an end at work -------------------------------------------------------------------------- */

static unsigned char pattern(uint64_t at)
{
    return (unsigned char)(at * 131 + (at >> 8));
}

static void fails(struct side *s)
{
    char text[400];

    s->failed = true;
    FUZZ_EXPECT(iwarp_tls_fault(s->tls) != NULL);
    iwarp_fault_text(iwarp_tls_fault(s->tls), text, sizeof text);
    FUZZ_EXPECT(strchr(text, '{') == NULL);
}

static void read_all(struct side *s, const struct side *from)
{
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s->tls);
    unsigned char octets[5000];

    while (s->up && !s->failed && !s->over) {
        struct iovec iov[2] = {{octets, 700}, {octets + 700, sizeof octets - 700}};
        ssize_t n = ep->ops->readv(ep, iov, 2);
        if (n == -EAGAIN) {
            return;
        }
        if (n < 0) {
            fails(s);
        } else if (n == 0) {
            s->over = true;
        }
        for (ssize_t i = 0; i < n; i++) {
            FUZZ_EXPECT(octets[i] == pattern(s->read++));
        }
        FUZZ_EXPECT(!from || s->read <= from->wrote + 1); /* the last one may be told later */
    }
}

static void go_on(struct side *s, const struct side *from)
{
    if (!s->up && !s->failed) {
        enum iwarp_tls_step step = iwarp_tls_handshake(s->tls);
        s->up = step == IWARP_TLS_DONE;
        if (step == IWARP_TLS_FAILED) {
            fails(s);
        }
    }
    read_all(s, from);
}

static void write_some(struct side *s, size_t n)
{
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s->tls);
    unsigned char octets[256 * 67];
    struct iovec iov = {octets, n};

    if (!s->up || s->failed || s->ended || n == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        octets[i] = pattern(s->wrote + i);
    }
    ssize_t took = ep->ops->writev(ep, &iov, 1);
    FUZZ_EXPECT(took <= (ssize_t)n);
    s->wrote += took > 0 ? (uint64_t)took : 0;
}

/* --- somebody on the path -------------------------------------------------------------------- */

static void carry(struct side *from, struct side *to, size_t n)
{
    n = n < from->out.len ? n : from->out.len;
    n = n < WINDOW - to->in.len ? n : WINDOW - to->in.len;
    memcpy(to->in.octets + to->in.len, from->out.octets, n);
    to->in.len += n;
    take(&from->out, n);
    to->in.ended = to->in.ended || (from->out.ended && from->out.len == 0);
}

/* True: harm was done. */
static bool do_harm(struct wire *w, unsigned how, unsigned at)
{
    if (w->len == 0) {
        return false;
    }
    size_t n = at < w->len ? at + 1 : w->len;
    switch (how % 3) {
    case 0:
        w->octets[at * 61 % w->len] ^= (unsigned char)(1 + at % 128);
        break;
    case 1:
        memcpy(w->octets + w->len, w->octets, n); /* once more, and behind the rest */
        w->len += n;
        break;
    default:
        take(w, n);
    }
    return true;
}

static bool step(struct side s[2], unsigned op, unsigned arg)
{
    unsigned side = op & 1;
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s[side].tls);
    bool harm = false;

    switch (op >> 1 & 7) {
    case 0:
    case 1:
    case 2:
        carry(&s[side], &s[1 - side], arg == 255 ? WINDOW : arg * 16);
        break;
    case 3:
    case 4:
        write_some(&s[side], (size_t)arg * 67);
        break;
    case 5:
        harm = do_harm(&s[side].out, op >> 4, arg);
        break;
    case 6:
        if (s[side].up && !s[side].failed && arg > 200) {
            ep->ops->shutdown_write(ep);
            s[side].ended = true;
        }
        break;
    default:
        iwarp_tls_ready(s[side].tls, false, true);
    }
    go_on(&s[0], &s[1]);
    go_on(&s[1], &s[0]);
    return harm;
}

static void fuzz_path(const uint8_t *data, size_t size)
{
    static struct side s[2];
    bool harm = false;

    open_side(&s[0], false);
    open_side(&s[1], true);
    go_on(&s[0], &s[1]);
    for (size_t i = 0; i + 1 < size && i < 400; i += 2) {
        harm = step(s, data[i], data[i + 1]) || harm;
    }
    for (unsigned i = 0; i < 8; i++) {
        if (i < 4) { /* whoever was told that the transport is full comes again */
            write_some(&s[0], 1);
            write_some(&s[1], 1);
        }
        step(s, 0, 255);
        step(s, 1, 255);
        step(s, 14, 0);
        step(s, 15, 0);
    }
    if (!harm) {
        FUZZ_EXPECT(s[0].up && s[1].up && !s[0].failed && !s[1].failed);
        FUZZ_EXPECT(s[0].read >= s[1].wrote && s[1].read >= s[0].wrote);
    }
    close_side(&s[0]);
    close_side(&s[1]);
}

/* --- the others ------------------------------------------------------------------------------ */

static void fuzz_peer(const uint8_t *data, size_t size, bool responder)
{
    static struct side s;
    size_t piece = 1 + (size_t)data[0] * 8;

    open_side(&s, responder);
    go_on(&s, NULL);
    for (size_t at = 1; at < size && !s.failed; at += piece) {
        s.in.len = size - at < piece ? size - at : piece;
        memcpy(s.in.octets, data + at, s.in.len);
        go_on(&s, NULL);
        s.out.len = 0;
    }
    s.in.ended = true;
    go_on(&s, NULL);
    FUZZ_EXPECT(s.failed && !s.up); /* nobody guesses the key */
    close_side(&s);
}

static void fuzz_certificate(const uint8_t *data, size_t size)
{
    char identity[TLS_IDENTITY];
    X509 *cert = d2i_X509(NULL, &data, (long)size);

    if (cert) {
        memset(identity, 1, sizeof identity);
        iwarp_tls_cert_identity(cert, identity);
        FUZZ_EXPECT(memchr(identity, 0, sizeof identity));
        for (const char *c = identity; *c; c++) {
            FUZZ_EXPECT((unsigned char)*c >= ' ' && *c != 0x7f);
        }
        X509_free(cert);
    }
}

static void fuzz_text(const uint8_t *data, size_t size)
{
    char text[2048];
    struct tls_text parsed;

    memcpy(text, data, size < sizeof text ? size : sizeof text - 1);
    text[size < sizeof text ? size : sizeof text - 1] = '\0';
    if (iwarp_tls_text_parse(text, &parsed) == IWARP_OK) {
        FUZZ_EXPECT(!parsed.psk != !parsed.cert);
        FUZZ_EXPECT(parsed.rekey >= 1 && parsed.rekey <= TLS_REKEY);
        iwarp_tls_text_free(&parsed);
    }
}

static void fuzz_keys(const uint8_t *data, size_t size)
{
    struct tls_text text = {.psk = file_path};
    struct tls_creds creds = {.psk = NULL};
    int fd = open(file_path, O_WRONLY | O_TRUNC);

    FUZZ_EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    if (iwarp_tls_psk_read(&text, &creds) == IWARP_OK) {
        FUZZ_EXPECT(creds.psks > 0 && creds.psk_own == 0);
        for (unsigned i = 0; i < creds.psks; i++) {
            FUZZ_EXPECT(creds.psk[i].len >= 16 && creds.psk[i].len <= TLS_KEY_MAX);
            FUZZ_EXPECT(creds.psk[i].identity[0] != '\0');
        }
    }
    free(creds.psk);
}

/* --- entry ----------------------------------------------------------------------------------- */

static void clean_up(void)
{
    unlink(key_path);
    unlink(file_path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char line[] = "alice:000102030405060708090a0b0c0d0e0f\n";
    char text[100];
    int fd = mkstemp(key_path), other = mkstemp(file_path);

    (void)argc;
    (void)argv;
    FUZZ_EXPECT(fd >= 0 && other >= 0);
    FUZZ_EXPECT(write(fd, line, sizeof line - 1) == sizeof line - 1);
    close(fd);
    close(other);
    atexit(clean_up);
    snprintf(text, sizeof text, "psk=%s,rekey=3", key_path);
    iwarp_tls_store_init(&store);
    FUZZ_EXPECT(iwarp_tls_store_find(&store, text, &context) == IWARP_OK);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    switch (data[0] & 7) {
    case 0:
    case 1:
        fuzz_peer(data + 1, size - 1, (data[0] & 7) == 0);
        break;
    case 2:
        fuzz_certificate(data + 1, size - 1);
        break;
    case 3:
        fuzz_text(data + 1, size - 1);
        break;
    case 4:
        fuzz_keys(data + 1, size - 1);
        break;
    default:
        fuzz_path(data + 1, size - 1);
    }
    return 0;
}
