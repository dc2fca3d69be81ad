/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-nvmf: an NVMe over Fabrics target. docs/nvmf.md says which file does what.
 */
#include "metrics.h"
#include "options.h"
#include "serve.h"

#include "programs/nvmf-host/bench.h"
#include "programs/nvmf-target/target.h"
#include "programs/service/address.h"
#include "programs/service/http.h"
#include "programs/service/service.h"
#include "programs/service/standard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For the disks to end what they had from a target that was killed. */
#define LOCK_MS 30000

/* For hosts to see that a disk is gone, before another one comes in its place: its namespace has
 * the same UUID, and a host would keep what it has in memory of the first. Also for operations to
 * end on a file that is locked by a namespace that was removed. */
#define GONE_MS 2000

static struct nvmf_target target;
static struct http_server http = {.page = nvmf_metrics_page, .arg = &target};
static uv_signal_t signals[3];
static uv_timer_t watchdog, once_more;
static bool removed;  /* the last look has removed a disk: look again in any case */
static bool stopping; /* a signal has said so: nothing is looked at any more */
static struct arguments {
    int argc;
    char **argv;
} arguments;

static void on_stopped(struct nvmf_target *stopped)
{
    uv_stop(stopped->loop);
}

/* Hosts that are there already stay; the next exchange is with what the file has now. */
static bool know_secrets(const struct nvmf_options *options)
{
    if (!options->secrets) {
        nvmf_secrets_free(&target.controllers.secrets);
        return true;
    }
    return nvmf_secrets_load(&target.controllers.secrets, options->secrets);
}

static void look_again(void);

static void on_once_more(uv_timer_t *timer)
{
    if (removed || target.store.leaving == 0) {
        look_again();
    } else {
        uv_timer_start(timer, on_once_more, GONE_MS, 0);
    }
}

/* Everything is asked for anew, so what the file says now counts. What cannot change while the
 * target runs stays as it is. */
static void look_again(void)
{
    struct nvmf_options options;

    service_tell("STATUS=looks at disks and configuration again");
    if (nvmf_options_read(arguments.argc, arguments.argv, &options) && know_secrets(&options)) {
        nvmf_serve(&target.store, &options);
    } else {
        service_report("everything stays as it is");
    }
    nvmf_options_free(&options);
    removed = nvmf_store_look(&target.store);
    if (removed || target.store.leaving > 0) {
        uv_timer_start(&once_more, on_once_more, GONE_MS, 0);
    }
    service_tell("STATUS=serves");
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    if (number == SIGHUP) {
        if (!stopping) {
            look_again();
        }
    } else {
        stopping = true;
        service_report("stops");
        service_tell("STOPPING=1");
        uv_timer_stop(&once_more);
        nvmf_target_stop(&target, on_stopped);
    }
}

/* By --tls; who sets IWARP_TLS instead is warned in vain. */
static bool has_tls(const struct nvmf_options *options)
{
    return options->tls && strcmp(options->tls, "off") != 0;
}

static bool listen_at(const struct nvmf_options *options)
{
    struct sockaddr_storage addr;
    char host[INET6_ADDRSTRLEN];
    unsigned port;
    socklen_t len = sizeof addr;
    int fd;

    if (!service_socket(&fd)) {
        return false;
    }
    if (fd >= 0 ? !nvmf_target_listen_socket(&target, fd, options->crc)
                : !nvmf_target_listen(&target, (const struct sockaddr *)&options->listen,
                                      options->listen_len, options->crc)) {
        service_report("listen: %s", iwarp_last_error());
        return false;
    }
    iwarp_listener_addr(target.listener, &addr, &len);
    port = address_split(&addr, host);
    if (!address_is_loopback(&addr) && !has_tls(options)) {
        service_report(
            options->secrets
                ? "packets of %s can be read on their way, and the disks in them: there is no "
                  "encryption; --tls changes that"
                : "a machine that reaches %s can read and write these disks: there is no "
                  "encryption, and names of hosts are not secret; --tls changes that",
            host);
    }
    service_report("listens on %s port %u, disks by %s", host, port, target.engine->name);
    return true;
}

static bool give_figures(uv_loop_t *loop, const struct nvmf_options *options)
{
    int status;

    if (options->metrics_len == 0) {
        return true;
    }
    status = http_open(&http, loop, (const struct sockaddr *)&options->metrics);
    if (status) {
        service_report("--metrics: %s", uv_strerror(status));
    }
    return status == 0;
}

static void watch_signals(uv_loop_t *loop)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};

    for (size_t i = 0; i < 3; i++) {
        uv_signal_init(loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
}

static int serve(const struct nvmf_options *options)
{
    uv_loop_t loop;
    bool good;

    uv_loop_init(&loop);
    if (!nvmf_target_open(&target, &loop, options->memory, options->uring, options->tls)) {
        service_report("%s", iwarp_last_error());
        return 1;
    }
    target.engine->lock_ms = LOCK_MS;
    good = know_secrets(options) && nvmf_serve(&target.store, options);
    target.engine->lock_ms = 0; /* nothing waits once the loop runs */
    good = good && give_figures(&loop, options) && listen_at(options);
    if (good) {
        watch_signals(&loop);
        uv_timer_init(&loop, &once_more);
        service_watch(&loop, &watchdog);
        service_tell("READY=1\nSTATUS=serves");
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    for (size_t i = 0; good && i < 3; i++) {
        uv_close((uv_handle_t *)&signals[i], NULL);
    }
    signal(SIGHUP, SIG_IGN); /* disks may take long to end what they have */
    if (good) {
        uv_close((uv_handle_t *)&watchdog, NULL);
        uv_close((uv_handle_t *)&once_more, NULL);
    }
    http_close(&http);
    nvmf_target_close(&target);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 && good ? 0 : 1;
}

static int print_status(int argc, char **argv)
{
    struct sockaddr_storage addr;
    socklen_t len;

    if (argc != 2 || !address_parse(argv[1], 0, &addr, &len)) {
        fputs("iwarp-nvmf: status: what a target has for --metrics is needed: ADDR:PORT\n", stderr);
        return 2;
    }
    return http_print((const struct sockaddr *)&addr, len, "/status") ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct nvmf_options options;
    int status = 0;

    if (!fill_standard_descriptors()) {
        return 1;
    }
    /* The library says whom a target has turned away and why, or that descriptors are used up:
     * nobody else knows. */
    bool host = argc > 1 && strcmp(argv[1], "bench") == 0;
    setenv("IWARP_LOG", host ? "error" : "warn", 0);
    if (host) {
        return nvmf_bench(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "status") == 0) {
        return print_status(argc - 1, argv + 1);
    }
    arguments = (struct arguments){argc, argv};
    if (!nvmf_options_read(argc, argv, &options)) {
        nvmf_options_free(&options);
        return 2;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file that grows past a limit is an error of that write */
    signal(SIGPIPE, SIG_IGN); /* whoever read the log, or a page, has gone */
    switch (options.command) {
    case NVMF_RUN_SERVE:
        status = serve(&options);
        break;
    case NVMF_RUN_HELP:
        nvmf_options_help();
        break;
    case NVMF_RUN_VERSION:
        printf("iwarp-nvmf %s\n", iwarp_version());
        break;
    }
    nvmf_options_free(&options);
    return status;
}
