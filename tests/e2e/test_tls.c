/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS below MPA, between two connections of this library: who is let in and who is not, what either
 * end is told, what somebody on the path can see and do, and what the application may know.
 */
#include "raw_peer.h"
#include "relay.h"
#include "scratch.h"
#include "tls_files.h"
#include "verbs_pair.h"

#include "base/fault.h"

#include <stdlib.h>
#include <unistd.h>

/* --- two ends of a socket pair, so that either has a handle and events ------------------------ */

struct ends {
    struct iwarp_device *device;
    struct iwarp_eq *eq[2];
    struct pair_side side[2];
    struct relay relay;
    int raw; /* the other end, if it is none of ours; -1 */
};

enum { AREA = 65536 };

static void ends_open(struct ends *e)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.memory = AREA;
    memset(e, 0, sizeof *e);
    e->raw = -1;
    must(iwarp_device_open(&o.device, &e->device));
    for (int i = 0; i < 2; i++) {
        must(iwarp_eq_create(e->device, &e->eq[i]));
        pair_side_open(&e->side[i], e->device, &o);
    }
}

static void ends_close(struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        pair_side_close(&e->side[i]);
        must(iwarp_eq_destroy(e->eq[i]));
    }
    must(iwarp_device_close(e->device));
    if (e->raw >= 0) {
        close(e->raw);
    }
}

static void options(struct iwarp_conn_options *o, const char *tls)
{
    iwarp_conn_options_init(o);
    o->tls = tls;
    o->mpa_fallback = false;
    o->startup_timeout_ms = PAIR_WAIT_MS;
    o->close_timeout_ms = 2000;
}

static void begin(struct ends *e, int fd[2], const char *initiator, const char *responder)
{
    struct iwarp_conn_options o;

    options(&o, responder);
    must(iwarp_accept_socket(e->device, fd[1], NULL, 0, &o, e->eq[1], NULL, &e->side[1].conn));
    options(&o, initiator);
    must(iwarp_connect_socket(e->side[0].qp, fd[0], NULL, 0, &o, NULL, 0, e->eq[0], NULL,
                              &e->side[0].conn));
}

/* With the relay between them. */
static void ends_begin(struct ends *e, const char *initiator, const char *responder)
{
    int fd[2];

    relay_open(&e->relay, &fd[0], &fd[1]);
    begin(e, fd, initiator, responder);
}

static void ends_connect(struct ends *e, const char *initiator, const char *responder)
{
    ends_begin(e, initiator, responder);
    pair_event(e->eq[1], IWARP_EVENT_REQUEST);
    must(iwarp_accept(e->side[1].conn, e->side[1].qp, NULL, NULL, 0, NULL));
    pair_event(e->eq[0], IWARP_EVENT_ESTABLISHED);
    pair_event(e->eq[1], IWARP_EVENT_ESTABLISHED);
}

static void ends_over(struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        if (e->side[i].conn) {
            must(iwarp_conn_destroy(e->side[i].conn));
            e->side[i].conn = NULL;
        }
    }
    relay_close(&e->relay);
    relay_free(&e->relay);
    ends_close(e);
}

static void check_fault(const struct iwarp_fault *fault, enum iwarp_fault_code code)
{
    char text[400];

    iwarp_fault_text(fault, text, sizeof text);
    if (iwarp_fault_code(fault) != code) {
        fail_msg("expected %s: %s", iwarp_fault_name(code), text);
    }
    assert_null(strchr(text, '{'));
}

/* --- who is let in --------------------------------------------------------------------------- */

static void files(void)
{
    tls_files_ca("ca");
    tls_files_ca("strangers");
    tls_files_cert("server", "ca", "DNS:server.example,IP:127.0.0.1", -60, 3600);
    /* what comes first is of a kind that names nobody */
    tls_files_cert("client", "ca", "RID:1.2.3.4,DNS:client.example", -60, 3600);
    tls_files_cert("wild", "ca", "DNS:*.lab.example", -60, 3600);
    tls_files_cert("subject.example", "ca", NULL, -60, 3600);
    tls_files_cert("expired", "ca", "IP:127.0.0.1", -7200, -60);
    tls_files_cert("early", "ca", "IP:127.0.0.1", 3600, 7200);
    tls_files_cert("stranger", "strangers", "IP:127.0.0.1", -60, 3600);
    tls_files_psk();
    tls_files_text("other", "alice:ffff02030405060708090a0b0c0d0e0f\n");
    tls_files_text("nobody", "nobody:000102030405060708090a0b0c0d0e0f\n");
}

