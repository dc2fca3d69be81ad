/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program that runs as a service has to say: to people, and to systemd, of which it needs
 * sd_listen_fds(3) and sd_notify(3) without their library. Without systemd nothing happens.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdbool.h>
#include <uv.h>

/* One line of the log, on standard error, behind the name of the program. */
void service_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same about what a peer has done. A peer may do that as often as it likes, so at most so many
 * lines in a second are written, and a later line says how many were not. One thread. */
#define SERVICE_PEER_LINES 50
void service_report_peer(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text of iwarp/tls.h for `value`: itself, or the files of a folder that `iwarp-cp keygen` has
 * made. To be freed; NULL: no memory. */
char *service_tls(const char *value);

/* The socket that listens for the program already; -1: there is none. False: there are several,
 * which it has reported. */
bool service_socket(int *fd);

/* READY=1, STOPPING=1, STATUS=text, ... */
void service_tell(const char *text);

/* From now on the loop says that it turns, if systemd wants to know. */
void service_watch(uv_loop_t *loop, uv_timer_t *timer);

#endif
