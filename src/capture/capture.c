/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See capture.h. A block is put together in memory and written at the offset `at`, which counts
 * whole blocks. If a write fails, the file is cut back to `at` and the recording ends. Memory of
 * the application may be gone by now, so it is copied under a guard.
 */
#include "capture/capture.h"

#include "base/guard.h"
#include "base/log.h"
#include "base/process.h"
#include "capture/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <iwarp/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Octets kept free for the last packet, whose comment says that the file is full. */
#define LAST_PACKET (IWARP_PCAPNG_HEAD + IWARP_HEADERS_MAX + IWARP_PCAPNG_TAIL_MAX)

#define BLOCK (LAST_PACKET + IWARP_CAPTURE_PAYLOAD)
#define NAMES 1000 /* names that are tried, if files with these names are there */

static const char made_up[] =
    "Recorded inside a program by libiwarp, at the border to its transport. The TCP payload of "
    "each direction is what was sent and received, in that order. Made up are: Ethernet, IP and "
    "TCP headers, handshake, segmentation, sequence numbers and acknowledgements; addresses and "
    "ports too, unless the transport is the kernel's TCP.";

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iwarp_capture *list;

/* --- processes ------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* The files are the parent's, and the descriptors are closed: process.h. */
static void after_fork_in_child(void)
{
    list = NULL;
    after_fork();
}

/* list_lock is held when process.c's lock is taken: so also by the handlers of fork. */
static void watch(void)
{
    iwarp_process_watch();
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* --- names ----------------------------------------------------------------------------------- */

/* The name with %p (process id) and %% expanded. */
static char *expanded(const char *wish, bool *has_pid)
{
    char *name = NULL;
    size_t size;
    FILE *to = open_memstream(&name, &size);

    *has_pid = false;
    if (!to) {
        return NULL;
    }
    for (const char *c = wish; *c; c++) {
        if (c[0] == '%' && c[1] == 'p') {
            fprintf(to, "%d", (int)getpid());
            *has_pid = true;
            c++;
        } else {
            fputc(*c, to);
            c += c[0] == '%' && c[1] == '%';
        }
    }
    if (fclose(to) != 0) {
        free(name);
        return NULL;
    }
    return name;
}

/* The i-th name to try: with the process id unless it is there, then a number, in front of what the
 * name ends in. */
static char *other_name(const char *name, bool has_pid, int i)
{
    const char *file = strrchr(name, '/'), *dot = strrchr(file ? file : name, '.');
    char pid[16] = "", number[16] = "", *other = NULL;

    if (!dot || dot == (file ? file + 1 : name)) {
        dot = name + strlen(name);
    }
    if (i > 0 && !has_pid) {
        snprintf(pid, sizeof pid, ".%d", (int)getpid());
    }
    if (i > (has_pid ? 0 : 1)) {
        snprintf(number, sizeof number, "-%d", has_pid ? i + 1 : i);
    }
    int n = asprintf(&other, "%.*s%s%s%s", (int)(dot - name), name, pid, number, dot);
    return n < 0 ? NULL : other;
}

/* Make a file that was not there. Returns its descriptor, or -errno; *path is to be freed. */
static int make_file(const char *wish, char **path)
{
    bool has_pid;
    char *name = expanded(wish, &has_pid);
    int fd = -EEXIST;

    *path = NULL;
    for (int i = 0; name && i < NAMES && fd == -EEXIST; i++) {
        free(*path);
        *path = other_name(name, has_pid, i);
        fd = *path ? open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
        fd = fd < 0 ? -(*path ? errno : ENOMEM) : fd;
    }
    if (fd >= 0 && strcmp(*path, name) != 0) {
        iwarp_log(IWARP_LOG_WARN, "capture", "%s is there already: recording into %s", name, *path);
    }
    int rc = name ? fd : -ENOMEM;
    free(name);
    return rc;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Nothing but whole blocks stays in the file. lock held. */
static void give_up(struct iwarp_capture *c, const char *why)
{
    if (ftruncate(c->fd, (off_t)c->at) != 0) {
        why = strerror(errno);
    }
    atomic_store(&c->over, true);
    iwarp_log(IWARP_LOG_ERROR, "capture", "%s: recording ends after %" PRIu64 " octets: %s",
              c->path, c->at, why);
}

/* lock held. */
static void write_block(struct iwarp_capture *c, const uint8_t *block, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t k = pwrite(c->fd, block + done, n - done, (off_t)(c->at + done));
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            give_up(c, k < 0 ? strerror(errno) : "nothing can be written");
            return;
        }
        done += (size_t)k;
    }
    c->at += n;
}

/* False: some of the memory is gone. */
static bool copy_payload(uint8_t *to, const struct iwarp_capture_packet *p)
{
    size_t skip = p->skip, left = p->len;

    for (const struct iovec *v = p->iov; left > 0; v++) {
        if (skip >= v->iov_len) {
            skip -= v->iov_len;
            continue;
        }
        size_t n = v->iov_len - skip < left ? v->iov_len - skip : left;
        if (iwarp_guard_copy_from(to, (const uint8_t *)v->iov_base + skip, n) != 0) {
            return false;
        }
        to += n;
        left -= n;
        skip = 0;
    }
    return true;
}