struct meeting {
    const char *initiator, *responder; /* %s are files */
    const char *peers[2];              /* that each sees; NULL: it fails */
    enum iwarp_fault_code faults[2];
    uint64_t alert; /* that one of them gets */
};

#define CLIENT   "cert=%s/client.pem,key=%s/client.key,ca=%s/ca.pem"
#define SERVER   "cert=%s/server.pem,key=%s/server.key,ca=%s/ca.pem"
#define AS(name) "cert=%s/" name ".pem,key=%s/" name ".key,ca=%s/ca.pem"

static const struct meeting good[] = {
    {CLIENT, SERVER, {"server.example", "client.example"}, {0}, 0},
    {CLIENT ",name=server.example", SERVER, {"server.example", "client.example"}, {0}, 0},
    {CLIENT ",name=SERVER.Example", SERVER, {"server.example", "client.example"}, {0}, 0},
    {CLIENT ",name=a.lab.example", AS("wild"), {"*.lab.example", "client.example"}, {0}, 0},
    {CLIENT ",allow=x,allow=server.example",
     SERVER ",allow=client.example",
     {"server.example", "client.example"},
     {0},
     0},
    {AS("subject.example"), SERVER, {"server.example", "CN=subject.example"}, {0}, 0},
    {"psk=%s/keys", "psk=%s/keys", {"alice", "alice"}, {0}, 0},
    {"psk=%s/keys,identity=bob", "psk=%s/keys,allow=bob", {"bob", "bob"}, {0}, 0},
};

#define WRONG_KEY 47 /* in OpenSSL 3.0; newer ones send 51, decrypt_error */

#define FAULTS(a, b) {IWARP_FAULT_##a, IWARP_FAULT_##b}

static const struct meeting bad[] = {
    /* certificates; an initiator is done before the responder has seen its own */
    {CLIENT ",name=other.example", SERVER, {0}, FAULTS(TLS_CERT_NAME, TLS_ALERT), 42},
    {CLIENT ",name=127.0.0.2", SERVER, {0}, FAULTS(TLS_CERT_NAME, TLS_ALERT), 42},
    {CLIENT ",name=lab.example", AS("wild"), {0}, FAULTS(TLS_CERT_NAME, TLS_ALERT), 42},
    {CLIENT ",name=a.b.lab.example", AS("wild"), {0}, FAULTS(TLS_CERT_NAME, TLS_ALERT), 42},
    {CLIENT ",name=subject.example",
     AS("subject.example"),
     {0},
     FAULTS(TLS_CERT_NAME, TLS_ALERT),
     42},
    {CLIENT, AS("client"), {0}, FAULTS(TLS_CERT_NAME, TLS_ALERT), 42},
    {CLIENT, AS("expired"), {0}, FAULTS(TLS_CERT_EXPIRED, TLS_ALERT), 45},
    {AS("expired"), SERVER, {0}, FAULTS(TLS_ALERT, TLS_CERT_EXPIRED), 45},
    {CLIENT, AS("early"), {0}, FAULTS(TLS_CERT_EARLY, TLS_ALERT), 42},
    {CLIENT, AS("stranger"), {0}, FAULTS(TLS_CERT_CA, TLS_ALERT), 48},
    {AS("stranger"), SERVER, {0}, FAULTS(TLS_ALERT, TLS_CERT_CA), 48},
    {CLIENT, SERVER ",allow=x", {0}, FAULTS(TLS_ALERT, TLS_FORBIDDEN), 40},
    {CLIENT ",allow=x", SERVER, {0}, FAULTS(TLS_FORBIDDEN, TLS_ALERT), 40},
    /* pre-shared keys */
    {"psk=%s/other", "psk=%s/keys", {0}, FAULTS(TLS_ALERT, TLS_PSK_KEY), WRONG_KEY},
    {"psk=%s/nobody", "psk=%s/keys", {0}, FAULTS(TLS_ALERT, TLS_PSK_UNKNOWN), 40},
    {"psk=%s/keys", "psk=%s/keys,allow=bob", {0}, FAULTS(TLS_ALERT, TLS_FORBIDDEN), 40},
    /* one of each */
    {CLIENT, "psk=%s/keys", {0}, FAULTS(TLS_ALERT, TLS_PSK_UNKNOWN), 40},
    {"psk=%s/keys", SERVER, {0}, FAULTS(TLS_NO_PSK, TLS_ALERT), 48},
    {CLIENT, "off", {0}, FAULTS(TLS_CLOSED, MPA_TLS), 0},
    {"off", SERVER, {0}, FAULTS(MPA_TLS, TLS_PLAIN), 0},
    {"off", "psk=%s/keys", {0}, FAULTS(MPA_TLS, TLS_PLAIN), 0},
};

