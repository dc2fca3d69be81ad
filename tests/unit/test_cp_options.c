/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of iwarp-cp: what each option sets, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "programs/cp/limits.h"
#include "programs/cp/options.h"

static struct cp_options options;

static char said[512]; /* the error line of the last parse */

/* Parse a line of words. */
static bool parse(const char *line)
{
    static char words[512];
    static char *argv[32];
    int argc = 0;
    int keep = dup(STDERR_FILENO), pipe_fds[2];

    assert_int_equal(pipe(pipe_fds), 0);
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    optind = 0; /* getopt starts anew */
    dup2(pipe_fds[1], STDERR_FILENO);
    close(pipe_fds[1]);
    bool ok = cp_options_parse(argc, argv, &options);
    dup2(keep, STDERR_FILENO);
    close(keep);
    ssize_t len = read(pipe_fds[0], said, sizeof said - 1);
    said[len > 0 ? len : 0] = '\0';
    close(pipe_fds[0]);
    return ok;
}

static void defaults__are_documented_ones(void **state)
{
    (void)state;
    assert_true(parse("iwarp-cp serve dir"));
    assert_int_equal(options.command, CP_COMMAND_SERVE);
    assert_string_equal(options.listen.host, "127.0.0.1");
    assert_string_equal(options.listen.port, "7475");
    assert_int_equal(options.slots, 64);
    assert_false(options.all_slots);
    assert_int_equal(options.slot_size, 512 * 1024);
    assert_int_equal(options.timeout_s, 30);
    assert_int_equal(options.idle_s, 60);
    assert_int_equal(options.max_connections, 64);
    assert_false(options.insecure || options.read_only || options.json || options.recursive);
    assert_int_equal(options.conn.mpa_rev, 2);
    assert_true(options.conn.crc);
    assert_int_equal(options.conn.placement, IWARP_PLACE_VERIFIED);
    assert_int_equal(options.argument_count, 1);
    assert_string_equal(options.arguments[0], "dir");
}

static void options__anywhere__are_set(void **state)
{
    (void)state;
    assert_true(parse("iwarp-cp put a -r b --depth 3 iwarp://h/x --block 64K --no-crc --early "
                      "--mpa-rev 1 --ulpdu 1400 -t 5 -jqc --sync"));
    assert_true(options.recursive && options.json && options.quiet && options.checksum);
    assert_true(options.sync);
    assert_int_equal(options.slots, 3);
    assert_true(options.all_slots);
    assert_int_equal(options.slot_size, 65536);
    assert_false(options.conn.crc);
    assert_int_equal(options.conn.placement, IWARP_PLACE_EARLY);
    assert_int_equal(options.conn.mpa_rev, 1);
    assert_int_equal(options.conn.ulpdu_max, 1400);
    assert_int_equal(options.timeout_s, 5);
    assert_int_equal(options.argument_count, 3);
    assert_string_equal(options.arguments[2], "iwarp://h/x");
}

static void serve_options__are_set(void **state)
{
    (void)state;
    assert_true(parse("iwarp-cp serve -l [::1]:0 -a 10.0.0.0/8 --allow fd00::/8 --read-only -v "
                      "--insecure --max-connections 7 --idle 9 d"));
    assert_string_equal(options.listen.host, "::1");
    assert_string_equal(options.listen.port, "0");
    assert_int_equal(options.allow_count, 2);
    assert_int_equal(options.allow[0].prefix, 96 + 8);
    assert_int_equal(options.allow[1].prefix, 8);
    assert_true(options.read_only && options.insecure && options.verbose);
    assert_int_equal(options.max_connections, 7);
    assert_int_equal(options.idle_s, 9);
}

