/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program iwarp-nvmf is killed by SIGKILL while a host writes, a hundred times, at random
 * times, and started again: each block has what was answered last, or what came after it and was
 * not answered. The host is the one of `bench`, so this needs neither a guest nor rights; with the
 * kernel's host and a file system it is the cell nvmf-killed of make interop.
 *
 * Each block of the disk has its number and a stamp that only grows. Of a block at most one write
 * is under way at a time, so after the kill it has the stamp that was answered, or the one that was
 * under way. A write of 4 KiB is one block: it is never torn, as none of its octets is elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "nvmf_side.h"

#define BLOCK  4096
#define BLOCKS 256u
#define DEPTH  16
#define KILLS  100

struct load {
    uv_loop_t loop;
    struct nvmf_host host;
    struct nvmf_host_queue *admin, *io;
    struct sockaddr_in addr;
    uint64_t answered[BLOCKS], asked[BLOCKS]; /* stamps */
    bool busy[BLOCKS];
    uint64_t stamp, writes, flushes;
    pid_t pid;
    char disk[64];
    unsigned seed;
};

static struct load l;

/* --- the program ----------------------------------------------------------------------------- */

/* Its port is in the line that says where it listens. */
static unsigned port_of(FILE *log)
{
    char line[512];
    unsigned port = 0;

    while (port == 0 && fgets(line, sizeof line, log)) {
        const char *at = strstr(line, " port ");
        if (at && strstr(line, "listens on")) {
            port = (unsigned)strtoul(at + 6, NULL, 10);
        }
    }
    return port;
}

static void start(bool uring)
{
    char program[512];
    int log[2];
    FILE *stream;
    unsigned port;

    snprintf(program, sizeof program, "%s/bin/iwarp-nvmf", getenv("BUILD"));
    side_must(pipe(log) == 0, "pipe");
    l.pid = fork();
    if (l.pid == 0) {
        dup2(log[1], 2);
        close(log[0]);
        execl(program, program, "--listen", "127.0.0.1:0", "--nqn", SIDE_NQN, "--ns", l.disk, "-m",
              "4M", uring ? (char *)NULL : "--no-uring", (char *)NULL);
        _exit(127);
    }
    close(log[1]);
    stream = fdopen(log[0], "r");
    port = port_of(stream);
    side_must(port != 0, "the program does not listen");
    fclose(stream); /* that nobody reads its log any more does not end it */
    l.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct nvmf_host_queue *join(uint16_t id, uint16_t *controller)
{
    struct nvmf_connect connect = {
        .controller_id = *controller, .host = SIDE_HOST, .subsystem = SIDE_NQN};
    struct nvmf_host_queue *queue = nvmf_host_queue_open(
        &l.host, (struct sockaddr *)&l.addr, sizeof l.addr, id, id ? DEPTH + 1 : 32, true);

    side_must(queue != NULL, "queue");
    side_must(nvmf_host_join(queue, &connect, 0, controller) == NVMF_OK, "Connect");
    return queue;
}

/* --- writing --------------------------------------------------------------------------------- */

static uint8_t *memory_of(uint32_t block)
{
    return l.host.memory + (size_t)block * BLOCK;
}

static void on_written(struct nvmf_host_slot *slot)
{
    uint32_t block = (uint32_t)(uintptr_t)slot->arg;

    side_must(slot->response.status == NVMF_OK, "a write fails");
    l.answered[block] = l.asked[block];
    l.busy[block] = false;
    l.writes++;
}

static void on_flushed(struct nvmf_host_slot *slot)
{
    side_must(slot->response.status == NVMF_OK, "a flush fails");
    l.flushes++;
}

/* One more command: mostly a write, with or without FUA, in the capsule or read by the target. */
static bool ask(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_WRITE, [4] = 1};
    unsigned random = (unsigned)rand_r(&l.seed);
    uint32_t block = random / 16 % BLOCKS;
    bool inside = random & 1;

    if (random % 16 == 15) {
        command[0] = NVMF_FLUSH;
        command[39] = 0x40;
        return nvmf_host_send(l.io, command, NULL, 0, on_flushed, NULL) != NULL;
    }
    if (l.busy[block]) {
        return true;
    }
    for (size_t i = 0; i < BLOCK; i += 16) {
        nvmf_put64(memory_of(block) + i, l.stamp + 1);
        nvmf_put64(memory_of(block) + i + 8, block);
    }
    nvmf_put64(command + 40, block);
    nvmf_put32(command + 48, random & 2 ? 0x40000000 : 0);
    if (inside) {
        nvmf_put32(command + 32, BLOCK);
        command[39] = 0x01;
    } else {
        nvmf_host_data(&l.host, command, (size_t)block * BLOCK, BLOCK);
    }
    if (!nvmf_host_send(l.io, command, memory_of(block), inside ? BLOCK : 0, on_written,
                        (void *)(uintptr_t)block)) {
        return false;
    }
    l.asked[block] = ++l.stamp;
    l.busy[block] = true;
    return true;
}

