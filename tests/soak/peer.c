/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of the soak, started and watched by tests/soak/run:
 *
 *   soak-peer names
 *   soak-peer serve|drive --board FILE [--seed N] [--lanes N] [--breaks] [--plant WHAT=N]
 * PORT=TLS...
 *
 * serve listens on each port, with these words of iwarp/tls.h ("off": plain), and answers sessions;
 * drive begins them, at one of the ports. A port with a ! behind it belongs to a process that makes
 * faults or will be killed, as --breaks says of this one: connections may break then. N of --plant
 * is the session from which on one of octet, descriptor, memory, hang goes wrong.
 */
#include "side.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PLACES 8

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

struct place {
    unsigned port;
    bool breaks;
    const char *tls;
    struct iwarp_listener *listener;
};

/* Requests that wait for a lane. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct iwarp_conn *conn[256];
    unsigned n;
    bool closed;
};

struct peer {
    struct soak soak;
    bool serves;
    unsigned lanes, places;
    struct place place[PLACES];
    struct iwarp_eq *eq;
    struct queue queue;
    pthread_t thread[BOARD_LANES];
};

struct lane {
    struct peer *peer;
    unsigned number;
};

/* --- lanes ----------------------------------------------------------------------------------- */

static struct iwarp_conn *next_request(struct queue *q)
{
    struct iwarp_conn *conn = NULL;

    pthread_mutex_lock(&q->lock);
    while (q->n == 0 && !q->closed) {
        pthread_cond_wait(&q->filled, &q->lock);
    }
    if (q->n > 0) {
        conn = q->conn[0];
        memmove(q->conn, q->conn + 1, --q->n * sizeof *q->conn);
    }
    pthread_mutex_unlock(&q->lock);
    return conn;
}

static void *serve_lane(void *arg)
{
    struct lane *lane = arg;
    struct peer *p = lane->peer;
    struct iwarp_conn *conn;

    while ((conn = next_request(&p->queue)) != NULL) {
        session_respond(&p->soak, &p->soak.board->lane[lane->number], conn);
    }
    return NULL;
}

static void *drive_lane(void *arg)
{
    struct lane *lane = arg;
    struct peer *p = lane->peer;
    struct board *b = p->soak.board;

    for (uint64_t i = 0; !atomic_load(&b->stop); i++) {
        uint64_t seed = script_mix(script_mix(p->soak.seed, lane->number), i);
        const struct place *to = &p->place[script_mix(seed, 1) % p->places];
        while (atomic_load(&b->pause) && !atomic_load(&b->stop)) {
            usleep(2000);
        }
        session_initiate(&p->soak, &b->lane[lane->number], seed, to->port, to->tls, to->breaks);
        /* Ports of connections that were closed come back after a minute. */
        usleep((useconds_t)(script_mix(seed, 2) % 20000));
    }
    return NULL;
}

/* --- the process ----------------------------------------------------------------------------- */

static int64_t heap(void)
{
    if (__sanitizer_get_current_allocated_bytes) {
        return (int64_t)__sanitizer_get_current_allocated_bytes();
    }
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

static unsigned terminates(const struct iwarp_device_stats *s)
{
    uint64_t n = s->terminates_unknown;

    for (int i = 0; i < IWARP_STATS_LAYERS * IWARP_STATS_ETYPES * IWARP_STATS_CODES; i++) {
        n += (&s->terminates_sent[0][0][0])[i] + (&s->terminates_received[0][0][0])[i];
    }
    return (unsigned)n;
}

/* Numbers for the conductor. A pause is quiet when nothing is left of any session. */
static void tell(struct peer *p)
{
    struct board *b = p->soak.board;
    uint64_t pause = atomic_load(&b->pause);
    bool rests = board_all_rest(b);
    struct iwarp_device_stats s = {.size = sizeof s};

    pool_must(iwarp_device_stats(p->soak.device, &s), "statistics");
    const int64_t numbers[][2] = {{BOARD_heap, heap()},
                                  {BOARD_pds, s.pds},
                                  {BOARD_regions, s.regions},
                                  {BOARD_cqs, s.cqs},
                                  {BOARD_srqs, s.srqs},
                                  {BOARD_qps, s.qps},
                                  {BOARD_event_queues, s.event_queues},
                                  {BOARD_listeners, s.listeners},
                                  {BOARD_connections, s.connections},
                                  {BOARD_half_open, s.half_open},
                                  {BOARD_buffer_bytes, (int64_t)s.buffer_bytes},
                                  {BOARD_payload, (int64_t)(s.sent.payload + s.received.payload)},
                                  {BOARD_terminates, terminates(&s)}};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        atomic_store(&b->number[numbers[i][0]], numbers[i][1]);
    }
    if (pause && rests && s.connections == 0) {
        atomic_store(&b->quiet, pause);
    }
}

