/* SPDX-License-Identifier: BSD-2-Clause */
/* The transitions are the table in streak.h. */
#include "verbs/streak.h"

#define FIRST    4u     /* posts at once in a row until one waits */
#define MAX_NEED 65536u /* so a program that has changed its ways has streaks in the end */
#define PAUSED   16u    /* pauses make `need` no larger, see streak.h */
#define GOOD     4u     /* batches worth it until `need` is halved */
#define WORTH    4u     /* posts of such a batch */
#define PAID     256u   /* batches of a known program that save more calls than a late post costs */

#define BATCH_POSTS  64u
#define BATCH_OCTETS (1024u * 1024u)

#define PAUSE_NS      1000  /* from the end of one post to the next, if that is a pause */
#define FILL_NS       20    /* so much more for each request: the program fills them in */
#define OCTETS_PER_NS 4     /* and for its payload, */
#define MOST_OCTETS   16384 /* but for so much at most: longer payload is mostly there already */
#define SOON_NS       50000 /* from the last post of a row to the next row, if that is soon */
#define AGE_NS        20000

static void multiply_need(struct iwarp_streak *b, unsigned by, unsigned most)
{
    if (b->need < most) {
        b->need = b->need < most / by ? b->need * by : most;
    }
    b->good = 0;
    b->known = false;
}

static unsigned price_of(const struct iwarp_streak *b)
{
    return b->price ? b->price : GOOD;
}

static void gain_trust(struct iwarp_streak *b)
{
    unsigned price = price_of(b);

    b->trust++;
    b->known = b->trust >= price;
    if (b->trust >= price + PAID) {
        b->price = price > 2 * GOOD ? price / 2 : GOOD;
        b->trust = b->price;
    }
}

/* A first post has waited for nothing. If it did so for long, the next one costs four times as many
 * good batches. */
static void lose_trust(struct iwarp_streak *b, bool for_long)
{
    unsigned price = price_of(b);

    if (for_long) {
        b->price = price < MAX_NEED / 4 ? price * 4 : MAX_NEED;
    }
    b->trust = 0;
    b->known = false;
}

/* The requests that waited have gone out, or do so now. */
static void end_batch(struct iwarp_streak *b, int64_t sent_ns)
{
    bool worth_it = b->posts >= WORTH;

    if (b->known && !worth_it) {
        lose_trust(b, sent_ns - b->since_ns >= AGE_NS);
    }
    if (b->need == 1 && worth_it) {
        gain_trust(b);
    }
    b->good += worth_it;
    if (b->good >= GOOD) {
        b->good = 0;
        b->need -= b->need / 2;
    }
    b->posts = 0;
    b->octets = 0;
}

/*
 * The row was not long enough to wait.  One pause makes `need` twice as much, for instance an
 * interrupt, and a program with few requests in flight has no longer rows: what it does next shows
 * that it stays away no more.
 */
static void forgive(struct iwarp_streak *b)
{
    if (b->row != FIRST || !b->soon || b->need <= FIRST || ++b->good < b->need) {
        return;
    }
    b->good = 0;
    b->need -= b->need / 2;
}

void iwarp_streak_learn(struct iwarp_streak *b, unsigned late)
{
    b->need = b->need ? b->need : FIRST;
    if (b->late != late) {
        b->late = late;
        if (b->known && b->posts == 1) {
            lose_trust(b, true);
        }
        b->posts = 0;
        b->octets = 0;
        b->row = 0;
        multiply_need(b, 4, MAX_NEED);
    }
}

bool iwarp_streak_waits(struct iwarp_streak *b, int64_t now_ns, uint32_t n, uint64_t octets,
                        bool waiting, bool has_room, int64_t sent_ns)
{
    int64_t last = atomic_load_explicit(&b->posted_ns, memory_order_relaxed);

    iwarp_streak_posted(b, now_ns);
    if (b->posts > 0 && !waiting) {
        end_batch(b, sent_ns);
    }
    int64_t pause_ns = PAUSE_NS + (int64_t)n * FILL_NS +
                       (int64_t)(octets < MOST_OCTETS ? octets : MOST_OCTETS) / OCTETS_PER_NS;
    bool at_once = b->row > 0 ? now_ns - last < pause_ns : b->known && now_ns - last < SOON_NS;
    if (!at_once) {
        b->soon = b->row == 0 && now_ns - last < SOON_NS;
        if (waiting && b->posts >= WORTH && now_ns - last < AGE_NS) {
            end_batch(b, now_ns);
        } else if (waiting) {
            multiply_need(b, 2, PAUSED);
        }
        b->posts = 0;
        b->octets = 0;
        b->row = 1;
        return false;
    }
    b->row += b->row < MAX_NEED;
    if (b->row <= b->need && !b->known) {
        forgive(b);
        return false;
    }
    b->since_ns = b->posts == 0 ? now_ns : b->since_ns;
    b->posts++;
    b->octets += octets;
    bool waits = b->posts < BATCH_POSTS && b->octets + octets <= BATCH_OCTETS && has_room &&
                 now_ns - b->since_ns < AGE_NS;
    if (!waits) {
        end_batch(b, now_ns);
    }
    return waits;
}
