/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of figures are an interface: what is there keeps its name and its unit. The format is
 * that of Prometheus, version 0.0.4.
 */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct load {
    unsigned queues, under_way, with_disk;
};

static struct load load_of(const struct nvmf_target *target)
{
    struct load load = {0};

    for (const struct nvmf_queue *q = target->net.queues; q; q = q->next) {
        load.queues += q->state == NVMF_LIVE;
        load.under_way += q->state == NVMF_LIVE ? q->outstanding : 0;
        load.with_disk += q->with_disk;
    }
    return load;
}

static void head(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP iwarp_nvmf_%s %s\n# TYPE iwarp_nvmf_%s %s\n", name, help, name, type);
}

static void figure(FILE *to, const char *name, const char *type, const char *help, uint64_t value)
{
    head(to, name, type, help);
    fprintf(to, "iwarp_nvmf_%s %" PRIu64 "\n", name, value);
}

/* A text within quotes of a label. */
static void put_label(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n') {
            fputs("\\n", to);
        } else {
            fprintf(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
        }
    }
}

/* --- by opcode ------------------------------------------------------------------------------- */

static void put_counter(FILE *to, const struct nvmf_stats *stats, const char *name,
                        const char *help, size_t offset)
{
    head(to, name, "counter", help);
    for (enum nvmf_kind kind = 0; kind < NVMF_KIND_COUNT; kind++) {
        uint64_t value;
        memcpy(&value, (const char *)&stats->kind[kind] + offset, sizeof value);
        fprintf(to, "iwarp_nvmf_%s{opcode=\"%s\"} %" PRIu64 "\n", name, nvmf_kind_name(kind),
                value);
    }
}

/* Bucket n has what took less than 2^n microseconds. */
static void put_latency(FILE *to, const char *opcode, const struct nvmf_counts *counts)
{
    uint64_t sum = 0;

    for (unsigned n = 0; n + 1 < NVMF_BUCKETS; n++) {
        sum += counts->bucket[n];
        fprintf(to, "iwarp_nvmf_latency_seconds_bucket{opcode=\"%s\",le=\"%g\"} %" PRIu64 "\n",
                opcode, (double)(UINT64_C(1) << n) / 1e6, sum);
    }
    fprintf(to, "iwarp_nvmf_latency_seconds_bucket{opcode=\"%s\",le=\"+Inf\"} %" PRIu64 "\n",
            opcode, counts->commands);
    fprintf(to, "iwarp_nvmf_latency_seconds_sum{opcode=\"%s\"} %.6f\n", opcode,
            (double)counts->latency_us / 1e6);
    fprintf(to, "iwarp_nvmf_latency_seconds_count{opcode=\"%s\"} %" PRIu64 "\n", opcode,
            counts->commands);
}

static void put_opcodes(FILE *to, const struct nvmf_stats *stats)
{
    put_counter(to, stats, "commands_total", "Commands that were answered.",
                offsetof(struct nvmf_counts, commands));
    put_counter(to, stats, "command_errors_total", "Of these, with an error.",
                offsetof(struct nvmf_counts, errors));
    put_counter(to, stats, "octets_total", "Octets of data of commands without an error.",
                offsetof(struct nvmf_counts, octets));
    head(to, "latency_seconds", "histogram", "From a command's receive to its answer.");
    for (enum nvmf_kind kind = 0; kind < NVMF_KIND_COUNT; kind++) {
        put_latency(to, nvmf_kind_name(kind), &stats->kind[kind]);
    }
}

/* --- /metrics -------------------------------------------------------------------------------- */

static void put_namespaces(FILE *to, const struct nvmf_store *store)
{
    head(to, "namespace_octets", "gauge", "Size of a namespace.");
    for (const struct nvmf_subsystem *s = store->subsystems; s; s = s->next) {
        for (uint32_t nsid = 1; nsid <= NVMF_NAMESPACES; nsid++) {
            const struct nvmf_namespace *ns = nvmf_namespace_find(s, nsid);
            if (ns) {
                fputs("iwarp_nvmf_namespace_octets{subsystem=\"", to);
                put_label(to, s->nqn);
                fprintf(to, "\",nsid=\"%u\",disk=\"", nsid);
                put_label(to, ns->name);
                fprintf(to, "\"} %" PRIu64 "\n", ns->blocks * ns->block);
            }
        }
    }
}