/* lock held. */
static void write_packet(struct iwarp_capture *c, const struct iwarp_capture_packet *p,
                         bool headers_only, const char *comment)
{
    struct timespec now;
    size_t headers = iwarp_headers_size(&p->headers);
    uint8_t *payload = c->block + IWARP_PCAPNG_HEAD + headers;

    if (!headers_only && !copy_payload(payload, p)) {
        headers_only = true;
        comment = "Its payload was gone before it could be recorded.";
    }
    clock_gettime(CLOCK_REALTIME, &now); /* wall clock: when it was, for people */
    const struct iwarp_pcapng_packet block = {
        .ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
        .captured = (uint32_t)(headers + (headers_only ? 0 : p->len)),
        .original = (uint32_t)(headers + p->len),
        .inbound = p->inbound,
        .comment = comment};
    if (headers_only) { /* the sums are those of zeros */
        memset(payload, 0, p->len);
    }
    iwarp_headers_put(payload, &p->headers, p->len);
    iwarp_pcapng_put_head(c->block, &block);
    iwarp_pcapng_put_tail(c->block + IWARP_PCAPNG_HEAD + block.captured, &block);
    write_block(c, c->block, iwarp_pcapng_size(&block));
}

/* lock held. */
static bool has_room(const struct iwarp_capture *c, const struct iwarp_capture_packet *p)
{
    return c->at + IWARP_PCAPNG_HEAD + IWARP_HEADERS_MAX + p->len + IWARP_PCAPNG_TAIL_MAX +
               LAST_PACKET <=
           c->most;
}

void iwarp_capture_add(struct iwarp_capture *c, const struct iwarp_capture_packet *p)
{
    if (iwarp_capture_is_over(c)) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (iwarp_capture_is_over(c)) {
        /* meanwhile */
    } else if (has_room(c, p)) {
        write_packet(c, p, false, p->comment);
    } else {
        write_packet(c, p, true, "The recording ends here: the file has reached its bound.");
        if (!atomic_exchange(&c->over, true)) {
            iwarp_log(IWARP_LOG_WARN, "capture",
                      "%s: recording ends after %" PRIu64 " octets: its bound is %" PRIu64, c->path,
                      c->at, c->most);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

/* --- life ------------------------------------------------------------------------------------ */

static void capture_free(struct iwarp_capture *c)
{
    if (c->fd >= 0) {
        iwarp_process_remove_fd(c->fd);
        close(c->fd);
    }
    pthread_mutex_destroy(&c->flows_lock);
    pthread_mutex_destroy(&c->lock);
    free(c->block);
    free(c->path);
    free(c->wish);
    free(c);
}

/* Beyond the process's own limit a write is answered by SIGXFSZ. */
static uint64_t bounded(uint64_t most)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most) {
        return limit.rlim_cur;
    }
    return most;
}

/* list_lock held. 0 or -errno. */
static int start(struct iwarp_capture *c, uint64_t most)
{
    char application[40];

    if (!c->wish || !c->block) {
        return -ENOMEM;
    }
    c->most = bounded(most);
    if (c->most < IWARP_CAPTURE_LEAST) {
        return -EFBIG;
    }
    c->fd = make_file(c->wish, &c->path);
    if (c->fd < 0) {
        return c->fd;
    }
    iwarp_process_add_fd(c->fd);
    snprintf(application, sizeof application, "libiwarp %s", iwarp_version());
    write_block(c, c->block, iwarp_pcapng_put_start(c->block, made_up, application, "libiwarp"));
    iwarp_log(IWARP_LOG_INFO, "capture", "recording into %s, at most %" PRIu64 " octets", c->path,
              c->most);
    return 0;
}

static struct iwarp_capture *capture_new(const char *wish, uint64_t most)
{
    struct iwarp_capture *c = calloc(1, sizeof *c);

    if (!c) {
        iwarp_log(IWARP_LOG_ERROR, "capture", "%s: nothing is recorded: no memory", wish);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->flows_lock, NULL);
    c->fd = -1;
    c->wish = strdup(wish);
    c->block = malloc(BLOCK);
    int rc = start(c, most);
    if (rc < 0) {
        iwarp_log(IWARP_LOG_ERROR, "capture", "%s: nothing is recorded: %s",
                  c->path ? c->path : wish, strerror(-rc));
        capture_free(c);
        return NULL;
    }
    return c;
}

struct iwarp_capture *iwarp_capture_open(const char *wish, uint64_t most)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct iwarp_capture *c;

    pthread_once(&once, watch);
    pthread_mutex_lock(&list_lock);
    for (c = list; c && strcmp(c->wish, wish) != 0; c = c->next) {
    }
    if (!c) {
        c = capture_new(wish, most);
        if (c) {
            c->next = list;
            list = c;
        }
    }
    if (c) {
        c->users++;
    }
    pthread_mutex_unlock(&list_lock);
    return c;
}

void iwarp_capture_close(struct iwarp_capture *c)
{
    if (!c) {
        return;
    }
    pthread_mutex_lock(&list_lock);
    bool last = --c->users == 0;
    if (last) {
        struct iwarp_capture **at = &list;
        while (*at != c) {
            at = &(*at)->next;
        }
        *at = c->next;
        capture_free(c);
    }
    pthread_mutex_unlock(&list_lock);
}