static const char *context(const char *text)
{
    return tls_files_context(text);
}

static void check_info(const struct iwarp_conn *conn, const struct meeting *m, int side)
{
    struct iwarp_tls_info info = {.size = sizeof info};
    struct iwarp_conn_info mpa = {.size = sizeof mpa};

    must(iwarp_conn_tls(conn, &info));
    must(iwarp_conn_info(conn, &mpa));
    assert_string_equal(info.peer, m->peers[side]);
    assert_string_equal(info.own, m->peers[1 - side]);
    assert_int_equal(info.kind,
                     strncmp(m->initiator, "psk", 3) == 0 ? IWARP_TLS_PSK : IWARP_TLS_X509);
    assert_string_equal(info.cipher, "TLS_AES_128_GCM_SHA256");
    assert_true(info.alpn);
    assert_false(mpa.crc);
}

static void who__is_let_in__is_known_to_the_other_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct ends e;
        print_message("# %s, %s\n", good[i].initiator, good[i].responder);
        ends_open(&e);
        ends_connect(&e, context(good[i].initiator), context(good[i].responder));
        check_info(e.side[0].conn, &good[i], 0);
        check_info(e.side[1].conn, &good[i], 1);
        must(iwarp_disconnect(e.side[0].conn));
        must(iwarp_conn_wait_end(e.side[0].conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait_end(e.side[1].conn, PAIR_WAIT_MS));
        assert_null(iwarp_conn_fault(e.side[0].conn));
        assert_null(iwarp_conn_fault(e.side[1].conn));
        check_info(e.side[0].conn, &good[i], 0); /* still */
        ends_over(&e);
    }
}

static void who__is_not_let_in__is_told_why_and_so_is_the_other_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct iwarp_tls_info info = {.size = sizeof info};
        struct ends e;
        print_message("# %s, %s\n", bad[i].initiator, bad[i].responder);
        ends_open(&e);
        ends_begin(&e, context(bad[i].initiator), context(bad[i].responder));
        for (int k = 0; k < 2; k++) {
            const struct iwarp_fault *f = pair_event(e.eq[k], IWARP_EVENT_FAILED).fault;
            check_fault(f, bad[i].faults[k]);
            if (iwarp_fault_code(f) == IWARP_FAULT_TLS_ALERT) {
                assert_true(f->detail[0] == bad[i].alert ||
                            (bad[i].alert == WRONG_KEY && f->detail[0] == 51));
                assert_int_equal(iwarp_fault_side(f), IWARP_SIDE_PEER);
                must_fail(iwarp_conn_tls(e.side[k].conn, &info), IWARP_MISUSE, "failed");
            }
        }
        ends_over(&e);
    }
}

/* --- what somebody on the path can see and do ------------------------------------------------- */

static const char secret[] = "the treasure lies under the third palm from the left";

/* A Send and a Write of the secret from side k, with its STag in the Request of the Write. */
static void say_secret(struct ends *e, int k)
{
    struct pair_side *a = &e->side[k], *b = &e->side[1 - k];

    memcpy(a->p, secret, sizeof secret);
    pair_recv(b, 1, 1024, 512);
    pair_write(a, 2, 0, sizeof secret, b, 4096);
    pair_send(a, 3, 0, sizeof secret);
    pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 3, IWARP_WC_SUCCESS);
    pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p + 1024, secret, sizeof secret);
    assert_memory_equal(b->p + 4096, secret, sizeof secret);
}

