/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of the numbers that are epoll sets. A set in which a thread may look for rsockets
 * itself (rspreload/lead.h) is waited for by epoll_wait on its own number. One that has another
 * number, lies in another set, or is waited for by poll or select is *shared*: the kernel's for
 * good. Any thread, no lock.
 */
#ifndef IWARP_PRELOAD_SETS_H
#define IWARP_PRELOAD_SETS_H

#include <stdbool.h>

enum set_kind { SET_NONE, SET_EMPTY, SET_HAS_SOCKETS, SET_HAS_RSOCKETS };

/* It is one, and has had that at least. */
void set_has(int number, enum set_kind what);
enum set_kind set_kind(int number);

/* Connections that were accepted may be in it, and are not decided about. */
void set_mark_arrivals(int number, bool are);
bool set_has_arrivals(int number);

void set_mark_shared(int number);
bool set_is_shared(int number);

/* The number is none any more. What it was; *shared, too. */
enum set_kind set_forget(int number, bool *shared);

/* Threads that wait in it for the kernel: begin before the look at its kind. */
void set_begin_wait(int number);
void set_end_wait(int number);
bool set_is_waited_for(int number);

#endif
