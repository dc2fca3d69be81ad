/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot source: the one that alone receives, time after time.  A guest that polls reads it
 * directly, past the loop, which has its turn at every few polls.  Later the loop does not watch
 * the source at all: in the kernel, each segment that comes for a watched socket wakes the loop's
 * descriptor, at the expense of the sender.  Then the loop has its turn every 50 us.
 *
 * The loop watches the source again before anybody sleeps in the loop, as soon as another source
 * receives, and while the source waits for room to send.  All of it on the current thread.
 */
#ifndef IWARP_LOOP_HOT_H
#define IWARP_LOOP_HOT_H

#include <stdbool.h>
#include <stdint.h>

struct iwarp_loop;

struct iwarp_hot_source {
    bool (*read)(void *arg, bool *received); /* one read; false: only the loop can serve it */
    bool (*is_watched)(void *arg);
    void (*watch)(void *arg, bool on);
};

struct iwarp_hot {
    const struct iwarp_hot_source *source; /* NULL: none is hot */
    void *arg;
    unsigned streak; /* receives in a row, by the loop and then directly; hot.c has the limits */
    unsigned direct; /* polls that read it directly */
    int64_t ran_ns;  /* when the loop had its last turn while it did not watch the source */
};

/*
 * received: the loop has found this source ready, and octets came. forget: the source goes away,
 * and is not used after this call.
 */
void iwarp_hot_received(struct iwarp_loop *l, const struct iwarp_hot_source *source, void *arg);
void iwarp_hot_forget(struct iwarp_loop *l, const void *arg);

/* Read the hot source.  False: there is none, or the loop is due. */
bool iwarp_hot_read(struct iwarp_loop *l);

/* No source is hot any more: the loop watches all of them. */
void iwarp_hot_end(struct iwarp_loop *l);

#endif
