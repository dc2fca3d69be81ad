/* SPDX-License-Identifier: BSD-2-Clause */
#include "http.h"

#include "service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE   5000 /* ms for a request, and for its answer to be taken */
#define REQUEST    4096
#define HEADER_LEN 160

struct http_client {
    struct http_client **place;
    struct http_server *http;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    unsigned handles; /* that are not closed */
    char request[REQUEST];
    size_t len;
    char header[HEADER_LEN];
    char *body;
};

static void on_client(uv_stream_t *listener, int status);

static void on_closed(uv_handle_t *handle)
{
    struct http_client *client = handle->data;
    struct http_server *http = client->http;

    if (--client->handles > 0) {
        return;
    }
    *client->place = NULL;
    free(client->body);
    free(client);
    if (http->waiting && !uv_is_closing((uv_handle_t *)&http->listener)) {
        on_client((uv_stream_t *)&http->listener, 0);
    }
}

static void leave(struct http_client *client)
{
    if (!uv_is_closing((uv_handle_t *)&client->tcp)) {
        uv_close((uv_handle_t *)&client->tcp, on_closed);
        uv_close((uv_handle_t *)&client->timer, on_closed);
    }
}

static void on_late(uv_timer_t *timer)
{
    leave(timer->data);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    leave(write->data);
}

static void answer(struct http_client *client, const char *status, char *body)
{
    uv_buf_t pieces[2];

    client->body = body;
    snprintf(client->header, sizeof client->header,
             "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             status, body ? strlen(body) : 0);
    pieces[0] = uv_buf_init(client->header, (unsigned)strlen(client->header));
    pieces[1] = uv_buf_init(body, body ? (unsigned)strlen(body) : 0);
    uv_read_stop((uv_stream_t *)&client->tcp);
    client->write.data = client;
    if (uv_write(&client->write, (uv_stream_t *)&client->tcp, pieces, body ? 2 : 1, on_written)) {
        leave(client);
    }
}

/* The request is whole. */
static void handle(struct http_client *client)
{
    char path[64], *body;

    if (sscanf(client->request, "GET %63s HTTP/1.", path) != 1) {
        answer(client, "405 Method Not Allowed", NULL);
        return;
    }
    body = client->http->page(client->http->arg, path);
    answer(client, body ? "200 OK" : "404 Not Found", body);
}

static void on_space(uv_handle_t *handle, size_t wanted, uv_buf_t *space)
{
    struct http_client *client = handle->data;

    (void)wanted;
    *space = uv_buf_init(client->request + client->len, (unsigned)(REQUEST - 1 - client->len));
}

static void on_read(uv_stream_t *stream, ssize_t octets, const uv_buf_t *space)
{
    struct http_client *client = stream->data;

    (void)space;
    if (octets < 0) {
        leave(client);
        return;
    }
    client->len += (size_t)octets;
    client->request[client->len] = '\0';
    if (strstr(client->request, "\r\n\r\n")) {
        handle(client);
    } else if (client->len == REQUEST - 1) {
        answer(client, "431 Request Header Fields Too Large", NULL);
    }
}

static void on_client(uv_stream_t *listener, int status)
{
    struct http_server *http = listener->data;
    struct http_client *client, **place = http->clients;

    while (place < http->clients + HTTP_CLIENTS && *place) {
        place++;
    }
    if (status < 0) {
        return;
    }
    http->waiting = place == http->clients + HTTP_CLIENTS;
    client = http->waiting ? NULL : calloc(1, sizeof *client);
    if (!client) {
        http->waiting = true; /* libuv keeps it, and watches for no other until it is accepted */
        return;
    }
    *place = client;
    client->place = place;
    client->http = http;
    client->tcp.data = client->timer.data = client;
    client->handles = 2;
    uv_tcp_init(listener->loop, &client->tcp);
    uv_timer_init(listener->loop, &client->timer);
    if (uv_accept(listener, (uv_stream_t *)&client->tcp) != 0 ||
        uv_read_start((uv_stream_t *)&client->tcp, on_space, on_read) != 0) {
        leave(client);
        return;
    }
    uv_timer_start(&client->timer, on_late, PATIENCE, 0);
}

int http_open(struct http_server *http, uv_loop_t *loop, const struct sockaddr *addr)
{
    int status = uv_tcp_init(loop, &http->listener);

    http->listener.data = http;
    status = status ? status : uv_tcp_bind(&http->listener, addr, 0);
    status = status ? status : uv_listen((uv_stream_t *)&http->listener, HTTP_CLIENTS, on_client);
    if (status) {
        http_close(http);
    }
    return status;
}

void http_close(struct http_server *http)
{
    if (!http->listener.data || uv_is_closing((uv_handle_t *)&http->listener)) {
        return;
    }
    uv_close((uv_handle_t *)&http->listener, NULL);
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        if (http->clients[i]) {
            leave(http->clients[i]);
        }
    }
}

/* --- the other side -------------------------------------------------------------------------- */

static bool print_answer(FILE *stream)
{
    char line[1024];
    bool good = fgets(line, sizeof line, stream) && strstr(line, " 200 ");
    size_t length = 0, printed = 0;

    while (good && fgets(line, sizeof line, stream) && strcmp(line, "\r\n") != 0) {
        (void)sscanf(line, "Content-Length: %zu", &length);
    }
    while (good && fgets(line, sizeof line, stream)) {
        fputs(line, stdout);
        printed += strlen(line);
    }
    if (!good || printed < length) {
        service_report(good ? "the page breaks off"
                            : "what answers there is not the page that was asked for");
    }
    return good && printed >= length;
}

bool http_print(const struct sockaddr *addr, socklen_t len, const char *path)
{
    struct timeval patience = {PATIENCE / 1000, 0};
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r+");
    bool good;

    if (!stream || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        connect(fd, addr, len) < 0) {
        service_report("%s", strerror(errno));
        good = false;
    } else {
        fprintf(stream, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
        fflush(stream);
        good = print_answer(stream);
    }
    if (stream) {
        fclose(stream);
    } else if (fd >= 0) {
        close(fd);
    }
    return good;
}
