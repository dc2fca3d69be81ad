/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See crowd.h. Everything here runs while strangers send as fast as they can, so nothing is
 * allocated, and joining and leaving cost O(1); only a full crowd walks its 256 shares.
 */
#include "verbs/crowd.h"
#include "base/virtual.h"
#include "verbs/conn.h"

#include <string.h>
#include <sys/random.h>

void iwarp_crowd_init(struct iwarp_crowd *crowd, enum iwarp_crowd_drops drops, unsigned max,
                      bool no_locks)
{
    memset(crowd, 0, sizeof *crowd);
    iwarp_mutex_init(&crowd->lock, no_locks);
    crowd->drops = drops;
    crowd->max = max;
    /*
     * getrandom gives so few octets all or not at all.  Early in the boot there may be none: then
     * the key is the address of the object, which address randomization makes hard to guess.
     */
    if (!iwarp_random(&crowd->key, sizeof crowd->key, GRND_NONBLOCK)) {
        crowd->key = (uint64_t)(uintptr_t)crowd;
    }
}

void iwarp_crowd_fini(struct iwarp_crowd *crowd)
{
    iwarp_mutex_fini(&crowd->lock);
}

/* --- shares ---------------------------------------------------------------------------------- */

/*
 * A keyed hash: every bit of the result depends on every bit of both arguments. It is not a
 * cryptographic one; a peer never sees its results, only that a connection was dropped.
 */
static uint64_t mix(uint64_t x, uint64_t key)
{
    for (int i = 0; i < 2; i++) {
        x ^= key;
        x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
        x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
        x ^= x >> 33;
    }
    return x;
}

/*
 * Prefixes behind which there are many machines, so that 64 bits do not name one: link-local
 * addresses (all neighbours) and 64:ff9b::/96 (NAT64, all of IPv4). For these the whole address
 * counts.
 */
static bool is_shared_prefix(const struct in6_addr *a)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};

    return IN6_IS_ADDR_LINKLOCAL(a) || memcmp(a, nat64, sizeof nat64) == 0;
}

/*
 * An IPv4-mapped IPv6 address falls into the same share as the IPv4 address: it is the same
 * machine. crowd.lock held, for the key.
 */
static uint8_t share_of(const struct iwarp_crowd *crowd, const struct sockaddr *peer)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    uint64_t half[2] = {0, 0};

    if (peer->sa_family == AF_INET) {
        memcpy(&in, peer, sizeof in);
        memcpy(half, &in.sin_addr, sizeof in.sin_addr);
    } else if (peer->sa_family == AF_INET6) {
        memcpy(&in6, peer, sizeof in6);
        const uint8_t *octets = in6.sin6_addr.s6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
        memcpy(half, octets + (mapped ? 12 : 0), mapped ? 4 : 8);
        if (is_shared_prefix(&in6.sin6_addr)) {
            memcpy(half + 1, octets + 8, 8);
        }
    }
    return (uint8_t)(mix(mix(half[1], crowd->key) ^ half[0], crowd->key) % IWARP_CROWD_SHARES);
}

/* The share is not empty. */
static struct iwarp_member *newest_of(const struct iwarp_crowd *crowd, unsigned share)
{
    return crowd->share[share].oldest->older; /* a ring */
}

/*
 * Does share a lose a member before share b? The larger one does; of two equal ones, the one whose
 * candidate is older, or newer, as the crowd drops. Neither share is empty.
 */
static bool goes_before(const struct iwarp_crowd *crowd, unsigned a, unsigned b)
{
    if (crowd->share[a].count != crowd->share[b].count) {
        return crowd->share[a].count > crowd->share[b].count;
    }
    return crowd->drops == IWARP_DROPS_OLDEST
               ? crowd->share[a].oldest->number < crowd->share[b].oldest->number
               : newest_of(crowd, a)->number > newest_of(crowd, b)->number;
}

/* --- members; crowd.lock held ---------------------------------------------------------------- */

/*
 * Members of a share form a ring in the order in which they joined; `oldest->older` is the newest.
 */
static void add(struct iwarp_crowd *crowd, struct iwarp_member *m)
{
    struct iwarp_member **oldest = &crowd->share[m->share].oldest;

    if (*oldest) {
        m->newer = *oldest;
        m->older = (*oldest)->older;
        m->older->newer = m;
        m->newer->older = m;
    } else {
        m->older = m->newer = m;
        *oldest = m;
    }
    crowd->share[m->share].count++;
    m->number = crowd->joined++;
    m->present = true;
    atomic_fetch_add(&crowd->count, 1);
}

/*
 * `m->crowd` stays: the connection's lock guards it, and another connection's thread may be here.
 */
