/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same tests under each way to make progress. TEST_PROGRESS in the environment is `threaded`
 * (default), `polled` or `embedded`; in the last case the test's own thread runs the loop, so that
 * nothing may block without running it: what sleeps or polls in a test goes through these.
 */
#ifndef TESTS_PROGRESS_H
#define TESTS_PROGRESS_H

#include <iwarp/iwarp.h>
#include <poll.h>
#include <stdbool.h>

bool progress_is_embedded(void);

/* Open a device as TEST_PROGRESS says, unless the options say themselves; close it, and check that
 * it leaves no handle in the loop. */
enum iwarp_status progress_open(const struct iwarp_device_options *options,
                                struct iwarp_device **device);
enum iwarp_status progress_close(struct iwarp_device *device);

/* poll(2) and usleep(3), with progress. */
int progress_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
void progress_sleep(unsigned microseconds);

#endif
