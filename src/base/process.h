/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process may do to a library with threads: fork, and cancel threads.
 *
 * After a fork the child has none of the workers, and locks may be held for ever by threads that it
 * does not have. So the child must not use any object of the parent; it recognizes them by their
 * generation. Sockets that are registered here are closed in the child at once. That sends no FIN,
 * since the parent still has them. And when the parent closes one or exits, its peer learns of it,
 * although the child still runs. A socket that cannot be registered for want of memory stays open
 * in children.
 */
#ifndef IWARP_BASE_PROCESS_H
#define IWARP_BASE_PROCESS_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

/*
 * Install the handlers of fork. Any thread, any number of times; before the first call forks are
 * not counted, and sockets are not closed in children.
 */
void iwarp_process_watch(void);

/*
 * The generation of this process: how many forks lie between it and the first process that called
 * iwarp_process_watch. Written by the handler of fork in the child only, so relaxed.
 */
extern _Atomic unsigned iwarp_process_forks;
static inline unsigned iwarp_process_generation(void)
{
    return atomic_load_explicit(&iwarp_process_forks, memory_order_relaxed);
}

/*
 * add: children close this socket from now on. remove: no longer, as the socket is given away. has:
 * is it registered? Any thread.
 */
void iwarp_process_add_fd(int fd);
void iwarp_process_remove_fd(int fd);
bool iwarp_process_has_fd(int fd);

/*
 * Sockets of the library's own: no fork comes between the system call and the registering. New
 * ones are streams, non-blocking and closed by exec; -1: see errno. close leaves errno as it was.
 */
int iwarp_process_socket(int family);
int iwarp_process_accept(int listener, struct sockaddr *peer, socklen_t *peer_len);
void iwarp_process_close(int fd);

/*
 * If a standard descriptor (0 to 2) is closed, it becomes the end of a pipe that has no other end.
 * Else the next descriptor of the library would have its number. A socket would then get what the
 * application or the log writes there. If a loop of libuv has such a number, libuv ends the process
 * when it closes the loop. Before a device or a loop is opened. Any thread.
 */
void iwarp_process_fill_standard(void);

/*
 * Calls of the library hold locks and descriptors over what POSIX makes cancellation points.
 * IWARP_UNCANCELLED as the first line of a block puts (deferred) cancellation off to its end.
 */
static inline int iwarp_process_cancel_off(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void iwarp_process_cancel_back(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

#define IWARP_UNCANCELLED                                                                          \
    int iwarp_cancel_before __attribute__((cleanup(iwarp_process_cancel_back), unused)) =          \
        iwarp_process_cancel_off()

/* In a block with IWARP_UNCANCELLED and no lock held: be cancelled here, if the caller of the block
 * had cancellation enabled. */
#define IWARP_CANCELLATION_POINT iwarp_process_test_cancel(iwarp_cancel_before)
static inline void iwarp_process_test_cancel(int before)
{
    if (before == PTHREAD_CANCEL_ENABLE) {
        pthread_setcancelstate(before, NULL);
        pthread_testcancel();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    }
}

/* In a block with IWARP_UNCANCELLED and no lock held: poll(2) as a cancellation point, if the
 * caller of the block had cancellation enabled. */
#define IWARP_POLL_CANCELLABLY(fds, timeout_ms)                                                    \
    iwarp_process_poll(fds, timeout_ms, iwarp_cancel_before)
int iwarp_process_poll(struct pollfd *fd, int timeout_ms, int cancel_state);

#endif
