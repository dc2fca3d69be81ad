/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of metrics.h. It answers one asker after the other, each with one text by HTTP 1.0 and
 * an end, and gives none of them more than a second in all, so that nobody keeps others waiting for
 * long. When the last device is closed, the thread ends at once, whomever it answers.
 *
 * | State | Event | Action | Owner |
 * |---|---|---|---|
 * | no thread | join; IWARP_METRICS is set | listen, begin the thread | the opener |
 * | thread | join, leave | the list changes | the caller, metrics_lock |
 * | thread | asked | render with metrics_lock | the thread |
 * | thread | the last device leaves | stop and join it, remove the socket | the closer |
 * | any | fork | the child begins with nothing | the child's first join |
 */
#include "verbs/metrics.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "loop/clock.h"
#include "verbs/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { REQUEST_MAX = 2048, ASKER_MS = 1000 };

/* life_lock: begin and end of the thread, outside of metrics_lock; the thread never takes it. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t metrics_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    unsigned generation; /* of the process that the rest is of */
    struct iwarp_device *first;
    pthread_t thread;
    bool runs;
    int listener, stop;
    struct sockaddr_un path; /* to remove; "": none */
} own;

/* --- where ----------------------------------------------------------------------------------- */

/* %p is the process. False: too long. */
static bool expand(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 12 < size; text++) {
        if (text[0] == '%' && text[1] == 'p') {
            n += (size_t)snprintf(out + n, size - n, "%d", (int)getpid());
            text++;
        } else {
            out[n++] = *text;
        }
    }
    out[n] = 0;
    return *text == 0;
}

/* A socket that a process has left behind, which nobody answers at, is removed; no other file,
 * though a connect to one is refused as well. */
