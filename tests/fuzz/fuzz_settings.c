/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing files of settings: the input is such a file. Checked is that each value is a line of it,
 * and that a complaint is one line.
 */
#include "fuzz.h"

#include "base/settings.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In memory: a file system that writes back what was truncated allows some hundred inputs a second.
 */
static int file;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[32];

    (void)argc;
    (void)argv;
    file = memfd_create("settings", MFD_CLOEXEC);
    FUZZ_EXPECT(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
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

    FUZZ_EXPECT(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
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
