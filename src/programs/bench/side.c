/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One side of a connection: device, queues, one registered region, and how the two sides find each
 * other. Each tells the other by private data where its memory is. Only the public interface is
 * used, as everywhere in this program.
 */
#include "bench.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <uv.h>

void bench_device_open(const struct bench_options *options, struct iwarp_device **device)
{
    struct iwarp_device_options device_options;

    iwarp_device_options_init(&device_options);
    device_options.workers = options->workers;
    device_options.progress = options->polled ? IWARP_PROGRESS_POLLED : IWARP_PROGRESS_THREADED;
    if (options->embedded) {
        static uv_loop_t loop; /* functions that wait run it */
        if (uv_loop_init(&loop) != 0) {
            bench_fail("no loop");
        }
        device_options.progress = IWARP_PROGRESS_EMBEDDED;
        device_options.loop = &loop;
    }
    bench_must(iwarp_device_open(&device_options, device), "open a device");
}

void bench_conn_options(const struct bench_options *options, struct iwarp_conn_options *conn)
{
    iwarp_conn_options_init(conn);
    conn->crc = options->crc;
    conn->placement = options->early ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
    conn->ulpdu_max = options->ulpdu_max;
}

static void resolve(const char *host, const char *port, bool passive, struct sockaddr_storage *addr,
                    socklen_t *addr_len)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);

    if (error != 0) {
        bench_fail("%s port %s: %s", host, port, gai_strerror(error));
    }
    memset(addr, 0, sizeof *addr);
    memcpy(addr, found->ai_addr, found->ai_addrlen);
    *addr_len = found->ai_addrlen;
    freeaddrinfo(found);
}

void bench_address(struct bench_link *link, struct sockaddr_storage *addr, socklen_t *addr_len)
{
    const struct bench_options *options = link->options;
    const char *host = link->server ? options->listen_on : options->connect_to;
    uint16_t port;

    if (host) {
        resolve(host, options->port, link->server, addr, addr_len);
        return;
    }
    resolve("127.0.0.1", "0", false, addr, addr_len);
    if (!link->server) {
        bench_hear(link, &port, sizeof port);
        ((struct sockaddr_in *)(void *)addr)->sin_port = port;
    }
}

void bench_listen(struct bench_link *link, struct iwarp_device *device, struct iwarp_eq *eq,
                  int backlog, struct iwarp_listener **listener)
{
    struct iwarp_conn_options conn_options;
    struct sockaddr_storage addr;
    socklen_t addr_len;

    bench_address(link, &addr, &addr_len);
    bench_conn_options(link->options, &conn_options);
    bench_must(iwarp_listen(device, (struct sockaddr *)&addr, addr_len, &conn_options, backlog, eq,
                            NULL, listener),
               "listen");
    bench_must(iwarp_listener_addr(*listener, &addr, &addr_len), "ask for the port");
    bench_tell(link, &((struct sockaddr_in *)(void *)&addr)->sin_port, sizeof(uint16_t));
}

/* Messages go round in the footprint; behind it is room for what the two sides tell, a page, or for
 * the message that ping-pong sends. */