static void take_out(struct iwarp_crowd *crowd, struct iwarp_member *m)
{
    struct iwarp_member **oldest = &crowd->share[m->share].oldest;

    if (*oldest == m) {
        *oldest = m->newer == m ? NULL : m->newer;
    }
    m->older->newer = m->newer;
    m->newer->older = m->older;
    crowd->share[m->share].count--;
    m->present = false;
    atomic_fetch_sub(&crowd->count, 1);
}

/*
 * The share that loses a member next. The crowd is not empty. A walk over all shares is needed only
 * when a crowd is full or asked for its worst.
 */
static unsigned worst_share(const struct iwarp_crowd *crowd)
{
    unsigned worst = IWARP_CROWD_SHARES;

    for (unsigned i = 0; i < IWARP_CROWD_SHARES; i++) {
        if (crowd->share[i].count > 0 &&
            (worst == IWARP_CROWD_SHARES || goes_before(crowd, i, worst))) {
            worst = i;
        }
    }
    return worst;
}

/* The candidate of a share that is not empty. */
static struct iwarp_member *next_to_go(const struct iwarp_crowd *crowd, unsigned share)
{
    return crowd->drops == IWARP_DROPS_OLDEST ? crowd->share[share].oldest
                                              : newest_of(crowd, share);
}

/*
 * The crowd is not empty. The reference can be taken: a connection leaves its crowd, which takes
 * crowd.lock, before it is freed.
 */
static struct iwarp_conn *drop_one(struct iwarp_crowd *crowd)
{
    struct iwarp_member *m = next_to_go(crowd, worst_share(crowd));

    take_out(crowd, m);
    iwarp_conn_get(m->conn);
    return m->conn;
}

/* --- what others call ------------------------------------------------------------------------ */

/*
 * An empty crowd changes its key, so a peer cannot find out over time which addresses share with
 * others. While there are members, the key stays: their shares depend on it.
 */
struct iwarp_conn *iwarp_crowd_join(struct iwarp_crowd *crowd, struct iwarp_member *member,
                                    const struct sockaddr *peer, int64_t now_ms)
{
    struct iwarp_conn *dropped = NULL;

    iwarp_crowd_leave(member);
    member->crowd = crowd;
    iwarp_mutex_lock(&crowd->lock);
    if (atomic_load(&crowd->count) == 0) {
        crowd->key = mix(crowd->key, crowd->joined);
    }
    member->share = share_of(crowd, peer);
    member->since_ms = now_ms;
    add(crowd, member);
    if (atomic_load(&crowd->count) > crowd->max) {
        dropped = drop_one(crowd);
    }
    iwarp_mutex_unlock(&crowd->lock);
    return dropped;
}

/* Another thread may have dropped the member before: `present` says so, under crowd.lock. */
void iwarp_crowd_leave(struct iwarp_member *member)
{
    struct iwarp_crowd *crowd = member->crowd;

    if (crowd) {
        member->crowd = NULL;
        iwarp_mutex_lock(&crowd->lock);
        if (member->present) {
            take_out(crowd, member);
        }
        iwarp_mutex_unlock(&crowd->lock);
    }
}

struct iwarp_conn *iwarp_crowd_drop(struct iwarp_crowd *crowd)
{
    struct iwarp_conn *dropped = NULL;

    iwarp_mutex_lock(&crowd->lock);
    if (atomic_load(&crowd->count) > 0) {
        dropped = drop_one(crowd);
    }
    iwarp_mutex_unlock(&crowd->lock);
    return dropped;
}

bool iwarp_crowd_has(struct iwarp_member *member)
{
    struct iwarp_crowd *crowd = member->crowd;
    bool has = false;

    if (crowd) {
        iwarp_mutex_lock(&crowd->lock);
        has = member->present;
        iwarp_mutex_unlock(&crowd->lock);
    }
    return has;
}

/*
 * A snapshot: it may be old when the caller acts on it, which then drops a member that is nearly as
 * good a choice.
 */
struct iwarp_crowd_worst iwarp_crowd_worst(struct iwarp_crowd *crowd)
{
    struct iwarp_crowd_worst worst = {0, 0};

    iwarp_mutex_lock(&crowd->lock);
    if (atomic_load(&crowd->count) > 0) {
        unsigned share = worst_share(crowd);
        worst.count = crowd->share[share].count;
        worst.since_ms = next_to_go(crowd, share)->since_ms;
    }
    iwarp_mutex_unlock(&crowd->lock);
    return worst;
}

unsigned iwarp_crowd_share_of(struct iwarp_crowd *crowd, const struct sockaddr *peer)
{
    iwarp_mutex_lock(&crowd->lock);
    unsigned count = crowd->share[share_of(crowd, peer)].count;
    iwarp_mutex_unlock(&crowd->lock);
    return count;
}