static void take_requests(struct peer *p)
{
    struct iwarp_event event;
    struct queue *q = &p->queue;

    for (int wait = 20; iwarp_eq_get(p->eq, &event, wait) == IWARP_OK; wait = 0) {
        if (event.type != IWARP_EVENT_REQUEST) {
            continue; /* the lane waits for it by itself */
        }
        pthread_mutex_lock(&q->lock);
        if (q->n == sizeof q->conn / sizeof *q->conn) {
            fputs("soak: too many requests wait\n", stderr);
            exit(3);
        }
        q->conn[q->n++] = event.conn;
        pthread_cond_signal(&q->filled);
        pthread_mutex_unlock(&q->lock);
    }
}

static void start(struct peer *p)
{
    static struct lane lane[BOARD_LANES];
    struct board *b = p->soak.board;

    atomic_store(&b->lanes, p->lanes);
    for (unsigned i = 0; i < p->lanes; i++) {
        lane[i] = (struct lane){p, i};
        board_rest(&b->lane[i], true);
        if (pthread_create(&p->thread[i], NULL, p->serves ? serve_lane : drive_lane, &lane[i])) {
            perror("pthread_create");
            exit(2);
        }
    }
    atomic_store(&b->ready, 1);
}

static void listen_at(struct peer *p, struct place *place)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)place->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct iwarp_conn_options o;

    side_options(&o, place->tls);
    pool_must(iwarp_listen(p->soak.device, (const struct sockaddr *)&at, sizeof at, &o, 256, p->eq,
                           NULL, &place->listener),
              "listen");
}

/* The lanes of a server rest when its clients have ended; the conductor stops it after them. */
static void stop(struct peer *p)
{
    pthread_mutex_lock(&p->queue.lock);
    p->queue.closed = true;
    pthread_cond_broadcast(&p->queue.filled);
    pthread_mutex_unlock(&p->queue.lock);
    for (unsigned i = 0; i < p->lanes; i++) {
        pthread_join(p->thread[i], NULL);
    }
    for (unsigned i = 0; i < p->places && p->serves; i++) {
        pool_must(iwarp_listener_close(p->place[i].listener), "close a listener");
    }
    pool_close(&p->soak.pool);
    pool_must(iwarp_eq_destroy(p->eq), "destroy the event queue");
    pool_must(iwarp_device_close(p->soak.device), "close the device");
}

/* --- arguments ------------------------------------------------------------------------------- */

static _Noreturn void usage(void)
{
    fputs("usage: soak-peer names | serve|drive --board FILE [--seed N] [--lanes N] [--breaks]\n"
          "       [--plant octet|descriptor|memory|hang=N] PORT[!]=TLS...\n",
          stderr);
    exit(2);
}

static void take_plant(struct soak *soak, char *text)
{
    static const char *const names[] = {"none", "descriptor", "memory", "octet", "hang"};
    char *at = strchr(text, '=');

    if (!at) {
        usage();
    }
    *at = '\0';
    for (unsigned i = 1; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            soak->plant = (enum plant)i;
        }
    }
    soak->plant_at = (unsigned)strtoul(at + 1, NULL, 10);
    if (soak->plant == PLANT_NONE) {
        usage();
    }
}

static void take_place(struct peer *p, char *text)
{
    char *end;
    struct place *place = &p->place[p->places++];

    if (p->places > PLACES) {
        usage();
    }
    place->port = (unsigned)strtoul(text, &end, 10);
    place->breaks = *end == '!';
    if (end[place->breaks] != '=') {
        usage();
    }
    place->tls = end + place->breaks + 1;
}

static void take_arguments(struct peer *p, int argc, char **argv)
{
    p->serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    p->lanes = 4;
    if (!p->serves && (argc < 2 || strcmp(argv[1], "drive") != 0)) {
        usage();
    }
    for (int i = 2; i < argc; i++) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--breaks") == 0) {
            p->soak.breaks = true;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            take_place(p, argv[i]);
            continue;
        }
        if (!value) {
            usage();
        } else if (strcmp(argv[i], "--board") == 0) {
            p->soak.board = board_open(value);
        } else if (strcmp(argv[i], "--seed") == 0) {
            p->soak.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--lanes") == 0) {
            p->lanes = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--plant") == 0) {
            take_plant(&p->soak, value);
        } else {
            usage();
        }
        i++;
    }
    if (!p->soak.board || p->lanes < 1 || p->lanes > BOARD_LANES || p->places == 0) {
        usage();
    }
}

static void print_names(void)
{
#define X(name) puts(#name);
    BOARD_NUMBERS(X)
#undef X
}

int main(int argc, char **argv)
{
    static struct peer p = {
        .queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER}};
    struct iwarp_device_options o;

    if (argc == 2 && strcmp(argv[1], "names") == 0) {
        print_names();
        return 0;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody stays behind a conductor that was killed */
    take_arguments(&p, argc, argv);
    iwarp_device_options_init(&o);
    pool_must(iwarp_device_open(&o, &p.soak.device), "open the device");
    pool_must(iwarp_eq_create(p.soak.device, &p.eq), "event queue");
    pool_open(&p.soak.pool, p.soak.device);
    for (unsigned i = 0; i < p.places && p.serves; i++) {
        listen_at(&p, &p.place[i]);
    }
    start(&p);
    while (!atomic_load(&p.soak.board->stop)) {
        take_requests(&p);
        tell(&p);
    }
    stop(&p);
    return 0;
}
