/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same in turns (turn.h) through UCX over its tcp transport: puts and gets as a stream, and
 * ping-pong of tagged messages. Options, processes and clocks are those of bench/turns. UCP takes
 * one request a call, so there are no chains. Progress is the application's: the server polls too,
 * sleeping if asked to.
 */
#include "turn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define PING 1u /* the tag of all messages */

struct peer {
    const struct bench_options *options;
    struct bench_link *link;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_mem_h mem;
    ucp_rkey_h rkey;
    uint8_t *memory;
    uint64_t to; /* the other side's memory */
    size_t at;
    uint64_t ended; /* requests */
    unsigned in_flight;
    bool arrived;
};

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        bench_fail("%s: %s", what, ucs_status_string(status));
    }
}

static void open_worker(struct peer *peer, struct bench_link *link)
{
    const struct bench_options *options = link->options;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_TAG |
                                       (options->polled ? 0 : UCP_FEATURE_WAKEUP)};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;

    *peer = (struct peer){.options = options, .link = link};
    must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    must(ucp_config_modify(config, "TLS", "tcp"), "the transport");
    must(ucp_config_modify(config, "NET_DEVICES", "lo"), "the interface");
    must(ucp_init(&params, config, &peer->context), "ucp_init");
    ucp_config_release(config);
    must(ucp_worker_create(peer->context, &worker, &peer->worker), "ucp_worker_create");
    size_t len = options->footprint + 2 * options->octets;
    peer->memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (peer->memory == MAP_FAILED) {
        bench_fail("no memory for %zu octets", len);
    }
    memset(peer->memory, 0, len);
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                              UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = peer->memory,
                                .length = len};
    must(ucp_mem_map(peer->context, &map, &peer->mem), "ucp_mem_map");
}

/* Tells the other process so many octets, and hears as many as it has to tell. */
static void *swap_blob(struct bench_link *link, const void *mine, size_t len)
{
    size_t theirs;

    bench_tell(link, &len, sizeof len);
    bench_tell(link, mine, len);
    bench_hear(link, &theirs, sizeof theirs);
    void *blob = malloc(theirs);
    if (!blob) {
        bench_fail("no memory");
    }
    bench_hear(link, blob, theirs);
    return blob;
}

static void connect_to(struct peer *peer)
{
    ucp_address_t *address;
    size_t len;
    void *packed;

    must(ucp_worker_get_address(peer->worker, &address, &len), "ucp_worker_get_address");
    void *theirs = swap_blob(peer->link, address, len);
    ucp_worker_release_address(peer->worker, address);
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = theirs};
    must(ucp_ep_create(peer->worker, &ep, &peer->ep), "ucp_ep_create");
    must(ucp_rkey_pack(peer->context, peer->mem, &packed, &len), "ucp_rkey_pack");
    void *key = swap_blob(peer->link, packed, len);
    ucp_rkey_buffer_release(packed);
    must(ucp_ep_rkey_unpack(peer->ep, key, &peer->rkey), "ucp_ep_rkey_unpack");
    uint64_t mine = (uint64_t)(uintptr_t)peer->memory;
    bench_tell(peer->link, &mine, sizeof mine);
    bench_hear(peer->link, &peer->to, sizeof peer->to);
    free(theirs);
    free(key);
}

/* Moves what there is to move; sleeping, it waits until there is some. */
static void progress(struct peer *peer)
{
    if (ucp_worker_progress(peer->worker) == 0 && !peer->options->polled) {
        must(ucp_worker_wait(peer->worker), "ucp_worker_wait");
    }
}

/* --- stream ---------------------------------------------------------------------------------- */

static void ended(void *request, ucs_status_t status, void *arg)
{
    struct peer *peer = (struct peer *)arg;

    must(status, "a request");
    peer->in_flight--;
    peer->ended++;
    ucp_request_free(request);
}

