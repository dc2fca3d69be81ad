/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cable between two processes: a pair of rings in a file that both map.  Two FIFOs beside it,
 * PATH.0 and PATH.1, are doorbells: one octet in the first wakes end 0 up.
 *
 * Which end a process has, and whether the other one is there, is known by locks of octets of the
 * file, which vanish with the process that has them: octets 0 and 1 are the ends, and octet 2 is
 * held while an end comes or goes.  The last end removes all three files.
 *
 * Each ring has one end that writes and one that reads.  `written` and `read` count slots and wrap;
 * their difference is what the ring holds.  The other process may be out of its mind: what it
 * writes is checked, and a slot is copied before anything looks into it.  Only cutting the file
 * short is beyond defence, so it is the user's alone (mode 0600).
 *
 * Doorbells are rung for sleepers only.  The reader sets `asleep` and then looks at `written`; the
 * writer publishes `written` and then looks at `asleep`: one of them sees the other.  `wanting` is
 * the same for a writer that found the ring full.
 */
#include "base/fault.h"
#include "base/guard.h"
#include "base/process.h"
#include "transport/lwip/link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       "iwrings2"
#define SLOTS_MOST  1024u /* a power of two, as are fewer of larger frames: */
#define RING_OCTETS (4u << 20)
#define SLOT_LEAST  2048u
#define COMING      2 /* the octet that is locked while an end comes or goes */
#define TRIES       100

struct slot {
    uint32_t octets;
    uint8_t frame[];
};

struct ring {
    _Alignas(64) _Atomic uint32_t written;
    _Atomic uint32_t wanting; /* the writer waits for room */
    _Alignas(64) _Atomic uint32_t read;
    _Atomic uint32_t asleep; /* the reader waits for frames */
};

/* The beginning of the file; the slots of ring 0 follow, and those of ring 1. */
struct rings {
    char magic[8];
    uint32_t slot_octets; /* both ends have to know the same */
    struct ring ring[2];  /* ring[i] is written by end i */
};

struct cable {
    struct iwarp_link link; /* fd: the doorbell of this end */
    struct rings *rings;
    struct ring *in, *out;
    uint8_t *in_slots, *out_slots;
    uint32_t slots, slot_octets;
    int file, other; /* the doorbell of the other end */
    int end;
    char path[PATH_MAX];
};

static struct cable *cable_of(struct iwarp_link *link)
{
    return (struct cable *)(void *)link;
}

/* --- frames ---------------------------------------------------------------------------------- */

static size_t file_octets(const struct cable *c)
{
    return sizeof *c->rings + (size_t)2 * c->slots * c->slot_octets;
}

static struct slot *slot_at(const struct cable *c, uint8_t *slots, uint32_t at)
{
    return (struct slot *)(void *)(slots + (size_t)(at % c->slots) * c->slot_octets);
}

/* A doorbell that is full has been rung. */
static void ring_bell(struct cable *c)
{
    ssize_t n = write(c->other, "", 1);

    (void)n;
}

static bool is_empty(const struct ring *r)
{
    return atomic_load(&r->written) == atomic_load(&r->read);
}

static ssize_t ring_receive(struct iwarp_link *link, void *frame, size_t size)
{
    struct cable *c = cable_of(link);
    struct ring *r = c->in;
    uint32_t at = atomic_load_explicit(&r->read, memory_order_relaxed);
    uint32_t there = atomic_load_explicit(&r->written, memory_order_acquire) - at;

    if (there == 0) {
        return -EAGAIN;
    }
    if (there > c->slots) {
        return -EPROTO;
    }
    const struct slot *slot = slot_at(c, c->in_slots, at);
    uint32_t octets = *(const volatile uint32_t *)&slot->octets;
    if (octets > size) {
        octets = 0; /* such a frame is dropped by whoever looks at it */
    }
    memcpy(frame, slot->frame, octets);
    atomic_store(&r->read, at + 1);
    if (atomic_load(&r->wanting) && there <= c->slots / 2 && atomic_exchange(&r->wanting, 0)) {
        ring_bell(c);
    }
    return (ssize_t)octets;
}

