/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection over lwIP with a peer that is nothing but frames: segments that lwIP alone would
 * answer with the end of the process, or a worker with the whole of a processor; memory that is
 * kept or touched for too long; neighbours, ports and links that come to an end.
 */
#include "frame_peer.h"
#include "verbs_pair.h"

#include <stdio.h>

#ifdef IWARP_HAVE_LWIP

#include "base/guard.h"
#include "base/process.h"
#include "transport/lwip/core.h"

#include <arpa/inet.h>
#include <lwip/etharp.h>
#include <lwip/nd6.h>
#include <lwip/priv/tcp_priv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct iwarp_stack *stack;
static struct iwarp_seat *seat;
static struct iwarp_acceptor *acceptor;
static struct iwarp_endpoint *ep;
static unsigned upcalls;

static void on_event(void *user)
{
    (void)user;
}

static const uint8_t octets[65536];

/* As a stream does that has much to send. */
static void on_ready(void *user, bool readable, bool writable)
{
    struct iovec iov = {(void *)(uintptr_t)octets, sizeof octets};

    (void)user;
    (void)readable;
    upcalls++;
    if (writable) {
        (void)ep->ops->writev(ep, &iov, 1);
        ep->ops->watch(ep, true, true);
    }
}

/* The peer connects with the options that are set. */
static void begin_endpoint(void)
{
    const size_t options = peer.options_len;
    union iwarp_arrival arrival;
    struct sockaddr_storage from;
    socklen_t len;

    assert_int_equal(stack->ops->join(stack, &seat), 0);
    stack->ops->sit(seat, &peer.loop);
    assert_int_equal(stack->ops->listen(stack, (const struct sockaddr *)&peer_calls,
                                        sizeof peer_calls, 8, &acceptor),
                     0);
    acceptor->ready = acceptor->closed = on_event;
    assert_int_equal(stack->ops->open(acceptor, seat), 0);
    peer_introduce();
    peer.options_len = options;
    peer_connect(2000);
    assert_int_equal(stack->ops->accept(acceptor, &arrival, &from, &len), 0);
    assert_int_equal(stack->ops->attach(seat, arrival, &ep), 0);
    ep->ready = on_ready;
    ep->closed = on_event;
    ep->ops->watch(ep, false, false);
}

static void open_endpoint(void)
{
    int link;
    const char *text = peer_new_wire(&link);

    iwarp_process_watch();
    assert_int_equal(iwarp_guard_install(), 0);
    must(iwarp_stack_open(text, &stack));
    close(link);
    begin_endpoint();
}

static void close_endpoint(void)
{
    peer.window = 65535;
    ep->ops->close(ep, true);
    stack->ops->unlisten(acceptor);
    stack->ops->leave(seat, on_event, NULL);
    uv_run(&peer.loop, UV_RUN_DEFAULT);
    stack->ops->close(stack);
    assert_int_equal(uv_loop_close(&peer.loop), 0);
    close(peer.wire);
}

static ssize_t write_octets(const void *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};
    ssize_t taken = ep->ops->writev(ep, &iov, 1);

    peer_run();
    return taken;
}

/* lwIP's timers have time for `ms`. */
static void wait_ms(unsigned ms)
{
    for (unsigned i = 0; i < ms; i += 10) {
        usleep(10000);
        peer_run();
    }
}

/* A smaller one is believed of a segment behind the one that said the last one. */
static void set_window(uint16_t window)
{
    peer_send(FRAME_ACK, peer.seq++, "W");
    peer.window = window;
    peer_send(FRAME_ACK, peer.seq++, "W");
}

/* lwIP takes the option wherever it is, and insists that what it has cut already is no larger. */
static void mss__in_a_later_segment__is_not_believed(void **state)
{
    (void)state;
    open_endpoint();
    set_window(4000);
    assert_int_equal(write_octets(octets, 20000), 20000);
    peer_put_mss(100);
    peer_send(FRAME_ACK, peer.seq, "");
    assert_int_equal(write_octets(octets, 20000), 20000);
    close_endpoint();
}

