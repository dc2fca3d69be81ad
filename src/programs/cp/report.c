/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors, progress and JSON. Only a client has a report; a server uses cp_error alone. The bar is
 * on standard error, JSON on standard output, so that the two never mix.
 */
#include "report.h"

#include "channel.h"
#include "clock.h"
#include "json.h"
#include "options.h"
#include "path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DRAW_SECONDS 0.1
#define LEFT_MAX     (6000 * 60.0) /* seconds; more is not to be believed */

/* Names of at most CP_PATH_MAX octets are shown whole, longer ones cut. */
#define SHOWN_MAX (4 * CP_PATH_MAX + 1)

static double now_seconds(void)
{
    return 1e-6 * (double)cp_clock_us();
}

/* How many octets of one character at text may be shown as they are. 0: not even the first. */
static size_t harmless_len(const char *text)
{
    const unsigned char *octets = (const unsigned char *)text;

    if (octets[0] < 0x80) {
        return octets[0] >= 0x20 && octets[0] != 0x7f;
    }
    /* U+0080 to U+009F are control characters, too. */
    return octets[0] == 0xc2 && octets[1] < 0xa0 ? 0 : cp_json_utf8_len(text);
}

void cp_report_escape(const char *text, char *buf, size_t size)
{
    size_t used = 0;

    while (*text && used + 5 < size) {
        size_t len = harmless_len(text);
        if (len == 0) {
            used += (size_t)snprintf(buf + used, size - used, "\\%03o", (unsigned char)*text++);
        } else {
            memcpy(buf + used, text, len);
            used += len;
            text += len;
        }
    }
    buf[used] = '\0';
}

void cp_error(const char *what, const char *why, const char *hint)
{
    static _Thread_local char shown[SHOWN_MAX];

    cp_report_escape(what, shown, sizeof shown);
    fprintf(stderr, "iwarp-cp: %s: %s; %s\n", shown[0] ? shown : "''", why, hint);
}

void cp_error_result(const char *path, bool at_server, struct cp_result result)
{
    char why[256];

    snprintf(why, sizeof why, "%s%s", at_server ? "at the server, " : "", cp_result_text(result));
    cp_error(path, why, cp_result_hint(result, at_server));
}

bool cp_output_flush(void)
{
    /* What did not fit a full buffer earlier is known to ferror only. */
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return true;
    }
    cp_error("standard output", "it cannot be written", "check where it goes");
    return false;
}

void cp_report_name(const char *name, bool do_escape)
{
    static char shown[SHOWN_MAX];

    if (do_escape) {
        cp_report_escape(name, shown, sizeof shown);
    }
    fputs(do_escape ? shown : name, stdout);
}

void cp_report_json_string(const char *text)
{
    size_t size = strlen(text) * 6 + 3;
    char *buf = malloc(size);

    if (!buf) {
        fputs("\"\"", stdout);
        return;
    }
    cp_json_string(text, buf, size);
    fputs(buf, stdout);
    free(buf);
}

void cp_report_begin(struct cp_report *report, const char *verb, const char *server, bool json,
                     bool quiet)
{
    *report = (struct cp_report){.json = json, .verb = verb, .server = server};
    report->bar = !quiet && isatty(STDERR_FILENO);
    report->started = now_seconds();
}

static void clear_bar(struct cp_report *report)
{
    if (report->drawn) {
        fputs("\r\033[K", stderr);
        report->drawn = false;
    }
}

