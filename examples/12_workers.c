/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server with a thread for each core: all listen on one port, and each has a worker, an event
 * queue and a completion queue of its own, polls them, and shares nothing with the others. The
 * kernel deals the connections out (SO_REUSEPORT). Requests are Sends, and are answered by Sends.
 * Usage: 12_workers [THREADS [CONNECTIONS [REQUESTS]]]
 */
#include "side.h"

#include <stdatomic.h>
#include <sys/socket.h>

#define OCTETS    64
#define SLOTS     4 /* requests of one peer that may wait */
#define CORES_MAX 64

/* What a thread serves. */
struct core {
    pthread_t thread;
    struct iwarp_eq *eq;
    struct iwarp_cq *cq;
    struct iwarp_listener *listener;
    unsigned open, connections, requests;
};

/* A connection of a peer, and one of its receives. */
struct peer {
    struct iwarp_qp *qp;
    struct iwarp_mr *mr;
    struct slot {
        struct peer *peer;
        char octets[OCTETS];
    } slot[SLOTS];
};

static struct iwarp_device *device;
static struct iwarp_pd *pd;
static struct core core[CORES_MAX];
static atomic_bool stop;

/* --- the server ------------------------------------------------------------------------------ */

static void post_receive(struct slot *slot)
{
    struct iwarp_sge sge = {slot->octets, OCTETS, iwarp_mr_stag(slot->peer->mr)};
    struct iwarp_recv_wr wr = {NULL, (uint64_t)(uintptr_t)slot, &sge, 1, 0};

    must(iwarp_post_recv(slot->peer->qp, &wr, NULL), "post a receive");
}

static void accept_peer(struct core *c, struct iwarp_conn *conn)
{
    struct peer *peer = (struct peer *)calloc(1, sizeof *peer);
    struct iwarp_qp_options options;

    if (!peer) {
        fprintf(stderr, "no memory for a peer\n");
        exit(1);
    }
    must(iwarp_mr_register(pd, peer, sizeof *peer, IWARP_ACCESS_LOCAL_WRITE, &peer->mr),
         "register");
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = c->cq;
    must(iwarp_qp_create(pd, &options, &peer->qp), "create a queue pair");
    for (unsigned i = 0; i < SLOTS; i++) {
        peer->slot[i].peer = peer;
        post_receive(&peer->slot[i]);
    }
    must(iwarp_accept(conn, peer->qp, NULL, NULL, 0, peer), "accept");
    c->open++;
    c->connections++;
}

static void let_go(struct core *c, struct iwarp_conn *conn, struct peer *peer)
{
    iwarp_conn_destroy(conn);
    iwarp_qp_destroy(peer->qp); /* and what it still had to complete */
    iwarp_mr_deregister(peer->mr);
    free(peer);
    c->open--;
}

static void answer(struct core *c, const struct iwarp_wc *wc)
{
    struct slot *slot = (struct slot *)(uintptr_t)wc->wr_id;

    if (wc->opcode != IWARP_WC_RECV || wc->status != IWARP_WC_SUCCESS) {
        return; /* the end of the connection is told by an event */
    }
    struct iwarp_sge sge = {slot->octets, wc->byte_len, iwarp_mr_stag(slot->peer->mr)};
    struct iwarp_send_wr wr = {
        .opcode = IWARP_WR_SEND, .flags = IWARP_WR_INLINE, .sg_list = &sge, .num_sge = 1};
    must(iwarp_post_send(slot->peer->qp, &wr, NULL), "answer");
    post_receive(slot);
    c->requests++;
}

static void *serve(void *arg)
{
    struct core *c = (struct core *)arg;
    struct iwarp_event event;
    struct iwarp_wc wc[16];

    while (!atomic_load(&stop) || c->open > 0) {
        int n = iwarp_cq_poll(c->cq, wc, 16);
        must(n < 0 ? (enum iwarp_status)n : IWARP_OK, "poll");
        for (int i = 0; i < n; i++) {
            answer(c, &wc[i]);
        }
        if (iwarp_eq_get(c->eq, &event, 0) != IWARP_OK) {
            continue;
        }
        if (event.type == IWARP_EVENT_REQUEST) {
            accept_peer(c, event.conn);
        } else if (event.type == IWARP_EVENT_DISCONNECTED || event.type == IWARP_EVENT_FAILED) {
            let_go(c, event.conn, (struct peer *)event.user);
        }
    }
    return NULL;
}

