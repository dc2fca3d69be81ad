/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crowds: bounded sets of connections that peers have begun and that nobody has accepted. There are
 * two kinds: the inbound start-ups of a device (max_half_open), and the Requests of a listener that
 * wait for an answer (its backlog).
 *
 * A crowd is divided into shares by the peer's address. When a crowd has too many members, one of
 * the largest share is dropped, so a peer with many connections displaces its own (RFC 5042 6.4).
 * Which one of that share depends on the crowd:
 *
 *   start-ups  the oldest. The newcomer gets in.
 *   Requests   the newest, which is often the newcomer. The oldest will be answered next.
 *
 * A share is picked by a hash of the address with a key that peers do not know. Two addresses may
 * fall into one share; then each is treated as if the other's connections were its own, until the
 * crowd is empty and takes another key. Addresses of IPv6 count by their first 64 bits, since one
 * machine can have all addresses behind them, but for prefixes that many machines share.
 *
 * Any thread. crowd.lock is innermost. A member belongs to its connection, whose lock guards which
 * crowd it joined last; crowd.lock guards whether it is still there, since another thread may have
 * it dropped.
 */
#ifndef IWARP_VERBS_CROWD_H
#define IWARP_VERBS_CROWD_H

#include "base/mutex.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#define IWARP_CROWD_SHARES 256

struct iwarp_conn;
struct iwarp_crowd;

struct iwarp_member {
    struct iwarp_conn *conn;
    struct iwarp_crowd *crowd;          /* that it joined last; NULL: none */
    struct iwarp_member *older, *newer; /* ring of its share; under crowd.lock, as what follows */
    uint64_t number;                    /* in the order of joining: larger is newer */
    int64_t since_ms;                   /* when it joined */
    bool present;                       /* not dropped by the crowd since it joined */
    uint8_t share;
};

enum iwarp_crowd_drops { IWARP_DROPS_OLDEST, IWARP_DROPS_NEWEST };

struct iwarp_crowd {
    struct iwarp_mutex lock;
    enum iwarp_crowd_drops drops;
    unsigned max;
    _Atomic unsigned count; /* members */
    uint64_t key, joined;
    struct {
        struct iwarp_member *oldest; /* NULL: none */
        unsigned count;
    } share[IWARP_CROWD_SHARES];
};

/* no_locks: all on one thread (embedded progress). */
void iwarp_crowd_init(struct iwarp_crowd *crowd, enum iwarp_crowd_drops drops, unsigned max,
                      bool no_locks);
void iwarp_crowd_fini(struct iwarp_crowd *crowd);

/*
 * The connection leaves the crowd that it is in, if any, and joins this one. Returns the connection
 * that the crowd has dropped for it, with a reference for the caller, or NULL; the newcomer itself
 * is dropped by a crowd that drops the newest only. now_ms: by a clock that only runs forward.
 */
struct iwarp_conn *iwarp_crowd_join(struct iwarp_crowd *crowd, struct iwarp_member *member,
                                    const struct sockaddr *peer, int64_t now_ms);

/*
 * Leave the crowd that the member is in, if any. Under the connection's lock, or when no other
 * thread has the connection.
 */
void iwarp_crowd_leave(struct iwarp_member *member);

/* Is the member in a crowd, and has not been dropped by it? */
bool iwarp_crowd_has(struct iwarp_member *member);

/* Drop a member as if one more had joined; returned as by join. NULL: the crowd is empty. */
struct iwarp_conn *iwarp_crowd_drop(struct iwarp_crowd *crowd);

/* The share that would lose a member: how many it has (0: the crowd is empty), and since when the
 * member that would be dropped has been there. */
struct iwarp_crowd_worst {
    unsigned count;
    int64_t since_ms;
};
struct iwarp_crowd_worst iwarp_crowd_worst(struct iwarp_crowd *crowd);

/* How many members are in the share of this address. */
unsigned iwarp_crowd_share_of(struct iwarp_crowd *crowd, const struct sockaddr *peer);

#endif
