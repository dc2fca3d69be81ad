/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line for each run: commands a second, octets a second, latency percentiles, processor time.
 */
#include "bench.h"

#include "host.h"

#include "programs/nvmf-wire/octets.h"
#include "programs/service/address.h"
#include "programs/service/service.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SAMPLES 100000 /* latencies that are kept: in microseconds, by their number */
#define QUEUES  16

struct bench {
    struct nvmf_host host;
    struct nvmf_host_queue *queues[QUEUES + 1];
    const char *nqn;
    char *tls;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    unsigned queue_count, depth, seconds;
    uint32_t size;
    bool write, sequential, crc, in_capsule;
    uint64_t blocks, next; /* of `size` octets; next: of a sequential run */
    uint32_t lba;          /* octets of a block of the namespace */
    uint64_t random, done, errors, until_ns;
    uint32_t latency[SAMPLES];
};

static struct bench bench;

/* xorshift64: fast, and the same in each run */
static uint64_t next_random(struct bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

static uint64_t next_place(struct bench *b)
{
    return (b->sequential ? b->next++ : next_random(b)) % b->blocks;
}

/* What is written: a disk that compresses, or leaves out zeros, would be measured as too fast. */
static void fill(uint8_t *p, size_t len)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        nvmf_put64(p + i, next_random(&bench));
    }
}

static void on_done(struct nvmf_host_slot *slot);

static void ask(struct nvmf_host_queue *queue, size_t number)
{
    uint8_t command[NVMF_COMMAND_LEN] = {bench.write ? NVMF_WRITE : NVMF_READ, [4] = 1};
    size_t offset = number * bench.size;
    uint32_t inside =
        bench.write && bench.in_capsule && bench.size <= NVMF_IN_CAPSULE ? bench.size : 0;

    nvmf_put64(command + 40, next_place(&bench) * (bench.size / bench.lba));
    nvmf_put16(command + 48, (uint16_t)(bench.size / bench.lba - 1));
    if (inside > 0) {
        nvmf_put32(command + 32, inside);
        command[39] = 0x01;
    } else {
        nvmf_host_data(&bench.host, command, offset, bench.size);
    }
    if (!nvmf_host_send(queue, command, bench.host.memory + offset, inside, on_done,
                        (void *)(uintptr_t)(number * QUEUES * 2 + queue->id))) {
        bench.errors++;
    }
}

static void on_done(struct nvmf_host_slot *slot)
{
    uint64_t now = uv_hrtime(), us = (now - slot->began_ns) / 1000;
    uintptr_t who = (uintptr_t)slot->arg;

    bench.done++;
    bench.errors += slot->response.status != NVMF_OK;
    bench.latency[us < SAMPLES ? us : SAMPLES - 1]++;
    if (now < bench.until_ns) {
        ask(bench.queues[who % (QUEUES * 2)], who / (QUEUES * 2));
    }
}

static unsigned percentile(double part)
{
    uint64_t wanted = (uint64_t)((double)bench.done * part), seen = 0;
    unsigned us = 0;

    while (us + 1 < SAMPLES && (seen += bench.latency[us]) < wanted) {
        us++;
    }
    return us;
}

static double processor_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static bool busy(void)
{
    for (unsigned q = 1; q <= bench.queue_count; q++) {
        for (unsigned i = 0; i < bench.queues[q]->entries; i++) {
            if (bench.queues[q]->slots[i].busy && !bench.queues[q]->ended) {
                return true;
            }
        }
    }
    return false;
}

/* Commands that went with a queue that has ended are errors. */
static void count_lost(void)
{
    for (unsigned q = 1; q <= bench.queue_count; q++) {
        unsigned lost = 0;
        for (unsigned i = 0; i < bench.queues[q]->entries; i++) {
            lost += bench.queues[q]->slots[i].busy;
        }
        if (bench.queues[q]->ended) {
            fprintf(stderr, "iwarp-nvmf: bench: queue %u has ended, and %u commands with it\n", q,
                    lost);
        }
        bench.errors += lost;
    }
}

static void run(void)
{
    uint64_t began = uv_hrtime();
    double cpu = processor_seconds(), seconds;

    bench.until_ns = began + bench.seconds * UINT64_C(1000000000);
    for (unsigned q = 1; q <= bench.queue_count; q++) {
        for (unsigned i = 0; i < bench.depth; i++) {
            ask(bench.queues[q], (q - 1) * bench.depth + i);
        }
    }
    while (busy()) {
        if (!nvmf_host_turn(&bench.host)) {
            uv_run(bench.host.loop, UV_RUN_ONCE);
        }
    }
    seconds = (double)(uv_hrtime() - began) / 1e9;
    cpu = processor_seconds() - cpu;
    count_lost();
    printf("%s %s %u octets, %u queues of %u: %.0f IOPS, %.1f MB/s, latency 50 %% %u us, 99 %% %u "
           "us, 99.9 %% %u us, processor %.0f %%, %.0f IOPS per core, %llu errors\n",
           bench.sequential ? "sequential" : "random", bench.write ? "write" : "read", bench.size,
           bench.queue_count, bench.depth, (double)bench.done / seconds,
           (double)bench.done * bench.size / seconds / 1e6, percentile(0.5), percentile(0.99),
           percentile(0.999), cpu / seconds * 100, (double)bench.done / cpu,
           (unsigned long long)bench.errors);
}

