/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What put, get and ls have in common: connecting, OPEN, waiting for events within bounded time,
 * and saying in a sentence why a connection did not come about or broke.
 */
#ifndef CP_CLIENT_H
#define CP_CLIENT_H

#include "channel.h"
#include "options.h"
#include "report.h"
#include "wire.h"

struct cp_client {
    const struct cp_options *options;
    struct cp_url url;
    char server[CP_HOST_MAX + 16]; /* as people write it */
    struct iwarp_device *device;
    struct cp_channel channel;
    int64_t startup_us;     /* from the begin of the TCP connection to the MPA Reply */
    struct cp_target slots; /* of the server */
    struct cp_report report;
};

/* Parse the URL and begin the report. CP_EXIT_OK, or what to exit with, after printing why. */
int cp_client_begin(struct cp_client *client, const struct cp_options *options, const char *verb,
                    const char *url);

/* Connect. CP_EXIT_OK; otherwise everything is finished, with why printed. */
int cp_client_connect(struct cp_client *client);

/* Ask for an action on the URL's name. False after printing why not. */
bool cp_client_open(struct cp_client *client, enum cp_action action, unsigned flags,
                    struct cp_opened *opened);

/*
 * Wait for the next event that is not an end: a message (read into message), SENT or READ. False
 * after printing why there will be none.
 */
bool cp_client_wait(struct cp_client *client, struct cp_event *event, struct cp_message *message);

/* The connection is of no use any more: a request failed, or a message made no sense. */
void cp_client_broken(struct cp_client *client, struct cp_result result);

/* Send FETCH for a slot; its message buffer must be free. */
bool cp_client_fetch(struct cp_client *client, unsigned slot);

/* Close in order, release everything, print the summary; returns the exit status. */
int cp_client_finish(struct cp_client *client);

/* The target of a slot at the server. */
struct cp_target cp_client_target(const struct cp_client *client, unsigned slot);

/* The three commands; each returns an exit status. */
int cp_run_put(const struct cp_options *options);
int cp_run_get(const struct cp_options *options);
int cp_run_list(const struct cp_options *options);

#endif
