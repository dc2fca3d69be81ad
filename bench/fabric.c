/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same in turns (turn.h) through libfabric's tcp provider, connected endpoints, which is the
 * shortest way through it: RMA writes and reads as a stream, and ping-pong of messages. Options,
 * processes and clocks are those of bench/turns, so that only what is between differs. Progress is
 * the application's in this provider: the server polls too, sleeping if asked to.
 */
#include "turn.h"

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct peer {
    const struct bench_options *options;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_domain *domain;
    struct fid_cq *tx_cq, *rx_cq;
    struct fid_pep *passive;
    struct fid_ep *ep;
    struct fid_mr *mr;
    uint8_t *memory;
    uint64_t to, key;           /* the other side's memory */
    uint64_t posted, in_flight; /* requests */
};

static void must(long result, const char *what)
{
    if (result < 0) {
        bench_fail("%s: %s", what, fi_strerror((int)-result));
    }
}

static struct fi_info *ask_info(const char *port, uint64_t flags,
                                const struct bench_options *options)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->op_flags = 0;
    hints->tx_attr->size = options->depth;
    hints->addr_format = FI_SOCKADDR_IN;
    must(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", port, flags, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    return info;
}

/* For messages: one such area for what comes, behind it one for what goes. */
static size_t area_of(const struct bench_options *options)
{
    return options->octets < 2048 ? 2048 : options->octets;
}

static void open_fabric(struct peer *peer)
{
    must(fi_fabric(peer->info->fabric_attr, &peer->fabric, NULL), "fi_fabric");
    must(
        fi_eq_open(peer->fabric, &(struct fi_eq_attr){.wait_obj = FI_WAIT_UNSPEC}, &peer->eq, NULL),
        "fi_eq_open");
}

static void open_endpoint(struct peer *peer, struct fi_info *info)
{
    const struct bench_options *options = peer->options;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = options->depth * 2 + 64};

    cq.wait_obj = options->polled ? FI_WAIT_NONE : FI_WAIT_FD;
    must(fi_domain(peer->fabric, info, &peer->domain, NULL), "fi_domain");
    must(fi_cq_open(peer->domain, &cq, &peer->tx_cq, NULL), "fi_cq_open");
    must(fi_cq_open(peer->domain, &cq, &peer->rx_cq, NULL), "fi_cq_open");
    must(fi_endpoint(peer->domain, info, &peer->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(peer->ep, &peer->eq->fid, 0), "bind the event queue");
    must(fi_ep_bind(peer->ep, &peer->tx_cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION),
         "bind a completion queue");
    must(fi_ep_bind(peer->ep, &peer->rx_cq->fid, FI_RECV), "bind a completion queue");
    must(fi_enable(peer->ep), "fi_enable");
    peer->memory = mmap(NULL, options->footprint + 2 * area_of(options), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    memset(peer->memory, 0, options->footprint + 2 * area_of(options));
    must(fi_mr_reg(peer->domain, peer->memory, options->footprint + 2 * area_of(options),
                   FI_REMOTE_WRITE | FI_REMOTE_READ | FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 1,
                   0, &peer->mr, NULL),
         "fi_mr_reg");
}

static void receive(struct peer *peer)
{
    must(fi_recv(peer->ep, peer->memory + peer->options->footprint, area_of(peer->options),
                 fi_mr_desc(peer->mr), 0, NULL),
         "fi_recv");
}

static struct fi_info *await(struct peer *peer, uint32_t what)
{
    struct fi_eq_cm_entry entry;
    uint32_t event;

    must(fi_eq_sread(peer->eq, &event, &entry, sizeof entry, BENCH_PATIENCE_MS, 0), "fi_eq_sread");
    if (event != what) {
        bench_fail("another event than expected: %u", event);
    }
    return entry.info;
}

static void exchange_places(struct peer *peer, struct bench_link *link)
{
    bool virtual = (peer->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    uint64_t mine[2] = {virtual ? (uint64_t)(uintptr_t)peer->memory : 0, fi_mr_key(peer->mr)};
    uint64_t theirs[2];

    bench_tell(link, mine, sizeof mine);
    bench_hear(link, theirs, sizeof theirs);
    peer->to = theirs[0];
    peer->key = theirs[1];
}

static void serve(struct peer *peer, struct bench_link *link)
{
    struct sockaddr_in addr;
    size_t len = sizeof addr;

    peer->info = ask_info("0", FI_SOURCE, peer->options);
    open_fabric(peer);
    must(fi_passive_ep(peer->fabric, peer->info, &peer->passive, NULL), "fi_passive_ep");
    must(fi_pep_bind(peer->passive, &peer->eq->fid, 0), "fi_pep_bind");
    must(fi_listen(peer->passive), "fi_listen");
    must(fi_getname(&peer->passive->fid, &addr, &len), "fi_getname");
    bench_tell(link, &addr.sin_port, sizeof addr.sin_port);
    struct fi_info *request = await(peer, FI_CONNREQ);
    open_endpoint(peer, request);
    for (unsigned i = 0; i < 8; i++) {
        receive(peer);
    }
    must(fi_accept(peer->ep, NULL, 0), "fi_accept");
    await(peer, FI_CONNECTED);
    exchange_places(peer, link);
}

static void connect_to(struct peer *peer, struct bench_link *link)
{
    uint16_t port;
    char text[16];

    bench_hear(link, &port, sizeof port);
    snprintf(text, sizeof text, "%u", ntohs(port));
    peer->info = ask_info(text, 0, peer->options);
    open_fabric(peer);
    open_endpoint(peer, peer->info);
    for (unsigned i = 0; i < 8; i++) {
        receive(peer);
    }
    must(fi_connect(peer->ep, peer->info->dest_addr, NULL, 0), "fi_connect");
    await(peer, FI_CONNECTED);
    exchange_places(peer, link);
}

/* Completions of one of the queues, 0 if there is none; `sleep`: waits for them a while. */
static long reap(struct peer *peer, struct fid_cq *cq, bool sleep)
{
    struct fi_cq_entry entry[32];
    long n = sleep && !peer->options->polled ? fi_cq_sread(cq, entry, 32, NULL, 1000)
                                             : fi_cq_read(cq, entry, 32);

    if (n < 0 && n != -FI_EAGAIN) {
        _exit(peer->passive ? 0 : 1); /* the other has ended */
    }
    return n < 0 ? 0 : n;
}

/* What is too long to be copied at once stays as it is until the answer has come. */
static void say(struct peer *peer, size_t octets)
{
    const struct bench_options *options = peer->options;
    uint8_t *from = peer->memory + options->footprint + area_of(options);
    struct iovec iov = {from, octets};
    void *desc = fi_mr_desc(peer->mr);
    struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1};
    long result;

    do {
        result = octets <= peer->info->tx_attr->inject_size ? fi_inject(peer->ep, from, octets, 0)
                                                            : fi_sendmsg(peer->ep, &msg, 0);
        if (result == -FI_EAGAIN) {
            reap(peer, peer->tx_cq, false);
        }
    } while (result == -FI_EAGAIN);
    must(result, "send");
}

/* --- stream ---------------------------------------------------------------------------------- */

static void post(struct peer *peer)
{
    const struct bench_options *options = peer->options;
    uint64_t n = peer->posted++;
    size_t at = n % (options->footprint / options->octets) * options->octets;
    struct iovec iov = {peer->memory + at, options->octets};
    struct fi_rma_iov place = {peer->to + at, options->octets, peer->key};
    void *desc = fi_mr_desc(peer->mr);
    struct fi_msg_rma msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .rma_iov = &place, .rma_iov_count = 1};
    bool last = n % options->chain == options->chain - 1;
    uint64_t flags = last ? FI_COMPLETION : options->chain > 1 ? FI_MORE : 0;
    bool reading = strcmp(options->test, "read") == 0;
    long result;

    if (options->octets <= peer->info->tx_attr->inject_size && options->inlined) {
        flags |= FI_INJECT;
    }
    while ((result = reading ? fi_readmsg(peer->ep, &msg, flags)
                             : fi_writemsg(peer->ep, &msg, flags)) == -FI_EAGAIN) {
        peer->in_flight -= (uint64_t)reap(peer, peer->tx_cq, false) * options->chain;
    }
    must(result, "post");
    peer->in_flight++;
}

