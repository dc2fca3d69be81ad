/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer can have lwIP keep: segments out of order, and connections that have ended. The peer
 * is nothing but frames, and lwIP's own lists are counted.
 */
#include "frame_peer.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdio.h>

#ifdef IWARP_HAVE_LWIP

#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>
#include <unistd.h>

static struct iwarp_device *device;
static struct iwarp_eq *eq;
static struct iwarp_listener *listener;

static void open_device(void)
{
    struct iwarp_device_options o;
    int link;
    const char *text = peer_new_wire(&link);

    iwarp_device_options_init(&o);
    o.transport = text;
    o.progress = IWARP_PROGRESS_EMBEDDED;
    o.loop = &peer.loop;
    o.workers = 1;
    must(iwarp_device_open(&o, &device));
    must(iwarp_eq_create(device, &eq));
    must(iwarp_listen(device, (const struct sockaddr *)&peer_calls, sizeof peer_calls, NULL, 128,
                      eq, NULL, &listener));
    close(link);
    peer_introduce();
}

static void close_device(void)
{
    must(iwarp_listener_close(listener));
    must(iwarp_eq_destroy(eq));
    must(iwarp_device_close(device));
    uv_run(&peer.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&peer.loop), 0);
    close(peer.wire);
}

static unsigned count(const struct tcp_pcb *pcb)
{
    unsigned n = 0;

    for (; pcb; pcb = pcb->next) {
        n++;
    }
    return n;
}

/* Those nearest to what is missing are kept: once it comes, they count. */
static void octets__out_of_order__are_kept_as_far_as_the_bound(void **state)
{
    (void)state;
    open_device();
    peer_connect(2000);
    for (uint32_t i = 0; i < 2 * IWARP_LW_OUT_OF_ORDER; i++) {
        peer_send(FRAME_ACK, peer.seq + 1 + 2 * i, "D");
    }
    LOCK_TCPIP_CORE();
    unsigned kept = 0;
    for (const struct tcp_seg *seg = tcp_active_pcbs->ooseq; seg; seg = seg->next) {
        kept++;
    }
    uint32_t expected = tcp_active_pcbs->rcv_nxt;
    UNLOCK_TCPIP_CORE();
    assert_in_range(kept, IWARP_LW_OUT_OF_ORDER / 2, IWARP_LW_OUT_OF_ORDER);
    assert_int_equal(expected, peer.seq);
    peer_send(FRAME_ACK, peer.seq, "M");
    LOCK_TCPIP_CORE();
    expected = tcp_active_pcbs->rcv_nxt;
    UNLOCK_TCPIP_CORE();
    assert_int_equal(expected, peer.seq + 2);
    close_device();
}

/* Refused at once, since no start-up begins with an X. */
static void connections__that_have_ended__are_remembered_as_far_as_the_bound(void **state)
{
    (void)state;
    for (unsigned orphans = 0; orphans < 2; orphans++) {
        open_device();
        for (unsigned i = 0; i < IWARP_LW_LEFT_OVER + 300; i++) {
            peer_connect((uint16_t)(2000 + i));
            peer_send(FRAME_ACK, peer.seq, "X");
            if (!orphans) {
                peer_send(FRAME_ACK | FRAME_FIN, peer.seq + 1, "");
            }
        }
        LOCK_TCPIP_CORE();
        unsigned waiting = count(tcp_tw_pcbs), active = count(tcp_active_pcbs);
        UNLOCK_TCPIP_CORE();
        assert_in_range(orphans ? active : waiting, IWARP_LW_LEFT_OVER - 100, IWARP_LW_LEFT_OVER);
        close_device();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets__out_of_order__are_kept_as_far_as_the_bound),
        cmocka_unit_test(connections__that_have_ended__are_remembered_as_far_as_the_bound),
    };
    return cmocka_run_group_tests_name("lwip_bounds", tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without lwIP");
    return 77;
}

#endif
