/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio on sockets: the C library's streams call its own read and write, past this library, so a
 * stream of a socket gets functions that call those here. dprintf cannot be reached.
 *
 * The C library writes what is in the buffers of streams after the last destructor. The sockets
 * have ended by then, in life.c's, so those of sockets are flushed before that.
 */
#include "preload/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stream {
    struct stream *next, **at;
    FILE *file;
    int fd;
};

/* Lock order: the lock of a stream, then that of the list. fclose holds the first when it takes the
 * second. A thread that holds the second may only try the first. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;

static ssize_t read_stream(void *cookie, char *to, size_t n)
{
    const struct stream *s = cookie;

    return read(s->fd, to, n);
}

static ssize_t write_stream(void *cookie, const char *from, size_t n)
{
    const struct stream *s = cookie;
    size_t done = 0;

    while (done < n) { /* a signal may end a write in its midst */
        const ssize_t went = write(s->fd, from + done, n - done);
        if (went < 0) {
            break;
        }
        done += (size_t)went;
    }
    return (ssize_t)done; /* of such a stream 0 is the error */
}

static int seek_stream(void *cookie, off64_t *offset, int whence)
{
    (void)cookie;
    (void)offset;
    (void)whence;
    errno = ESPIPE;
    return -1;
}

/* Another thread of the parent may have had it. */
static void begin_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

static void begin(void)
{
    (void)pthread_atfork(NULL, NULL, begin_child);
}

static void join(struct stream *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    SIGNALS_HELD;

    pthread_once(&once, begin);
    pthread_mutex_lock(&lock);
    s->next = streams;
    s->at = &streams;
    if (s->next) {
        s->next->at = &s->next;
    }
    streams = s;
    pthread_mutex_unlock(&lock);
}

static void leave(struct stream *s)
{
    SIGNALS_HELD;

    pthread_mutex_lock(&lock);
    *s->at = s->next;
    if (s->next) {
        s->next->at = s->at;
    }
    pthread_mutex_unlock(&lock);
}

static int close_stream(void *cookie)
{
    struct stream *s = cookie;
    const int fd = s->fd;

    leave(s);
    free(s);
    return close(fd);
}

EXPORT FILE *fdopen(int fd, const char *mode)
{
    const cookie_io_functions_t calls = {
        .read = read_stream, .write = write_stream, .seek = seek_stream, .close = close_stream};
    struct sock *s = sock_get(fd);

    if (!s) {
        return real()->fdopen(fd, mode);
    }
    sock_put(s);
    struct stream *stream = calloc(1, sizeof *stream);
    FILE *file = stream ? fopencookie(stream, mode, calls) : NULL;
    if (!file) {
        free(stream);
        return NULL;
    }
    stream->file = file;
    stream->fd = file->_fileno = fd; /* for fileno */
    join(stream);
    return file;
}

static struct stream *stream_of(const FILE *file)
{
    SIGNALS_HELD;

    pthread_mutex_lock(&lock);
    struct stream *s = streams;
    while (s && s->file != file) {
        s = s->next;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

/* freopen makes its own system calls, and does not close the socket first. The pointer of a stream
 * with functions to wide characters leads nowhere, and freopen would write there. */
static void end_stream(FILE *file)
{
    struct stream *s = stream_of(file);

    if (s) {
        (void)fflush(file);
        (void)close_stream(s);
        file->_wide_data = NULL;
    }
}

EXPORT FILE *freopen(const char *restrict name, const char *restrict mode, FILE *restrict file)
{
    end_stream(file);
    return real()->freopen(name, mode, file);
}

EXPORT FILE *freopen64(const char *restrict name, const char *restrict mode, FILE *restrict file)
{
    end_stream(file);
    return real()->freopen64(name, mode, file);
}

/* One that another thread uses is left alone, or the end might wait for that thread's read. */
__attribute__((destructor)) static void flush(void)
{
    if (!sock_mine()) { /* a child of vfork has the parent's memory */
        return;
    }
    pthread_mutex_lock(&lock);
    for (struct stream *s = streams; s; s = s->next) {
        if (ftrylockfile(s->file) == 0) {
            (void)fflush_unlocked(s->file);
            funlockfile(s->file);
        }
    }
    pthread_mutex_unlock(&lock);
}