/* The only octet that is left goes as a question about the window, and is taken. */
static void question__about_a_closed_window__may_be_answered_with_all_acknowledged(void **state)
{
    (void)state;
    open_endpoint();
    set_window(0);
    uint32_t before = peer.ack;
    assert_int_equal(write_octets(octets, 1), 1);
    for (int i = 0; i < 500 && peer.ack == before; i++) {
        wait_ms(10);
    }
    assert_int_equal(peer.ack, before + 1);
    peer_send(FRAME_ACK, peer.seq, "");
    wait_ms(2500);
    close_endpoint();
}

/* Out of order, from the window's last octets to behind it; then what was missing. */
static void segment__out_of_order_and_beyond_the_window__is_cut(void **state)
{
    const size_t step = 1400;
    (void)state;
    for (unsigned fin = 0; fin < 2; fin++) {
        open_endpoint();
        LOCK_TCPIP_CORE();
        uint32_t right = tcp_active_pcbs->rcv_nxt + tcp_active_pcbs->rcv_wnd;
        UNLOCK_TCPIP_CORE();
        uint32_t gap = fin ? 10 + step : 600;
        while (right - peer.seq > gap + step) {
            peer_send_octets(FRAME_ACK, peer.seq, octets, step);
            peer.seq += step;
            uv_run(&peer.loop, UV_RUN_NOWAIT);
        }
        size_t rest = right - gap - peer.seq;
        peer_send_octets(FRAME_ACK, peer.seq, octets, rest);
        peer.seq += (uint32_t)rest;
        peer_send_octets(FRAME_ACK | (fin ? FRAME_FIN : 0), peer.seq + 10, octets, step);
        peer_run();
        peer_send_octets(FRAME_ACK, peer.seq, octets, fin ? step : 10);
        peer_run();
        close_endpoint();
    }
}

/* Segments of one octet would fill the queue of packet buffers with less than one write. */
static void tiny_segments__asked_for_by_the_peer__cost_no_processor(void **state)
{
    (void)state;
    for (unsigned window = 0; window < 2; window++) {
        if (!window) {
            peer_put_mss(1);
        }
        peer.window = window ? 2 : 65535;
        open_endpoint();
        upcalls = 0;
        uint32_t before = peer.ack;
        ep->ops->watch(ep, true, true);
        for (int i = 0; i < 1000; i++) {
            peer_run();
        }
        assert_in_range(upcalls, 1, 20);
        if (!window) {
            assert_in_range(peer.ack - before, 100, 10000);
        }
        close_endpoint();
    }
}

static uint8_t octet_at(size_t i)
{
    return (uint8_t)(i * 7 + (i >> 8));
}

static unsigned waiting_buffers(void)
{
    unsigned n = 0;

    LOCK_TCPIP_CORE();
    for (const struct pbuf *p = ((struct iwarp_lw_endpoint *)(void *)ep)->first; p; p = p->next) {
        n++;
    }
    UNLOCK_TCPIP_CORE();
    return n;
}

/* Tiny ones alone, and in turn with larger ones; some are lent while more come. */
static void segments__tiny_and_unread__share_packet_buffers(void **state)
{
    static uint8_t got[40000];
    uint8_t data[1000];
    struct iovec iov[4];
    size_t sent = 0, taken = 0;

    (void)state;
    open_endpoint();
    while (sent < sizeof got) {
        size_t n = sent < 20000 ? 1 : 1 + sent % 600;
        n = n < sizeof got - sent ? n : sizeof got - sent;
        for (size_t i = 0; i < n; i++) {
            data[i] = octet_at(sent + i);
        }
        peer_send_octets(FRAME_ACK, peer.seq, data, n);
        peer.seq += (uint32_t)n;
        sent += n;
        peer_run();
        if (sent == 10000) {
            unsigned pieces = 4;
            ssize_t lent = ep->loans->borrow(ep, iov, &pieces);
            assert_in_range(lent, 3, 4 * 512);
            peer_send(FRAME_ACK, peer.seq, "");
            for (unsigned k = 0; k < pieces; taken += iov[k++].iov_len) {
                memcpy(got + taken, iov[k].iov_base, iov[k].iov_len);
            }
            ep->loans->give_back(ep, taken, 0);
        }
    }
    assert_in_range(waiting_buffers(), 1, 200);
    while (taken < sent) {
        struct iovec to = {got + taken, 777};
        ssize_t n = ep->ops->readv(ep, &to, 1);
        assert_true(n > 0);
        taken += (size_t)n;
    }
    for (size_t i = 0; i < sizeof got; i++) {
        assert_int_equal(got[i], octet_at(i));
    }
    close_endpoint();
}