/* A socket for the same port as the others; 0: any. */
static int shared_port(in_port_t port)
{
    struct sockaddr_in addr;
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    memset(&addr, 0, sizeof addr);
    addr.sin_family = AF_INET;
    addr.sin_port = port;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        perror("a socket of a shared port");
        exit(1);
    }
    return fd;
}

static void open_server(unsigned cores, struct side *where)
{
    struct iwarp_device_options options;
    struct iwarp_conn_options listening;

    iwarp_device_options_init(&options);
    options.progress = IWARP_PROGRESS_POLLED;
    options.workers = cores;
    must(iwarp_device_open(&options, &device), "open a device");
    must(iwarp_pd_create(device, &pd), "create a protection domain");
    iwarp_conn_options_init(&listening);
    for (unsigned i = 0; i < cores; i++) {
        in_port_t port =
            i == 0 ? 0 : ((const struct sockaddr_in *)(const void *)&where->addr)->sin_port;
        must(iwarp_eq_create(device, &core[i].eq), "create an event queue");
        must(iwarp_cq_create(device, 1024, NULL, &core[i].cq), "create a completion queue");
        listening.worker = i + 1;
        must(iwarp_listen_socket(device, shared_port(port), &listening, 128, core[i].eq, NULL,
                                 &core[i].listener),
             "listen");
        must(iwarp_listener_addr(core[i].listener, &where->addr, &where->addr_len),
             "ask for the port");
    }
}

static unsigned close_server(unsigned cores)
{
    unsigned requests = 0;

    for (unsigned i = 0; i < cores; i++) {
        printf("thread %u: %u connections, %u requests\n", i + 1, core[i].connections,
               core[i].requests);
        requests += core[i].requests;
        iwarp_listener_close(core[i].listener);
        iwarp_eq_destroy(core[i].eq);
        iwarp_cq_destroy(core[i].cq);
    }
    iwarp_pd_destroy(pd);
    must(iwarp_device_close(device), "close the device");
    return requests;
}

/* --- its peers ------------------------------------------------------------------------------- */

static void ask(struct side *s, unsigned requests)
{
    struct iwarp_wc wc;

    for (unsigned i = 0; i < requests; i++) {
        snprintf(s->buffer, OCTETS, "request %u", i);
        side_post_receive(s, OCTETS, OCTETS);
        side_send(s, 0, OCTETS);
        if (!side_wait(s, IWARP_WC_RECV, &wc) || memcmp(s->buffer, s->buffer + OCTETS, OCTETS)) {
            fprintf(stderr, "not what was asked for\n");
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    unsigned cores = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    unsigned connections = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 8;
    unsigned requests = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000;
    struct side *peers = (struct side *)calloc(connections, sizeof *peers), server;

    if (cores < 1 || cores > CORES_MAX || !peers) {
        fprintf(stderr, "1 to %d threads\n", CORES_MAX);
        return 2;
    }
    open_server(cores, &server);
    for (unsigned i = 0; i < cores; i++) {
        pthread_create(&core[i].thread, NULL, serve, &core[i]);
    }
    for (unsigned i = 0; i < connections; i++) {
        side_open(&peers[i], IWARP_ACCESS_LOCAL_WRITE);
        side_connect(&peers[i], &server);
    }
    for (unsigned i = 0; i < connections; i++) {
        ask(&peers[i], requests);
    }
    for (unsigned i = 0; i < connections; i++) {
        side_close(&peers[i]);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < cores; i++) {
        pthread_join(core[i].thread, NULL);
    }
    unsigned served = close_server(cores);
    printf("%u requests of %u answered\n", served, connections * requests);
    free(peers);
    return served == connections * requests ? 0 : 1;
}
