/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bug found by simulation. A leader writes the entries of its log into the memory of a follower,
 * each with a Send behind it that says how many there are now. It may call an entry safe once the
 * follower has it. The broken version takes the completion of its Send for that, and passes every
 * test on a network that works. But a request is complete when TCP has taken its octets: if the
 * connection dies then, the entry never arrives, and the leader goes on with the next one. The
 * mended version believes only what the follower says.
 *
 * Each seed is another network, and the same seed is the same network again. Usage:
 *     16_replicated_log broken|mended [SEEDS]     seeds from 1 on, until one fails; 200
 *     16_replicated_log broken|mended seed N      this one, with all that happens
 */
#include "side.h"

#include <iwarp/sim.h>

#define ENTRIES 40
#define SECOND  ((uint64_t)1000000000)

/* What requests name, at the same addresses in each run. */
struct memory {
    struct entry {
        uint64_t number; /* from 1; 0: it never arrived */
        char text[24];
    } entry[ENTRIES];
    uint64_t told[ENTRIES]; /* by the Sends of the peer, each with a number */
};

struct end {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_eq *eq;
    struct iwarp_mr *mr;
    struct memory *memory;
    struct iwarp_conn *conn; /* NULL: there is none */
    struct iwarp_qp *qp;     /* of conn */
    uint64_t safe;           /* follower: it has so many; leader: it believes so */
};

/* What the follower says when it accepts. */
struct reply {
    struct advert where;
    uint64_t safe;
};

static struct iwarp_sim *sim;
static struct end leader, follower;
static struct reply reply; /* of this connection */
static struct iwarp_listener *listener;
static struct sockaddr_storage address;
static socklen_t address_len;
static bool mended, established, busy;

/* --- both ------------------------------------------------------------------------------------ */

static void open_end(struct end *e, const char *at, void (*watch)(void *arg))
{
    memset(e, 0, sizeof *e);
    must(iwarp_sim_device_open(sim, at, NULL, &e->device), "open a device");
    must(iwarp_pd_create(e->device, &e->pd), "create a protection domain");
    must(iwarp_cq_create(e->device, 64, NULL, &e->cq), "create a completion queue");
    must(iwarp_eq_create(e->device, &e->eq), "create an event queue");
    e->memory = (struct memory *)iwarp_sim_memory(sim, sizeof *e->memory);
    must(iwarp_mr_register(e->pd, e->memory, sizeof *e->memory,
                           IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &e->mr),
         "register");
    must(iwarp_sim_watch(e->device, watch, NULL), "watch");
}

static void post_receive(struct end *e, uint64_t i)
{
    struct iwarp_sge sge = {&e->memory->told[i], sizeof e->memory->told[i], iwarp_mr_stag(e->mr)};
    struct iwarp_recv_wr wr = {NULL, i, &sge, 1, 0};

    (void)iwarp_post_recv(e->qp, &wr, NULL); /* if the connection has ended, an event tells it */
}

/* With as many receives as there can be messages. */
static void new_qp(struct end *e)
{
    struct iwarp_qp_options options;

    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = e->cq;
    must(iwarp_qp_create(e->pd, &options, &e->qp), "create a queue pair");
    for (unsigned i = 0; i < ENTRIES; i++) {
        post_receive(e, i);
    }
}

static void drop(struct end *e)
{
    if (e->conn) {
        iwarp_conn_destroy(e->conn);
        iwarp_qp_destroy(e->qp); /* and with it what is left of its completions */
        e->conn = NULL;
    }
}

static void close_end(struct end *e)
{
    iwarp_sim_watch(e->device, NULL, NULL);
    drop(e);
    iwarp_mr_deregister(e->mr);
    iwarp_eq_destroy(e->eq);
    iwarp_cq_destroy(e->cq);
    iwarp_pd_destroy(e->pd);
    must(iwarp_device_close(e->device), "close the device");
}