static bool is_full(const struct cable *c)
{
    return atomic_load(&c->out->written) - atomic_load(&c->out->read) >= c->slots;
}

static int ring_send(struct iwarp_link *link, const struct iovec *iov, int n)
{
    struct cable *c = cable_of(link);
    struct ring *r = c->out;
    uint32_t octets = 0, room = c->slot_octets - (uint32_t)sizeof(struct slot);

    if (is_full(c)) {
        atomic_store(&r->wanting, 1);
        if (is_full(c)) {
            return -EAGAIN;
        }
    }
    uint32_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
    struct slot *slot = slot_at(c, c->out_slots, at);
    for (int i = 0; i < n && iov[i].iov_len <= room - octets; i++) {
        if (iwarp_guard_copy_from(slot->frame + octets, iov[i].iov_base, iov[i].iov_len) != 0) {
            return -EFAULT; /* the application's memory, which is referred to */
        }
        octets += (uint32_t)iov[i].iov_len;
    }
    slot->octets = octets;
    atomic_store(&r->written, at + 1);
    if (atomic_load(&r->asleep) && atomic_exchange(&r->asleep, 0)) {
        ring_bell(c);
    }
    return 0;
}

/* Any thread, without a lock: both are atomic, and several readers may say the same. */
static bool ring_asleep(struct iwarp_link *link)
{
    struct ring *r = cable_of(link)->in;

    if (is_empty(r)) {
        atomic_store(&r->asleep, 1);
    }
    return is_empty(r);
}

static void ring_awake(struct iwarp_link *link)
{
    char rung[64];

    while (read(link->fd, rung, sizeof rung) == (ssize_t)sizeof rung) {
    }
}

/* --- coming and going ------------------------------------------------------------------------ */

/* wait: until the lock is free.  False: another process has it. */
static bool lock_octet(int file, int octet, bool wait)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = octet, .l_len = 1};
    int rc;

    do {
        rc = fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    } while (rc != 0 && errno == EINTR);
    return rc == 0;
}

static void unlock_octet(int file, int octet)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = octet, .l_len = 1};

    fcntl(file, F_OFD_SETLK, &lock);
}

static bool is_taken(int file, int octet)
{
    bool free_now = lock_octet(file, octet, false);

    if (free_now) {
        unlock_octet(file, octet);
    }
    return !free_now;
}

/* The file that has this name now, with octet COMING locked.  -1: see errno. */
static int open_file(const char *path)
{
    for (int i = 0; i < TRIES; i++) {
        struct stat here, there;
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) {
            return -1;
        }
        if (lock_octet(file, COMING, true) && fstat(file, &here) == 0 && stat(path, &there) == 0 &&
            here.st_ino == there.st_ino && here.st_dev == there.st_dev) {
            return file;
        }
        close(file); /* the last end has removed it meanwhile */
    }
    errno = EAGAIN;
    return -1;
}

static int open_bell(const struct cable *c, int end)
{
    char name[PATH_MAX + 8];

    snprintf(name, sizeof name, "%s.%d", c->path, end);
    if (mkfifo(name, 0600) != 0 && errno != EEXIST) {
        return -1;
    }
    return open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
}

static void remove_files(const struct cable *c)
{
    char name[PATH_MAX + 8];

    unlink(c->path);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.%d", c->path, i);
        unlink(name);
    }
}