static void tls__becomes_a_text_of_the_library(void **state)
{
    char full[CP_TLS_MAX];

    (void)state;
    assert_true(parse("iwarp-cp ls iwarp://h/"));
    assert_null(options.conn.tls);
    assert_true(parse("iwarp-cp serve --tls dir/x --allow-id a --allow-id b.example d"));
    assert_string_equal(options.conn.tls, "cert=dir/x/cert.pem,key=dir/x/key.pem,ca=dir/x/ca.pem,"
                                          "allow=a,allow=b.example");
    assert_true(parse("iwarp-cp put -T psk=k a iwarp://h/"));
    assert_string_equal(options.conn.tls, "psk=k");
    assert_true(cp_tls_expect("h", "psk=k", full));
    assert_string_equal(full, "psk=k");
    assert_true(cp_tls_expect("h", "cert=c,ca=d", full));
    assert_string_equal(full, "cert=c,ca=d,name=h");
    assert_true(cp_tls_expect("h", "cert=c,ca=d,name=i", full));
    assert_string_equal(full, "cert=c,ca=d,name=i");
    assert_true(cp_tls_expect("192.0.2.1", "cert=c,ca=d", full));
    assert_string_equal(full, "cert=c,ca=d");
    assert_true(cp_tls_expect("::1", "cert=c,ca=d", full));
    assert_string_equal(full, "cert=c,ca=d");
    assert_true(parse("iwarp-cp keygen dir a b=c"));
    assert_int_equal(options.command, CP_COMMAND_KEYGEN);
    assert_int_equal(options.argument_count, 3);
}

static void double_dash__ends_options(void **state)
{
    (void)state;
    assert_true(parse("iwarp-cp put -- -r iwarp://h/x"));
    assert_false(options.recursive);
    assert_string_equal(options.arguments[0], "-r");
}

static void help_and_version__need_nothing_else(void **state)
{
    (void)state;
    assert_true(parse("iwarp-cp --help"));
    assert_int_equal(options.command, CP_COMMAND_HELP);
    assert_true(parse("iwarp-cp put --help"));
    assert_int_equal(options.command, CP_COMMAND_HELP);
    assert_true(parse("iwarp-cp --version"));
    assert_int_equal(options.command, CP_COMMAND_VERSION);
}

static void wrong_lines__are_refused(void **state)
{
    static const char *const lines[] = {
        "iwarp-cp",
        "iwarp-cp copy",
        "iwarp-cp serve",
        "iwarp-cp serve a b",
        "iwarp-cp put a",
        "iwarp-cp put iwarp://h/x",
        "iwarp-cp put a b",
        "iwarp-cp get a iwarp://h/x",
        "iwarp-cp get iwarp://h/x",
        "iwarp-cp get iwarp://h/x a b",
        "iwarp-cp ls",
        "iwarp-cp ls h/x",
        "iwarp-cp ls --read-only iwarp://h/",
        "iwarp-cp serve --json d",
        "iwarp-cp serve --allow-id x d",
        "iwarp-cp serve --allow-id x --tls y d",
        "iwarp-cp serve --tls x --tls y d",
        "iwarp-cp serve --tls x,y d",
        "iwarp-cp serve --tls x --allow-id y,z d",
        "iwarp-cp ls --tls x --allow-id y iwarp://h/",
        "iwarp-cp keygen",
        "iwarp-cp serve --mpa-rev 1 d",
        "iwarp-cp ls --unknown iwarp://h/",
        "iwarp-cp ls -z iwarp://h/",
        "iwarp-cp ls iwarp://h/ --depth",
        "iwarp-cp ls --depth 0 iwarp://h/",
        "iwarp-cp ls --depth 65 iwarp://h/",
        "iwarp-cp ls --depth -1 iwarp://h/",
        "iwarp-cp ls --depth 1x iwarp://h/",
        "iwarp-cp ls --depth 99999999999999999999 iwarp://h/",
        "iwarp-cp ls --block 4095 iwarp://h/",
        "iwarp-cp ls --block 17M iwarp://h/",
        "iwarp-cp ls --block 16M --depth 5 iwarp://h/",
        "iwarp-cp ls --mpa-rev 3 iwarp://h/",
        "iwarp-cp ls --ulpdu 127 iwarp://h/",
        "iwarp-cp ls --ulpdu 64769 iwarp://h/",
        "iwarp-cp ls --timeout 0 iwarp://h/",
        "iwarp-cp serve --allow 10.0.0.1/8 d",
        "iwarp-cp serve --listen ::1:5 d",
    };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (parse(lines[i])) {
            fail_msg("accepted: %s", lines[i]);
        }
    }
}

