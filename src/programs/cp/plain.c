/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The measure that iwarp-cp is held against: two processes and one TCP connection over 127.0.0.1,
 * the same source and sink, the same slot size, and between them nothing but write and read. One
 * process reads the files and sends, the other receives and writes them, each as fast as the socket
 * lets it; the clock stops when the last file is there.
 *
 * A frame is the lengths of records and data, both, and whether it is the last.
 */
#include "plain.h"

#include "channel.h"
#include "report.h"
#include "sink.h"
#include "source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAME_LEN 12

struct plain {
    const struct cp_options *options;
    uint8_t *slot;
    uint8_t records[CP_MESSAGE_MAX];
    struct cp_source source;
    struct cp_sink sink;
    struct cp_report report;
    uint64_t failed;
};

static bool write_all(int fd, struct iovec *iov, int count)
{
    while (count > 0) {
        ssize_t n = writev(fd, iov, count);
        if (n < 0) {
            return false;
        }
        for (; count > 0 && (size_t)n >= iov->iov_len; iov++, count--) {
            n -= (ssize_t)iov->iov_len;
        }
        if (count > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return true;
}

static bool read_all(int fd, uint8_t *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, buf, len, MSG_WAITALL);
        if (n <= 0) {
            return false;
        }
        buf += n;
        len -= (size_t)n;
    }
    return true;
}

static void on_done(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                    struct cp_result result)
{
    struct plain *plain = context;

    (void)sequence;
    (void)size;
    (void)is_dir;
    if (result.status != CP_OK) {
        plain->failed++;
        cp_error_result(path, false, result);
    }
}

/* The receiving process. */
static bool receive(struct plain *plain, int fd)
{
    struct cp_sink_events events = {plain, on_done, NULL};
    const char *target = plain->options->arguments[1];
    int dir = mkdir(target, 0777) < 0 && errno != EEXIST
                  ? -1
                  : open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t last = 0;

    if (dir < 0 || !cp_sink_begin(&plain->sink, dir, target, "", &events)) {
        return false;
    }
    plain->sink.checksum = plain->options->checksum;
    while (!last) {
        uint8_t frame[FRAME_LEN];
        struct cp_reader head = {frame, sizeof frame, false};
        if (!read_all(fd, frame, sizeof frame)) {
            return false;
        }
        struct cp_reader records = {plain->records, cp_take_u32(&head), false};
        uint32_t data_len = cp_take_u32(&head);
        last = cp_take_u32(&head);
        if (records.left > sizeof plain->records || data_len > plain->options->slot_size ||
            !read_all(fd, plain->records, records.left) || !read_all(fd, plain->slot, data_len) ||
            !cp_sink_take(&plain->sink, &records, plain->slot, data_len)) {
            return false;
        }
    }
    cp_sink_end(&plain->sink);
    return plain->failed == 0 && write(fd, "k", 1) == 1;
}

static void on_begun(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir)
{
    struct plain *plain = context;

    (void)sequence;
    (void)path;
    plain->report.files += !is_dir;
    plain->report.directories += is_dir;
    plain->report.bytes += size;
}

static void on_problem(void *context, const char *path, bool is_begun, struct cp_result result)
{
    struct plain *plain = context;

    (void)is_begun;
    cp_report_skipped(&plain->report, path, false, result);
}

/* The sending process. */
static bool send_all(struct plain *plain, int fd)
{
    struct cp_source_events events = {plain, on_begun, on_problem};
    struct cp_source_options how = {.recursive = plain->options->recursive,
                                    .checksum = plain->options->checksum};
    struct cp_top top = {-1, plain->options->arguments[0], "tree"};
    bool more = true, ok = true;
    char end;

    cp_source_begin(&plain->source, &top, 1, &how, &events);
    while (ok && more) {
        uint8_t frame[FRAME_LEN];
        uint32_t data_len;
        struct cp_writer head = {frame, sizeof frame, false};
        struct cp_writer records = {plain->records, sizeof plain->records, false};
        more = cp_source_fill(&plain->source, plain->slot, plain->options->slot_size, &records,
                              &data_len);
        size_t records_len = sizeof plain->records - records.left;
        cp_add_number(&head, records_len, 4);
        cp_add_number(&head, data_len, 4);
        cp_add_number(&head, !more, 4);
        struct iovec iov[] = {
            {frame, sizeof frame}, {plain->records, records_len}, {plain->slot, data_len}};
        ok = write_all(fd, iov, 3);
    }
    cp_source_end(&plain->source);
    return ok && read(fd, &end, 1) == 1;
}

/* Both ends of a TCP connection over loopback. */
static bool connect_pair(int fds[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&addr, &len) == 0 &&
              connect(fds[0], (struct sockaddr *)&addr, len) == 0;
    fds[1] = ok ? accept(listener, NULL, NULL) : -1;
    close(listener);
    (void)setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fds[1] >= 0;
}

int cp_run_plain(const struct cp_options *options)
{
    static struct plain plain;
    static const struct cp_counts none;
    int fds[2], status = 1;

    plain.options = options;
    plain.slot = malloc(options->slot_size);
    cp_report_begin(&plain.report, "plain-tcp", "127.0.0.1", options->json, true);
    if (!plain.slot || !connect_pair(fds)) {
        cp_error("plain-tcp", strerror(errno), "check that 127.0.0.1 can be used");
        return CP_EXIT_CONNECTION;
    }
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        _exit(receive(&plain, fds[1]) ? 0 : 1);
    }
    close(fds[1]);
    bool ok = child > 0 && send_all(&plain, fds[0]);
    close(fds[0]);
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    if (!ok || status != 0) {
        cp_report_broken(&plain.report, "plain-tcp", "the copy failed", "see the errors above");
    }
    free(plain.slot);
    return cp_report_end(&plain.report, &none);
}
