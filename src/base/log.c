/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads IWARP_LOG (see log.h) and writes the lines.
 *
 * The environment is read when the first line is due, not when the library is loaded, so that a
 * program can still set it.  The lock covers the choice of levels only; a line is put together
 * on the caller's stack and written at once, so lines of different threads do not mix.
 */
#include "base/log.h"

#include "base/process.h"
#include "base/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_OCTETS 1024 /* with the final newline */
#define ELLIPSIS        "..."

enum { LEVEL_OFF = 0, MODULES = 16, NAME_OCTETS = 16, UNKNOWN_OCTETS = 128 };

struct choice {
    bool made;
    int level; /* of modules that are not named */
    int named;
    struct {
        char name[NAME_OCTETS];
        int level;
    } module[MODULES];
};

atomic_int iwarp_log_highest = IWARP_LOG_TRACE;

static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct choice choice; /* under lock */
static uint64_t loaded_ns;

static struct sink {
    iwarp_log_fn *fn; /* NULL: standard error */
    void *arg;
} sink; /* under lock */

/* ---- lines ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    loaded_ns = now_ns();
}

static size_t put_heading(char *line, size_t size, enum iwarp_log_level level, const char *module)
{
    uint64_t us = (now_ns() - loaded_ns) / 1000;
    char thread[16] = "";
    if (iwarp_log_on(IWARP_LOG_DEBUG)) {
        snprintf(thread, sizeof(thread), "[%d] ", (int)gettid());
    }
    int n = snprintf(line, size, "iwarp %u.%06u %s%s %.*s: ", (unsigned int)(us / 1000000),
                     (unsigned int)(us % 1000000), thread, level_names[level], NAME_OCTETS, module);
    return n < 0 ? 0 : (size_t)n;
}

/* Makes one line of what is in the buffer, and returns where its newline goes; n is what it would
 * have been without a limit. */
static size_t finish_line(char *line, size_t n)
{
    bool cut = n > LINE_MAX_OCTETS - 1;
    if (cut) {
        n = LINE_MAX_OCTETS - 1;
        memcpy(line + n - strlen(ELLIPSIS), ELLIPSIS, strlen(ELLIPSIS));
    }
    while (n > 0 && line[n - 1] == '\n') {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c < 0x20 || c == 0x7f) {
            line[i] = ' '; /* text that came from a peer must not look like another line */
        }
    }
    return n;
}

static void to_stderr(const char *line, size_t octets)
{
    while (write(STDERR_FILENO, line, octets) < 0 && errno == EINTR) {
    }
}

static void (*write_line)(const char *line, size_t octets) = to_stderr;

void iwarp_log_write_by(void (*put)(const char *line, size_t octets))
{
    write_line = put;
}

__attribute__((format(printf, 4, 0))) static void put_line(struct sink to,
                                                           enum iwarp_log_level level,
                                                           const char *module, const char *format,
                                                           va_list args)
{
    IWARP_UNCANCELLED; /* write is a cancellation point, and the caller may hold locks */
    int saved = errno;
    char line[LINE_MAX_OCTETS];
    size_t heading = to.fn ? 0 : put_heading(line, sizeof(line), level, module);
    errno = saved; /* for %m */
    int n = vsnprintf(line + heading, sizeof(line) - heading, format, args);
    size_t end = finish_line(line, heading + (n < 0 ? 0 : (size_t)n));
    if (to.fn) {
        line[end] = '\0';
        to.fn(level, module, line, to.arg);
    } else {
        line[end] = '\n';
        write_line(line, end + 1);
    }
    errno = saved;
}

__attribute__((format(printf, 4, 5))) static void put(struct sink to, enum iwarp_log_level level,
                                                      const char *module, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(to, level, module, format, args);
    va_end(args);
}

/* ---- levels ---- */

