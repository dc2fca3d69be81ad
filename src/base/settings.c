/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See settings.h. There is no lock, which a fork could leave taken: the first thread that asks
 * reads the files, and if two do so at the same time, one result is kept and the other one freed.
 * Nothing here writes to the log, since the log itself asks for its levels here. The first mistake
 * in a file is kept as a sentence, for iwarp_settings_complain.
 */
#include "base/settings.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_FILE "/etc/iwarp.conf"

enum { FILE_OCTETS = 32768, PATH_OCTETS = 4096 };

static const char *const names[] = {
    "IWARP_CONFIG",       "IWARP_ADDR",     "IWARP_ALLOW",         "IWARP_CONFIRM_WRITES",
    "IWARP_COPY_PAYLOAD", "IWARP_CRC",      "IWARP_CRC32C",        "IWARP_DEVICES",
    "IWARP_FAULTS",       "IWARP_KTLS",     "IWARP_LOG",           "IWARP_LOOK",
    "IWARP_MARKERS",      "IWARP_METRICS",  "IWARP_MPA_REV",       "IWARP_PCAP",
    "IWARP_PCAP_MAX",     "IWARP_PERSONA",  "IWARP_PLACEMENT",     "IWARP_PROGRESS",
    "IWARP_READ_SINK",    "IWARP_RFC7306",  "IWARP_RNR_BYTES",     "IWARP_RNR_MAX",
    "IWARP_RNR_TIMEOUT",  "IWARP_SEND_IMM", "IWARP_SOCKETS_QUIET", "IWARP_SOCKETS_REPLY",
    "IWARP_STRICT",       "IWARP_TLS",      "IWARP_TLS_KEYLOG",    "IWARP_TRANSPORT",
    "IWARP_ULPDU_MAX",    "IWARP_WORKERS"};

enum { NAMES = sizeof names / sizeof *names };

/* What the files say; the first value of a name counts. Never changed once it can be seen. */
struct settings {
    char *value[NAMES];
    char complaint[512]; /* the first one */
    atomic_flag complained;
};

static struct settings *_Atomic settings;

static int find(const char *name, size_t len)
{
    for (int i = 0; i < NAMES; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            return i;
        }
    }
    return -1;
}

__attribute__((format(printf, 2, 3))) static void complain(struct settings *s, const char *format,
                                                           ...)
{
    va_list args;

    if (s->complaint[0] == '\0') {
        va_start(args, format);
        vsnprintf(s->complaint, sizeof s->complaint, format, args);
        va_end(args);
    }
}

/* --- a file ---------------------------------------------------------------------------------- */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The text without blanks at both ends; changes the text. */
static char *trim(char *text)
{
    size_t n;

    while (blank(*text)) {
        text++;
    }
    for (n = strlen(text); n > 0 && blank(text[n - 1]); n--) {
    }
    text[n] = '\0';
    return text;
}

static void unquote(char **text)
{
    size_t n = strlen(*text);

    if (n >= 2 && **text == '"' && (*text)[n - 1] == '"') {
        (*text)[n - 1] = '\0';
        ++*text;
    }
}

/*
 * One line: NAME = value, a comment, or nothing. The first value of a name counts, so files are
 * read in the order of their precedence. False: out of memory.
 */
static bool parse_line(struct settings *s, const char *path, unsigned number, char *line)
{
    line = trim(line);
    if (*line == '\0' || *line == '#') {
        return true;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        complain(s, "%s, line %u: no = in it, expected NAME = value", path, number);
        return true;
    }
    *equals = '\0';
    const char *name = trim(line);
    char *value = trim(equals + 1);
    unquote(&value);
    int i = find(name, strlen(name));
    if (i <= 0) { /* the first one says which file: too late */
        complain(s, "%s, line %u: %s is no setting%s", path, number, name,
                 i == 0 ? " of a file" : "; iwarp_env(7) lists them");
    } else if (!s->value[i]) {
        s->value[i] = strdup(value);
        return s->value[i] != NULL;
    }
    return true;
}

static bool parse(struct settings *s, const char *path, char *text)
{
    bool enough = true;

    for (unsigned number = 1; text && enough; number++) {
        char *line = strsep(&text, "\n");
        enough = parse_line(s, path, number, line);
    }
    return enough;
}

/* Returns the octets read; -1: see errno. Never waits: the path may be a FIFO or a terminal. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
    struct stat st;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
    } else {
        n = read(fd, text, size);
    }
    int error = errno;
    close(fd);
    errno = error;
    return n;
}

/* False: out of memory. */
static bool load(struct settings *s, const char *path, bool asked_for)
{
    char *text = malloc(FILE_OCTETS + 1);

    if (!text) {
        return false;
    }
    ssize_t n = read_file(path, text, FILE_OCTETS + 1);
    bool enough = true;
    if (n < 0) {
        /* A user without a home may have HOME=/dev/null. */
        if (asked_for || (errno != ENOENT && errno != ENOTDIR)) {
            complain(s, "%s cannot be read: %s", path, strerror(errno));
        }
    } else if (n > FILE_OCTETS || memchr(text, '\0', (size_t)n)) {
        complain(s, "%s is left aside: %s", path,
                 n > FILE_OCTETS ? "more than 32768 octets" : "not text");
    } else {
        text[n] = '\0';
        enough = parse(s, path, text);
    }
    free(text);
    return enough;
}

/* --- which files ----------------------------------------------------------------------------- */

/* The path of the user's file. False: the environment names no absolute directory for it. */
static bool user_file(char path[PATH_OCTETS])
{
    const char *dir = getenv("XDG_CONFIG_HOME");
    const char *below = "";

    if (!dir || dir[0] != '/') {
        dir = getenv("HOME");
        below = "/.config";
    }
    if (!dir || dir[0] != '/') {
        return false;
    }
    int n = snprintf(path, PATH_OCTETS, "%s%s/iwarp.conf", dir, below);
    return n > 0 && n < PATH_OCTETS;
}

static bool load_all(struct settings *s)
{
    char path[PATH_OCTETS];

    if (!getauxval(AT_SECURE)) {
        const char *asked = getenv("IWARP_CONFIG");
        if (asked) {
            return asked[0] == '\0' || load(s, asked, true);
        }
        if (user_file(path) && !load(s, path, false)) {
            return false;
        }
    }
    return load(s, SYSTEM_FILE, false);
}

static void settings_free(struct settings *s)
{
    for (int i = 0; s && i < NAMES; i++) {
        free(s->value[i]);
    }
    free(s);
}

/* The settings of the files, read at the first call. NULL: no memory; a later call tries again. */
static struct settings *obtain(void)
{
    IWARP_UNCANCELLED;
    struct settings *s = atomic_load(&settings), *none = NULL;

    if (s) {
        return s;
    }
    int saved = errno;
    s = calloc(1, sizeof *s);
    if (s && (!load_all(s) || !atomic_compare_exchange_strong(&settings, &none, s))) {
        settings_free(s);
        s = none;
    }
    errno = saved;
    return s;
}

void iwarp_settings_forget(void)
{
    settings_free(atomic_exchange(&settings, NULL));
}

const char *iwarp_settings_complaint(void)
{
    struct settings *s = obtain();

    return s && s->complaint[0] && !atomic_flag_test_and_set(&s->complained) ? s->complaint : NULL;
}

const char *iwarp_setting(const char *name)
{
    const char *value = secure_getenv(name);
    int i = find(name, strlen(name));

    if (value || i <= 0) {
        return value;
    }
    const struct settings *s = obtain();
    return s ? s->value[i] : NULL;
}
