/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file of iwarp-nvmf, and what is said of a wrong one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/nvmf/options.h"
#include "support/said.h"

static char file[64];

static void file__that_is_not_there__is_an_error(void **state)
{
    char *argv[] = {"iwarp-nvmf", "--config", "/nothing/there"};
    struct nvmf_options options;

    (void)state;
    assert_false(nvmf_options_read(3, argv, &options));
    nvmf_options_free(&options);
}

#ifdef IWARP_HAVE_YAML
static struct said errors;
static const char *said;

/* Reads it, and keeps what was said on standard error. */
static bool read_text(const char *text, struct nvmf_options *options)
{
    char *argv[] = {"iwarp-nvmf", "--config", file};
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool good;

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    said_begin(&errors, STDERR_FILENO);
    good = nvmf_options_read(3, argv, options);
    said = said_end(&errors);
    return good;
}

static void check_whole(const struct nvmf_options *options)
{
    const struct nvmf_wanted *one = &options->subsystems[0];

    assert_int_equal(options->subsystem_count, 2);
    assert_string_equal(one->nqn, "nqn.a");
    assert_string_equal(one->hosts[1], "h\"2");
    assert_int_equal(one->host_count, 2);
    assert_int_equal(one->disk_count, 2);
    assert_string_equal(one->disks[0].name, "/srv/\xc3\xa9");
    assert_true(one->disks[0].read_only);
    assert_int_equal(one->disks[0].nsid, 7);
    assert_int_equal(one->disks[0].block, 512);
    assert_false(one->disks[1].read_only);
    assert_int_equal(one->disks[1].nsid, 0);
    assert_int_equal(options->subsystems[1].disk_count, 0);
    assert_true(options->memory == (size_t)256 << 20);
    assert_false(options->crc);
    assert_true(options->uring);
    assert_int_equal(ntohs(((const struct sockaddr_in6 *)&options->listen)->sin6_port), 5);
    assert_string_equal(options->secrets, "s");
    assert_string_equal(options->tls, "psk=k");
}

static void file__json_and_yaml__mean_the_same(void **state)
{
    static const char *const texts[] = {
        "{\n\t\"listen\":\"[::1]:5\", \"memory\" : \"256M\", \"crc\": false, \"uring\": true,\r\n"
        "\t\"secrets\": \"s\", \"tls\": \"psk=k\", \"subsystems\": [{\"nqn\": \"nqn.a\", \"hosts\":"
        "[\"h1\",\"h\\\"2\"],\n\"namespaces\": [{\"read_only\":true, \"block\": 512, \"nsid\": 7, "
        "\"disk\": \"\\/srv\\/\\u00e9\"}, {\"disk\": \"b\"}]}, {\"nqn\": \"nqn.b\"}]}\n",
        "# a comment\nlisten: '[::1]:5'\nmemory: 256M\ncrc: false\nsecrets: s\ntls: psk=k\n"
        "subsystems:\n- nqn: nqn.a\n  hosts: [h1, 'h\"2']\n  namespaces:\n  - disk: /srv/\xc3\xa9\n"
        "    nsid: 7\n    read_only: true\n    block: 512\n  - disk: b\n- nqn: nqn.b\n"};
    struct nvmf_options options;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(read_text(texts[i], &options));
        assert_string_equal(said, "");
        check_whole(&options);
        nvmf_options_free(&options);
    }
}

static void file__wrong__is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "1: there is nothing in it"},
        {"{\"subsystems\": [}", "1: did not find expected node content"},
        {"{\"subsystems\": []\n\"crc\": true}", "2: did not find expected ',' or '}'"},
        {"{\"subsystems\": [\n\"a\n", "3: found unexpected end of stream"},
        {"{\"subsystems\": []} x", "1: did not find expected <document start>"},
        {"{\"subsystems\": []}\n---\nx", ": a second document"},
        {"{\"subsystems\": [{\"nqn\":\"\\ud83d\\ude00\"}]}", "1: found invalid Unicode"},
        {"\"subsystems\"", "1: here: names with values are needed"},
        {"{\"listen\": \"::1\"}", "1: subsystems: is missing"},
        {"{\"subsystems\": [],\n\"lisen\": \"::1\"}", "2: lisen: there is no such thing"},
        {"{\"subsystems\": [],\n[1]: 2}", "2: : there is no such thing"},
        {"{\"subsystems\": [],\n\n\"subsystems\": []}", "3: subsystems: is there twice"},
        {"{\"subsystems\": 5}", "1: subsystems: a list is needed"},
        {"{\"subsystems\": [5]}", "1: here: names with values are needed"},
        {"{\"subsystems\": [],\n\"memory\": [5]}", "2: memory: a text is needed"},
        {"{\"subsystems\": [],\n\"memory\": 5}", "2: memory: see above"},
        {"{\"subsystems\": [],\n\"tls\": null}", "2: tls: a text is needed"},
        {"{\"subsystems\": [{\"nqn\":\n\"a\\u0000b\"}]}", "2: nqn: a text is needed"},
        {"{\"subsystems\": [],\n\"crc\": \"true\"}", "2: crc: true or false is needed"},
        {"{\"subsystems\": [],\n\"crc\": 1}", "2: crc: true or false is needed"},
        {"subsystems:\n- nqn: x\n  hosts:\n  - true\n", "4: hosts: a text is needed"},
        {"subsystems:\n- nqn: x\n  namespaces:\n  - disk: a\n    nsid: 0\n", "5: nsid: see above"},
        {"subsystems:\n- nqn: x\n  namespaces:\n  - disk: a\n    nsid: 4294967297",
         "5: nsid: see above"},
        {"subsystems:\n- nqn: x\n  namespaces:\n  - disk: a\n    nsid: -1",
         "5: nsid: a whole number"},
        {"subsystems:\n- nqn: x\n  namespaces:\n  - disk: a\n    block: 1000",
         "5: block: see above"},
        {"subsystems:\n- nqn: x\n  namespaces:\n  - nsid: 1\n", "4: disk: is missing"},
    };
    struct nvmf_options options;
    char where[128];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(read_text(cases[i].text, &options));
        snprintf(where, sizeof where, "%s:%s", file, cases[i].why[0] == ':' ? "" : cases[i].why);
        if (!strstr(said, where) || !strstr(said, cases[i].why)) {
            fail_msg("of case %zu was said: %s", i, said);
        }
        nvmf_options_free(&options);
    }
}

/* Each beginning of a right text is wrong or means less; nothing is lost and nothing else is read.
 */
static void file__cut_anywhere__does_no_harm(void **state)
{
    static const char whole[] = "{\"subsystems\": [{\"nqn\": \"nqn.\\u0041\", \"namespaces\": "
                                "[{\"disk\": \"a\", \"nsid\": 1}]}], \"crc\": true}";
    struct nvmf_options options;

    (void)state;
    for (size_t len = 0; len + 1 < sizeof whole; len++) {
        char *part = strndup(whole, len);
        assert_false(read_text(part, &options));
        nvmf_options_free(&options);
        free(part);
    }
    assert_true(read_text(whole, &options));
    nvmf_options_free(&options);
}
#endif

static int make_file(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(file, sizeof file, "%.40s/nvmf-%d.yaml", tmp ? tmp : "/tmp", (int)getpid());
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__that_is_not_there__is_an_error),
#ifdef IWARP_HAVE_YAML
        cmocka_unit_test(file__json_and_yaml__mean_the_same),
        cmocka_unit_test(file__wrong__is_refused_with_its_line),
        cmocka_unit_test(file__cut_anywhere__does_no_harm),
#endif
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