static void errors__name_the_option_as_it_was_typed(void **state)
{
    static const char *const cases[][2] = {
        {"iwarp-cp ls --allow 10.0.0.0/8 iwarp://h/", "--allow: "},
        {"iwarp-cp ls -a 10.0.0.0/8 iwarp://h/", "-a: "},
        {"iwarp-cp ls --json -a10.0.0.0/8 iwarp://h/", "-a: "},
        {"iwarp-cp serve -vj d", "-j: "},
        {"iwarp-cp serve --read-only --json d", "--json: "},
        {"iwarp-cp serve --allow 10.0.0.1/8 d", "--allow 10.0.0.1/8: "},
        {"iwarp-cp serve --allow=10.0.0.1/8 d", "--allow 10.0.0.1/8: "},
        {"iwarp-cp serve d --lis ::1:5", "--lis ::1:5: "},
        {"iwarp-cp serve -a10.0.0.1/8 d", "-a 10.0.0.1/8: "},
        {"iwarp-cp serve -va 10.0.0.1/8 d", "-a 10.0.0.1/8: "},
        {"iwarp-cp serve --listen ::1:5 d", "--listen ::1:5: "},
        {"iwarp-cp ls iwarp://h/ --depth 0", "--depth 0: "},
        {"iwarp-cp ls iwarp://h/ --depth=0", "--depth 0: "},
        {"iwarp-cp ls iwarp://h/ -t --json", "-t --json: "},
        {"iwarp-cp ls iwarp://h/ --depth", "--depth: it needs a value"},
        {"iwarp-cp ls iwarp://h/ -t", "-t: it needs a value"},
        {"iwarp-cp ls iwarp://h/ --json -rt", "-t: it needs a value"},
        {"iwarp-cp ls --json=5 iwarp://h/", "--json: it takes no value"},
        {"iwarp-cp ls --help=5 iwarp://h/", "--help: it takes no value"},
        {"iwarp-cp ls --unknown=5 iwarp://h/", "--unknown: no such option"},
        {"iwarp-cp ls --json -rz iwarp://h/", "-z: no such option"},
    };
    char expected[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(parse(cases[i][0]));
        snprintf(expected, sizeof expected, "iwarp-cp: %s", cases[i][1]);
        if (strncmp(said, expected, strlen(expected)) != 0) {
            fail_msg("%s: %s", cases[i][0], said);
        }
    }
}

static void allow__too_many__is_refused(void **state)
{
    static char program[] = "iwarp-cp", serve[] = "serve", allow[] = "--allow=10.0.0.0/8",
                directory[] = "dir";
    char *argv[2 * CP_ALLOW_MAX + 8];
    int argc = 0;

    (void)state;
    argv[argc++] = program;
    argv[argc++] = serve;
    for (int i = 0; i < CP_ALLOW_MAX; i++) {
        argv[argc++] = allow;
    }
    argv[argc++] = directory;
    argv[argc] = NULL;
    optind = 0;
    assert_true(cp_options_parse(argc, argv, &options));
    assert_int_equal(options.allow_count, CP_ALLOW_MAX);
    argv[argc++] = allow;
    argv[argc] = NULL;
    optind = 0;
    assert_false(cp_options_parse(argc, argv, &options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults__are_documented_ones),
        cmocka_unit_test(options__anywhere__are_set),
        cmocka_unit_test(serve_options__are_set),
        cmocka_unit_test(tls__becomes_a_text_of_the_library),
        cmocka_unit_test(double_dash__ends_options),
        cmocka_unit_test(help_and_version__need_nothing_else),
        cmocka_unit_test(wrong_lines__are_refused),
        cmocka_unit_test(errors__name_the_option_as_it_was_typed),
        cmocka_unit_test(allow__too_many__is_refused),
    };

    return cmocka_run_group_tests_name("cp_options", tests, NULL, NULL);
}