static void path__sees__nothing_of_what_is_carried(void **state)
{
    const char *const words[] = {secret, "MPA ID Req Frame", "MPA ID Rep Frame"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        const char *text = i == 2 ? "off" : context(i == 0 ? "psk=%s/keys" : SERVER);
        struct ends e;
        ends_open(&e);
        ends_connect(&e, text, text);
        say_secret(&e, 0);
        say_secret(&e, 1);
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(relay_saw(&e.relay, (int)k, secret, sizeof secret - 1), i == 2);
            assert_int_equal(relay_saw(&e.relay, (int)k, words[1 + k], 16), i == 2);
            assert_true(e.relay.len[k] > 100);
        }
        ends_over(&e);
    }
}

struct harm {
    enum relay_harm harm;
    enum iwarp_fault_code fault;
};

/* The receiver says what was done to it; the sender sees an alert, or the end. */
static void path__changes_something__ends_the_stream(void **state)
{
    static const struct harm harms[] = {{RELAY_FLIP, IWARP_FAULT_TLS_RECORD},
                                        {RELAY_REPEAT, IWARP_FAULT_TLS_RECORD},
                                        {RELAY_CUT, IWARP_FAULT_TLS_TRUNCATED}};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof harms / sizeof *harms; i++) {
        const struct harm *h = &harms[i / 2];
        int to = (int)(i % 2);
        struct ends e;
        print_message("# harm %d to side %d\n", (int)h->harm, to);
        ends_open(&e);
        ends_connect(&e, context("psk=%s/keys"), context("psk=%s/keys"));
        say_secret(&e, 0);
        say_secret(&e, 1);
        e.relay.harm[1 - to] = h->harm;
        memcpy(e.side[1 - to].p, secret, sizeof secret);
        memset(e.side[to].p + 4096, 0, sizeof secret);
        pair_write(&e.side[1 - to], 9, 0, sizeof secret, &e.side[to], 4096);
        must(iwarp_conn_wait_end(e.side[to].conn, PAIR_WAIT_MS));
        check_fault(iwarp_conn_fault(e.side[to].conn), h->fault);
        if (h->harm == RELAY_FLIP) {
            assert_int_equal(e.side[to].p[4096], 0); /* nothing of it was placed */
        }
        must(iwarp_conn_wait_end(e.side[1 - to].conn, PAIR_WAIT_MS));
        assert_non_null(iwarp_conn_fault(e.side[1 - to].conn));
        ends_over(&e);
    }
}

/* A record that is missing shows with the next one. */
static void path__takes_something_away__ends_the_stream(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e);
    ends_connect(&e, context("psk=%s/keys"), context("psk=%s/keys"));
    say_secret(&e, 0);
    e.relay.harm[0] = RELAY_DROP;
    pair_write(&e.side[0], 9, 0, 16, &e.side[1], 4096);
    while (e.relay.harm[0] != RELAY_NONE) {
        usleep(1000);
    }
    pair_write(&e.side[0], 10, 0, 16, &e.side[1], 4096);
    must(iwarp_conn_wait_end(e.side[1].conn, PAIR_WAIT_MS));
    check_fault(iwarp_conn_fault(e.side[1].conn), IWARP_FAULT_TLS_RECORD);
    ends_over(&e);
}

/* --- peers that are none --------------------------------------------------------------------- */

static void accept_raw(struct ends *e, unsigned ms)
{
    struct iwarp_conn_options o;
    struct sockaddr_in at;
    int listener = raw_listen(&at), fd;

    options(&o, context(SERVER));
    o.startup_timeout_ms = 2 * ms;
    e->raw = raw_connect(&at);
    fd = raw_accept(listener);
    close(listener);
    must(iwarp_accept_socket(e->device, fd, NULL, 0, &o, e->eq[1], NULL, &e->side[1].conn));
}

