/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counting room. What fallocate has taken the file system counts itself; where there is no
 * fallocate, and for small files, the promise stands until the data is written.
 */
#include "room.h"

#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

#define KEEP_PART     20 /* the twentieth part */
#define KEEP_MAX      ((uint64_t)1 << 30)
#define KEEP_INODES   10000
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

static void lock(struct cp_room *room)
{
    if (room) {
        pthread_mutex_lock(&room->lock);
    }
}

static void unlock(struct cp_room *room)
{
    if (room) {
        pthread_mutex_unlock(&room->lock);
    }
}

static uint64_t octets_to_keep(const struct cp_room *room, const struct statvfs *disk)
{
    if (!room) {
        return 0;
    }
    return room->keep_free == CP_KEEP_FREE_AUTO
               ? SMALLER((uint64_t)disk->f_blocks / KEEP_PART * disk->f_frsize, KEEP_MAX)
               : room->keep_free;
}

/* Judge with room locked. */
static struct cp_result judge(const struct cp_room *room, int fd, uint64_t octets)
{
    struct statvfs disk;

    /* Some file systems have no idea how large they are: then writing tells. */
    if (fstatvfs(fd, &disk) < 0 || disk.f_blocks == 0) {
        return cp_result_of(CP_OK);
    }
    uint64_t keep = octets_to_keep(room, &disk);
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t promised = room ? room->promised : 0;
    left -= SMALLER(left, promised);
    if (left < octets) {
        return cp_result_from_errno(ENOSPC);
    }
    if (left - octets < keep ||
        (keep > 0 && disk.f_files > 0 &&
         disk.f_favail < SMALLER((uint64_t)disk.f_files / KEEP_PART, KEEP_INODES))) {
        return cp_result_of(CP_KEPT_FREE);
    }
    return cp_result_of(CP_OK);
}

struct cp_result cp_room_check(struct cp_room *room, int fd, uint64_t octets)
{
    lock(room);
    struct cp_result result = judge(room, fd, octets);
    unlock(room);
    return result;
}

/* Promise octets to a copy. */
static struct cp_result promise(struct cp_claim *claim, uint64_t octets)
{
    struct cp_room *room = claim->room;

    lock(room);
    struct cp_result result = judge(room, claim->fd, octets);
    if (result.status == CP_OK && room) {
        room->promised += octets;
        claim->promised += octets;
    }
    unlock(room);
    return result;
}

static void give_back(struct cp_claim *claim, uint64_t octets)
{
    octets = SMALLER(octets, claim->promised);
    if (octets > 0) {
        lock(claim->room);
        claim->room->promised -= octets;
        unlock(claim->room);
        claim->promised -= octets;
    }
}

struct cp_result cp_claim_begin(struct cp_claim *claim, struct cp_room *room, int fd, uint64_t size)
{
    *claim = (struct cp_claim){.room = room, .fd = fd, .size = size};
    if (size >= CP_RESERVE_MIN) {
        return cp_room_check(room, fd, size);
    }
    claim->end = size;
    return promise(claim, size);
}

struct cp_result cp_claim_extend(struct cp_claim *claim, uint64_t end)
{
    uint64_t step = claim->end > CP_RESERVE_MIN ? claim->end : CP_RESERVE_MIN;

    if (end <= claim->end) {
        return cp_result_of(CP_OK);
    }
    step = SMALLER(step, CP_RESERVE_STEP);
    step = step > end - claim->end ? step : end - claim->end;
    step = SMALLER(step, claim->size - claim->end);
    struct cp_result result = promise(claim, step);
    if (result.status != CP_OK) {
        return result;
    }
    if (fallocate(claim->fd, FALLOC_FL_KEEP_SIZE, (off_t)claim->end, (off_t)step) == 0) {
        give_back(claim, step);
    } else if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
        return cp_result_from_errno(errno);
    }
    claim->end += step;
    return result;
}

void cp_claim_written(struct cp_claim *claim, uint64_t octets)
{
    give_back(claim, octets);
}

void cp_claim_end(struct cp_claim *claim)
{
    give_back(claim, claim->promised);
}
