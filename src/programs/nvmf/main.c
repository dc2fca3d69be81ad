/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-nvmf: an NVMe over Fabrics target. docs/nvmf.md says which file does what.
 */
#include "bench.h"
#include "options.h"
#include "report.h"
#include "target.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nvmf_target target;
static uv_signal_t signals[3];

static void on_stopped(struct nvmf_target *stopped)
{
    uv_stop(stopped->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    if (number == SIGHUP) {
        nvmf_store_look(&target.store);
    } else {
        nvmf_report("stops");
        nvmf_target_stop(&target, on_stopped);
    }
}

static bool serve_subsystem(const struct nvmf_wanted *wanted)
{
    struct nvmf_subsystem *subsystem = nvmf_store_add(&target.store, wanted->nqn);
    const char *why;

    if (!subsystem) {
        nvmf_report("%s: not a name for a subsystem (nqn.YYYY-MM.REVERSED.DOMAIN:NAME), or given "
                    "twice",
                    wanted->nqn);
        return false;
    }
    for (size_t i = 0; i < wanted->host_count; i++) {
        nvmf_store_allow(subsystem, wanted->hosts[i]);
    }
    for (size_t i = 0; i < wanted->disk_count; i++) {
        const struct nvmf_wanted_disk *disk = &wanted->disks[i];
        struct nvmf_namespace *ns = nvmf_namespace_add(&target.store, subsystem, disk->name,
                                                       disk->read_only, disk->block, &why);
        if (!ns) {
            nvmf_report("%s: %s", disk->name, why);
            return false;
        }
        nvmf_report("%s: namespace %u is %s, %llu blocks of %u octets%s%s", subsystem->nqn,
                    ns->nsid, ns->name, (unsigned long long)ns->blocks, ns->block,
                    ns->read_only ? ", read-only" : "",
                    nvmf_disk_is_ram(ns->disk)      ? ""
                    : nvmf_disk_is_direct(ns->disk) ? ", direct"
                                                    : ", through the page cache");
    }
    return true;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static bool listen_at(const struct nvmf_options *options)
{
    struct sockaddr_storage addr;
    char host[INET6_ADDRSTRLEN] = "";
    unsigned port;
    socklen_t len = sizeof addr;

    if (!nvmf_target_listen(&target, (const struct sockaddr *)&options->listen, options->listen_len,
                            options->crc)) {
        nvmf_report("listen: %s", iwarp_last_error());
        return false;
    }
    iwarp_listener_addr(target.listener, &addr, &len);
    if (addr.ss_family == AF_INET) {
        inet_ntop(AF_INET, &((struct sockaddr_in *)&addr)->sin_addr, host, sizeof host);
        port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
    } else {
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&addr)->sin6_addr, host, sizeof host);
        port = ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
    }
    if (!is_loopback(&addr)) {
        nvmf_report("whoever reaches %s can read and write these disks: there is no encryption, "
                    "and names of hosts are not secret",
                    host);
    }
    nvmf_report("listens on %s port %u, disks by %s", host, port, target.engine->name);
    return true;
}

static bool begin(uv_loop_t *loop, const struct nvmf_options *options)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};

    for (size_t i = 0; i < options->subsystem_count; i++) {
        if (!serve_subsystem(&options->subsystems[i])) {
            return false;
        }
    }
    if (!listen_at(options)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        uv_signal_init(loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
    return true;
}

static int serve(const struct nvmf_options *options)
{
    uv_loop_t loop;
    bool good;

    uv_loop_init(&loop);
    if (!nvmf_target_open(&target, &loop, options->memory, options->uring)) {
        nvmf_report("%s", iwarp_last_error());
        return 1;
    }
    good = begin(&loop, options);
    if (good) {
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    for (size_t i = 0; good && i < 3; i++) {
        uv_close((uv_handle_t *)&signals[i], NULL);
    }
    nvmf_target_close(&target);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 && good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct nvmf_options options;
    int status = 0;

    setenv("IWARP_LOG", "error", 0);
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        return nvmf_bench(argc - 1, argv + 1);
    }
    if (!nvmf_options_parse(argc, argv, &options)) {
        nvmf_options_free(&options);
        return 2;
    }
    signal(SIGXFSZ, SIG_IGN); /* a file that grows past a limit is an error of that write */
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
