/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-stat: the connections of a running process that IWARP_METRICS lets be asked, with their
 * rates. It asks once in an interval and shows what has changed since.  See iwarp-stat(1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <iwarp/version.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 4096, TEXT = 1 << 22, PLACE = 512 };

struct line {
    char peer[128], state[16], tls[4], fault[48];
    unsigned device, qp, sq;
    unsigned long long sent, received, fpdus_out, fpdus_in, waited;
};

struct answer {
    struct line line[CONNECTIONS];
    unsigned n;
    double at;
};

static void fail(const char *place, const char *why)
{
    fprintf(stderr, "iwarp-stat: %s: %s\n", place, why);
    exit(1);
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
        fail(pid, strerror(errno));
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

static int ask(const char *place)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    bool is_unix = strncmp(place, "unix:", 5) == 0;
    const char *colon = strrchr(place, ':');
    char address[INET_ADDRSTRLEN];

    if (is_unix) {
        if (strlen(place + 5) >= sizeof un.sun_path) {
            fail(place, "the path is too long");
        }
        strcpy(un.sun_path, place + 5);
    } else {
        snprintf(address, sizeof address, "%.*s", colon ? (int)(colon - place) : 0, place);
        if (!colon || inet_pton(AF_INET, address, &in.sin_addr) != 1) {
            fail(place, "expected a process, unix:PATH or 127.0.0.1:PORT");
        }
        in.sin_port = htons((in_port_t)atoi(colon + 1));
    }
    const struct timeval limit = {.tv_sec = 5};
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, is_unix ? (const struct sockaddr *)&un : (const struct sockaddr *)&in,
                is_unix ? sizeof un : sizeof in) != 0) {
        fail(place, strerror(errno));
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
    return fields == 13;
}

static void fetch(const char *place, struct answer *a)
{
    static const char request[] = "GET /connections HTTP/1.0\r\n\r\n";
    static char text[TEXT];
    struct timespec now;
    size_t n = 0;
    ssize_t got;
    int fd = ask(place);

    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) {
        fail(place, strerror(errno));
    }
    while (n < TEXT - 1 && (got = recv(fd, text + n, TEXT - 1 - n, 0)) > 0) {
        n += (size_t)got;
    }
    close(fd);
    text[n] = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    a->at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    a->n = 0;
    char *body = strstr(text, "\r\n\r\n");
    if (!body || strncmp(text, "HTTP/1.0 200", 12) != 0) {
        fail(place, "no statistics of libiwarp there");
    }
    for (char *p = strtok(body + 4, "\n"); p && a->n < CONNECTIONS; p = strtok(NULL, "\n")) {
        a->n += parse(p, &a->line[a->n]);
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

/* The same connection in an earlier answer. */
static const struct line *find(const struct answer *a, const struct line *l)
{
    for (unsigned i = 0; a && i < a->n; i++) {
        const struct line *old = &a->line[i];
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
    for (unsigned i = 0; i < a->n; i++) {
        const struct line *l = &a->line[i], *old = find(before, l);
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
    fflush(stdout);
}

static void usage(FILE *out)
{
    fprintf(out,
            "iwarp-stat shows the connections of a process that runs with IWARP_METRICS, live.\n\n"
            "  iwarp-stat [OPTION...] PID|unix:PATH|127.0.0.1:PORT\n\n"
            "  -i, --interval SECONDS   between two looks (1)\n"
            "  -n, --count N            stop after so many (0: never); 1: no rates\n"
            "  -h, --help               this text\n"
            "  -V, --version            the version\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"interval", required_argument, NULL, 'i'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    static struct answer answers[2];
    double interval = 1;
    unsigned long count = 0;
    char place[PLACE];

    for (int c; (c = getopt_long(argc, argv, "i:n:hV", options, NULL)) != -1;) {
        switch (c) {
        case 'i':
            interval = strtod(optarg, NULL);
            break;
        case 'n':
            count = strtoul(optarg, NULL, 10);
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            printf("iwarp-stat %s\n", IWARP_VERSION);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (optind + 1 != argc || !(interval >= 0.05 && interval <= 3600)) {
        usage(stderr);
        return 2;
    }
    if (argv[optind][strspn(argv[optind], "0123456789")] == 0) {
        place_of_process(argv[optind], place);
    } else {
        snprintf(place, sizeof place, "%s", argv[optind]);
    }
    for (unsigned long i = 0; count == 0 || i < count; i++) {
        if (i > 0) {
            usleep((useconds_t)(interval * 1e6));
            if (isatty(STDOUT_FILENO)) {
                printf("\033[H\033[J");
            }
        } else if (isatty(STDOUT_FILENO)) {
            printf("\033[2J\033[H");
        }
        fetch(place, &answers[i % 2]);
        show(&answers[i % 2], i > 0 ? &answers[(i + 1) % 2] : NULL);
    }
    return 0;
}
