/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay LOG DISK MARK: what a disk has after a loss of power at MARK.
 *
 * LOG is the second device of dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst
 * of Linux), which writes down what a disk got. A write is in it from the time when a flush that
 * began after it was done, or when it was done itself with FUA; so what stands in front of a mark
 * is what could not be lost at that time. DISK gets that. An octet that was never written is 0.
 *
 * Prints how many writes there were. Status 1 with a line: there is no such mark, or no log.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC   UINT64_C(0x6a736677736872)
#define VERSION 1
#define DISCARD 4
#define MARK    8
#define SECTOR  512
#define AT_ONCE (1u << 20)

/* Little-endian on the device. */
struct super {
    uint64_t magic, version, entries;
    uint32_t sector;
};

struct entry {
    uint64_t sector, sectors, flags, data_len;
    char data[SECTOR - 32]; /* the text of a mark */
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Copy octets; from < 0: zeroes. */
static void copy(int from, off_t source, int to, off_t target, uint64_t octets)
{
    static uint8_t piece[AT_ONCE];

    while (octets > 0) {
        size_t len = octets < AT_ONCE ? (size_t)octets : AT_ONCE;

        if (from < 0) {
            memset(piece, 0, len);
        } else if (pread(from, piece, len, source) != (ssize_t)len) {
            fail("log");
        }
        if (pwrite(to, piece, len, target) != (ssize_t)len) {
            fail("disk");
        }
        source += (off_t)len;
        target += (off_t)len;
        octets -= len;
    }
}

int main(int argc, char **argv)
{
    struct super super;
    struct entry entry;
    off_t at = SECTOR, end;
    unsigned writes = 0;
    int log, disk;

    if (argc != 4) {
        fputs("usage: replay LOG DISK MARK\n", stderr);
        return 2;
    }
    log = open(argv[1], O_RDONLY);
    disk = open(argv[2], O_RDWR);
    if (log < 0 || disk < 0 || pread(log, &super, sizeof super, 0) != sizeof super) {
        fail("open");
    }
    if (le64toh(super.magic) != MAGIC || le64toh(super.version) != VERSION ||
        le32toh(super.sector) != SECTOR) {
        fputs("replay: this is no log of dm-log-writes with sectors of 512 octets\n", stderr);
        return 1;
    }
    end = lseek(disk, 0, SEEK_END);
    copy(-1, 0, disk, 0, (uint64_t)end);
    for (uint64_t i = 0; i < le64toh(super.entries); i++) {
        uint64_t flags, octets;

        if (pread(log, &entry, sizeof entry, at) != sizeof entry) {
            fail("log");
        }
        at += SECTOR;
        flags = le64toh(entry.flags);
        octets = le64toh(entry.sectors) * SECTOR;
        if (flags & MARK) {
            size_t len = (size_t)le64toh(entry.data_len);

            if (len == strlen(argv[3]) && memcmp(entry.data, argv[3], len) == 0) {
                printf("%u writes\n", writes);
                return fsync(disk) == 0 ? 0 : 1;
            }
        } else if (flags & DISCARD) {
            copy(-1, 0, disk, (off_t)(le64toh(entry.sector) * SECTOR), octets);
        } else {
            writes += octets > 0;
            copy(log, at, disk, (off_t)(le64toh(entry.sector) * SECTOR), octets);
            at += (off_t)octets;
        }
    }
    fprintf(stderr, "replay: there is no mark %s\n", argv[3]);
    return 1;
}