static void peer__that_speaks_no_tls__is_refused(void **state)
{
    static const struct {
        const char *text;
        enum iwarp_fault_code fault;
        uint64_t first;
    } cases[] = {{"GET / HTTP/1.1\r\n\r\n", IWARP_FAULT_TLS_NOT_TLS, 0x47455420},
                 {"MPA ID Req Frame....", IWARP_FAULT_TLS_PLAIN, 0},
                 {"\x80\x2e\x01\x03\x01\x00\x15 old", IWARP_FAULT_TLS_NOT_TLS, 0x802e0103}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ends e;
        ends_open(&e);
        accept_raw(&e, PAIR_WAIT_MS);
        raw_send(e.raw, cases[i].text, strlen(cases[i].text) + 1);
        const struct iwarp_fault *f = pair_event(e.eq[1], IWARP_EVENT_FAILED).fault;
        check_fault(f, cases[i].fault);
        assert_int_equal(f->detail[0], cases[i].first);
        raw_drain(e.raw);
        ends_close(&e);
    }
}

/* Each sentence has OpenSSL's words, not only its number. */
static void peer__that_sends_wrong_records__is_refused_in_words(void **state)
{
#define HEAD "\x16\x03\x01"
    static const struct {
        const char *octets;
        size_t len;
        enum iwarp_fault_code fault;
        const char *words;
    } cases[] = {
        {HEAD "\xff\xff", 5, IWARP_FAULT_TLS_RECORD, " length too long (OpenSSL's error 0x0a0000"},
        {HEAD "\x48\x01", 5, IWARP_FAULT_TLS_RECORD, " length too long (OpenSSL's error 0x0a0000"},
        {HEAD "\0\4\1\0\0\x20\x16\x09\x01\0\1", 14, IWARP_FAULT_TLS_RECORD, "wrong version number"},
        {HEAD "\0\4\2\0\0\0", 9, IWARP_FAULT_TLS_FAILED, "TLS failed: unexpected message"},
        {HEAD "\0\6\1\0\0\2\3\3", 11, IWARP_FAULT_TLS_FAILED, "TLS failed: length mismatch"},
    };
#undef HEAD

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ends e;
        char text[400];
        ends_open(&e);
        accept_raw(&e, PAIR_WAIT_MS);
        raw_send(e.raw, cases[i].octets, cases[i].len);
        const struct iwarp_fault *f = pair_event(e.eq[1], IWARP_EVENT_FAILED).fault;
        check_fault(f, cases[i].fault);
        iwarp_fault_text(f, text, sizeof text);
        print_message("# %s\n", text);
        assert_non_null(strstr(text, cases[i].words));
        raw_drain(e.raw);
        ends_close(&e);
    }
}

static void peer__that_says_nothing__is_given_up(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e);
    accept_raw(&e, 100);
    check_fault(pair_event(e.eq[1], IWARP_EVENT_FAILED).fault, IWARP_FAULT_TLS_TIMEOUT);
    raw_expect_fin(e.raw, "after the time is up");
    ends_close(&e);
}

static void peer__that_goes_away_in_the_handshake__is_noticed(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e);
    accept_raw(&e, PAIR_WAIT_MS);
    raw_send(e.raw, "\x16\x03\x01\x02", 4);
    raw_fin(e.raw);
    check_fault(pair_event(e.eq[1], IWARP_EVENT_FAILED).fault, IWARP_FAULT_TLS_CLOSED);
    ends_close(&e);
}

/* --- octets ---------------------------------------------------------------------------------- */

/* The kernel's TLS cannot follow, and says so (make interop-tls). */
static void expect_key_update(struct ends *e)
{
    pair_write(&e->side[0], 5, 0, 16, &e->side[1], 0);
    pair_write(&e->side[0], 6, 0, 16, &e->side[1], 0);
    must(iwarp_conn_wait_end(e->side[1].conn, PAIR_WAIT_MS));
    check_fault(iwarp_conn_fault(e->side[1].conn), IWARP_FAULT_TLS_KEY_UPDATE);
}

