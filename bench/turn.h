/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a contender of bench/run and bench/pairs is: a program that stays connected and works in
 * turns. A line "WARM LENGTH" (milliseconds) on standard input starts a turn; the answer is a line
 * of JSON of what went on in LENGTH, after WARM. Between two turns nothing is in flight and nobody
 * polls, so that another contender has both cores. Nothing here knows what is measured.
 */
#ifndef BENCH_TURN_H
#define BENCH_TURN_H

#include "programs/bench/bench.h"

struct turn {
    double warm, length;      /* seconds, as asked for */
    double start, begin, now; /* begin: when warm was over; 0 before */
    double cpu_begin[2];      /* processor clocks of client and server at begin */
    double cpu[2];            /* seconds that each used since */
    uint64_t messages;        /* since begin */
    uint64_t samples;         /* round trips since begin, see turn_round_trip */
};

/* --- the client's process -------------------------------------------------------------------- */

/* Tells that it is connected, plays each turn that it is asked for, and ends both processes. */
void turn_play(struct bench_link *link, void (*play)(void *arg, struct turn *turn), void *arg)
    __attribute__((noreturn));

/* So many messages more are through. False: the turn is over, what is in flight has to end. */
bool turn_goes_on(struct turn *turn, uint64_t messages);
/* The same for a round trip that has just ended; its time is kept. */
bool turn_round_trip(struct turn *turn);

/* For a program without a second process: tell, ask and answer by itself. */
void turn_ready(void);
bool turn_next(struct turn *turn);
void turn_answer(struct turn *turn, double rate);

/* --- the server's process -------------------------------------------------------------------- */

/* Before the two processes are made. */
void turn_share(void);
/* The server is ready to be asked for its processor time. */
void turn_serve(void);
/* While a turn is on, a server that polls polls; else it waits for the next, or for the end. */
bool turn_on(void);
void turn_await(struct bench_link *link);
/* Octets that the server has taken in; a turn ends when those are all that the client has sent. */
void turn_took(uint64_t octets);
uint64_t turn_taken(void);
void turn_await_taken(uint64_t octets);

#endif
