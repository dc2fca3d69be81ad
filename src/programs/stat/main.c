/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-stat: the connections of a running process that IWARP_METRICS lets be asked, with their
 * rates. It asks once in an interval and shows what has changed since.  See iwarp-stat(1).
 */
#include "programs/service/refused.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <iwarp/version.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 28, PLACE = 512, COUNT_MAX = 999999999 };

struct line {
    char peer[128], state[16], tls[4], fault[48];
    unsigned device, qp, sq;
    unsigned long long sent, received, fpdus_out, fpdus_in, waited;
};

struct answer {
    struct line *line;
    size_t n, room;
    double at;
};

struct place {
    const char *name;
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_in in;
    } at;
    socklen_t len;
};

struct settings {
    double interval;
    uint64_t count; /* 0: without end */
    bool help, version;
};

static void fail(const char *place, const char *why)
{
    fprintf(stderr, "iwarp-stat: %s: %s\n", place, why);
    exit(1);
}

static void wrong(const char *what, const char *why)
{
    fprintf(stderr, "iwarp-stat: %s: %s; see iwarp-stat --help\n", what, why);
    exit(2);
}

static void flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fail("standard output", "it cannot be written");
    }
}

/* What another process has said goes to a terminal: with nothing that a terminal obeys. */
static char *harmless(char *text)
{
    for (char *p = text; *p; p++) {
        *p = *p < ' ' || *p > '~' ? '?' : *p;
    }
    return text;
}

/* --- where to ask ---------------------------------------------------------------------------- */

/* What IWARP_METRICS was when the process began; %p in it is the process. */
static void place_of_process(const char *pid, char out[PLACE])
{
    static char text[1 << 18];
    static const char name[] = "IWARP_METRICS=";
    char path[64];

    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        fail(pid, errno == ENOENT ? "no such process" : strerror(errno));
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t i = 0; i < n; i += strlen(text + i) + 1) {
        if (strncmp(text + i, name, sizeof name - 1) == 0) {
            const char *value = text + i + sizeof name - 1, *p = strstr(value, "%p");
            snprintf(out, PLACE, "%.*s%s%s", p ? (int)(p - value) : (int)strlen(value), value,
                     p ? pid : "", p ? p + 2 : "");
            return;
        }
    }
    fail(pid, "it was started without IWARP_METRICS, see iwarp_env(7)");
}

/* Is text a number up to most, and nothing else? */
static bool number(const char *text, uint64_t most, uint64_t *value)
{
    size_t digits = strspn(text, "0123456789");

    *value = digits > 0 && digits < 10 ? strtoul(text, NULL, 10) : UINT64_MAX;
    return text[digits] == '\0' && *value <= most;
}

/* NULL, or what is wrong with the name. */
static const char *parse_place(const char *name, struct place *place)
{
    const char *colon = strrchr(name, ':');
    char address[INET_ADDRSTRLEN];
    uint64_t port;

    *place = (struct place){.name = name};
    if (strncmp(name, "unix:", 5) == 0) {
        place->len = sizeof place->at.un;
        place->at.un.sun_family = AF_UNIX;
        if (!name[5] || strlen(name + 5) >= sizeof place->at.un.sun_path) {
            return name[5] ? "the path is too long" : "the path is missing";
        }
        strcpy(place->at.un.sun_path, name + 5);
        return NULL;
    }
    place->len = sizeof place->at.in;
    place->at.in.sin_family = AF_INET;
    snprintf(address, sizeof address, "%.*s", colon ? (int)(colon - name) : 0, name);
    if (!colon || inet_pton(AF_INET, address, &place->at.in.sin_addr) != 1 ||
        !number(colon + 1, 65535, &port) || port == 0) {
        return "not a process, unix:PATH or 127.0.0.1:PORT";
    }
    place->at.in.sin_port = htons((in_port_t)port);
    return NULL;
}