static void post(struct peer *peer)
{
    const struct bench_options *options = peer->options;
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = ended,
                                 .user_data = peer};
    uint8_t *from = peer->memory + peer->at;
    uint64_t to = peer->to + peer->at;
    ucs_status_ptr_t request =
        strcmp(options->test, "read") == 0
            ? ucp_get_nbx(peer->ep, from, options->octets, to, peer->rkey, &param)
            : ucp_put_nbx(peer->ep, from, options->octets, to, peer->rkey, &param);

    peer->at += options->octets;
    peer->at = peer->at < options->footprint ? peer->at : 0;
    if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), "post");
    }
    if (request) {
        peer->in_flight++;
    } else {
        peer->ended++;
    }
}

static void stream(void *arg, struct turn *turn)
{
    struct peer *peer = (struct peer *)arg;
    uint64_t before;

    do {
        before = peer->ended;
        /* What ends at once is no reason not to look at the clock. */
        for (unsigned i = 0; i < peer->options->depth && peer->in_flight < peer->options->depth;
             i++) {
            post(peer);
        }
        ucp_worker_progress(peer->worker);
    } while (turn_goes_on(turn, peer->ended - before));
    ucp_request_param_t none = {0};
    ucs_status_ptr_t flush = ucp_ep_flush_nbx(peer->ep, &none);
    while (peer->in_flight > 0 ||
           (UCS_PTR_IS_PTR(flush) && ucp_request_check_status(flush) == UCS_INPROGRESS)) {
        ucp_worker_progress(peer->worker);
    }
    if (UCS_PTR_IS_PTR(flush)) {
        ucp_request_free(flush);
    }
}

/* --- ping-pong ------------------------------------------------------------------------------- */

static void arrived(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct peer *peer = (struct peer *)arg;

    must(status, "a message");
    (void)info;
    peer->arrived = true;
    ucp_request_free(request);
}

static void receive(struct peer *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = arrived,
                                 .user_data = peer};
    ucs_status_ptr_t request =
        ucp_tag_recv_nbx(peer->worker, peer->memory + peer->options->footprint,
                         peer->options->octets, PING, UINT64_MAX, &param);

    if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), "receive");
    }
}

/* The message is in place until the answer has come. */
static void say(struct peer *peer, uint8_t mark)
{
    size_t octets = peer->options->octets;
    uint8_t *out = peer->memory + peer->options->footprint + octets;
    ucp_request_param_t none = {0};

    out[octets - 1] = mark;
    ucs_status_ptr_t request = ucp_tag_send_nbx(peer->ep, out, octets, PING, &none);
    if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), "send");
    }
    while (request && ucp_request_check_status(request) == UCS_INPROGRESS) {
        progress(peer);
    }
    if (request) {
        ucp_request_free(request);
    }
}

static uint8_t mark_of(const struct peer *peer)
{
    return peer->memory[peer->options->footprint + peer->options->octets - 1];
}

static void pingpong(void *arg, struct turn *turn)
{
    static uint8_t mark;
    struct peer *peer = (struct peer *)arg;

    do {
        peer->arrived = false;
        receive(peer);
        say(peer, ++mark);
        while (!peer->arrived) {
            progress(peer);
        }
        if (mark_of(peer) != mark) {
            bench_fail("a wrong octet came");
        }
    } while (turn_round_trip(turn));
}

/* --- the two processes ----------------------------------------------------------------------- */

static void server(struct bench_link *link)
{
    static struct peer peer;

    open_worker(&peer, link);
    turn_serve();
    connect_to(&peer);
    for (;;) {
        peer.arrived = false;
        receive(&peer);
        while (!peer.arrived) {
            if (peer.options->polled && !turn_on()) {
                turn_await(link);
            }
            progress(&peer);
        }
        say(&peer, mark_of(&peer));
    }
}

static void client(struct bench_link *link)
{
    static struct peer peer;

    open_worker(&peer, link);
    connect_to(&peer);
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