static void stream(void *arg, struct turn *turn)
{
    struct peer *peer = (struct peer *)arg;
    const struct bench_options *options = peer->options;
    uint64_t ended = 0, before;

    do {
        before = peer->in_flight;
        uint64_t posted = 0;
        for (; peer->in_flight + options->chain <= options->depth; posted += options->chain) {
            for (unsigned i = 0; i < options->chain; i++) {
                post(peer);
            }
        }
        peer->in_flight -= (uint64_t)reap(peer, peer->tx_cq, true) * options->chain;
        ended = before + posted - peer->in_flight;
    } while (turn_goes_on(turn, ended));
    while (peer->in_flight > 0) {
        peer->in_flight -= (uint64_t)reap(peer, peer->tx_cq, true) * options->chain;
    }
}

/* --- ping-pong ------------------------------------------------------------------------------- */

static void take_message(struct peer *peer)
{
    long n = 0;

    while (n == 0) {
        n = reap(peer, peer->rx_cq, true);
    }
    receive(peer);
}

static void pingpong(void *arg, struct turn *turn)
{
    static uint8_t mark;
    struct peer *peer = (struct peer *)arg;
    size_t octets = peer->options->octets;
    const uint8_t *in = peer->memory + peer->options->footprint;
    uint8_t *out = peer->memory + peer->options->footprint + area_of(peer->options);

    do {
        out[octets - 1] = ++mark;
        say(peer, octets);
        take_message(peer);
        if (in[octets - 1] != mark) {
            bench_fail("a wrong octet came");
        }
    } while (turn_round_trip(turn));
}

/* --- the two processes ----------------------------------------------------------------------- */

/* Whatever comes is answered, with what it was. */
static void server(struct bench_link *link)
{
    static struct peer peer;
    size_t octets = link->options->octets;

    peer.options = link->options;
    turn_serve();
    serve(&peer, link);
    uint8_t *in = peer.memory + peer.options->footprint, *out = in + area_of(peer.options);
    for (;;) {
        if (peer.options->polled && !turn_on()) {
            turn_await(link);
        } else if (reap(&peer, peer.rx_cq, true) > 0) {
            receive(&peer);
            out[octets - 1] = in[octets - 1];
            say(&peer, octets);
        } else {
            reap(&peer, peer.tx_cq, false);
        }
    }
}

static void client(struct bench_link *link)
{
    static struct peer peer;

    peer.options = link->options;
    connect_to(&peer, link);
    turn_play(link, strncmp(link->options->test, "pingpong", 8) == 0 ? pingpong : stream, &peer);
}

int main(int argc, char **argv)
{
    static struct bench_options options;

    if (!bench_options_parse(argc, argv, &options)) {
        return 2;
    }
    turn_share();
    return bench_both(&options, server, client);
}
