/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line of iwarp-nvmf, and its counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/nvmf-target/stats.h"
#include "programs/nvmf-wire/nvme.h"
#include "programs/nvmf/options.h"

static bool parse(struct nvmf_options *options, const char *line)
{
    static char words[256];
    char *argv[32] = {"iwarp-nvmf"}, *save = NULL;
    int argc = 1;

    strncpy(words, line, sizeof words - 1);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    return nvmf_options_parse(argc, argv, options);
}

static void subsystems__options__belong_to_the_last_one(void **state)
{
    struct nvmf_options options;

    (void)state;
    assert_true(parse(
        &options, "--nqn nqn.a --ns x --read-only --ns y -b 512 --nsid 9 --ns z --ns t --host h "
                  "--nqn nqn.b --ns ram:1M -m 2G --no-crc --no-uring --secrets s"));
    assert_string_equal(options.secrets, "s");
    assert_int_equal(options.subsystem_count, 2);
    assert_int_equal(options.subsystems[0].disk_count, 4);
    assert_false(options.subsystems[0].disks[0].read_only);
    assert_true(options.subsystems[0].disks[1].read_only);
    assert_int_equal(options.subsystems[0].disks[1].block, 0);
    assert_int_equal(options.subsystems[0].disks[2].block, 512);
    assert_int_equal(options.subsystems[0].disks[2].nsid, 9);
    assert_int_equal(options.subsystems[0].disks[3].nsid, 0);
    assert_string_equal(options.subsystems[0].hosts[0], "h");
    assert_false(options.subsystems[1].disks[0].read_only);
    assert_int_equal(options.subsystems[1].host_count, 0);
    assert_true(options.memory == (size_t)2 << 30);
    assert_false(options.crc || options.uring);
    nvmf_options_free(&options);
}

static void options__wrong__are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "--ns x",
        "--nqn nqn.a --block 1000",
        "--nqn nqn.a --nsid 0",
        "--nqn nqn.a --nsid 257",
        "--nqn nqn.a --nsid 1x",
        "--nqn nqn.a --nsid 4294967297",
        "--nqn nqn.a word",
        "--nqn nqn.a --memory 5",
        "--nqn nqn.a --memory 100G",
        "--nqn nqn.a --listen host",
        "--nqn nqn.a --listen 1.2.3.4:99999",
        "--nqn nqn.a --what",
    };
    struct nvmf_options options;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_false(parse(&options, lines[i]));
        nvmf_options_free(&options);
    }
}

static void stats__commands__are_counted_by_kind_and_time(void **state)
{
    struct nvmf_stats stats = {0};
    const struct nvmf_counts *reads = &stats.kind[NVMF_KIND_READ];

    (void)state;
    assert_int_equal(nvmf_kind_of(0, NVMF_READ), NVMF_KIND_ADMIN);
    assert_int_equal(nvmf_kind_of(1, NVMF_VERIFY), NVMF_KIND_VERIFY);
    assert_int_equal(nvmf_kind_of(1, 0x0d), NVMF_KIND_OTHER);
    nvmf_stats_count(&stats, nvmf_kind_of(3, NVMF_READ), NVMF_OK, 4096, 999);
    nvmf_stats_count(&stats, nvmf_kind_of(3, NVMF_READ), NVMF_OK, 4096, 3000);
    nvmf_stats_count(&stats, nvmf_kind_of(3, NVMF_READ), NVMF_LBA_RANGE, 4096, UINT64_MAX);
    assert_int_equal(reads->commands, 3);
    assert_int_equal(reads->errors, 1);
    assert_int_equal(reads->octets, 8192);
    assert_int_equal(reads->bucket[0], 1); /* less than 1 us */
    assert_int_equal(reads->bucket[2], 1); /* less than 4 us */
    assert_int_equal(reads->bucket[NVMF_BUCKETS - 1], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subsystems__options__belong_to_the_last_one),
        cmocka_unit_test(options__wrong__are_refused),
        cmocka_unit_test(stats__commands__are_counted_by_kind_and_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
