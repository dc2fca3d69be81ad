/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that does not look at its channel for a while: thousands of peers of one address ask to
 * be connected and go, and the request of another address is there when the program looks.
 */
#include "ends.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define GONE 3000 /* more than a channel keeps: twice the least backlog, which is 1024 */

static const char mpa_request[20] = "MPA ID Req Frame\x40\x01\x00"; /* and the NUL */

/* A raw peer from 127.0.0.host that has sent its Request. */
static int ask_from(unsigned host, uint16_t port)
{
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr = {htonl(INADDR_LOOPBACK - 1 + host)}};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    ok(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
    ok(bind(fd, (const struct sockaddr *)&from, sizeof from));
    ok(connect(fd, (const struct sockaddr *)&to, sizeof to));
    assert_int_equal(send(fd, mpa_request, sizeof mpa_request, MSG_NOSIGNAL), sizeof mpa_request);
    return fd;
}

static void requests__of_peers_that_have_gone__leave_room_for_others(void **state)
{
    struct end server;

    (void)state;
    listen_at(&server, AF_INET);
    uint16_t port = rdma_get_src_port(server.listener);
    for (int i = 0; i < GONE; i++) {
        int fd = ask_from(1, port);
        usleep(300);
        close(fd);
        if (i % 8 == 0) {
            usleep(1000); /* let Requests be read before their peers' end is seen */
        }
    }
    int other = ask_from(2, port);
    usleep(500000); /* the program looks when that has been decided */
    unsigned others = 0;
    struct pollfd p = {.fd = server.channel->fd, .events = POLLIN};
    while (others == 0 && poll(&p, 1, 5000) == 1) {
        struct rdma_cm_event *event;
        ok(rdma_get_cm_event(server.channel, &event));
        assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct rdma_cm_id *id = event->id;
        const struct sockaddr_in *from = (const struct sockaddr_in *)(void *)rdma_get_peer_addr(id);
        others += ntohl(from->sin_addr.s_addr) != INADDR_LOOPBACK;
        ok(rdma_ack_cm_event(event));
        ok(rdma_destroy_id(id));
    }
    assert_int_equal(others, 1);
    close(other);
    ok(rdma_destroy_id(server.listener));
    rdma_destroy_event_channel(server.channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests__of_peers_that_have_gone__leave_room_for_others),
    };

    return cmocka_run_group_tests_name("cm_crowd", tests, NULL, NULL);
}