static void remove_stale(const struct sockaddr_un *path)
{
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && lstat(path->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *)path, sizeof *path) != 0 && errno == ECONNREFUSED) {
        unlink(path->sun_path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Only its owner may ask there. */
static int listen_unix(const char *place)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    own.path = (struct sockaddr_un){.sun_family = AF_UNIX};
    errno = ENAMETOOLONG;
    bool fits = expand(place, own.path.sun_path, sizeof own.path.sun_path);
    if (fits) {
        remove_stale(&own.path);
    }
    if (fd >= 0 && fits && fchmod(fd, 0600) == 0 &&
        bind(fd, (const struct sockaddr *)&own.path, sizeof own.path) == 0 && listen(fd, 8) == 0) {
        return fd;
    }
    int error = errno;
    own.path.sun_path[0] = 0;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return -1;
}

/* ADDRESS:PORT of this machine alone: who asks is not asked who it is. */
static int listen_inet(const char *place)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    char address[INET_ADDRSTRLEN];
    const char *colon = strrchr(place, ':');
    const int one = 1;

    own.path.sun_path[0] = 0;
    errno = EINVAL;
    if (!colon || (size_t)(colon - place) >= sizeof address) {
        return -1;
    }
    memcpy(address, place, (size_t)(colon - place));
    address[colon - place] = 0;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (inet_pton(AF_INET, address, &in.sin_addr) != 1 || *end || end == colon + 1 ||
        port > UINT16_MAX || ntohl(in.sin_addr.s_addr) >> 24 != 127) {
        return -1;
    }
    in.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
                    bind(fd, (const struct sockaddr *)&in, sizeof in) != 0 || listen(fd, 8) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* --- answers --------------------------------------------------------------------------------- */

static void render_connections(FILE *out)
{
    unsigned number = 0;

    pthread_mutex_lock(&metrics_lock);
    for (struct iwarp_device *d = own.first; d; d = d->metrics_next) {
        iwarp_metrics_connections(out, d, number++);
    }
    pthread_mutex_unlock(&metrics_lock);
}

static void render_metrics(FILE *out)
{
    unsigned n = 0, most = 0;

    pthread_mutex_lock(&metrics_lock);
    for (const struct iwarp_device *d = own.first; d; d = d->metrics_next) {
        most++;
    }
    struct iwarp_device_stats *stats = calloc(most, sizeof *stats);
    for (struct iwarp_device *d = own.first; d && stats; d = d->metrics_next) {
        stats[n].size = sizeof *stats;
        n += iwarp_device_stats(d, &stats[n]) == IWARP_OK;
    }
    pthread_mutex_unlock(&metrics_lock);
    iwarp_metrics_text(out, stats, n);
    free(stats);
}

struct asker {
    int fd;
    int64_t end_ms; /* of its time */
};

/* False: its time is up, or the thread is to end. */
static bool await(const struct asker *a, short events)
{
    struct pollfd fds[2] = {{own.stop, POLLIN, 0}, {a->fd, events, 0}};
    int64_t left;
    int n = -1;

    while (n < 0 && (left = a->end_ms - iwarp_now_ms()) > 0) {
        n = poll(fds, 2, (int)left);
    }
    return n > 0 && !fds[0].revents;
}

static void send_all(const struct asker *a, const char *p, size_t n)
{
    while (n > 0 && await(a, POLLOUT)) {
        ssize_t sent = send(a->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0) {
            return;
        }
        p += sent;
        n -= (size_t)sent;
    }
}

/* The first line is all that matters. */
static bool read_request(const struct asker *a, char *request)
{
    size_t n = 0;

    while (await(a, POLLIN)) {
        ssize_t got = recv(a->fd, request + n, REQUEST_MAX - 1 - n, MSG_DONTWAIT);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        request[n] = 0;
        if (strchr(request, '\n')) {
            return true;
        }
        if (n == REQUEST_MAX - 1) {
            return false;
        }
    }
    return false;
}

static void answer(int fd)
{
    const struct asker asker = {fd, iwarp_now_ms() + ASKER_MS};
    char request[REQUEST_MAX], *text = NULL, head[160];
    size_t len = 0;

    if (!read_request(&asker, request)) {
        return;
    }
    bool metrics = strncmp(request, "GET /metrics", 12) == 0,
         connections = strncmp(request, "GET /connections", 16) == 0;
    FILE *out = metrics || connections ? open_memstream(&text, &len) : NULL;
    if (!out) {
        static const char none[] = "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\n"
                                   "There are /metrics and /connections.\n";
        send_all(&asker, none, sizeof none - 1);
        return;
    }
    if (metrics) {
        render_metrics(out);
    } else {
        render_connections(out);
    }
    if (fclose(out) == 0) {
        int n = snprintf(head, sizeof head,
                         "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         len);
        send_all(&asker, head, (size_t)n);
        send_all(&asker, text, len);
    }
    free(text);
}

static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        struct pollfd fds[2] = {{own.stop, POLLIN, 0}, {own.listener, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0) {
            continue;
        }
        if (fds[0].revents) {
            return NULL;
        }
        int fd = accept4(own.listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            answer(fd);
            close(fd);
        } else if (errno != EAGAIN && errno != ECONNABORTED) {
            poll(fds, 1, 100); /* no descriptors, say: no spin */
        }
    }
}

/* --- life ------------------------------------------------------------------------------------ */

/* It may send for a connection whose lock it has held, from memory under guard. */
static bool begin_thread(void)
{
    errno = iwarp_guard_thread(&own.thread, serve, NULL);
    return errno == 0;
}

static void begin(const char *where)
{
    own.listener = strncmp(where, "unix:", 5) == 0 ? listen_unix(where + 5) : listen_inet(where);
    own.stop = own.listener >= 0 ? eventfd(0, EFD_CLOEXEC) : -1;
    own.runs = own.stop >= 0 && begin_thread();
    if (own.runs) {
        iwarp_process_add_fd(own.listener);
        return;
    }
    iwarp_log(IWARP_LOG_WARN, "metrics",
              "IWARP_METRICS=%s: no statistics there: %s (expected unix:PATH, or 127.0.0.1:PORT)",
              where, strerror(errno));
    if (own.listener >= 0) {
        close(own.listener);
    }
    if (own.stop >= 0) {
        close(own.stop);
    }
}

static void end(void)
{
    const uint64_t one = 1;

    if (write(own.stop, &one, sizeof one) == sizeof one) {
        pthread_join(own.thread, NULL);
    }
    iwarp_process_close(own.listener);
    close(own.stop);
    if (own.path.sun_path[0]) {
        unlink(own.path.sun_path);
    }
    own.runs = false;
}

/* A forked child has neither the thread nor a use for the list, and the lock may be held for ever.
 */
static void own_generation(void)
{
    if (own.generation != iwarp_process_generation()) {
        pthread_mutex_init(&life_lock, NULL);
        pthread_mutex_init(&metrics_lock, NULL);
        own.generation = iwarp_process_generation();
        own.first = NULL;
        own.runs = false;
    }
}

void iwarp_metrics_join(struct iwarp_device *device)
{
    const char *where = iwarp_setting("IWARP_METRICS");

    if (!where || !where[0]) {
        return;
    }
    if (device->embedded) { /* nothing in it has a lock, and the thread that answers is ours */
        iwarp_log(IWARP_LOG_WARN, "metrics",
                  "IWARP_METRICS: a device with EMBEDDED progress is not among them, as it belongs "
                  "to one thread of the application: iwarp_device_stats there has the numbers");
        return;
    }
    own_generation();
    pthread_mutex_lock(&life_lock);
    pthread_mutex_lock(&metrics_lock);
    device->metrics_next = own.first;
    own.first = device;
    device->in_metrics = true;
    pthread_mutex_unlock(&metrics_lock);
    if (!own.runs) {
        begin(where);
    }
    pthread_mutex_unlock(&life_lock);
}

void iwarp_metrics_leave(struct iwarp_device *device)
{
    if (!device->in_metrics || device->generation != iwarp_process_generation()) {
        return;
    }
    pthread_mutex_lock(&life_lock);
    pthread_mutex_lock(&metrics_lock);
    struct iwarp_device **at = &own.first;
    while (*at != device) {
        at = &(*at)->metrics_next;
    }
    *at = device->metrics_next;
    device->in_metrics = false;
    bool last = !own.first && own.runs;
    pthread_mutex_unlock(&metrics_lock);
    if (last) {
        end();
    }
    pthread_mutex_unlock(&life_lock);
}
