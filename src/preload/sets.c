/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/sets.h"

#include "preload/sock.h"

static struct {
    _Atomic unsigned char kind;
    atomic_bool shared, arrivals;
    _Atomic unsigned short waits;
} sets[SOCK_NUMBERS];

static bool is_known(int number)
{
    return number >= 0 && number < SOCK_NUMBERS;
}

void set_has(int number, enum set_kind what)
{
    unsigned char before = is_known(number) ? atomic_load(&sets[number].kind) : SET_HAS_RSOCKETS;

    while (before < what &&
           !atomic_compare_exchange_weak(&sets[number].kind, &before, (unsigned char)what)) {
    }
}

enum set_kind set_kind(int number)
{
    return is_known(number) ? atomic_load(&sets[number].kind) : SET_NONE;
}

void set_mark_arrivals(int number, bool are)
{
    if (is_known(number)) {
        sets[number].arrivals = are;
    }
}

bool set_has_arrivals(int number)
{
    return is_known(number) && sets[number].arrivals;
}

void set_mark_shared(int number)
{
    if (is_known(number)) {
        sets[number].shared = true;
    }
}

bool set_is_shared(int number)
{
    return !is_known(number) || sets[number].shared;
}

enum set_kind set_forget(int number, bool *shared)
{
    *shared = false;
    if (set_kind(number) == SET_NONE) {
        return SET_NONE;
    }
    atomic_store(&sets[number].waits, 0); /* threads may have left their waits for good */
    atomic_store(&sets[number].arrivals, false);
    *shared = atomic_exchange(&sets[number].shared, false);
    return atomic_exchange(&sets[number].kind, SET_NONE);
}

void set_begin_wait(int number)
{
    if (is_known(number)) {
        atomic_fetch_add(&sets[number].waits, 1);
    }
}

/* The number may be another set's by now. */
void set_end_wait(int number)
{
    unsigned short waits = is_known(number) ? atomic_load(&sets[number].waits) : 0;

    while (waits > 0 && !atomic_compare_exchange_weak(&sets[number].waits, &waits,
                                                      (unsigned short)(waits - 1))) {
    }
}

bool set_is_waited_for(int number)
{
    return is_known(number) && atomic_load(&sets[number].waits) > 0;
}
