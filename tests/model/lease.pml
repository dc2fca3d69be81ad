/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lease of a loop: src/loop/lease.h, whose invariants are numbered there.  Each statement is one
 * access to shared memory, in the order of home.c and guest.c.
 *
 *   Home     live() and park()
 *   Poller   progress.c: take, then visits, and it may stay away for ever at any time
 *   Leader   progress.c: take and stay, and it may stay away for ever at any time
 *   Sleeper  (with -DSLEEPER) arms a queue, recalls the lease, and sleeps until the loop has told it
 *   Waiter   (with -DWAITER) recalls the lease, and sleeps without a queue
 *
 * With -DOPEN the lease is open, that of polled progress: two Pollers visit whenever they like and
 * ask the home in between, there is no Leader, and a Sleeper polls once more before it sleeps.
 * Sleepers do not end an open lease, so a Poller that stays away leaves them to the home.
 *
 * There is no clock: the home is never woken by a park time that is over, so nobody can be saved by
 * it, but for the one case that relies on it: a Sleeper beside the Pollers of an open lease (not
 * with -DALONE, where there are none).  A time-out of a lock or of a wait may come at any moment.
 *
 * Each of the three asks for something else in the end: that a guest which asks is heard, that the
 * sleeper is told, that a recall ends.
 *
 * holds:
 * holds: SLEEPER
 * holds: WAITER
 * fails: SLEEPER NO_SLEEPERS_IN_PARK  park() does not look for sleepers
 * fails: SLEEPER NO_NUDGE  stay() does not wake the home after a recall
 * fails: WAITER RESET_AT_END  live() forgets recalls that came once a guest had asked
 * fails: WAITER LOST_IF_HOME  recall() does nothing though a guest has asked
 * fails: ASLEEP_TOO_LATE  live() sets `asleep` after it has looked for guests that ask
 * fails: GUEST_OWNS  a guest does not take `run`
 *
 * holds: OPEN
 * holds: OPEN WAITER
 * holds: OPEN SLEEPER
 * holds: OPEN SLEEPER ALONE
 * fails: OPEN ASLEEP_TOO_LATE
 * fails: OPEN GUEST_OWNS
 * fails: OPEN WAITER RESET_AT_END
 * fails: OPEN WAITER LOST_IF_HOME
 * fails: OPEN SLEEPER NO_TIME_OUT  the home parks for ever
 * fails: OPEN SLEEPER ALONE ASKS  the poll before sleeping takes the loop from the home
 */
#define HOME   0
#define GUEST  1
#define VISITS 2

bool mutex;              /* the lock */
byte owner = GUEST;
byte wanted, visits, seen, sleepers;
bool asleep, nudge, wake; /* wake: libuv's async handle */
bool event;            /* something in the loop for the sleeper */
bool told, armed, waiting;
byte inside;           /* threads that run the loop; ghost */

inline loop_turn() /* what is ready */
{
    atomic {
        inside++;
        assert(inside == 1) /* invariant 1 */
    }
    wake = false;
    if
    :: event -> event = false; told = true
    :: else
    fi
    inside--
}

#ifdef OPEN
#define IS_OVER false
#define IS_RECALLED (wanted > 0)
#else
#define IS_OVER (sleepers > 0 || (owner == GUEST && wanted > 0))
#ifdef NO_SLEEPERS_IN_PARK
#define IS_RECALLED (wanted > 0)
#else
#define IS_RECALLED (wanted > 0 || sleepers > 0)
#endif
#endif

#if defined(OPEN) && defined(SLEEPER) && !defined(ALONE) && !defined(NO_TIME_OUT)
#define TIME_OUT
#endif

inline recall()
{
    here = (owner == HOME);
#ifndef LOST_IF_HOME
    if
    :: here -> here = asleep
    :: else
    fi;
    if
    :: here -> here = (owner == HOME)
    :: else
    fi;
#endif
    if
    :: here
    :: else ->
        if
        :: atomic { wanted == 0 -> wanted++ } ->
            if
            :: asleep
            :: else -> nudge = true
            fi
        :: atomic { else -> wanted++ }
        fi
    fi
}