/* COMING is locked.  NULL, or what is wrong with the file. */
static const char *map_rings(struct cable *c, bool alone)
{
    struct rings head = {.slot_octets = c->slot_octets};

    memcpy(head.magic, MAGIC, sizeof head.magic);
    if (alone && (ftruncate(c->file, 0) != 0 || ftruncate(c->file, (off_t)file_octets(c)) != 0 ||
                  pwrite(c->file, &head, offsetof(struct rings, ring), 0) < 0)) {
        return strerror(errno);
    }
    if (pread(c->file, &head, offsetof(struct rings, ring), 0) < 0 ||
        head.slot_octets != c->slot_octets) {
        return "the other end has another mtu";
    }
    void *p = mmap(NULL, file_octets(c), PROT_READ | PROT_WRITE, MAP_SHARED, c->file, 0);
    if (p == MAP_FAILED) {
        return strerror(errno);
    }
    c->rings = p;
    return NULL;
}

/* COMING is locked.  An end that finds itself alone begins with empty rings. */
static const char *take_end(struct cable *c)
{
    char magic[sizeof c->rings->magic];
    ssize_t n = pread(c->file, magic, sizeof magic, 0);

    if (n != 0 && (n != sizeof magic || memcmp(magic, MAGIC, sizeof magic) != 0)) {
        return "is another file";
    }
    c->end = lock_octet(c->file, 0, false) ? 0 : lock_octet(c->file, 1, false) ? 1 : -1;
    if (c->end < 0) {
        return "has two ends already";
    }
    const char *why = map_rings(c, !is_taken(c->file, 1 - c->end));
    if (why) {
        return why;
    }
    uint8_t *slots = (uint8_t *)(c->rings + 1);
    size_t half = (size_t)c->slots * c->slot_octets;
    c->out = &c->rings->ring[c->end];
    c->out_slots = slots + half * (size_t)c->end;
    c->in = &c->rings->ring[1 - c->end];
    c->in_slots = slots + half * (size_t)(1 - c->end);
    c->link.fd = open_bell(c, c->end);
    c->other = open_bell(c, 1 - c->end);
    return c->link.fd < 0 || c->other < 0 ? strerror(errno) : NULL;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        iwarp_process_close(fd);
    }
}

static void ring_close(struct iwarp_link *link)
{
    struct cable *c = cable_of(link);

    if (c->file >= 0) {
        lock_octet(c->file, COMING, true);
        if (c->end >= 0 && !is_taken(c->file, 1 - c->end)) {
            remove_files(c);
        }
    }
    if (c->rings) {
        munmap(c->rings, file_octets(c));
    }
    close_fd(c->link.fd);
    close_fd(c->other);
    close_fd(c->file);
    free(c);
}

static const struct iwarp_link_ops ring_ops = {.receive = ring_receive,
                                               .send = ring_send,
                                               .asleep = ring_asleep,
                                               .awake = ring_awake,
                                               .close = ring_close};

/* Frames of all usual sizes have the same slots. */
static void size_slots(struct cable *c, unsigned frame)
{
    uint32_t octets = (uint32_t)sizeof(struct slot) + frame;

    c->slot_octets = octets > SLOT_LEAST ? (octets + 63) / 64 * 64 : SLOT_LEAST;
    c->slots = SLOTS_MOST;
    while (c->slots * c->slot_octets > RING_OCTETS) {
        c->slots /= 2;
    }
}

enum iwarp_status iwarp_link_ring(const char *path, unsigned frame, struct iwarp_link **link)
{
    struct cable *c = calloc(1, sizeof *c);

    if (!c) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a link");
    }
    c->link.ops = &ring_ops;
    c->link.fd = c->other = c->end = -1;
    size_slots(c, frame);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->file = open_file(path);
    const char *why = c->file < 0 ? strerror(errno) : take_end(c);
    if (why) {
        enum iwarp_status status =
            iwarp_fail(IWARP_TRANSPORT, "no pair of rings at %s: %s", path, why);
        ring_close(&c->link);
        return status;
    }
    iwarp_process_add_fd(c->link.fd);
    iwarp_process_add_fd(c->other);
    iwarp_process_add_fd(c->file);
    unlock_octet(c->file, COMING);
    *link = &c->link;
    return IWARP_OK;
}