void bench_side_open_shared(struct bench_side *side, const struct bench_options *options,
                            unsigned entries)
{
    memset(side, 0, sizeof *side);
    side->options = options;
    side->len = options->footprint + (options->octets > 4096 ? options->octets : 4096);
    side->memory = mmap(NULL, side->len, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (side->memory == MAP_FAILED) {
        bench_fail("no memory for a footprint of %zu octets", options->footprint);
    }
    memset(side->memory, 0, side->len);
    bench_device_open(options, &side->device);
    bench_must(iwarp_pd_create(side->device, &side->pd), "create a protection domain");
    bench_must(iwarp_cq_create(side->device, entries, NULL, &side->cq),
               "create a completion queue");
    bench_must(iwarp_mr_register(side->pd, side->memory, side->len,
                                 IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                                     IWARP_ACCESS_REMOTE_READ,
                                 &side->mr),
               "register memory");
    side->stag = iwarp_mr_stag(side->mr);
}

void bench_side_open(struct bench_side *side, const struct bench_options *options)
{
    struct iwarp_qp_options qp;

    bench_side_open_shared(side, options, 4 * options->depth + 256);
    iwarp_qp_options_init(&qp);
    qp.send_cq = qp.recv_cq = side->cq;
    qp.max_send_wr = options->depth + 8;
    qp.max_recv_wr = options->depth + 64;
    qp.max_send_sge = qp.max_recv_sge = 1;
    qp.max_inline = options->inlined ? (unsigned)options->octets : 0;
    bench_must(iwarp_qp_create(side->pd, &qp, &side->qp), "create a queue pair");
}

static struct bench_advert own_advert(const struct bench_side *side)
{
    return (struct bench_advert){(uint64_t)(uintptr_t)side->memory, side->len, side->stag,
                                 (uint32_t)side->options->octets};
}

static void learn_peer(struct bench_side *side)
{
    size_t len;
    const void *data = iwarp_conn_private_data(side->conn, &len);

    if (len != sizeof side->peer) {
        bench_fail("the peer is not a benchmark of this kind");
    }
    memcpy(&side->peer, data, sizeof side->peer);
    if (side->peer.len != side->len || side->peer.octets != side->options->octets) {
        bench_fail("the two sides were called with different sizes");
    }
}

void bench_side_serve(struct bench_side *side, struct bench_link *link)
{
    struct bench_advert advert = own_advert(side);
    struct iwarp_event event;

    bench_must(iwarp_eq_create(side->device, &side->eq), "create an event queue");
    bench_listen(link, side->device, side->eq, 16, &side->listener);
    bench_must(iwarp_eq_get(side->eq, &event, link->to_peer < 0 ? -1 : BENCH_PATIENCE_MS),
               "wait for a connection request");
    side->conn = event.conn;
    learn_peer(side);
    bench_must(iwarp_accept(side->conn, side->qp, NULL, &advert, sizeof advert, NULL), "accept");
}

void bench_side_connect(struct bench_side *side, struct bench_link *link)
{
    struct bench_advert advert = own_advert(side);
    struct iwarp_conn_options conn_options;
    struct sockaddr_storage addr;
    socklen_t addr_len;

    bench_address(link, &addr, &addr_len);
    bench_conn_options(side->options, &conn_options);
    bench_must(iwarp_connect(side->qp, (struct sockaddr *)&addr, addr_len, &conn_options, &advert,
                             sizeof advert, NULL, NULL, &side->conn),
               "connect");
    bench_must(iwarp_conn_wait(side->conn, BENCH_PATIENCE_MS), "connect");
    learn_peer(side);
}

void bench_side_close(struct bench_side *side)
{
    iwarp_disconnect(side->conn);
    iwarp_conn_wait_end(side->conn, BENCH_PATIENCE_MS);
    iwarp_conn_destroy(side->conn);
    iwarp_qp_destroy(side->qp);
    iwarp_mr_deregister(side->mr);
    iwarp_cq_destroy(side->cq);
    iwarp_pd_destroy(side->pd);
    if (side->listener) {
        iwarp_listener_close(side->listener);
        iwarp_eq_destroy(side->eq);
    }
    bench_must(iwarp_device_close(side->device), "close the device");
    munmap(side->memory, side->len);
}

static int poll_busily(struct bench_side *side, struct iwarp_wc *wc, int n)
{
    double until = 0;

    for (unsigned turn = 1;; turn++) {
        int got = iwarp_cq_poll(side->cq, wc, n);
        if (got != 0) {
            return got;
        }
        if (turn % 65536 == 0) {
            double now = bench_now();
            until = until > 0 ? until : now + BENCH_PATIENCE_MS / 1e3;
            if (now > until) {
                return 0;
            }
        }
    }
}

int bench_take(struct bench_side *side, struct iwarp_wc *wc, int n)
{
    char why[512];

    if (side->gone) {
        return 0;
    }
    bool polls = side->options->polled || side->options->spin;
    int got = polls ? poll_busily(side, wc, n) : iwarp_cq_wait(side->cq, wc, n, BENCH_PATIENCE_MS);

    if (got <= 0) {
        bench_fail("no completion: %s", got < 0 ? iwarp_last_error() : "timed out");
    }
    for (int i = 0; i < got; i++) {
        if (wc[i].status == IWARP_WC_FLUSHED && !wc[i].fault) {
            side->gone = true;
            return i;
        }
        if (wc[i].status != IWARP_WC_SUCCESS) {
            iwarp_fault_text(wc[i].fault, why, sizeof why);
            bench_fail("%s: %s", iwarp_wc_status_text(wc[i].status), why);
        }
    }
    return got;
}

void bench_post(struct bench_side *side, const struct iwarp_send_wr *wr)
{
    bench_must(iwarp_post_send(side->qp, wr, NULL), "post a request");
}

void bench_post_receive(struct bench_side *side, size_t at, size_t octets)
{
    struct iwarp_sge sge = {side->memory + at, (uint32_t)octets, side->stag};
    struct iwarp_recv_wr wr = {.sg_list = &sge, .num_sge = octets > 0};

    bench_must(iwarp_post_recv(side->qp, &wr, NULL), "post a receive");
}

static uint64_t word_at(size_t at, uint64_t seed)
{
    return (at + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xd6e8feb86659fd93u;
}

void bench_fill(uint8_t *memory, size_t len, uint64_t seed)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(at, seed);
        memcpy(memory + at, &word, len - at < 8 ? len - at : 8);
    }
}

bool bench_check(const uint8_t *memory, size_t len, uint64_t seed, size_t *where)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(at, seed);
        if (memcmp(memory + at, &word, len - at < 8 ? len - at : 8) != 0) {
            *where = at;
            return false;
        }
    }
    return true;
}