/* 1234567 as "1.2 MB". */
static void format_bytes(double bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    snprintf(buf, size, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

static void draw_bar(struct cp_report *report, double now)
{
    struct winsize window = {0};
    char moved[32], rate_text[32], rest[64] = "", bar[81] = "";
    double seconds = now - report->started;
    double rate = seconds > 0 ? (double)report->moved / seconds : 0;

    format_bytes((double)report->moved, moved, sizeof moved);
    format_bytes(rate, rate_text, sizeof rate_text);
    if (report->total_bytes > 0) {
        double part = (double)report->moved / (double)report->total_bytes;
        part = part > 1 ? 1 : part;
        double left = rate > 0 ? ((double)report->total_bytes - (double)report->moved) / rate : 0;
        left = left < 0 ? 0 : left > LEFT_MAX ? LEFT_MAX : left;
        (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
        int width = window.ws_col > 70 ? (window.ws_col > 130 ? 80 : window.ws_col - 50) : 20;
        int full = (int)(part * width);
        for (int i = 0; i < width; i++) {
            bar[i] = i < full ? '#' : '.';
        }
        snprintf(rest, sizeof rest, " %3.0f%%, %.0f:%02.0f left", part * 100,
                 (double)(int)(left / 60), (double)((int)left % 60));
    }
    fprintf(stderr, "\r\033[K%s%s%s, %s/s%s", bar, bar[0] ? " " : "", moved, rate_text, rest);
    fflush(stderr);
    report->drawn = true;
    report->last_drawn = now;
}

void cp_report_moved(struct cp_report *report, uint64_t bytes)
{
    report->moved += bytes;
    if (report->bar) {
        double now = now_seconds();
        if (now - report->last_drawn >= DRAW_SECONDS) {
            draw_bar(report, now);
        }
    }
}

static void print_json_result(bool at_server, struct cp_result result)
{
    if (result.status == CP_OK) {
        fputs(",\"ok\":true}\n", stdout);
        return;
    }
    fputs(",\"ok\":false,\"error\":", stdout);
    cp_report_json_string(cp_result_text(result));
    fputs(",\"hint\":", stdout);
    cp_report_json_string(cp_result_hint(result, at_server));
    fputs("}\n", stdout);
}

void cp_report_entry(struct cp_report *report, const char *path, uint64_t size, bool is_dir,
                     bool at_server, struct cp_result result)
{
    if (result.status != CP_OK) {
        report->failed++;
        clear_bar(report);
        /* The directory had its line; one for each file in it would say nothing new. */
        if (result.status != CP_PARENT) {
            cp_error_result(path, at_server, result);
        }
    } else if (is_dir) {
        report->directories++;
    } else {
        report->files++;
        report->bytes += size;
    }
    if (report->json) {
        printf("{\"type\":\"%s\",\"name\":", is_dir ? "directory" : "file");
        cp_report_json_string(path);
        if (!is_dir) {
            printf(",\"bytes\":%" PRIu64, size);
        }
        print_json_result(at_server, result);
    }
}

void cp_report_skipped(struct cp_report *report, const char *path, bool at_server,
                       struct cp_result result)
{
    if (!cp_result_is_left_out(result)) {
        cp_report_entry(report, path, 0, false, at_server, result);
        return;
    }
    report->skipped++;
    report->reserved += result.status == CP_RESERVED;
    if (report->json) {
        fputs("{\"type\":\"skipped\",\"name\":", stdout);
        cp_report_json_string(path);
        fputs(",\"reason\":", stdout);
        cp_report_json_string(cp_result_text(result));
        fputs("}\n", stdout);
    }
}

void cp_report_broken(struct cp_report *report, const char *what, const char *why, const char *hint)
{
    report->broken = true;
    clear_bar(report);
    cp_error(what, why, hint);
    if (report->json) {
        fputs("{\"type\":\"error\",\"error\":", stdout);
        cp_report_json_string(why);
        fputs(",\"hint\":", stdout);
        cp_report_json_string(hint);
        fputs("}\n", stdout);
    }
}

static void print_json_summary(const struct cp_report *report, const struct cp_counts *counts,
                               double seconds)
{
    printf("{\"type\":\"summary\",\"ok\":%s,\"command\":\"%s\",\"server\":",
           report->broken || report->failed ? "false" : "true", report->verb);
    cp_report_json_string(report->server);
    printf(",\"files\":%" PRIu64 ",\"directories\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"failed\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"seconds\":%.6f",
           report->files, report->directories, report->bytes, report->failed, report->skipped,
           seconds);
    printf(",\"rdma_writes\":%" PRIu64 ",\"rdma_write_bytes\":%" PRIu64 ",\"rdma_reads\":%" PRIu64
           ",\"rdma_read_bytes\":%" PRIu64 ",\"sends\":%" PRIu64 ",\"receives\":%" PRIu64 "}\n",
           counts->writes, counts->write_bytes, counts->reads, counts->read_bytes, counts->sends,
           counts->receives);
}

static void print_text_summary(const struct cp_report *report, double seconds)
{
    char bytes[32], rate[32];

    format_bytes((double)report->bytes, bytes, sizeof bytes);
    format_bytes(seconds > 0 ? (double)report->bytes / seconds : 0, rate, sizeof rate);
    fprintf(stderr, "%" PRIu64 " file%s, %s in %.1f s, %s/s\n", report->files,
            report->files == 1 ? "" : "s", bytes, seconds, rate);
}

static void print_left_out(const struct cp_report *report)
{
    uint64_t others = report->skipped - report->reserved;

    if (others > 0) {
        fprintf(stderr, "iwarp-cp: %" PRIu64 " symbolic link%s or special file%s left out\n",
                others, others == 1 ? "" : "s", others == 1 ? "" : "s");
    }
    if (report->reserved > 0) {
        fprintf(
            stderr, "iwarp-cp: %" PRIu64 " name%s that begin%s with " CP_TEMP_PREFIX " left out\n",
            report->reserved, report->reserved == 1 ? "" : "s", report->reserved == 1 ? "s" : "");
    }
}

int cp_report_end(struct cp_report *report, const struct cp_counts *counts)
{
    double seconds = now_seconds() - report->started;

    clear_bar(report);
    print_left_out(report);
    if (report->bar && !report->broken) {
        print_text_summary(report, seconds);
    }
    if (report->json) {
        print_json_summary(report, counts, seconds);
    }
    bool written = cp_output_flush();
    if (report->broken) {
        return CP_EXIT_BROKEN;
    }
    return report->failed || !written ? CP_EXIT_FAILED : CP_EXIT_OK;
}