/* A Send of a number, which is copied at once. */
static struct iwarp_send_wr send_of(uint64_t *number, struct iwarp_sge *sge)
{
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND, .sg_list = sge, .num_sge = 1};

    *sge = (struct iwarp_sge){number, sizeof *number, 0};
    wr.wr_id = *number;
    wr.flags = IWARP_WR_SIGNALED | IWARP_WR_INLINE;
    return wr;
}

/* --- the leader ------------------------------------------------------------------------------ */

/* One entry at a time: the RDMA Write of the entry, and the Send behind it. */
static void send_next(void)
{
    struct iwarp_sge from, count;
    uint64_t n = leader.safe + 1;

    if (!established || busy || leader.safe == ENTRIES) {
        return;
    }
    struct entry *entry = &leader.memory->entry[leader.safe];
    struct iwarp_send_wr send = send_of(&n, &count);
    struct iwarp_send_wr write = {.next = &send, .opcode = IWARP_WR_WRITE, .num_sge = 1};
    from = (struct iwarp_sge){entry, sizeof *entry, iwarp_mr_stag(leader.mr)};
    write.sg_list = &from;
    write.remote_stag = reply.where.stag;
    write.remote_to = reply.where.to + leader.safe * sizeof *entry;
    busy = iwarp_post_send(leader.qp, &write, NULL) == IWARP_OK;
}

static void connect_leader(void *arg)
{
    (void)arg;
    new_qp(&leader);
    must(iwarp_connect(leader.qp, (struct sockaddr *)&address, address_len, NULL, NULL, 0,
                       leader.eq, NULL, &leader.conn),
         "connect");
}

static void leader_event(const struct iwarp_event *event)
{
    if (event->conn != leader.conn) {
        return;
    }
    if (event->type == IWARP_EVENT_ESTABLISHED) {
        size_t len;
        const void *said = iwarp_conn_private_data(event->conn, &len);
        memcpy(&reply, said, len < sizeof reply ? len : sizeof reply);
        leader.safe = mended ? reply.safe : leader.safe;
        established = true;
    } else {
        drop(&leader);
        established = busy = false;
        must(iwarp_sim_after(sim, SECOND / 1000, connect_leader, NULL), "wait");
    }
}

static void leader_completion(const struct iwarp_wc *wc)
{
    if (wc->status != IWARP_WC_SUCCESS) {
        return;
    }
    if (wc->opcode == IWARP_WC_RECV) {
        if (mended) {
            leader.safe = leader.memory->told[wc->wr_id];
            busy = false;
        }
        post_receive(&leader, wc->wr_id);
    } else if (!mended) {
        leader.safe = wc->wr_id; /* the bug */
        busy = false;
    }
}

static void watch_leader(void *arg)
{
    struct iwarp_event event;
    struct iwarp_wc wc;

    (void)arg;
    while (iwarp_cq_poll(leader.cq, &wc, 1) == 1) {
        leader_completion(&wc);
    }
    while (iwarp_eq_get(leader.eq, &event, 0) == IWARP_OK) {
        leader_event(&event);
    }
    send_next();
}

/* --- the follower ---------------------------------------------------------------------------- */

/* A new connection takes the place of the old one, whose loss this end may not have noticed. */
static void accept_leader(struct iwarp_conn *conn)
{
    const struct reply own = {{(uint64_t)(uintptr_t)follower.memory->entry,
                               iwarp_mr_stag(follower.mr), sizeof follower.memory->entry},
                              follower.safe};

    drop(&follower);
    new_qp(&follower);
    if (iwarp_accept(conn, follower.qp, NULL, &own, sizeof own, NULL) == IWARP_OK) {
        follower.conn = conn;
    } else {
        iwarp_conn_destroy(conn);
        iwarp_qp_destroy(follower.qp);
    }
}

