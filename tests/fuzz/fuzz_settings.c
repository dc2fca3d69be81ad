/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing files of settings: the input is such a file. Checked is that each value is a line of it,
 * and that a complaint is one line.
 */
#include "fuzz.h"

#include "base/settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/fuzz-settings-XXXXXX";

static void clean_up(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int fd = mkstemp(path);

    (void)argc;
    (void)argv;
    FUZZ_EXPECT(fd >= 0);
    close(fd);
    atexit(clean_up);
    setenv("IWARP_CONFIG", path, 1);
    return 0;
}

static bool occurs(const char *value, const uint8_t *data, size_t size)
{
    size_t n = strlen(value);

    for (size_t i = 0; i + n <= size; i++) {
        if (memcmp(data + i, value, n) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"IWARP_ADDR",     "IWARP_CRC",  "IWARP_LOG",
                                        "IWARP_TLS",      "IWARP_PCAP", "IWARP_WORKERS",
                                        "IWARP_ULPDU_MAX"};
    static const char *const words[] = {"tcp", "lwip", NULL};
    int fd = open(path, O_WRONLY | O_TRUNC);

    FUZZ_EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    iwarp_settings_forget();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = iwarp_setting(names[i]);
        FUZZ_EXPECT(!value || (occurs(value, data, size) && !strchr(value, '\n')));
    }
    FUZZ_EXPECT(iwarp_setting_word("IWARP_TRANSPORT", words, 7) <= 7);
    unsigned n = iwarp_setting_number("IWARP_WORKERS", 1, 64, 3);
    FUZZ_EXPECT(n >= 1 && n <= 64);
    const char *complaint = iwarp_settings_complaint();
    FUZZ_EXPECT(!complaint || !strchr(complaint, '\n'));
    return 0;
}
