/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What systemd and the target have to say to each other (sd_listen_fds(3), sd_notify(3)), without
 * its library. Without systemd nothing happens.
 */
#ifndef NVMF_SERVICE_H
#define NVMF_SERVICE_H

#include <uv.h>

/* The socket that listens for the target already; -1: there is none. */
int nvmf_service_socket(void);

/* READY=1, STOPPING=1, STATUS=text, ... */
void nvmf_service_tell(const char *text);

/* From now on the loop says that it turns, if systemd wants to know. */
void nvmf_service_watch(uv_loop_t *loop, uv_timer_t *timer);

#endif
