/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What people and programs see of a transfer: errors (one line each, "iwarp-cp: WHAT: WHY; WHAT TO
 * DO"), the progress bar on a terminal, JSON lines. Names are written with control characters
 * escaped, so that none can play with the terminal.
 */
#ifndef CP_REPORT_H
#define CP_REPORT_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp_counts;

struct cp_report {
    bool json;
    bool bar;         /* a progress bar on standard error */
    bool drawn;       /* the bar is on the screen */
    const char *verb; /* "put" */
    const char *server;
    double started, last_drawn;
    uint64_t total_files, total_bytes; /* 0: not known */
    uint64_t files, directories, bytes, failed, skipped;
    uint64_t reserved; /* of those skipped: because of their names */
    uint64_t moved;    /* octets so far, of unfinished files too */
    bool broken;       /* an error that is not one of a file */
};

/* Print an error line. Any thread. */
void cp_error(const char *what, const char *why, const char *hint);

/* The same for a result, told of path; at_server if it happened there. */
void cp_error_result(const char *path, bool at_server, struct cp_result result);

void cp_report_begin(struct cp_report *report, const char *verb, const char *server, bool json,
                     bool quiet);

/* An error that ends the transfer. */
void cp_report_broken(struct cp_report *report, const char *what, const char *why,
                      const char *hint);

/* A file or directory is done, or failed. */
void cp_report_entry(struct cp_report *report, const char *path, uint64_t size, bool is_dir,
                     bool at_server, struct cp_result result);

/* Something that was left out: links, special files and reserved names are notes, the rest are
 * failures. */
void cp_report_skipped(struct cp_report *report, const char *path, bool at_server,
                       struct cp_result result);

/* So many octets more went over the wire. */
void cp_report_moved(struct cp_report *report, uint64_t bytes);

/* The end: the summary, and an exit status. */
int cp_report_end(struct cp_report *report, const struct cp_counts *counts);

/* Write out what was printed. False, and an error line, if not all of it could be written. */
bool cp_output_flush(void);

/* Copy text for one line of a terminal: control characters, and what is not UTF-8, as \ooo. */
void cp_report_escape(const char *text, char *buf, size_t size);

/* Write text as a JSON string, quotes included, to standard output. */
void cp_report_json_string(const char *text);

/* Write name to standard output, control characters as \ooo if escape. */
void cp_report_name(const char *name, bool escape);

#endif
