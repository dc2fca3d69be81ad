/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blocks URL: writes blocks to a disk of libiscsi in requests of many sizes, all over it, reads
 * them back in others, and compares. blocks.expected is then what the disk must contain, octet by
 * octet.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

enum { BLOCK = 512, BLOCKS = 131072, REQUEST = 256 };

static uint8_t expected[BLOCKS * BLOCK];

static void die(struct iscsi_context *iscsi, const char *what)
{
    fprintf(stderr, "blocks: %s: %s\n", what, iscsi ? iscsi_get_error(iscsi) : "");
    exit(1);
}

static uint32_t next_random(void)
{
    static uint32_t seed = 1;

    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static void write_some(struct iscsi_context *iscsi, int lun)
{
    uint32_t n = 1 + next_random() % REQUEST, at = next_random() % (BLOCKS - n);
    uint8_t *data = expected + (size_t)at * BLOCK;

    for (uint32_t i = 0; i < n * BLOCK; i++) {
        data[i] = (uint8_t)next_random();
    }
    struct scsi_task *task =
        iscsi_write10_sync(iscsi, lun, at, data, n * BLOCK, BLOCK, 0, 0, 0, 0, 0);
    if (!task || task->status != SCSI_STATUS_GOOD) {
        die(iscsi, "write");
    }
    scsi_free_scsi_task(task);
}

static void read_some(struct iscsi_context *iscsi, int lun)
{
    uint32_t n = 1 + next_random() % REQUEST, at = next_random() % (BLOCKS - n);
    struct scsi_task *task = iscsi_read10_sync(iscsi, lun, at, n * BLOCK, BLOCK, 0, 0, 0, 0, 0);

    if (!task || task->status != SCSI_STATUS_GOOD || task->datain.size != (int)(n * BLOCK)) {
        die(iscsi, "read");
    }
    if (memcmp(task->datain.data, expected + (size_t)at * BLOCK, n * BLOCK) != 0) {
        die(NULL, "what was read is not what was written");
    }
    scsi_free_scsi_task(task);
}

int main(int argc, char **argv)
{
    struct iscsi_context *iscsi = iscsi_create_context("iqn.2026-01.example:initiator");
    struct iscsi_url *url = argc == 2 && iscsi ? iscsi_parse_full_url(iscsi, argv[1]) : NULL;

    if (!url) {
        die(iscsi, "address");
    }
    iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(iscsi, ISCSI_HEADER_DIGEST_NONE);
    if (iscsi_full_connect_sync(iscsi, url->portal, url->lun) != 0) {
        die(iscsi, "connect");
    }
    for (int i = 0; i < 300; i++) {
        write_some(iscsi, url->lun);
        read_some(iscsi, url->lun);
    }
    iscsi_logout_sync(iscsi);
    FILE *f = fopen("blocks.expected", "wb");
    if (!f || fwrite(expected, 1, sizeof expected, f) != sizeof expected || fclose(f) != 0) {
        die(NULL, "blocks.expected");
    }
    return 0;
}
