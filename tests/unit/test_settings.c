/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/settings: environment before file, what a file may look like and what it may not, values of
 * the wrong kind; what they mean for options; and that iwarp_env(7) and the code know the same
 * names.
 */
#include "base/settings.h"

#include "scratch.h"
#include "verbs/device.h"

#include <iwarp/conn.h>
#include <iwarp/device.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[5000];

/* A file of that text is the only one. */
static void configure(const char *text, size_t len)
{
    scratch_write("settings.conf", text, len);
    snprintf(path, sizeof path, "%s/settings.conf", scratch_path);
    setenv("IWARP_CONFIG", path, 1);
    iwarp_settings_forget();
}

static void configure_text(const char *text)
{
    configure(text, strlen(text));
}

/* What is written to standard error by fn. */
static const char *said_by(void (*fn)(void))
{
    static char text[4096];
    int ends[2], real = dup(STDERR_FILENO);

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fn();
    dup2(real, STDERR_FILENO);
    close(real);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void set_strings_equal(const char *name, const char *value)
{
    const char *is = iwarp_setting(name);

    if (!value) {
        assert_null(is);
    } else {
        assert_non_null(is);
        assert_string_equal(is, value);
    }
}

static void file__in_any_form__is_read(void **state)
{
    (void)state;
    configure_text("# a comment\n\n  \t\nIWARP_LOG=info,conn=trace\n  IWARP_PCAP \t=  a b \r\n"
                   "IWARP_CRC=\nIWARP_PROGRESS=\"polled\"\nIWARP_MPA_REV=1\nIWARP_MPA_REV=2");
    set_strings_equal("IWARP_LOG", "info,conn=trace");
    set_strings_equal("IWARP_PCAP", "a b");
    set_strings_equal("IWARP_CRC", "");
    set_strings_equal("IWARP_PROGRESS", "polled");
    set_strings_equal("IWARP_MPA_REV", "1");
    set_strings_equal("IWARP_WORKERS", NULL);
    assert_string_equal(said_by(iwarp_settings_complain), "");
}

static void environment__and_file__has_the_last_word(void **state)
{
    (void)state;
    configure_text("IWARP_MPA_REV=1\n");
    setenv("IWARP_MPA_REV", "2", 1);
    set_strings_equal("IWARP_MPA_REV", "2");
    unsetenv("IWARP_MPA_REV");
    set_strings_equal("IWARP_MPA_REV", "1");
    setenv("IWARP_CONFIG", "", 1);
    iwarp_settings_forget();
    set_strings_equal("IWARP_MPA_REV", NULL);
}

static void file__of_the_user__is_found(void **state)
{
    char dir[5000], file[5200], below[5100];

    (void)state;
    configure_text("IWARP_MPA_REV=1\n");
    unsetenv("IWARP_CONFIG");
    snprintf(dir, sizeof dir, "%s/home", scratch_path);
    snprintf(below, sizeof below, "%s/.config", dir);
    snprintf(file, sizeof file, "%s/iwarp.conf", below);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(below, 0700), 0);
    assert_int_equal(rename(path, file), 0);
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", dir, 1);
    iwarp_settings_forget();
    set_strings_equal("IWARP_MPA_REV", "1");
    setenv("XDG_CONFIG_HOME", scratch_path, 1);
    iwarp_settings_forget();
    set_strings_equal("IWARP_MPA_REV", NULL);
    setenv("XDG_CONFIG_HOME", below, 1);
    setenv("HOME", "relative", 1);
    iwarp_settings_forget();
    set_strings_equal("IWARP_MPA_REV", "1");
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", "/dev/null", 1); /* as a user without a home has it */
    iwarp_settings_forget();
    set_strings_equal("IWARP_MPA_REV", NULL);
    assert_string_equal(said_by(iwarp_settings_complain), "");
    setenv("HOME", home, 1);
    free(home);
}

static void complaint_has(const char *text)
{
    const char *said = said_by(iwarp_settings_complain);

    if (!strstr(said, text)) {
        fail_msg("\"%s\" is not in \"%s\"", text, said);
    }
    assert_string_equal(said_by(iwarp_settings_complain), ""); /* once is enough */
}

static void file__with_mistakes__is_complained_about_and_used(void **state)
{
    (void)state;
    configure_text("IWARP_CRC=off\nIWARP_NONSENSE=1\nIWARP_MARKERS=on\n");
    complaint_has("settings.conf, line 2: IWARP_NONSENSE is no setting; iwarp_env(7)");
    set_strings_equal("IWARP_CRC", "off");
    set_strings_equal("IWARP_MARKERS", "on");
    configure_text("\nIWARP_CRC off\n");
    complaint_has("settings.conf, line 2: no = in it");
    configure_text("IWARP_CONFIG=/somewhere\n");
    complaint_has("line 1: IWARP_CONFIG is no setting of a file");
}

static void file__that_cannot_be__is_complained_about(void **state)
{
    static char large[40000];

    (void)state;
    configure("IWARP_CRC=off\0\n", 15);
    complaint_has("is left aside: not text");
    set_strings_equal("IWARP_CRC", NULL);
    memset(large, '\n', sizeof large);
    configure(large, sizeof large);
    complaint_has("is left aside: more than 32768 octets");
    setenv("IWARP_CONFIG", "/no/such/file", 1);
    iwarp_settings_forget();
    complaint_has("/no/such/file cannot be read: No such file");
    setenv("IWARP_CONFIG", scratch_path, 1);
    iwarp_settings_forget();
    complaint_has("cannot be read: Is a directory");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes, and nobody waits for that */
    setenv("IWARP_CONFIG", path, 1);
    iwarp_settings_forget();
    set_strings_equal("IWARP_CRC", NULL);
    assert_int_equal(remove(path), 0);
}

