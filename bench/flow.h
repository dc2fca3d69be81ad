/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of one or more of our connections that share a completion queue, for bench/turns. Of the
 * library only the public interface is used, so that it runs with the libiwarp.so of either build.
 */
#ifndef BENCH_FLOW_H
#define BENCH_FLOW_H

#include "turn.h"

#include <pthread.h>

#define FLOW_CHAIN_MAX 256u
#define FLOW_TAKE      64

struct flow {
    const struct bench_options *options;
    struct bench_side side; /* without a queue pair of its own */
    struct iwarp_qp **qp;
    struct iwarp_conn **conn;
    unsigned count;    /* queue pairs */
    unsigned receives; /* posted on each */
    size_t at;         /* where in the footprint the next message is */
    unsigned credit;  /* send: how many the peer has receives for; server: taken since it said so */
    unsigned grant;   /* send: how many receives one credit message stands for */
    pthread_t thread; /* of a pair in memory, as what follows */
    unsigned number;
    struct turn turn;
    struct iwarp_send_wr wr[FLOW_CHAIN_MAX];
    struct iwarp_sge sge[FLOW_CHAIN_MAX];
};

struct iwarp_qp *flow_create_qp(const struct flow *flow);
struct bench_advert flow_advert(const struct flow *flow);
void flow_post_receive(const struct flow *flow, struct iwarp_qp *qp);
void flow_open(struct flow *flow, const struct bench_options *options);
void flow_accept(struct flow *flow, struct bench_link *link);
void flow_connect(struct flow *flow, struct bench_link *link);

/* Requests of the options' test, in chains; posts and reaps until the turn is over. */
void flow_prepare_chain(struct flow *flow);
void flow_stream(void *flow, struct turn *turn);

/* --- contenders ------------------------------------------------------------------------------ */

void turns_stream_client(struct bench_link *link);
void turns_stream_server(struct bench_link *link);
void turns_pingpong_client(struct bench_link *link);
void turns_pingpong_server(struct bench_link *link);
void turns_tcp_stream_client(struct bench_link *link);
void turns_tcp_stream_server(struct bench_link *link);
void turns_tcp_crowd_client(struct bench_link *link);
void turns_tcp_crowd_server(struct bench_link *link);
void turns_tcp_pingpong_client(struct bench_link *link);
void turns_tcp_pingpong_server(struct bench_link *link);
int turns_memory(const struct bench_options *options);

#endif