static int ask(const struct place *place)
{
    const struct timeval limit = {.tv_sec = 5};
    int fd = socket(place->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, &place->at.any, place->len) != 0) {
        fail(place->name, strerror(errno));
    }
    return fd;
}

/* --- what it says ---------------------------------------------------------------------------- */

static bool parse(char *text, struct line *l)
{
    char host[64] = "", port[16] = "";
    int fields = sscanf(text,
                        "device=%u qp=%u peer=%63s port=%15s state=%15s tls=%3s sent=%llu "
                        "received=%llu fpdus_out=%llu fpdus_in=%llu sq=%u waited=%llu fault=%47s",
                        &l->device, &l->qp, host, port, l->state, l->tls, &l->sent, &l->received,
                        &l->fpdus_out, &l->fpdus_in, &l->sq, &l->waited, l->fault);

    snprintf(l->peer, sizeof l->peer, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    harmless(l->peer);
    harmless(l->state);
    harmless(l->tls);
    harmless(l->fault);
    return fields == 13;
}

static void *grow(const struct place *place, void *at, size_t size)
{
    at = realloc(at, size);
    if (!at) {
        fail(place->name, strerror(ENOMEM));
    }
    return at;
}

/* All that it says; the memory is used again. */
static char *read_answer(const struct place *place, int fd)
{
    static char *text;
    static size_t room;
    size_t n = 0;
    ssize_t got;

    do {
        if (room - n < 2) {
            room = 2 * room + 65536;
            text = grow(place, text, room);
        }
        got = recv(fd, text + n, room - 1 - n, 0);
        if (got < 0 || n > TEXT_MAX) {
            fail(place->name, got < 0 ? strerror(errno) : "its answer has no end");
        }
        n += (size_t)got;
    } while (got > 0);
    text[n] = 0;
    return text;
}

static void add_line(const struct place *place, struct answer *a, char *text)
{
    if (a->n == a->room) {
        a->room = 2 * a->room + 64;
        a->line = grow(place, a->line, a->room * sizeof *a->line);
    }
    a->n += parse(text, &a->line[a->n]);
}

static void fetch(const struct place *place, struct answer *a)
{
    static const char request[] = "GET /connections HTTP/1.0\r\n\r\n";
    struct timespec now;
    int fd = ask(place);

    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) {
        fail(place->name, strerror(errno));
    }
    char *text = read_answer(place, fd);
    close(fd);
    clock_gettime(CLOCK_MONOTONIC, &now);
    a->at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    a->n = 0;
    char *body = strstr(text, "\r\n\r\n");
    if (!body || strncmp(text, "HTTP/1.0 200", 12) != 0) {
        fail(place->name, "no statistics of libiwarp there");
    }
    for (char *p = strtok(body + 4, "\n"); p; p = strtok(NULL, "\n")) {
        add_line(place, a, p);
    }
}

/* --- what is shown --------------------------------------------------------------------------- */

/* In four places: 1.23G */
static const char *size(double value, char out[16])
{
    static const char units[] = " KMGTP";
    unsigned i = 0;

    while (value >= 999.5 && i < sizeof units - 2) {
        value /= 1000;
        i++;
    }
    snprintf(out, 16, i == 0 ? "%.0f" : value < 9.995 ? "%.2f%c" : "%.1f%c", value, units[i]);
    return out;
}

/* The same connection in an earlier answer, where it mostly has the same place. */
static const struct line *find(const struct answer *a, const struct line *l, size_t place)
{
    for (size_t i = 0; a && i < a->n; i++) {
        const struct line *old = &a->line[(place + i) % a->n];
        if (old->device == l->device && old->qp == l->qp && strcmp(old->peer, l->peer) == 0) {
            return old;
        }
    }
    return NULL;
}