static unsigned asked;

static void ask_number(void)
{
    asked = iwarp_setting_number("IWARP_WORKERS", 1, 64, 7);
}

static void number__out_of_bounds_or_none__is_the_default(void **state)
{
    static const char *const wrong[] = {"0", "65", "-1", "1x", "x", " 1", "99999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("IWARP_WORKERS", wrong[i], 1);
        (void)said_by(ask_number); /* the line is there at most once a second */
        assert_int_equal(asked, 7);
    }
    setenv("IWARP_WORKERS", "64", 1);
    assert_string_equal(said_by(ask_number), "");
    assert_int_equal(asked, 64);
    unsetenv("IWARP_WORKERS");
    ask_number();
    assert_int_equal(asked, 7);
}

static bool on;

static void ask_on(void)
{
    on = iwarp_setting_on("IWARP_CRC", true);
}

static void word__unknown__is_the_default_and_said(void **state)
{
    const char *said;

    (void)state;
    usleep(1100000); /* since the lines above */
    setenv("IWARP_CRC", "no", 1);
    said = said_by(ask_on);
    assert_true(on);
    assert_non_null(strstr(said, "IWARP_CRC is \"no\", expected off or on: taking the default"));
    setenv("IWARP_CRC", "off", 1);
    assert_string_equal(said_by(ask_on), "");
    assert_false(on);
    unsetenv("IWARP_CRC");
}

static void options__by_file__are_defaults(void **state)
{
    struct iwarp_conn_options c;
    struct iwarp_device_options d;

    (void)state;
    configure_text("IWARP_MPA_REV=1\nIWARP_CRC=off\nIWARP_MARKERS=on\nIWARP_PLACEMENT=early\n"
                   "IWARP_ULPDU_MAX=1000\nIWARP_STRICT=on\nIWARP_WORKERS=3\n");
    iwarp_conn_options_init(&c);
    iwarp_device_options_init(&d);
    assert_int_equal(c.mpa_rev, 1);
    assert_false(c.crc);
    assert_true(c.markers && c.strict);
    assert_int_equal(c.placement, IWARP_PLACE_EARLY);
    assert_int_equal(c.ulpdu_max, 1000);
    assert_int_equal(d.workers, 3);
    configure_text("");
    iwarp_conn_options_init(&c);
    assert_true(c.mpa_rev == 2 && c.crc && !c.markers && !c.strict && c.ulpdu_max == 0);
    assert_int_equal(c.placement, IWARP_PLACE_VERIFIED);
}

static void device__with_settings__has_them(void **state)
{
    struct iwarp_device *device = NULL;
    struct iwarp_device_info info = {.size = sizeof info};

    (void)state;
    configure_text(
        "IWARP_WORKERS=2\nIWARP_RFC7306=off\nIWARP_PROGRESS=polled\nIWARP_TRANSPORT=tcp\n");
    assert_int_equal(iwarp_device_open(NULL, &device), IWARP_OK);
    assert_int_equal(iwarp_device_query(device, &info), IWARP_OK);
    assert_int_equal(info.options.workers, 2);
    assert_int_equal(info.options.progress, IWARP_PROGRESS_POLLED);
    assert_int_equal(info.options.rfc7306, IWARP_RFC7306_OFF);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    configure_text("IWARP_TRANSPORT=dpdk\n");
    assert_int_equal(iwarp_device_open(NULL, &device), IWARP_MISUSE);
    assert_non_null(strstr(iwarp_last_error(), "is \"dpdk\", expected tcp"));
    configure_text("");
}

/* The manual has a heading for each, in this order; found in the code by its literals. */
static void manual__and_code__have_the_same_names(void **state)
{
    (void)state;
    assert_int_equal(
        system(
            "a=$(sed -n 's/^\\.B \\(IWARP_[[:upper:][:digit:]_]*\\)$/\\1/p' man/iwarp_env.7 | sort "
            "-u)\n"
            "b=$(grep -rhoE '\"IWARP_[[:upper:][:digit:]_]+\"' src | tr -d '\"' | sort -u)\n"
            "[ \"$a\" = \"$b\" ] || { echo \"manual:\n$a\ncode:\n$b\"; exit 1; } >&2\n"
            "! grep -rn 'getenv(\"IWARP_' src | grep -v '\"IWARP_CONFIG\"' >&2"),
        0);
}

static int setup(void **state)
{
    return scratch_setup(state);
}

static int teardown(void **state)
{
    iwarp_settings_forget();
    return scratch_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__in_any_form__is_read),
        cmocka_unit_test(environment__and_file__has_the_last_word),
        cmocka_unit_test(file__of_the_user__is_found),
        cmocka_unit_test(file__with_mistakes__is_complained_about_and_used),
        cmocka_unit_test(file__that_cannot_be__is_complained_about),
        cmocka_unit_test(number__out_of_bounds_or_none__is_the_default),
        cmocka_unit_test(word__unknown__is_the_default_and_said),
        cmocka_unit_test(options__by_file__are_defaults),
        cmocka_unit_test(device__with_settings__has_them),
        cmocka_unit_test(manual__and_code__have_the_same_names),
    };
    return cmocka_run_group_tests_name("settings", tests, setup, teardown);
}