static int parse_level(const char *word)
{
    int count = (int)(sizeof(level_names) / sizeof(level_names[0]));
    if (word[0] >= '0' && word[0] < '0' + count && word[1] == '\0') {
        return word[0] - '0';
    }
    for (int i = 0; i < count; i++) {
        if (strcasecmp(word, level_names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool choose_module(struct choice *c, const char *name, int level)
{
    if (name[0] == '\0' || strlen(name) >= NAME_OCTETS) {
        return false;
    }
    int i = 0;
    while (i < c->named && strcmp(c->module[i].name, name) != 0) {
        i++;
    }
    if (i == MODULES) {
        return false;
    }
    if (i == c->named) {
        strcpy(c->module[i].name, name);
        c->named++;
    }
    c->module[i].level = level;
    return true;
}

static bool choose_word(struct choice *c, char *word)
{
    char *equals = strchr(word, '=');
    int level = parse_level(equals == NULL ? word : equals + 1);
    if (level < 0) {
        return false;
    }
    if (equals == NULL) {
        c->level = level;
        return true;
    }
    *equals = '\0';
    bool chosen = choose_module(c, word, level);
    *equals = '=';
    return chosen;
}

/* Every word of spec; those that say nothing are listed in unknown. */
static void choose_words(struct choice *c, const char *spec, char unknown[UNKNOWN_OCTETS])
{
    size_t used = 0;
    unknown[0] = '\0';
    while (*spec != '\0') {
        size_t n = strcspn(spec, ",");
        char word[64];
        snprintf(word, sizeof(word), "%.*s", (int)(n < sizeof(word) ? n : sizeof(word)), spec);
        if (n > 0 && (n >= sizeof(word) || !choose_word(c, word)) && used < UNKNOWN_OCTETS - 1) {
            int more = snprintf(unknown + used, UNKNOWN_OCTETS - used, "%s\"%s\"",
                                used == 0 ? "" : ", ", word);
            used += more < 0 ? 0 : (size_t)more;
        }
        spec += n + (spec[n] == ',');
    }
}

/* Under lock. */
static void choose(const char *spec)
{
    choice = (struct choice){.made = true, .level = IWARP_LOG_WARN};
    char unknown[UNKNOWN_OCTETS];
    choose_words(&choice, spec == NULL ? "" : spec, unknown);
    int highest = choice.level;
    for (int i = 0; i < choice.named; i++) {
        highest = choice.module[i].level > highest ? choice.module[i].level : highest;
    }
    atomic_store_explicit(&iwarp_log_highest, highest, memory_order_relaxed);
    if (unknown[0] != '\0') {
        /* At any level: the user has set IWARP_LOG and must learn that part of it is wrong. */
        put(sink, IWARP_LOG_WARN, "log",
            "IWARP_LOG: ignored %s; levels are off, error, warn, info, debug, trace or 0 to 5, "
            "for one module MODULE=LEVEL, with commas between",
            unknown);
    }
}

/* Under lock. */
static int level_of(const char *module)
{
    if (!choice.made) {
        choose(iwarp_setting("IWARP_LOG"));
    }
    for (int i = 0; i < choice.named; i++) {
        if (strcmp(choice.module[i].name, module) == 0) {
            return choice.module[i].level;
        }
    }
    return choice.level;
}

void iwarp_log_set(const char *spec)
{
    pthread_mutex_lock(&lock);
    choose(spec);
    pthread_mutex_unlock(&lock);
}

void iwarp_log_to(iwarp_log_fn *fn, void *arg)
{
    pthread_mutex_lock(&lock);
    sink = (struct sink){fn, arg};
    pthread_mutex_unlock(&lock);
}

void iwarp_log_hold(void)
{
    pthread_mutex_lock(&lock);
}

void iwarp_log_release(void)
{
    pthread_mutex_unlock(&lock);
}

void iwarp_log(enum iwarp_log_level level, const char *module, const char *format, ...)
{
    int saved = errno;
    if (!iwarp_log_on(level)) {
        return;
    }
    pthread_mutex_lock(&lock);
    bool wanted = (int)level <= level_of(module);
    struct sink to = sink;
    pthread_mutex_unlock(&lock);
    errno = saved;
    if (wanted) {
        va_list args;
        va_start(args, format);
        put_line(to, level, module, format, args);
        va_end(args);
    }
}

void iwarp_log_rarely(struct iwarp_log_limit *limit, enum iwarp_log_level level, const char *module,
                      const char *format, ...)
{
    char line[LINE_MAX_OCTETS];
    struct timespec t;
    va_list args;

    if (!iwarp_log_on(level)) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    long long next = atomic_load(&limit->next_ms);
    if (now < next || !atomic_compare_exchange_strong(&limit->next_ms, &next, now + 1000)) {
        atomic_fetch_add(&limit->left_out, 1);
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    unsigned left_out = atomic_exchange(&limit->left_out, 0);
    if (left_out) {
        iwarp_log(level, module, "%s (and %u more in the last while)", line, left_out);
    } else {
        iwarp_log(level, module, "%s", line);
    }
}