static unsigned references_to(const struct tcp_seg *seg, const uint8_t *p, size_t n)
{
    unsigned found = 0;

    for (; seg; seg = seg->next) {
        for (const struct pbuf *b = seg->p; b; b = b->next) {
            found += (uintptr_t)b->payload - (uintptr_t)p < n;
        }
    }
    return found;
}

/* Both ends say FIN at once, and the peer acknowledges nothing: lwIP has the rest alone. */
static void octets__referred_to_when_both_have_said_fin__are_copied(void **state)
{
    const uint32_t fpdus[] = {1400, 1400, 1400};
    const struct iovec iov = {(void *)(uintptr_t)octets, 4200};
    const struct iwarp_burst burst = {
        .size = sizeof burst, .iov = &iov, .n = 1, .fpdus = fpdus, .fpdu_count = 3};

    (void)state;
    open_endpoint();
    uint32_t ack = peer.ack;
    assert_int_equal(ep->loans->refer(ep, &burst), 4200);
    ep->ops->shutdown_write(ep);
    peer_run();
    peer.ack = ack;
    peer_send(FRAME_ACK | FRAME_FIN, peer.seq, "");
    LOCK_TCPIP_CORE();
    const struct tcp_pcb *pcb = tcp_active_pcbs;
    bool waits = pcb->state == CLOSING && pcb->unacked;
    unsigned found = references_to(pcb->unacked, octets, sizeof octets) +
                     references_to(pcb->unsent, octets, sizeof octets);
    UNLOCK_TCPIP_CORE();
    assert_true(waits);
    assert_int_equal(found, 0);
    assert_int_equal(ep->loans->released(ep), 4200);
    close_endpoint();
}

/* The peer's station is not known at that moment, so lwIP keeps the frames until it is. */
static void octets__forsaken_while_the_station_is_asked_for__are_not_touched(void **state)
{
    static uint8_t memory[400];
    const uint32_t fpdu = sizeof memory;
    const struct iovec iov = {memory, sizeof memory};
    const struct iwarp_burst burst = {
        .size = sizeof burst, .iov = &iov, .n = 1, .fpdus = &fpdu, .fpdu_count = 1};
    uint8_t f[2000];
    ssize_t n;
    unsigned frames = 0;

    (void)state;
    open_endpoint();
    memset(memory, 'a', sizeof memory);
    LOCK_TCPIP_CORE();
    etharp_cleanup_netif(netif_list);
    UNLOCK_TCPIP_CORE();
    assert_int_equal(ep->loans->refer(ep, &burst), sizeof memory);
    ep->loans->forsake(ep);
    memset(memory, 'b', sizeof memory);
    assert_int_equal(send(peer.wire, frame_question, sizeof frame_question, 0),
                     sizeof frame_question);
    uv_run(&peer.loop, UV_RUN_NOWAIT);
    while ((n = recv(peer.wire, f, sizeof f, MSG_DONTWAIT)) > 0) {
        if (n > 400) {
            frames++;
            assert_int_equal(f[n - 1], 'a');
            assert_int_equal(f[n - 400], 'a');
        }
    }
    assert_int_equal(frames, 1);
    close_endpoint();
}

/* The listener at the other address of the same port has no room for anybody. */
static void listener__with_room__is_not_held_up_by_another_of_its_port(void **state)
{
    const struct sockaddr_in6 at6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(FRAME_PORT), .sin6_addr = {{{0xfd, [15] = 1}}}};
    struct iwarp_acceptor *other;
    union iwarp_arrival arrival;
    struct sockaddr_storage from;
    socklen_t len;

    (void)state;
    open_endpoint();
    assert_int_equal(
        stack->ops->listen(stack, (const struct sockaddr *)&at6, sizeof at6, 0, &other), 0);
    peer_connect(2001);
    assert_int_equal(stack->ops->accept(acceptor, &arrival, &from, &len), 0);
    stack->ops->refuse(stack, arrival, true);
    stack->ops->unlisten(other);
    close_endpoint();
}

