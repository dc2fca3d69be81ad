/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-bench: what its files share. Options of a run, the two processes of one run and what they
 * tell each other, one side of a connection, and the result line. Errors end the program with a
 * sentence. Nothing here knows what is measured.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <iwarp/iwarp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run that takes longer than this without any completion has failed. */
#define BENCH_PATIENCE_MS 120000

struct bench_options {
    const char *test;
    size_t octets;         /* of a message */
    size_t footprint;      /* octets of memory that messages go round in, on each side */
    double seconds;        /* for how long */
    unsigned count;        /* connections, regions or operations */
    unsigned depth;        /* requests in flight */
    unsigned chain;        /* requests in one posting call, the last of them signaled */
    unsigned ulpdu_max;    /* of struct iwarp_conn_options */
    unsigned workers;      /* of the device */
    bool polled;           /* busy polling instead of sleeping */
    bool spin;             /* the same with threaded progress */
    bool embedded;         /* the device runs in a loop of this program, which waits in it */
    bool inlined;          /* payload is copied while posting, stamped with a number */
    bool crc;              /* CRC32c */
    bool early;            /* IWARP_PLACE_EARLY */
    int cores[2];          /* server's, client's; -1: any */
    const char *listen_on; /* server only: address */
    const char *connect_to;
    const char *port;
};

bool bench_options_parse(int argc, char **argv, struct bench_options *options);
void bench_options_help(void);

/* --- errors ---------------------------------------------------------------------------------- */

void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void bench_must(enum iwarp_status status, const char *what);

/* --- time and processor ---------------------------------------------------------------------- */

double bench_now(void); /* seconds */
double bench_cpu(void); /* seconds that this process has used */
void bench_pin(int core);

/* Private memory of this process that is resident, octets. */
size_t bench_resident(void);

/* Descriptors for so many connections: a limit that is too low is raised where that is allowed. */
void bench_raise_limit(unsigned connections);

/* --- two processes --------------------------------------------------------------------------- */

/* What the server tells the client at the end of a run, beside the connection. */
struct bench_report {
    uint64_t octets;
    uint64_t count;
    double cpu;
    double value[3];
};

/* The server's side and the client's of one run. On one machine both are processes of ours, with
 * pipes between them. */
struct bench_link {
    const struct bench_options *options;
    bool server;
    int to_peer, from_peer; /* -1: the peer is on another machine */
};

/* Run server and client, each in a process of its own, or one alone if the options say so. */
int bench_both(const struct bench_options *options, void (*server)(struct bench_link *),
               void (*client)(struct bench_link *));
void bench_tell(struct bench_link *link, const void *data, size_t len);
/* False: the peer is on another machine and tells nothing. */
bool bench_hear(struct bench_link *link, void *data, size_t len);

/* --- result ---------------------------------------------------------------------------------- */

/* One line of JSON on stdout. Names are plain words. */
void bench_result_begin(const struct bench_options *options);
void bench_result_number(const char *name, double value);
/*
 * A stream of `messages` of options->octets: rates, and the processor time of both sides per GiB.
 * server_cpu < 0: that side did not say.
 */
void bench_result_stream(const struct bench_options *options, uint64_t messages, double seconds,
                         double client_cpu, double server_cpu);
/* Round trips: each as it comes, then all with what they took together. */
void bench_sample(double seconds);
void bench_result_round_trips(double seconds);
void bench_result_end(void);

/* --- one side of a connection ---------------------------------------------------------------- */

struct bench_advert {
    uint64_t to;
    uint64_t len;
    uint32_t stag;
    uint32_t octets; /* of a message: both sides have to mean the same */
};

struct bench_side {
    const struct bench_options *options;
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp;
    struct iwarp_mr *mr;
    struct iwarp_conn *conn;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    uint8_t *memory;
    size_t len;
    bool gone; /* the peer has closed */
    uint32_t stag;
    struct bench_advert peer;
};

void bench_device_open(const struct bench_options *options, struct iwarp_device **device);
void bench_conn_options(const struct bench_options *options, struct iwarp_conn_options *conn);
/* The address of the server, for listening (port 0 in one machine) or connecting. */
void bench_listen(struct bench_link *link, struct iwarp_device *device, struct iwarp_eq *eq,
                  int backlog, struct iwarp_listener **listener);
void bench_address(struct bench_link *link, struct sockaddr_storage *addr, socklen_t *addr_len);

/* Without a queue pair, and with it. */
void bench_side_open_shared(struct bench_side *side, const struct bench_options *options,
                            unsigned entries);
void bench_side_open(struct bench_side *side, const struct bench_options *options);
void bench_side_serve(struct bench_side *side, struct bench_link *link);
void bench_side_connect(struct bench_side *side, struct bench_link *link);
void bench_side_close(struct bench_side *side);

/* 1 to n completions, all successful; 0 if the peer has gone. */
int bench_take(struct bench_side *side, struct iwarp_wc *wc, int n);
void bench_post(struct bench_side *side, const struct iwarp_send_wr *wr);
void bench_post_receive(struct bench_side *side, size_t at, size_t octets);

/* A word for each 8 octets, from their place and a seed. */
void bench_fill(uint8_t *memory, size_t len, uint64_t seed);
/* False: some octet is another; *where is the place. */
bool bench_check(const uint8_t *memory, size_t len, uint64_t seed, size_t *where);

/* --- one side of a TCP connection ------------------------------------------------------------ */

/* A listening socket, whose address the client is told. */
int bench_tcp_listen(struct bench_link *link, int backlog);
int bench_tcp_accept(int listener);
int bench_tcp_connect(const struct sockaddr *addr, socklen_t addr_len);

/* --- what is measured ------------------------------------------------------------------------ */

void bench_stream_server(struct bench_link *link);
void bench_stream_client(struct bench_link *link);
void bench_pingpong_server(struct bench_link *link);
void bench_pingpong_client(struct bench_link *link);
/* Many sockets, of which the client fills one after the other (tcp_crowd.c). */
struct bench_tcp_flow {
    int fd;
    bool full;     /* the socket took less than was offered */
    size_t at;     /* octets of the message that are out */
    uint64_t done; /* messages */
};

struct bench_tcp_crowd {
    const struct bench_options *options;
    struct bench_tcp_flow *flow;
    uint8_t *memory; /* a message */
    int epoll;
};

/* All that the options ask for; epoll tells their numbers. */
void bench_tcp_crowd_accept(struct bench_tcp_crowd *crowd, struct bench_link *link);
void bench_tcp_crowd_connect(struct bench_tcp_crowd *crowd, struct bench_link *link);
/* As much of a message as the socket takes. */
void bench_tcp_crowd_give(struct bench_tcp_crowd *crowd, struct bench_tcp_flow *flow);
/* Finds those that have room again; sleeps: until there is one, unless the options say polled. */
void bench_tcp_crowd_await_room(struct bench_tcp_crowd *crowd, bool sleeps);

void bench_tcp_stream_server(struct bench_link *link);
void bench_tcp_stream_client(struct bench_link *link);
void bench_tcp_pingpong_server(struct bench_link *link);
void bench_tcp_pingpong_client(struct bench_link *link);
void bench_tcp_crowd_server(struct bench_link *link);
void bench_tcp_crowd_client(struct bench_link *link);
void bench_crowd_server(struct bench_link *link);
void bench_crowd_client(struct bench_link *link);
int bench_register(const struct bench_options *options);
int bench_memory(const struct bench_options *options);

#endif