/* A new key for each record of either direction. */
static void keys__that_change_all_the_time__change_nothing(void **state)
{
    struct iwarp_tls_info info = {.size = sizeof info};
    struct ends e;

    (void)state;
    ends_open(&e);
    ends_connect(&e, context("psk=%s/keys,rekey=1"), context("psk=%s/keys,rekey=3"));
    must(iwarp_conn_tls(e.side[1].conn, &info));
    assert_false(info.kernel_sends);
    if (info.kernel_receives) {
        expect_key_update(&e);
        ends_over(&e);
        return;
    }
    for (unsigned i = 0; i < 50; i++) {
        say_secret(&e, (int)(i % 2));
        pair_fill(e.side[0].p, AREA, i);
        pair_write(&e.side[0], 5, 0, AREA, &e.side[1], 0);
        pair_read(&e.side[1], 6, 0, AREA, &e.side[0], 0);
        pair_wc(e.side[0].send_cq, 5, IWARP_WC_SUCCESS);
        pair_wc(e.side[1].send_cq, 6, IWARP_WC_SUCCESS);
        assert_memory_equal(e.side[0].p, e.side[1].p, AREA);
    }
    ends_over(&e);
}

static void crc__is_on__if_one_end_asks_for_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_conn_info info = {.size = sizeof info};
        struct ends e;
        ends_open(&e);
        ends_connect(&e, context(i & 1 ? "psk=%s/keys,crc=on" : "psk=%s/keys"),
                     context(i & 2 ? "psk=%s/keys,crc=on" : "psk=%s/keys"));
        must(iwarp_conn_info(e.side[i % 2].conn, &info));
        assert_int_equal(info.crc, i != 0);
        say_secret(&e, 0);
        ends_over(&e);
    }
}

/* --- files and texts ------------------------------------------------------------------------- */

/* A second pair of queue pairs between the same devices. */
static void ends_again(const struct ends *e, struct ends *later)
{
    *later = (struct ends){.device = e->device, .eq = {e->eq[0], e->eq[1]}};
    for (int i = 0; i < 2; i++) {
        struct pair_options o;
        pair_options_init(&o, PAIR_TCP4);
        o.memory = AREA;
        pair_side_open(&later->side[i], e->device, &o);
    }
}

static void files__that_change__are_read_again(void **state)
{
    struct ends e, later;

    (void)state;
    tls_files_cert("moving", "ca", "DNS:before,IP:127.0.0.1", -60, 3600);
    ends_open(&e);
    ends_connect(&e, context(CLIENT), context(AS("moving")));
    say_secret(&e, 0);
    usleep(1100000); /* files are looked at once a second */
    tls_files_cert("moving", "ca", "DNS:after,IP:127.0.0.1", -60, 3600);
    ends_again(&e, &later);
    ends_connect(&later, context(CLIENT), context(AS("moving")));
    struct iwarp_tls_info info = {.size = sizeof info};
    must(iwarp_conn_tls(later.side[0].conn, &info));
    assert_string_equal(info.peer, "after");
    must(iwarp_conn_tls(e.side[0].conn, &info));
    assert_string_equal(info.peer, "before");
    say_secret(&later, 0);
    say_secret(&e, 0);
    for (int i = 0; i < 2; i++) {
        pair_side_close(&later.side[i]);
    }
    relay_close(&later.relay);
    relay_free(&later.relay);
    ends_over(&e);
}

