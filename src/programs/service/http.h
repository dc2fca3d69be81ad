/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Just enough HTTP to let others read a page of text: GET, one request to a connection. Clients
 * that are slow, talk too much or are too many are sent away, so they cost a known amount of
 * memory.
 */
#ifndef SERVICE_HTTP_H
#define SERVICE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define HTTP_CLIENTS 16

struct http_server {
    uv_tcp_t listener;
    struct http_client *clients[HTTP_CLIENTS]; /* NULL: a free place */
    bool waiting;                              /* one that was not accepted, for want of a place */
    /* The text of a page, which free() takes; NULL: there is no such page. */
    char *(*page)(void *arg, const char *path);
    void *arg;
};

/* Listen; page and arg are set already. Returns 0, or an error of libuv; http is closed then. */
int http_open(struct http_server *http, uv_loop_t *loop, const struct sockaddr *addr);

/* Nothing happens if it is not open. Then run the loop until its handles are closed. */
void http_close(struct http_server *http);

/* Get a page from such a server, and print it. False after a line that says why. */
bool http_print(const struct sockaddr *addr, socklen_t len, const char *path);

#endif