/* As many as docs/transport.md says. */
static void neighbours__on_one_link__are_all_remembered(void **state)
{
#ifdef IWARP_OWN_LWIP
    const unsigned most = 127;
#else
    const unsigned most = 10;
#endif
    uint8_t f[sizeof frame_question];
    unsigned found = 0;

    (void)state;
    open_endpoint();
    for (unsigned i = 0; i < most; i++) {
        memcpy(f, frame_question, sizeof f);
        f[11] = f[27] = f[31] = (uint8_t)(2 + i);
        assert_int_equal(send(peer.wire, f, sizeof f, 0), sizeof f);
        peer_run();
    }
    for (unsigned i = 0; i < most; i++) {
        const ip4_addr_t addr = {htonl(0x0a090002 + i)}, *ip;
        struct eth_addr *station;
        LOCK_TCPIP_CORE();
        found += etharp_find_addr(netif_list, &addr, &station, &ip) >= 0;
        UNLOCK_TCPIP_CORE();
    }
    assert_int_equal(found, most);
    close_endpoint();
}

/* Behind the last port come those of connections that last, more than were tried once. */
static void ports__after_all_were_had__are_those_that_are_free(void **state)
{
    struct sockaddr_in far = peer_calls;
    const struct iwarp_way way = {
        .addr = (const struct sockaddr *)&far, .addr_len = sizeof far, .traffic_class = -1};
    static struct iwarp_endpoint *lasting[1500];
    const unsigned most = sizeof lasting / sizeof *lasting;

    (void)state;
    open_endpoint();
    far.sin_addr.s_addr = htonl(0x0a090002);
    for (unsigned i = 0; i < 17000; i++) {
        struct iwarp_endpoint *other;
        assert_int_equal(stack->ops->connect(seat, &way, &other), 0);
        other->closed = on_event;
        if (i < most) {
            lasting[i] = other;
        } else {
            other->ops->close(other, true);
        }
        if (i % 64 == 0) {
            peer_run();
        }
    }
    for (unsigned i = 0; i < most; i++) {
        lasting[i]->ops->close(lasting[i], true);
    }
    close_endpoint();
}