static void watch_follower(void *arg)
{
    struct iwarp_event event;
    struct iwarp_wc wc;

    (void)arg;
    while (iwarp_cq_poll(follower.cq, &wc, 1) == 1) {
        if (wc.opcode == IWARP_WC_RECV && wc.status == IWARP_WC_SUCCESS) {
            struct iwarp_sge sge;
            follower.safe = follower.memory->told[wc.wr_id];
            struct iwarp_send_wr wr = send_of(&follower.safe, &sge);
            post_receive(&follower, wc.wr_id);
            (void)iwarp_post_send(follower.qp, &wr, NULL);
        }
    }
    while (iwarp_eq_get(follower.eq, &event, 0) == IWARP_OK) {
        if (event.type == IWARP_EVENT_REQUEST) {
            accept_leader(event.conn);
        } else if (event.conn == follower.conn && event.type != IWARP_EVENT_ESTABLISHED) {
            drop(&follower);
        }
    }
}

/* --- a run ----------------------------------------------------------------------------------- */

/* The number of the first entry that was called safe and is not there; 0: all are. */
static uint64_t missing(void)
{
    for (uint64_t i = 0; i < leader.safe; i++) {
        if (follower.memory->entry[i].number != i + 1) {
            return i + 1;
        }
    }
    return 0;
}

static void say(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

static uint64_t run(uint64_t seed, bool tell)
{
    struct iwarp_sim_options options;
    struct sockaddr_in at;

    iwarp_sim_options_init(&options, seed);
    options.lose_one_in = 2000;
    options.trace = tell ? say : NULL;
    must(iwarp_sim_open(&options, &sim), "open a simulation");
    established = busy = false;
    open_end(&leader, "10.0.0.1", watch_leader);
    open_end(&follower, "10.0.0.2", watch_follower);
    for (unsigned i = 0; i < ENTRIES; i++) {
        leader.memory->entry[i].number = i + 1;
        snprintf(leader.memory->entry[i].text, 24, "entry %u", i + 1);
    }
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    must(iwarp_listen(follower.device, (struct sockaddr *)&at, sizeof at, NULL, 4, follower.eq,
                      NULL, &listener),
         "listen");
    must(iwarp_listener_addr(listener, &address, &address_len), "ask for the port");
    connect_leader(NULL);
    for (unsigned i = 0; i < 600 && leader.safe < ENTRIES; i++) {
        iwarp_sim_run(sim, SECOND / 10);
    }
    iwarp_sim_run(sim, SECOND); /* what is on its way arrives */
    uint64_t lost = missing();
    if (leader.safe < ENTRIES) {
        fprintf(stderr, "seed %llu: stuck behind entry %llu\n", (unsigned long long)seed,
                (unsigned long long)leader.safe);
        exit(1);
    }
    iwarp_listener_close(listener);
    close_end(&leader);
    close_end(&follower);
    must(iwarp_sim_close(sim), "close the simulation");
    return lost;
}

int main(int argc, char **argv)
{
    bool one = argc > 3 && strcmp(argv[2], "seed") == 0;
    uint64_t first = one ? strtoull(argv[3], NULL, 10) : 1;
    uint64_t last = one ? first : argc > 2 ? strtoull(argv[2], NULL, 10) : 200;

    if (argc < 2 || (strcmp(argv[1], "broken") != 0 && strcmp(argv[1], "mended") != 0)) {
        fprintf(stderr, "usage: %s broken|mended [SEEDS | seed N]\n", argv[0]);
        return 2;
    }
    setenv("IWARP_LOG", "error", 0); /* connections are lost all the time */
    mended = argv[1][0] == 'm';
    for (uint64_t seed = first; seed <= last; seed++) {
        uint64_t lost = run(seed, one);
        if (lost) {
            printf("seed %llu: entry %llu was called safe, and the follower does not have it\n",
                   (unsigned long long)seed, (unsigned long long)lost);
            return 1;
        }
    }
    printf("nothing lost with seeds %llu to %llu\n", (unsigned long long)first,
           (unsigned long long)last);
    return 0;
}
