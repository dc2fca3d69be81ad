/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server: listens, lets clients in or refuses them, and gives each a session. It listens beyond
 * loopback only with TLS, or if the allowed networks are named (--allow), or all are allowed
 * (--insecure): without TLS nothing is encrypted, and nobody has to say who he is.
 */
#include "server.h"

#include "places.h"
#include "report.h"
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct server {
    const struct cp_options *options;
    struct cp_export export;
    struct cp_room room;
    _Atomic size_t far_memory;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    int signal_fd;
    struct cp_places places;
};

/* Asked by the library before the start-up, so that an address that is not allowed takes no place.
 */
static bool is_allowed(const struct sockaddr *peer, socklen_t peer_len, void *arg)
{
    const struct cp_options *options = arg;

    (void)peer_len;
    for (size_t i = 0; i < options->allow_count; i++) {
        if (cp_network_has(&options->allow[i], peer)) {
            return true;
        }
    }
    return options->allow_count == 0;
}

static struct cp_session **find_place(struct server *server, struct iwarp_conn *conn)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;

    if (iwarp_conn_peer_addr(conn, &from, &len) != IWARP_OK) {
        return NULL;
    }
    return cp_places_find(&server->places, (const struct sockaddr *)&from);
}

static void take_request(struct server *server, struct iwarp_conn *conn)
{
    struct cp_session **free_place = find_place(server, conn);

    if (!free_place) {
        cp_session_refuse(conn, cp_result_of(CP_BUSY));
    } else {
        *free_place = cp_session_start(&server->export, conn);
        if (!*free_place) {
            cp_session_refuse(conn, cp_result_of(CP_NO_MEMORY));
        }
    }
}

static void take_events(struct server *server)
{
    struct iwarp_event event;

    /* What becomes of a connection later is the business of its session. */
    while (iwarp_eq_get(server->eq, &event, 0) == IWARP_OK) {
        if (event.type == IWARP_EVENT_REQUEST) {
            take_request(server, event.conn);
        }
    }
}

static void run(struct server *server)
{
    struct pollfd fds[] = {{.fd = server->signal_fd, .events = POLLIN},
                           {.fd = iwarp_eq_fd(server->eq), .events = POLLIN},
                           {.fd = server->export.done_fd, .events = POLLIN}};

    do {
        eventfd_t value;
        take_events(server);
        (void)eventfd_read(server->export.done_fd, &value);
        cp_places_join(&server->places, false);
    } while ((poll(fds, 3, -1) >= 0 || errno == EINTR) && !fds[0].revents);
    (void)iwarp_listener_close(server->listener);
    server->listener = NULL;
    cp_places_stop(&server->places);
    cp_places_join(&server->places, true);
}

/* SIGTERM and SIGINT end the server in order. A log that goes to a pipe which nobody reads any more
 * must not end it at all. */
static int catch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Each session needs some descriptors, and one for each directory on the way down. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int fail(const char *what, const char *why, const char *hint)
{
    cp_error(what, why, hint);
    return CP_EXIT_FAILED;
}

static int start_listening(struct server *server, const struct addrinfo *address)
{
    const struct cp_options *options = server->options;
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    char text[CP_HOST_MAX + 16];

    cp_net_format(address->ai_addr, address->ai_addrlen, text, sizeof text);
    if (!cp_net_is_loopback(address->ai_addr) && options->allow_count == 0 && !options->insecure &&
        !options->tls[0]) {
        cp_error(
            text, "other machines can reach this address, and nothing is encrypted",
            "use --tls with what iwarp-cp keygen makes, or say who may come with --allow CIDR, "
            "or --insecure for anybody");
        return CP_EXIT_USAGE;
    }
    struct iwarp_conn_options conn = options->conn;
    conn.admit = is_allowed;
    conn.admit_arg = (void *)(uintptr_t)options;
    if (iwarp_listen(server->export.device, address->ai_addr, address->ai_addrlen, &conn, 128,
                     server->eq, NULL, &server->listener) != IWARP_OK) {
        const char *why = iwarp_last_error();
        /* --allow is checked by `admit`: the library has networks of its environment only. */
        const char *hint = strncmp(why, "allow:", 6) == 0
                               ? "correct IWARP_ALLOW in the environment or in iwarp.conf"
                               : "choose another address or port with --listen";
        return fail(text, why, cp_tls_hint(why, hint));
    }
    if (iwarp_listener_addr(server->listener, &addr, &len) == IWARP_OK) {
        cp_net_format((struct sockaddr *)&addr, len, text, sizeof text);
    }
    printf("listening on %s\n", text);
    return cp_output_flush() ? CP_EXIT_OK : CP_EXIT_FAILED;
}

static int serve_on(struct server *server)
{
    struct addrinfo *list = NULL;
    char text[CP_HOST_MAX + 16];
    const char *why = cp_net_resolve(&server->options->listen, true, &list);

    if (why) {
        cp_address_format(&server->options->listen, text, sizeof text);
        return fail(text, why, "check the address of --listen");
    }
    int status = start_listening(server, list);
    freeaddrinfo(list);
    if (status == CP_EXIT_OK) {
        run(server);
    }
    return status;
}

static int open_export(struct server *server)
{
    const char *directory = server->options->arguments[0];

    server->export.root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (server->export.root < 0) {
        return fail(directory, strerror(errno), "name a directory that is there");
    }
    bool has_places = cp_places_begin(&server->places, server->options->max_connections,
                                      server->options->max_per_address);
    server->signal_fd = catch_signals();
    server->export.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!has_places || server->signal_fd < 0 || server->export.done_fd < 0) {
        return fail("serve", strerror(errno),
                    "check the limits and the environment of this process");
    }
    raise_descriptor_limit();
    if (iwarp_device_open(NULL, &server->export.device) != IWARP_OK ||
        iwarp_eq_create(server->export.device, &server->eq) != IWARP_OK) {
        return fail("serve", iwarp_last_error(),
                    "check the limits and the environment of this process");
    }
    return CP_EXIT_OK;
}

int cp_run_serve(const struct cp_options *options)
{
    struct server server = {.options = options};

    server.export.options = options;
    server.room.keep_free = options->keep_free;
    pthread_mutex_init(&server.room.lock, NULL);
    server.export.room = &server.room;
    server.export.far_memory = &server.far_memory;
    int status = open_export(&server);
    if (status == CP_EXIT_OK) {
        status = serve_on(&server);
    }
    if (server.listener) {
        (void)iwarp_listener_close(server.listener);
    }
    if (server.eq) {
        (void)iwarp_eq_destroy(server.eq);
    }
    if (server.export.device) {
        (void)iwarp_device_close(server.export.device);
    }
    cp_places_end(&server.places);
    return status;
}
