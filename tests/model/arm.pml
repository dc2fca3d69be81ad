/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of ARMv8, for the models beside this file, which define THREADS and PLACES (at most 3 and
 * 6) before they include it.
 *
 * A store waits in its thread until it is seen by all others, in any order (ARMv8 shows a store to
 * all others at once); a release store waits for the stores before it. Loads are made in program
 * order, which is right as long as a plain load is followed by none that matters; an acquire load
 * (ldar) waits for the release stores before it, a plain one does not. Of a read-modify-write
 * (ldaxr, stlxr) the store waits as well, and nobody else changes the place meanwhile: what comes
 * behind may be done in between, unless it is an acquire load. So compilers make C11's seq_cst loads
 * and stores on ARMv8, and glibc its mutexes. Of one thread at most one store to a place waits.
 *
 * ARMV7: there acquire and seq_cst loads (ldr, dmb) wait for nothing, and mutexes are given back by
 * dmb and a plain store, so that only a fence keeps a later load behind that.
 */
byte mem[PLACES];
bool waits[THREADS * PLACES];  /* a store of the thread to the place */
byte value[THREADS * PLACES];  /* of that */
byte behind[THREADS * PLACES]; /* places whose stores have to be seen before */
byte stores[THREADS];          /* places with stores that wait, a bit each */
byte releases[THREADS];        /* those of them that acquire loads wait for */
byte taken[PLACES];            /* 1 + the thread of a read-modify-write whose store waits */

#define AT(t, p) ((t) * PLACES + (p))
#define BIT(p)   (1 << (p))

#define CAN_SHOW(t, p) \
    (waits[AT(t, p)] && behind[AT(t, p)] == 0 && (taken[p] == 0 || taken[p] == (t) + 1))

inline reveal(t, p)
{
    mem[p] = value[AT(t, p)];
    waits[AT(t, p)] = false;
    value[AT(t, p)] = 0;
    taken[p] = 0;
    stores[t] = stores[t] & ~BIT(p);
    releases[t] = releases[t] & ~BIT(p);
    for (other : 0 .. PLACES - 1) {
        behind[AT(t, other)] = behind[AT(t, other)] & ~BIT(p);
    }
}

active proctype memory()
{
    byte other;
end:
    do
#define SHOW(t, p) :: d_step { CAN_SHOW(t, p) -> reveal(t, p); other = 0 }
#define SHOW_ALL(t) SHOW_2(t) SHOW_3(t) SHOW_4(t) SHOW_5(t) SHOW_6(t)
#define SHOW_2(t) SHOW(t, 0) SHOW(t, 1)
#if PLACES > 2
#define SHOW_3(t) SHOW(t, 2)
#else
#define SHOW_3(t)
#endif
#if PLACES > 3
#define SHOW_4(t) SHOW(t, 3)
#else
#define SHOW_4(t)
#endif
#if PLACES > 4
#define SHOW_5(t) SHOW(t, 4)
#else
#define SHOW_5(t)
#endif
#if PLACES > 5
#define SHOW_6(t) SHOW(t, 5)
#else
#define SHOW_6(t)
#endif
    SHOW_ALL(0)
    SHOW_ALL(1)
#if THREADS > 2
    SHOW_ALL(2)
#endif
    od
}

inline put(t, p, v, after, released)
{
    value[AT(t, p)] = v;
    behind[AT(t, p)] = after;
    waits[AT(t, p)] = true;
    stores[t] = stores[t] | BIT(p);
    releases[t] = releases[t] | (released -> BIT(p) : 0);
}

#define SEEN(t, p) (waits[AT(t, p)] -> value[AT(t, p)] : mem[p])

/* Relaxed or plain; and the fence of all. */
#define LOAD(t, p, x)  atomic { x = SEEN(t, p) }
#define STORE(t, p, v) atomic { !waits[AT(t, p)] -> put(t, p, v, 0, false) }
#define FENCE(t)       (stores[t] == 0)

/* Release and seq_cst; acquire and seq_cst. */
#define STORE_RELEASE(t, p, v) atomic { !waits[AT(t, p)] -> put(t, p, v, stores[t], true) }
#ifdef ARMV7
#define ACQUIRES(t) true
#else
#define ACQUIRES(t) (releases[t] == 0)
#endif
#define LOAD_ACQUIRE(t, p, x) atomic { ACQUIRES(t) -> x = SEEN(t, p) }

/* x becomes the old value; `new` is an expression, of x too. */
#define FREE(t, p) (!waits[AT(t, p)] && taken[p] == 0)
#define CHANGE(t, p, x, new) \
    atomic { \
        releases[t] == 0 && FREE(t, p) -> x = mem[p]; put(t, p, new, stores[t], true); \
        taken[p] = (t) + 1 \
    }
#define CHANGE_RELEASE(t, p, x, new) \
    atomic { FREE(t, p) -> x = mem[p]; put(t, p, new, stores[t], true); taken[p] = (t) + 1 }
#define CHANGE_RELAXED(t, p, x, new) \
    atomic { FREE(t, p) -> x = mem[p]; put(t, p, new, 0, false); taken[p] = (t) + 1 }

/* Mutexes: 1 is taken. The store that takes one may be seen late, but before anybody else has it. */
#define LOCK(t, p) \
    atomic { \
        ACQUIRES(t) && FREE(t, p) && mem[p] == 0 -> put(t, p, 1, 0, false); taken[p] = (t) + 1 \
    }
#define TRYLOCK(t, p, got) \
    atomic { \
        ACQUIRES(t) && FREE(t, p) -> got = mem[p] == 0; \
        if \
        :: got -> put(t, p, 1, 0, false); taken[p] = (t) + 1 \
        :: else \
        fi \
    }
#ifdef ARMV7
#define UNLOCK(t, p) FENCE(t); STORE(t, p, 0)
#else
#define UNLOCK(t, p) STORE_RELEASE(t, p, 0)
#endif