/* Under the name that Prometheus knows it by. */
static void put_processor(FILE *to)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    fprintf(to,
            "# HELP process_cpu_seconds_total Processor time, of the system, too.\n"
            "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.6f\n",
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

static void put_metrics(FILE *to, const struct nvmf_target *target)
{
    struct load load = load_of(target);
    struct iwarp_device_stats device = {.size = sizeof device};

    put_opcodes(to, &target->stats);
    figure(to, "commands_under_way", "gauge", "Commands that are not answered.", load.under_way);
    figure(to, "commands_with_disk", "gauge", "Commands that a disk has.", load.with_disk);
    figure(to, "commands_in_line", "gauge", "Commands that wait for a buffer.",
           target->net.arena.waiting);
    figure(to, "buffer_octets", "gauge", "Memory of all I/O buffers.",
           arena_len(&target->net.arena));
    figure(to, "buffer_octets_used", "gauge", "Of this, with commands.",
           target->net.arena.used * NVMF_PAGE);
    figure(to, "connections", "gauge", "Connections, each a queue.", load.queues);
    figure(to, "controllers", "gauge", "Controllers, each a host's.", target->controllers.count);
    figure(to, "connections_total", "counter", "Connections that were established.",
           target->stats.connections);
    figure(to, "connection_faults_total", "counter", "Connections that an error has ended.",
           target->stats.faults);
    figure(to, "keep_alive_timeouts_total", "counter", "Hosts that were silent for too long.",
           target->controllers.silent);
    if (iwarp_device_stats(target->net.device, &device) == IWARP_OK) {
        figure(to, "stream_octets_received_total", "counter", "Octets that TCP has brought.",
               device.received.octets);
        figure(to, "stream_octets_sent_total", "counter", "Octets that TCP has taken.",
               device.sent.octets);
        figure(to, "crc_errors_total", "counter", "FPDUs with a wrong CRC.", device.crc_errors);
        figure(to, "streams_lost_total", "counter", "TCP connections that were reset or timed out.",
               device.streams_lost);
        figure(to, "start_ups_failed_total", "counter", "Connections that came to nothing.",
               device.failed);
    }
    put_namespaces(to, &target->store);
    put_processor(to);
}

/* --- /status --------------------------------------------------------------------------------- */

static void put_size(FILE *to, uint64_t octets)
{
    static const char units[] = "\0KMGTPE";
    unsigned unit = 0;

    while (octets >= 10240 && units[unit + 1]) {
        octets /= 1024;
        unit++;
    }
    fprintf(to, unit ? "%" PRIu64 " %ciB" : "%" PRIu64 " octets", octets, units[unit]);
}

static void put_subsystem(FILE *to, const struct nvmf_subsystem *s)
{
    fprintf(to, "%s, for %s\n", s->nqn, s->host_count ? "the hosts that are named" : "any host");
    for (uint32_t nsid = 1; nsid <= NVMF_NAMESPACES; nsid++) {
        const struct nvmf_namespace *ns = nvmf_namespace_find(s, nsid);
        if (ns) {
            fprintf(to, "  namespace %u: %s, ", nsid, ns->name);
            put_size(to, ns->blocks * ns->block);
            fprintf(to, ", blocks of %u%s\n", ns->block, ns->read_only ? ", read-only" : "");
        }
    }
}

static void put_controller(FILE *to, const struct nvmf_controller *c)
{
    unsigned queues = 0, under_way = 0;

    for (size_t i = 1; i <= NVMF_QUEUES; i++) {
        queues += c->queues[i] != NULL;
        under_way += c->queues[i] ? c->queues[i]->outstanding : 0;
    }
    fprintf(to, "  host %s at %s: controller %u of %s, %u queues, %u commands under way\n", c->host,
            c->queues[0]->peer, c->id, c->subsystem ? c->subsystem->nqn : "discovery", queues,
            under_way);
}

static void put_kind(FILE *to, const char *name, const struct nvmf_counts *counts)
{
    fprintf(to, "  %-19s %12" PRIu64 " commands, %" PRIu64 " errors, ", name, counts->commands,
            counts->errors);
    put_size(to, counts->octets);
    fprintf(to, ", %" PRIu64 " us each\n", counts->latency_us / counts->commands);
}

static void put_status(FILE *to, const struct nvmf_target *target)
{
    uint64_t up = (uv_hrtime() - target->began_ns) / 1000000000;

    fprintf(to, "iwarp-nvmf %s, up %" PRIu64 ":%02u:%02u, disks by %s, buffers ", iwarp_version(),
            up / 3600, (unsigned)(up / 60 % 60), (unsigned)(up % 60), target->engine->name);
    put_size(to, target->net.arena.used * NVMF_PAGE);
    fputs(" of ", to);
    put_size(to, arena_len(&target->net.arena));
    fprintf(to, ", %zu commands in line\n", target->net.arena.waiting);
    for (const struct nvmf_subsystem *s = target->store.subsystems; s; s = s->next) {
        if (!s->retired) {
            put_subsystem(to, s);
        }
    }
    fprintf(to, "%u controllers; %" PRIu64 " connections so far, %" PRIu64 " ended by an error\n",
            target->controllers.count, target->stats.connections, target->stats.faults);
    for (const struct nvmf_controller *c = target->controllers.first; c; c = c->next) {
        put_controller(to, c);
    }
    for (enum nvmf_kind kind = 0; kind < NVMF_KIND_COUNT; kind++) {
        if (target->stats.kind[kind].commands > 0) {
            put_kind(to, nvmf_kind_name(kind), &target->stats.kind[kind]);
        }
    }
}

/* --------------------------------------------------------------------------------------------- */

char *nvmf_metrics_page(void *target, const char *path)
{
    bool metrics = strcmp(path, "/metrics") == 0;
    char *text = NULL;
    size_t len;
    FILE *to = metrics || strcmp(path, "/status") == 0 ? open_memstream(&text, &len) : NULL;

    if (!to) {
        return NULL;
    }
    if (metrics) {
        put_metrics(to, target);
    } else {
        put_status(to, target);
    }
    if (fclose(to) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}
