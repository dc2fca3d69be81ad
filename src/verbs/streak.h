/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a post one of a streak, so that its requests may wait for the next one and go out together
 * with those? A post is a call, of one request or a chain. A policy without clock, I/O and locks,
 * one for each send queue.  A program is *in a streak* while it posts one call after the other
 * without a pause, and asks for completions only where it finds some.  It has *caught up* when it
 * finds a queue empty, or waits: then it waits for the answer to what it has posted, and everything
 * goes out.
 *
 *   | state  | event                                 | the requests         | next state |
 *   |--------|---------------------------------------|----------------------|------------|
 *   | alone  | the first post after it has caught up | go out               | alone      |
 *   | alone  | the same, of a known program, soon    | wait                 | streak     |
 *   | alone  | a post after a pause                  | go out               | alone      |
 *   | alone  | a post at once, the need-th in a row  | wait                 | streak     |
 *   | streak | a post at once, and there is room     | wait                 | streak     |
 *   | streak | the same, but what waits is a batch,  | go out               | streak     |
 *   |        | AGE_NS old, or half of the ring       |                      |            |
 *   | streak | a post after a pause                  | go out; need times   | alone      |
 *   |        |                                       | 2, up to PAUSED      |            |
 *   | streak | the same, after less than AGE_NS, and | go out               | alone      |
 *   |        | WORTH posts or more have waited       |                      |            |
 *   | any    | the program has caught up             | go out               | alone      |
 *   | any    | a tick finds one that was there at    | go out; need times 4 | alone      |
 *   |        | the tick before                       |                      |            |
 *
 * A batch is 64 posts or 1 MiB, counting one more like the last: a post of more than half of that
 * goes out at once.
 *
 * PAUSED is less than MAX_NEED, since a pause may be the machine's: an interrupt, a look at the
 * loop that brought much, the tick.  With a `need` beyond its rows a program would never have a
 * streak again.  And the next pause of that kind must not come before the requests that go out
 * alone are sent: 16 take 100 to 150 us, and a tick comes each 250 us.  A short pause costs nothing
 * at all once WORTH posts have waited: their calls would have taken as long.  Programs that move
 * long messages by Sends of 8 KiB make such pauses each time they take completions.
 * `need` begins at FIRST and is halved, down to 1, after GOOD batches that were worth it.  A
 * program that posts and stays away soon has all of its requests go out at once.  One whose rows
 * are too short for `need`, but begin soon after each other, has it halved, down to FIRST, after
 * `need` such rows of FIRST posts or more.
 *
 * After GOOD batches that were worth it with a `need` of 1 a program is *known*.  Then the first
 * post after it has caught up waits, if it comes within SOON_NS of the last post; the program's
 * next look sends it, or the tick.  If that batch is not worth it, or only this post was late, the
 * program is known no more, and earns that anew.  If the post went out AGE_NS after it came, or
 * later, the price, GOOD batches at first, is four times as high; once the program has been known
 * for PAID batches, it is halved.  So a program that posts much and then one request for which it
 * does not look has few of these late.  A pause, or a late batch of several posts, makes a program
 * unknown until `need` is 1 again, and costs no trust.
 *
 * A zeroed struct is a queue that nobody knows yet.  One thread at a time; it owns no memory.
 */
#ifndef IWARP_VERBS_STREAK_H
#define IWARP_VERBS_STREAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct iwarp_streak {
    unsigned caught_up;        /* how often the program had, at the last post */
    unsigned late;             /* how often a tick had found a late request */
    unsigned row;              /* posts at once in a row; 0: it has caught up since */
    bool soon;                 /* the row began soon after the one before */
    unsigned need;             /* so many before one waits; 0: FIRST */
    bool known;                /* the first post after it has caught up waits, too */
    unsigned trust;            /* batches that were worth it with `need` 1 */
    unsigned price;            /* so many until it is known; 0: GOOD */
    unsigned good;             /* batches that were worth it, or rows too short to wait, so far */
    unsigned posts;            /* that wait, or have waited in the last batch */
    uint64_t octets;           /* of these */
    _Atomic int64_t posted_ns; /* when the last post was over; without a lock */
    int64_t since_ns;          /* when the first one that waits came */
};

/*
 * The first question at each post: can it be one of a streak at all?  The number counts up. false:
 * it goes out.  true: now the clock has to be read.
 */
static inline bool iwarp_streak_goes_on(struct iwarp_streak *b, unsigned caught_up)
{
    bool on = b->caught_up == caught_up;

    b->caught_up = caught_up;
    b->row = on ? b->row : 0;
    return on || b->known;
}

/* How often a tick has found a late request so far. */
void iwarp_streak_learn(struct iwarp_streak *b, unsigned late);

/*
 * The second one: does it wait?  n: its requests.  waiting: the requests before are still unsent.
 * has_room: there is room in the ring for as many again.  sent_ns: when requests that had waited
 * were sent last.
 */
bool iwarp_streak_waits(struct iwarp_streak *b, int64_t now_ns, uint32_t n, uint64_t octets,
                        bool waiting, bool has_room, int64_t sent_ns);

/* The post of a request that went out is over; only if the clock had to be read before. */
static inline void iwarp_streak_posted(struct iwarp_streak *b, int64_t now_ns)
{
    atomic_store_explicit(&b->posted_ns, now_ns, memory_order_relaxed);
}

#endif