active proctype Home()
{
#ifdef TIME_OUT
    byte before;
#endif

    do
    :: /* live() */
        atomic { !mutex -> mutex = true };
        seen = visits;
#ifndef ASLEEP_TOO_LATE
        asleep = true;
#endif
#ifndef RESET_AT_END
        wanted = 0;
#endif
        owner = HOME;
        loop_turn();
        do
        :: visits != seen -> break
        :: else ->
            asleep = true;
#ifndef ASLEEP_TOO_LATE
            if
            :: visits != seen -> break
            :: else
            fi;
#endif
            (wake || event); /* sleeps in the loop */
            loop_turn()
        od;
        asleep = false;
#ifdef RESET_AT_END
        wanted = 0;
#endif
        owner = GUEST;
        mutex = false;
        /* park() */
        do
        :: IS_RECALLED -> break
        :: else ->
#ifdef TIME_OUT
            before = visits;
#endif
            if
            :: nudge -> nudge = false
#ifdef TIME_OUT
            :: visits == before -> break /* time is up; only a Leader is `asleep` */
            :: visits != before
#endif
            fi
        od
    od
}

inline ask()
{
    visits++;
    if
    :: asleep ->
        if
        :: atomic { asleep -> asleep = false } -> wake = true
        :: else
        fi
    :: else
    fi
}

/* enter(): `held` tells whether this thread has the loop. */
inline enter()
{
    if
    :: owner == HOME -> ask()
    :: else
    fi;
#ifndef GUEST_OWNS
    if
    :: atomic { !mutex -> mutex = true }; held = true
    :: held = false /* another thread has it, or time is up */
    fi;
#else
    held = true;
#endif
    if
    :: held -> assert(owner == GUEST); visits++
    :: else
    fi
}

inline take()
{
    held = false;
    if
    :: IS_OVER
    :: else ->
        enter();
        if
        :: held && IS_OVER -> mutex = false; held = false
        :: else
        fi
    fi
}

#ifdef OPEN
/* visit_all(): a visit, and if the home runs the loop it may be asked, as by a call. */
inline visit_open()
{
#ifndef GUEST_OWNS
    if
    :: atomic { !mutex -> mutex = true } ->
#else
    if
    :: owner == GUEST ->
#endif
        assert(owner == GUEST);
        visits++;
        loop_turn();
        mutex = false
    :: owner == HOME -> ask()
    :: skip
    fi
}

#ifndef ALONE
active [2] proctype Poller()
{
    byte visit;

    do
    :: visit < VISITS -> visit++; visit_open()
    :: break
    od
}
#endif
#else
active proctype Poller()
{
    bool held;
    byte visit;

    take();
    if
    :: held -> mutex = false
    :: else -> goto away
    fi;
    do
    :: IS_OVER || visit == VISITS -> break
    :: else ->
        visit++;
        if
        :: atomic { !mutex -> mutex = true } ->
            assert(owner == GUEST);
            visits++;
            loop_turn();
            mutex = false
        :: mutex
        fi
    :: break
    od;
away:
    skip
}

active proctype Leader()
{
    bool held, over;
    byte visit;

    do
    :: visit < VISITS ->
        visit++;
        take();
        if
        :: held -> /* stay() */
            asleep = true;
            do
            :: wake || event -> loop_turn()
            :: break /* done, or its patience is over */
            od;
            asleep = false;
            over = IS_OVER;
            mutex = false;
            if
#ifndef NO_NUDGE
            :: over -> nudge = true
#endif
            :: else
            fi
        :: else
        fi
    :: break
    od
}
#endif

#ifdef SLEEPER
active proctype Sleeper()
{
    bool here;

    sleepers++;
    recall();
#ifdef OPEN
    if
    :: atomic { !mutex -> mutex = true } ->
        assert(owner == GUEST);
        visits++;
        loop_turn();
        mutex = false
#ifdef ASKS
    :: owner == HOME -> ask()
#endif
    :: skip
    fi;
#endif
    armed = true;
    event = true;
    told;
    sleepers--
}
#endif

#ifdef WAITER
active proctype Waiter()
{
    bool here;

    waiting = true;
    waiting = false;
    recall()
}
#endif

#define HOME_RUNS (owner == HOME && (asleep || inside > 0))
#define ASKED    (owner == HOME && visits != seen)

#if defined(SLEEPER) /* invariants 1, 2 and 4 */
ltl told { [] (armed -> <> told) }
#elif defined(WAITER) /* invariant 5 */
ltl recall_ends { [] (waiting -> <> HOME_RUNS) }
#else /* invariant 2 */
ltl asked_is_heard { [] (ASKED -> <> (owner == GUEST)) }
#endif
