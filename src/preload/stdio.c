/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio on sockets: the C library's streams call its own read and write, past this library, so a
 * stream of a socket gets functions that call those here. dprintf cannot be reached.
 */
#include "preload/sock.h"

#include <errno.h>
#include <string.h>

static ssize_t read_stream(void *cookie, char *to, size_t n)
{
    return read((int)(intptr_t)cookie, to, n);
}

static ssize_t write_stream(void *cookie, const char *from, size_t n)
{
    size_t done = 0;

    while (done < n) { /* a signal may end a write in its midst */
        const ssize_t went = write((int)(intptr_t)cookie, from + done, n - done);
        if (went < 0) {
            break;
        }
        done += (size_t)went;
    }
    return (ssize_t)done; /* of such a stream 0 is the error */
}

static int close_stream(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

EXPORT FILE *fdopen(int fd, const char *mode)
{
    const cookie_io_functions_t calls = {
        .read = read_stream, .write = write_stream, .close = close_stream};
    struct sock *s = sock_get(fd);

    if (!s) {
        return real()->fdopen(fd, mode);
    }
    sock_put(s);
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, calls);
    if (stream) {
        stream->_fileno = fd; /* for fileno */
    }
    return stream;
}