static unsigned under_way(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < l.io->entries; i++) {
        n += l.io->slots[i].busy;
    }
    return n;
}

/*
 * Until the program is killed, and the connection has ended. It has answered some by then, mostly,
 * however slow the machine is.
 */
static void write_until_killed(void)
{
    uint64_t until = uv_hrtime() + (uint64_t)(rand_r(&l.seed) % 30000) * 1000;
    uint64_t enough = l.writes + l.flushes + (uint64_t)(rand_r(&l.seed) % 64);
    bool killed = false;

    while (!l.io->ended) {
        if (!killed && uv_hrtime() > until && l.writes + l.flushes >= enough) {
            kill(l.pid, SIGKILL);
            waitpid(l.pid, NULL, 0);
            killed = true;
        }
        while (!killed && under_way() < DEPTH && ask()) {
        }
        if (!nvmf_host_turn(&l.host)) {
            uv_run(&l.loop, UV_RUN_NOWAIT);
        }
    }
}

/* --- looking --------------------------------------------------------------------------------- */

static void look(uint32_t block)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_READ, [4] = 1};
    const uint8_t *at = memory_of(block);
    uint64_t stamp;

    nvmf_put64(command + 40, block);
    nvmf_host_data(&l.host, command, (size_t)block * BLOCK, BLOCK);
    assert_int_equal(nvmf_host_do(l.io, command, NULL, 0, NULL), NVMF_OK);
    stamp = nvmf_get64(at);
    if (stamp != l.answered[block] && !(l.busy[block] && stamp == l.asked[block])) {
        fail_msg("block %u has stamp %llu; %llu was answered, %llu asked for", block,
                 (unsigned long long)stamp, (unsigned long long)l.answered[block],
                 (unsigned long long)l.asked[block]);
    }
    for (size_t i = 0; i < BLOCK; i += 16) {
        assert_true(nvmf_get64(at + i) == stamp);
        assert_true(nvmf_get64(at + i + 8) == (stamp ? block : 0));
    }
    l.answered[block] = stamp;
    l.busy[block] = false;
}

static void killed__again_and_again__loses_nothing_that_was_answered(bool uring)
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    memset(&l, 0, sizeof l);
    l.seed = 1;
    snprintf(l.disk, sizeof l.disk, "%.40s/disk-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(l.disk);
    side_must(fd >= 0 && ftruncate(fd, (off_t)BLOCKS * BLOCK) == 0, l.disk);
    close(fd);
    uv_loop_init(&l.loop);
    side_must(nvmf_host_open(&l.host, &l.loop, (size_t)BLOCKS * BLOCK, NULL), "host");
    for (unsigned round = 0; round <= KILLS; round++) {
        uint16_t controller = 0xffff;
        start(uring);
        l.admin = join(0, &controller);
        l.io = join(1, &controller);
        for (uint32_t block = 0; block < BLOCKS; block++) {
            look(block);
        }
        if (round < KILLS) {
            write_until_killed();
        } else {
            kill(l.pid, SIGTERM);
            waitpid(l.pid, NULL, 0);
        }
        nvmf_host_queue_close(l.io);
        nvmf_host_queue_close(l.admin);
    }
    /* It was killed while it had something to do. */
    assert_true(l.writes > KILLS * 10 && l.flushes > KILLS / 2);
    print_message("%llu writes and %llu flushes were answered\n", (unsigned long long)l.writes,
                  (unsigned long long)l.flushes);
    nvmf_host_close(&l.host);
    uv_run(&l.loop, UV_RUN_DEFAULT);
    uv_loop_close(&l.loop);
    unlink(l.disk);
}

static void killed__with_io_uring__loses_nothing(void **state)
{
    (void)state;
    killed__again_and_again__loses_nothing_that_was_answered(true);
}

static void killed__with_threads__loses_nothing(void **state)
{
    (void)state;
    killed__again_and_again__loses_nothing_that_was_answered(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed__with_io_uring__loses_nothing),
        cmocka_unit_test(killed__with_threads__loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