static void show(const struct answer *a, const struct answer *before)
{
    char text[4][16];

    printf("%-26s %8s %-11s %3s %8s %8s %9s %9s %5s %6s %s\n", "PEER", "QP", "STATE", "TLS", "SENT",
           "RECEIVED", "OUT B/s", "IN B/s", "SQ", "WAITED", "FAULT");
    for (size_t i = 0; i < a->n; i++) {
        const struct line *l = &a->line[i], *old = find(before, l, i);
        double s = before ? a->at - before->at : 0;
        double out = old && s > 0 ? (double)(l->sent - old->sent) / s : 0;
        double in = old && s > 0 ? (double)(l->received - old->received) / s : 0;
        printf("%-26s %8u %-11s %3s %8s %8s %9s %9s %5u %6llu %s\n", l->peer, l->qp, l->state,
               l->tls, size((double)l->sent, text[0]), size((double)l->received, text[1]),
               old ? size(out, text[2]) : "-", old ? size(in, text[3]) : "-", l->sq, l->waited,
               strcmp(l->fault, "NONE") == 0 ? "" : l->fault);
    }
    if (a->n == 0) {
        printf("no connections\n");
    }
    flush();
}

/* --- what was typed -------------------------------------------------------------------------- */

static void usage(void)
{
    fputs("iwarp-stat shows the connections of a process that runs with IWARP_METRICS, live.\n\n"
          "  iwarp-stat [OPTION...] PID|unix:PATH|127.0.0.1:PORT\n\n"
          "  -i, --interval SECONDS   between two looks (1)\n"
          "  -n, --count N            stop after so many (0: never); 1: no rates\n"
          "  -h, --help               this text\n"
          "  -V, --version            the version\n",
          stdout);
}

static double take_interval(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0.05 && seconds <= 3600)) {
        wrong(text, "not a number of seconds from 0.05 to 3600");
    }
    return seconds;
}

static struct settings parse_options(int argc, char **argv)
{
    static const struct option options[] = {{"interval", required_argument, NULL, 'i'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    struct settings settings = {.interval = 1};
    const char *word, *why;

    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":i:n:hV", options, NULL)) != -1;) {
        switch (c) {
        case 'i':
            settings.interval = take_interval(optarg);
            break;
        case 'n':
            if (!number(optarg, COUNT_MAX, &settings.count)) {
                wrong(optarg, "not a number from 0 to 999999999");
            }
            break;
        case 'h':
            settings.help = true;
            return settings;
        case 'V':
            settings.version = true;
            return settings;
        default:
            word = argv[optind - 1];
            why = option_refused(c, &word);
            wrong(word, why);
        }
    }
    if (optind == argc) {
        wrong("whose connections", "a process or a place is missing");
    }
    if (optind + 1 < argc) {
        wrong(argv[optind + 1], "one process or place at a time");
    }
    return settings;
}

static struct place find_place(const char *typed)
{
    static char name[PLACE];
    bool is_process = typed[0] && typed[strspn(typed, "0123456789")] == '\0';
    struct place place;

    if (is_process) {
        place_of_process(typed, name);
    }
    const char *why = parse_place(is_process ? name : typed, &place);
    harmless(name); /* it is parsed, and only shown from now on */
    if (why && is_process) {
        fail(name, why);
    }
    if (why) {
        wrong(typed, why);
    }
    return place;
}

int main(int argc, char **argv)
{
    static struct answer answers[2];
    const struct settings settings = parse_options(argc, argv);

    if (settings.help || settings.version) {
        if (settings.help) {
            usage();
        } else {
            puts("iwarp-stat " IWARP_VERSION);
        }
        flush();
        return 0;
    }
    const struct place place = find_place(argv[optind]);
    for (uint64_t i = 0; settings.count == 0 || i < settings.count; i++) {
        if (i > 0) {
            usleep((useconds_t)(settings.interval * 1e6));
            if (isatty(STDOUT_FILENO)) {
                printf("\033[H\033[J");
            }
        } else if (isatty(STDOUT_FILENO)) {
            printf("\033[2J\033[H");
        }
        fetch(&place, &answers[i % 2]);
        show(&answers[i % 2], i > 0 ? &answers[(i + 1) % 2] : NULL);
    }
    return 0;
}