/* Half of a new certificate is not used, and the old one stays. */
static void files__that_are_wrong_later__are_left_aside(void **state)
{
    struct ends e;

    (void)state;
    tls_files_cert("moving", "ca", "DNS:before,IP:127.0.0.1", -60, 3600);
    ends_open(&e);
    ends_connect(&e, context(CLIENT), context(AS("moving")));
    usleep(1100000);
    tls_files_text("moving.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    struct ends later;
    ends_again(&e, &later);
    ends_connect(&later, context(CLIENT), context(AS("moving")));
    for (int i = 0; i < 2; i++) {
        pair_side_close(&later.side[i]);
    }
    relay_close(&later.relay);
    relay_free(&later.relay);
    ends_over(&e);
}

static void text__that_is_wrong__is_refused_with_a_sentence(void **state)
{
    static const char *const cases[][2] = {
        {"psk", "no value"},
        {"psk=", "no value"},
        {"nonsense=1", "unknown word"},
        {"crc=on", "neither"},
        {"psk=%s/keys,cert=%s/server.pem,ca=%s/ca.pem", "both"},
        {"cert=%s/server.pem", "without ca"},
        {"psk=%s/keys,name=x", "go with cert"},
        {AS("server") ",identity=x", "goes with psk"},
        {"psk=%s/keys,crc=maybe", "on or off"},
        {"psk=%s/keys,rekey=0", "expected 1 to"},
        {"psk=%s/keys,rekey=x", "expected 1 to"},
        {"psk=%s/missing", "cannot read"},
        {"psk=%s/keys,identity=carol", "no key for identity"},
        {"psk=%s/empty", "has no key"},
        {"psk=%s/short", "line 2: expected a key"},
        {"psk=%s/odd", "line 1: expected a key"},
        {"psk=%s/letters", "line 1: expected a key"},
        {"psk=%s/colon", "line 1: expected IDENTITY:KEY"},
        {"cert=%s/server.pem,key=%s/client.key,ca=%s/ca.pem", "private key"},
        {"cert=%s/missing,key=%s/client.key,ca=%s/ca.pem", "certificate"},
        {"cert=%s/server.pem,key=%s/server.key,ca=%s/keys", "CA file"},
        {"cert=%s/server.pem,ca=%s/ca.pem", "private key"}};

    (void)state;
    tls_files_text("empty", "# nothing\n\n");
    tls_files_text("short", "a:000102030405060708090a0b0c0d0e0f\nb:00\n");
    tls_files_text("odd", "a:000102030405060708090a0b0c0d0e0f0\n");
    tls_files_text("letters", "a:000102030405060708090a0b0c0d0e0g\n");
    tls_files_text("colon", ":000102030405060708090a0b0c0d0e0f\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct iwarp_device_options o;
        struct iwarp_device *device;
        iwarp_device_options_init(&o);
        o.tls = context(cases[i][0]);
        must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, cases[i][1]);
    }
}

/* A key must never be repeated, by an error or the log. */
static void text__of_a_wrong_key__is_not_repeated(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;

    (void)state;
    tls_files_text("wrong", "cafe5ec3e7\n");
    iwarp_device_options_init(&o);
    o.tls = context("psk=%s/wrong");
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "line 1");
    assert_null(strstr(iwarp_last_error(), "cafe"));
}

static void device__has_tls__and_a_connection_may_be_plain(void **state)
{
    struct iwarp_tls_info info = {.size = sizeof info};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_TCP4);
        o.device.tls = context("psk=%s/keys");
        o.conn[0].tls = o.conn[1].tls = i ? "off" : NULL;
        pair_open(&p, &o);
        must(iwarp_conn_tls(p.side[1].conn, &info));
        assert_int_equal(info.kind, i ? IWARP_TLS_NONE : IWARP_TLS_PSK);
        assert_string_equal(info.peer, i ? "" : "alice");
        pair_close(&p);
    }
}

static int setup(void **state)
{
    int rc = scratch_setup(state);

    files();
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who__is_let_in__is_known_to_the_other_end),
        cmocka_unit_test(who__is_not_let_in__is_told_why_and_so_is_the_other_end),
        cmocka_unit_test(path__sees__nothing_of_what_is_carried),
        cmocka_unit_test(path__changes_something__ends_the_stream),
        cmocka_unit_test(path__takes_something_away__ends_the_stream),
        cmocka_unit_test(peer__that_speaks_no_tls__is_refused),
        cmocka_unit_test(peer__that_sends_wrong_records__is_refused_in_words),
        cmocka_unit_test(peer__that_says_nothing__is_given_up),
        cmocka_unit_test(peer__that_goes_away_in_the_handshake__is_noticed),
        cmocka_unit_test(keys__that_change_all_the_time__change_nothing),
        cmocka_unit_test(crc__is_on__if_one_end_asks_for_it),
        cmocka_unit_test(files__that_change__are_read_again),
        cmocka_unit_test(files__that_are_wrong_later__are_left_aside),
        cmocka_unit_test(text__that_is_wrong__is_refused_with_a_sentence),
        cmocka_unit_test(text__of_a_wrong_key__is_not_repeated),
        cmocka_unit_test(device__has_tls__and_a_connection_may_be_plain),
    };

    return cmocka_run_group_tests_name("tls", tests, setup, scratch_teardown);
}
