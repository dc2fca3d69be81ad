/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crowds: bounded sets of connections that peers have begun and that nobody has accepted. There are
 * two kinds: the inbound start-ups of a device (max_half_open), and the Requests of a listener that
 * wait for an answer (its backlog).
 *
 * A crowd is divided into shares by the peer's address. When a crowd is full, the member that must
 * go comes from the largest share, so a peer with many connections displaces its own and no other
 * peer's (RFC 5042 6.4). In which end of that share it stands depends on the crowd:
 *
 *   start-ups  the oldest goes. A newcomer always gets in, and has as long to finish as it takes
 *              until that many others have come from its own share.
 *   Requests   the newest goes, which is often the newcomer. The oldest is next to be answered.
 *
 * A share is picked by a hash of the address with a key that peers do not know. Two addresses may
 * so have one share; then each is treated as if the other's connections were its own. Addresses of
 * IPv6 count by their first 64 bits, since one machine can have all addresses behind them.
 *
 * Any thread. crowd.lock is innermost. A member belongs to its connection, whose lock guards which
 * crowd it is in; whether the crowd still has it is guarded by crowd.lock, for the crowd may drop
 * it on any thread.
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
    uint64_t number;                    /* of those who joined: larger is newer */
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
 * The connection leaves the crowd that it is in, if any, and joins this one. Returns who is one too
 * many now, dropped from the crowd and with a reference for the caller; maybe the newcomer itself.
 * NULL: nobody.
 */
struct iwarp_conn *iwarp_crowd_join(struct iwarp_crowd *crowd, struct iwarp_member *member,
                                    const struct sockaddr *peer);

/* Whatever crowd it is in. */
void iwarp_crowd_leave(struct iwarp_member *member);

/* Whoever would go if the crowd were full, as join returns it. NULL: the crowd is empty. */
struct iwarp_conn *iwarp_crowd_drop(struct iwarp_crowd *crowd);

#endif
