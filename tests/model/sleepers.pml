/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleepers that are passed over: src/loop/sleepers.h.  One queue is armed for long, and may be told
 * and disarmed at any time.  Two guests pass over what is armed, and a thread arms another queue, or
 * (with -DAGAIN) one that was armed as well.  In the end, if that thread has armed it, somebody
 * counts as a sleeper.  Each statement is one access (sequentially consistent).
 *
 * holds:
 * holds: AGAIN
 * fails: ARMS_LAST   the count of arms goes up after the queue is armed
 * fails: LOOKS_ONCE  a guest does not look once more whether one was armed
 * fails: KEEPS       arming leaves `passed` as it is
 */
#ifdef AGAIN
byte armed = 2;
#else
byte armed = 1;
#endif
byte arms, passed;
bool begun;  /* that thread has armed its queue */
byte ended;  /* processes */

active [2] proctype Guest()
{
    byte n;

    n = armed;
    if
    :: arms == 0 ->
        passed = n;
#ifndef LOOKS_ONCE
        if
        :: arms != 0 -> passed = 0
        :: else
        fi
#endif
    :: else
    fi;
    ended++
}

active proctype Old()
{
    if
    :: armed--
    :: skip
    fi;
    ended++
}

active proctype Arming()
{
    if
    :: true ->
#ifndef ARMS_LAST
        arms++;
#endif
#ifndef KEEPS
        passed = 0;
#endif
#ifndef AGAIN
        armed++;
#endif
#ifdef ARMS_LAST
        arms++;
#endif
        begun = true
    :: true
    fi;
    ended++
}

active proctype End()
{
    ended == 4;
    assert(!begun || armed > passed)
}
