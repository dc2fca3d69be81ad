/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulator for programs that use this library: many devices in one process and one thread, in
 * virtual time, where a seed decides everything that a network and an RDMA device may decide: how
 * long octets are on their way and in what pieces they come, when a connection is lost and what of
 * its octets had arrived, how long the memory of a Send is in use, which of two queue pairs, or of
 * the two queues of one, completes first, when memory is refused. The whole library runs, from
 * verbs to TCP's octets; only the clock, the network and chance are the simulator's. So a run that
 * fails is repeated exactly by its seed. docs/testing-your-rdma-code.md shows how to use it.
 *
 * Threads. A simulation belongs to the thread that opened it, and a thread has one at a time. Its
 * devices are used on that thread only, and other devices are not. Calls that wait (iwarp_cq_wait,
 * iwarp_eq_get, iwarp_conn_wait) run the simulation meanwhile, and their limits are of virtual
 * time. If one has no limit, and nothing is left to happen, the process is ended by abort, after a
 * line in the log: the program would hang.
 *
 * What makes two runs differ all the same: octets that the program itself draws from elsewhere
 * (iwarp_sim_random), the addresses of its memory, since RDMA carries addresses (iwarp_sim_memory,
 * or IWARP_ACCESS_ZERO_BASED), and settings in the environment (iwarp_env(7)). TLS is off.
 */
#ifndef IWARP_SIM_H
#define IWARP_SIM_H

#include <iwarp/verbs.h>

IWARP_BEGIN_DECLS

struct iwarp_sim;

/*
 * What chance may do. Times are nanoseconds of virtual time, drawn so that short ones are as likely
 * as long ones. "One in N": each time with probability 1/N; 0 never, 1 always.
 */
struct iwarp_sim_options {
    size_t size; /* of this structure, set by init */
    uint64_t seed;
    uint64_t delay_min_ns, delay_max_ns; /* until octets that were sent arrive; 1 us to 200 us */
    uint32_t piece_max;                  /* octets that arrive together, 1 to this; 65536 */
    uint64_t react_max_ns; /* until a device, or the application, does what it could; 20 us */
    uint32_t lose_one_in;  /* arrivals and connects: the connection is lost, with what is on its
                            * way; 0 */
    uint64_t
        notice_max_ns;    /* until each of the two ends knows; meanwhile it sends in vain; 10 ms */
    uint32_t late_one_in; /* connections that use the memory of Sends and Writes until the peer has
                           * read it, and complete them then; others copy it at once; 2 */
    uint32_t refuse_one_in; /* allocations of the library that fail: NO_MEMORY, or the end of a
                             * stream; 0 */
    /* Called with a line, without a line feed, for each thing that happens; NULL: not. */
    void (*trace)(void *arg, const char *line);
    void *trace_arg;
};

/* Set *options to what is said above, with this seed. */
IWARP_API void iwarp_sim_options_init(struct iwarp_sim_options *options, uint64_t seed);

/* Begin at time 0. MISUSE: this thread has a simulation, or an option makes no sense. NO_MEMORY.
 * LIMIT: no descriptors. */
IWARP_API enum iwarp_status iwarp_sim_open(const struct iwarp_sim_options *options,
                                           struct iwarp_sim **sim);

/* Give everything back. MISUSE: a device of it is open. */
IWARP_API enum iwarp_status iwarp_sim_close(struct iwarp_sim *sim);

/*
 * Open a device whose network is the simulation, with this address ("10.0.0.1", or of IPv6), which
 * its listeners and connections have. options as for iwarp_device_open, or NULL; transport,
 * progress and loop are the simulator's. Closed by iwarp_device_close. Devices may be opened at any
 * time, also at the address of one that was closed: as a machine that starts again.
 *
 * MISUSE: as for iwarp_device_open; the text is no address; a device with it is open.
 */
IWARP_API enum iwarp_status iwarp_sim_device_open(struct iwarp_sim *sim, const char *address,
                                                  const struct iwarp_device_options *options,
                                                  struct iwarp_device **device);

/*
 * From now on fn(arg) is called, some time after something has happened at this device, to poll its
 * queues (iwarp_cq_poll, iwarp_eq_get with time-out 0) until they are empty, and to do what
 * follows. It may be called in vain. NULL: no more.
 */
IWARP_API enum iwarp_status iwarp_sim_watch(struct iwarp_device *device, void (*fn)(void *arg),
                                            void *arg);

/*
 * Call fn(arg) once, ns from now. MISUSE: fn is NULL, or ns 2^62 or more. If there is no memory
 * for it, the process is ended by abort, after a line in the log: nothing could be repeated.
 */
IWARP_API enum iwarp_status iwarp_sim_after(struct iwarp_sim *sim, uint64_t ns,
                                            void (*fn)(void *arg), void *arg);

/* Lose all connections of this device, now, as lose_one_in does. */
IWARP_API enum iwarp_status iwarp_sim_lose(struct iwarp_device *device);

/* Change what chance may do, from now on; NULL keeps it. seed and trace stay as they are. */
IWARP_API enum iwarp_status iwarp_sim_change(struct iwarp_sim *sim,
                                             const struct iwarp_sim_options *options);

/* Let the next thing happen. False: nothing is left to happen, or sim is NULL. */
IWARP_API bool iwarp_sim_step(struct iwarp_sim *sim);

/* Let happen what happens within the next ns, 2^62 at most; time has gone on by as much then. */
IWARP_API void iwarp_sim_run(struct iwarp_sim *sim, uint64_t ns);

/* Nanoseconds since the simulation was opened. */
IWARP_API uint64_t iwarp_sim_now(const struct iwarp_sim *sim);

/* A number below n, by the seed; 0 if n is 0. For what the program itself leaves to chance. */
IWARP_API uint64_t iwarp_sim_random(struct iwarp_sim *sim, uint64_t n);

/*
 * Memory of `octets` octets, all 0, that has the same addresses each time the program runs, if they
 * are free (the log says if not). It is given back by iwarp_sim_close. NULL: there is none.
 */
IWARP_API void *iwarp_sim_memory(struct iwarp_sim *sim, size_t octets);

IWARP_END_DECLS

#endif