/* The size of namespace 1, as Identify says. */
static bool identify(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_IDENTIFY, [4] = 1};
    const uint8_t *page = bench.host.memory;

    nvmf_host_data(&bench.host, command, 0, NVMF_IDENTIFY_LEN);
    if (nvmf_host_do(bench.queues[0], command, NULL, 0, NULL) != NVMF_OK) {
        return false;
    }
    bench.lba = UINT32_C(1) << page[128 + 2];
    bench.blocks = nvmf_get64(page) * bench.lba / bench.size;
    return bench.blocks > 0 && bench.size % bench.lba == 0;
}

static bool join(void)
{
    struct nvmf_connect connect = {.controller_id = 0xffff,
                                   .host = "nqn.2014-08.org.example:bench"};
    uint16_t id;

    snprintf(connect.subsystem, sizeof connect.subsystem, "%s", bench.nqn);
    for (unsigned q = 0; q <= bench.queue_count; q++) {
        bench.queues[q] = nvmf_host_queue_open(
            &bench.host, (struct sockaddr *)&bench.addr, bench.addr_len, (uint16_t)q,
            (uint16_t)(q ? bench.depth : NVMF_ADMIN_MIN), bench.crc);
        if (!bench.queues[q]) {
            fprintf(stderr, "iwarp-nvmf: bench: %s\n", iwarp_last_error());
            return false;
        }
        if (nvmf_host_join(bench.queues[q], &connect, 0, &id) != NVMF_OK) {
            fprintf(stderr, "iwarp-nvmf: bench: the target has no subsystem %s for us\n",
                    bench.nqn);
            return false;
        }
        connect.controller_id = id;
    }
    if (!identify()) {
        fprintf(stderr,
                "iwarp-nvmf: bench: namespace 1 is not there, or has blocks of another size\n");
        return false;
    }
    return true;
}

/* False: the text is no number, or has something behind it. */
static bool number(const char *text, unsigned *value)
{
    char *end;
    unsigned long read = strtoul(text, &end, 10);

    *value = (unsigned)read;
    return *text >= '0' && *text <= '9' && *end == '\0' && read <= UINT32_MAX;
}

static bool parse(int argc, char **argv)
{
    int letter;

    bench = (struct bench){.queue_count = 1,
                           .depth = 32,
                           .seconds = 5,
                           .size = 4096,
                           .crc = true,
                           .in_capsule = true,
                           .random = 88172645463325252};
    address_parse("127.0.0.1", 4420, &bench.addr, &bench.addr_len);
    optind = 1;
    while ((letter = getopt(argc, argv, "a:q:j:d:s:t:T:wlnk")) != -1) {
        switch (letter) {
        case 'a':
            if (!address_parse(optarg, 4420, &bench.addr, &bench.addr_len)) {
                return false;
            }
            break;
        case 'q':
            bench.nqn = optarg;
            break;
        case 'T':
            free(bench.tls);
            bench.tls = service_tls(optarg);
            if (!bench.tls) {
                return false;
            }
            break;
        case 'j':
            if (!number(optarg, &bench.queue_count)) {
                return false;
            }
            break;
        case 'd':
            if (!number(optarg, &bench.depth)) {
                return false;
            }
            break;
        case 's':
            if (!number(optarg, &bench.size)) {
                return false;
            }
            break;
        case 't':
            if (!number(optarg, &bench.seconds)) {
                return false;
            }
            break;
        case 'w':
            bench.write = true;
            break;
        case 'l':
            bench.sequential = true;
            break;
        case 'n':
            bench.crc = false;
            break;
        case 'k':
            bench.in_capsule = false;
            break;
        default:
            return false;
        }
    }
    return bench.nqn && optind == argc && bench.queue_count >= 1 && bench.queue_count <= QUEUES &&
           bench.depth >= 2 && bench.depth <= NVMF_QUEUE_DEPTH && bench.size >= 512 &&
           bench.size <= NVMF_TRANSFER_MAX && bench.seconds > 0;
}

int nvmf_bench(int argc, char **argv)
{
    uv_loop_t loop;
    bool open, good;

    if (!parse(argc, argv)) {
        fputs("iwarp-nvmf: bench: -q NQN [-a ADDR:PORT] [-j QUEUES] [-d DEPTH] [-s OCTETS]\n"
              "  [-t SECONDS] [-w: write] [-l: in order] [-n: no CRC] [-k: no data in capsules]\n"
              "  [-T TLS: as --tls of the target]\n",
              stderr);
        return 2;
    }
    uv_loop_init(&loop);
    open = nvmf_host_open(&bench.host, &loop,
                          (size_t)bench.queue_count * bench.depth * bench.size + NVMF_IDENTIFY_LEN,
                          bench.tls);
    good = open && join();
    if (good) {
        if (bench.write) {
            fill(bench.host.memory, bench.host.memory_len);
        }
        run();
    }
    for (unsigned q = 0; q <= bench.queue_count && bench.queues[q]; q++) {
        nvmf_host_queue_close(bench.queues[q]);
    }
    if (open) {
        nvmf_host_close(&bench.host);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(bench.tls);
    return good && bench.errors == 0 ? 0 : 1;
}