/* The worker that came last has no connection, so it does not look at the link. */
static void link__that_was_full__is_watched_by_a_worker_that_reads(void **state)
{
    const struct iovec iov = {(void *)(uintptr_t)octets, 3 * 1460}; /* one flight */
    const int least = 1;
    struct iwarp_seat *idle;

    (void)state;
    peer_put_mss(1460);
    open_endpoint();
    assert_int_equal(stack->ops->join(stack, &idle), 0);
    stack->ops->sit(idle, &peer.loop);
    int link = ((struct iwarp_lw_stack *)(void *)stack)->netif->link->fd;
    assert_int_equal(setsockopt(link, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    for (int i = 0; i < 5; i++) { /* a timer of lwIP may come in between */
        uint32_t before = peer.ack;
        assert_int_equal(ep->ops->writev(ep, &iov, 1), iov.iov_len);
        wait_ms(30);
        assert_int_equal(peer.ack - before, iov.iov_len);
        peer_send(FRAME_ACK, peer.seq, "");
    }
    stack->ops->leave(idle, on_event, NULL);
    close_endpoint();
}

/* A switch ends and comes back; the device that had the first one is closed late. */
static void link__that_came_back__is_had_by_a_new_device_with_the_same_text(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct iwarp_stack *first;
    char text[200];
    int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    (void)state;
    snprintf(un.sun_path, sizeof un.sun_path, "%s/switch.%d", getenv("TMPDIR"), (int)getpid());
    snprintf(text, sizeof text, "lwip:unix=%s,addr=10.9.0.1/24", un.sun_path);
    assert_int_equal(bind(listening, (const struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(listening, 2), 0);
    iwarp_process_watch();
    assert_int_equal(iwarp_guard_install(), 0);
    uv_loop_init(&peer.loop);
    must(iwarp_stack_open(text, &first));
    close(accept(listening, NULL, NULL));
    LOCK_TCPIP_CORE();
    (void)iwarp_lw_netif_input(((struct iwarp_lw_stack *)(void *)first)->netif);
    UNLOCK_TCPIP_CORE();
    must(iwarp_stack_open(text, &stack));
    assert_ptr_not_equal(((struct iwarp_lw_stack *)(void *)first)->netif,
                         ((struct iwarp_lw_stack *)(void *)stack)->netif);
    peer.wire = accept(listening, NULL, NULL);
    begin_endpoint();
    first->ops->close(first);
    assert_int_equal(write_octets("alive", 5), 5);
    close_endpoint();
    close(listening);
    unlink(un.sun_path);
}

/* What a router says that is not there: fd00::1 has sent something too large to fd00::2. */
static void send_too_big(uint32_t mtu)
{
    const struct in6_addr from = {{{0xfd, [15] = 2}}}, to = {{{0xfd, [15] = 1}}};
    uint8_t f[14 + 40 + 48] = {0}, *icmp = f + 54;

    memcpy(f, peer.mac, 6);
    memcpy(f + 6, frame_own_mac, 6);
    frame_put(f + 12, 0x86dd, 2);
    f[14] = 0x60;
    frame_put(f + 18, 48, 2);
    f[20] = 58;
    f[21] = 64;
    memcpy(f + 22, &from, 16);
    memcpy(f + 38, &to, 16);
    icmp[0] = 2;
    frame_put(icmp + 4, mtu, 4);
    icmp[8] = 0x60;
    memcpy(icmp + 16, &to, 16);
    memcpy(icmp + 32, &from, 16);
    frame_put(icmp + 2, frame_checksum(f + 22, sizeof f - 22, 58 + 48), 2);
    assert_int_equal(send(peer.wire, f, sizeof f, 0), sizeof f);
    peer_run();
}

/* Any station could send one. lwIP would believe it, and the next connection would have segments of
 * no octets. */
static void packet_too_big__beyond_what_can_be__is_not_believed(void **state)
{
    static const uint32_t said[] = {0, 41, 60, 1279, 1501, 65535, UINT32_MAX, 1400};
    const struct sockaddr_in6 far = {
        .sin6_family = AF_INET6, .sin6_port = htons(FRAME_PORT), .sin6_addr = {{{0xfd, [15] = 2}}}};
    const struct iwarp_way way = {
        .addr = (const struct sockaddr *)&far, .addr_len = sizeof far, .traffic_class = -1};
    struct iwarp_endpoint *other;
    ip6_addr_t addr;

    (void)state;
    open_endpoint();
    assert_int_equal(stack->ops->connect(seat, &way, &other), 0);
    other->closed = on_event;
    peer_run();
    memset(&addr, 0, sizeof addr);
    memcpy(addr.addr, &far.sin6_addr, sizeof addr.addr);
    for (unsigned i = 0; i < sizeof said / sizeof *said; i++) {
        send_too_big(said[i]);
        LOCK_TCPIP_CORE();
        unsigned mtu = nd6_get_destination_mtu(&addr, netif_list);
        UNLOCK_TCPIP_CORE();
        assert_int_equal(mtu, said[i] == 1400 ? 1400 : 1500);
    }
    other->ops->close(other, true);
    close_endpoint();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mss__in_a_later_segment__is_not_believed),
        cmocka_unit_test(question__about_a_closed_window__may_be_answered_with_all_acknowledged),
        cmocka_unit_test(segment__out_of_order_and_beyond_the_window__is_cut),
        cmocka_unit_test(tiny_segments__asked_for_by_the_peer__cost_no_processor),
        cmocka_unit_test(segments__tiny_and_unread__share_packet_buffers),
        cmocka_unit_test(octets__referred_to_when_both_have_said_fin__are_copied),
        cmocka_unit_test(octets__forsaken_while_the_station_is_asked_for__are_not_touched),
        cmocka_unit_test(listener__with_room__is_not_held_up_by_another_of_its_port),
        cmocka_unit_test(neighbours__on_one_link__are_all_remembered),
        cmocka_unit_test(ports__after_all_were_had__are_those_that_are_free),
        cmocka_unit_test(link__that_was_full__is_watched_by_a_worker_that_reads),
        cmocka_unit_test(link__that_came_back__is_had_by_a_new_device_with_the_same_text),
        cmocka_unit_test(packet_too_big__beyond_what_can_be__is_not_believed),
    };
    return cmocka_run_group_tests_name("lwip_frames", tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without lwIP");
    return 77;
}

#endif
