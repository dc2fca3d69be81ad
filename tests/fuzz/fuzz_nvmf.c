/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing iwarp-nvmf with capsules: a host with an admin queue and one for I/O sends what the input
 * says, to a file and memory as disks. A record of the input is 1 octet (bit 0: the I/O queue; bit
 * 1: the descriptor names memory of the host; bits 2 to 7: octets in the capsule, times 128) and 64
 * of the command.
 *
 * Checked: each command has one answer or its queue has ended, and at the end no buffer, no queue
 * and no operation of a disk is left over.
 */
#include "unit/nvmf_side.h"

#include <fcntl.h>

#define RECORD  (1 + NVMF_COMMAND_LEN)
#define RECORDS 24

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct side s;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (!freopen("/dev/null", "w", stdout)) {
        abort();
    }
    side_open(&s, 4 << 20, true);
    side_disk(&s, "ram:1M", false);
    side_file(&s, 1 << 20);
    return 0;
}

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "fuzz_nvmf: %s\n", what);
        abort();
    }
}

static void one_command(const uint8_t *record)
{
    struct nvmf_host_queue *queue = record[0] & 1 ? s.io : s.admin;
    uint8_t command[NVMF_COMMAND_LEN];
    uint32_t in_capsule = (record[0] >> 2) * 128u;
    struct nvmf_host_slot *slot;

    memcpy(command, record + 1, sizeof command);
    if (record[0] & 2) {
        nvmf_host_data(&s.host, command, 0, nvmf_get16(command + 32) * 16);
    }
    /* More than the receives of the admin queue hold ends the stream, as it should. */
    in_capsule = queue == s.admin && in_capsule > 4096 ? 4096 : in_capsule;
    slot = nvmf_host_send(queue, command, s.host.memory, in_capsule, NULL, NULL);
    if (!slot || (queue == s.admin && command[0] == NVMF_ASYNC_EVENT)) {
        return;
    }
    for (unsigned i = 0; slot->busy && !queue->ended; i++) {
        expect(i < 500, "a command has no answer");
        for (unsigned k = 0; k < 1000 && slot->busy && !queue->ended; k++) {
            nvmf_host_turn(&s.host);
            uv_run(&s.loop, UV_RUN_NOWAIT);
        }
        if (slot->busy && !queue->ended) {
            usleep(1000);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    side_join(&s);
    for (size_t i = 0; i < RECORDS && (i + 1) * RECORD <= size; i++) {
        one_command(data + i * RECORD);
        if (s.admin->ended || s.io->ended) {
            break;
        }
    }
    side_leave(&s);
    for (unsigned i = 0; s.target.net.queue_count > 0; i++) {
        expect(i < 500, "a queue does not end");
        side_run(&s, NULL, 1);
    }
    expect(s.target.net.arena.used == 0 && s.target.net.arena.waiting == 0, "buffers are left");
    expect(s.target.controllers.count == 0, "a controller is left");
    /* A flush for a shutdown belongs to no queue. */
    for (unsigned i = 0; s.target.engine->under_way > 0; i++) {
        expect(i < 5000, "a disk does not end");
        side_run(&s, NULL, 1);
    }
    for (uint32_t nsid = 1; nsid <= 2; nsid++) {
        expect(nvmf_namespace_find(s.subsystem, nsid)->busy == 0, "a disk is busy");
    }
    return 0;
}
