/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections, few receives: clients of one server share a queue of receives (SRQ). An
 * asynchronous event says when few are left, and the server posts more. In the end the library says
 * what it counted. Usage: 14_shared_receives [CLIENTS [MESSAGES]]
 */
#include "side.h"

#define OCTETS   32
#define RECEIVES 16
#define FEW      4

static struct iwarp_device *device;
static struct iwarp_pd *pd;
static struct iwarp_cq *cq;
static struct iwarp_mr *mr;
static struct iwarp_srq *srq;
static char inbox[RECEIVES][OCTETS];
static unsigned refills;

static void post(unsigned i)
{
    struct iwarp_sge sge = {inbox[i], OCTETS, iwarp_mr_stag(mr)};
    struct iwarp_recv_wr wr = {NULL, i, &sge, 1, 0};

    must(iwarp_srq_post_recv(srq, &wr, NULL), "post a receive");
}

/* The limit is used up by its event: it is set anew each time. */
static void set_limit(void)
{
    must(iwarp_srq_modify(srq, FEW), "set the limit");
}

static void open_server(void)
{
    struct iwarp_srq_options options;

    must(iwarp_device_open(NULL, &device), "open a device");
    must(iwarp_pd_create(device, &pd), "create a protection domain");
    must(iwarp_cq_create(device, RECEIVES, NULL, &cq), "create a completion queue");
    must(iwarp_mr_register(pd, inbox, sizeof inbox, IWARP_ACCESS_LOCAL_WRITE, &mr), "register");
    iwarp_srq_options_init(&options);
    options.max_wr = RECEIVES;
    must(iwarp_srq_create(pd, &options, &srq), "create a shared receive queue");
    for (unsigned i = 0; i < RECEIVES; i++) {
        post(i);
    }
    set_limit();
}

/*
 * A queue pair of the server has no receives of its own. The event queue tells of established
 * connections, too: only a Request is answered.
 */
static void accept_next(struct side *server)
{
    struct iwarp_qp_options options;
    struct iwarp_event event;
    struct iwarp_qp *qp;

    do {
        must(iwarp_eq_get(server->eq, &event, 10000), "wait for a connection request");
    } while (event.type != IWARP_EVENT_REQUEST);
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = cq;
    options.srq = srq;
    must(iwarp_qp_create(pd, &options, &qp), "create a queue pair");
    must(iwarp_accept(event.conn, qp, NULL, NULL, 0, qp), "accept");
}

static void close_server(struct side *server, unsigned connections)
{
    struct iwarp_event event;

    while (connections > 0) {
        must(iwarp_eq_get(server->eq, &event, 10000), "wait for the end of a connection");
        if (event.type == IWARP_EVENT_DISCONNECTED) {
            iwarp_conn_destroy(event.conn);
            iwarp_qp_destroy((struct iwarp_qp *)event.user);
            connections--;
        }
    }
    iwarp_srq_destroy(srq);
    iwarp_mr_deregister(mr);
    iwarp_cq_destroy(cq);
    iwarp_pd_destroy(pd);
    iwarp_listener_close(server->listener);
    iwarp_eq_destroy(server->eq);
    must(iwarp_device_close(device), "close the device");
}

/* Receives that were used are posted again together, once few are left. */
static void refill(unsigned *used, unsigned *n)
{
    struct iwarp_async_event event;

    while (iwarp_async_get(device, &event, 0) == IWARP_OK) {
        if (event.type == IWARP_ASYNC_SRQ_LIMIT) {
            while (*n > 0) {
                post(used[--*n]);
            }
            set_limit();
            refills++;
        }
        iwarp_async_ack(&event);
    }
}

static void say_what_was_counted(void)
{
    struct iwarp_device_stats stats;
    char text[4096];

    stats.size = sizeof stats;
    must(iwarp_device_stats(device, &stats), "ask for statistics");
    iwarp_device_stats_text(&stats, text, sizeof text);
    printf("libiwarp %s counted:\n%s", iwarp_version(), text);
}

int main(int argc, char **argv)
{
    unsigned clients = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4;
    unsigned messages = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
    struct side *client = (struct side *)calloc(clients, sizeof *client), server;
    unsigned used[RECEIVES], n = 0, right = 0;
    struct iwarp_wc wc;

    if (!client) {
        return 1;
    }
    open_server();
    memset(&server, 0, sizeof server);
    server.device = device;
    side_listen(&server);
    for (unsigned i = 0; i < clients; i++) {
        side_open(&client[i], IWARP_ACCESS_LOCAL_WRITE);
        must(iwarp_connect(client[i].qp, (struct sockaddr *)&server.addr, server.addr_len, NULL,
                           NULL, 0, NULL, NULL, &client[i].conn),
             "connect");
        accept_next(&server);
        must(iwarp_conn_wait(client[i].conn, 10000), "connect");
    }
    for (unsigned i = 0; i < clients * messages; i++) {
        struct side *from = &client[i % clients];
        snprintf(from->buffer, OCTETS, "message %u", i);
        side_send(from, 0, OCTETS);
        must(side_wait(from, IWARP_WC_SEND, &wc) ? IWARP_OK : IWARP_CLOSED, "send");
        must(iwarp_cq_wait(cq, &wc, 1, 10000) == 1 ? IWARP_OK : IWARP_AGAIN, "receive");
        right += wc.status == IWARP_WC_SUCCESS && strcmp(inbox[wc.wr_id], from->buffer) == 0;
        used[n++] = (unsigned)wc.wr_id;
        refill(used, &n);
    }
    say_what_was_counted();
    for (unsigned i = 0; i < clients; i++) {
        side_close(&client[i]);
    }
    close_server(&server, clients);
    free(client);
    printf("%u messages of %u right, through %d receives that were refilled %u times\n", right,
           clients * messages, RECEIVES, refills);
    return right == clients * messages ? 0 : 1;
}
