/* SPDX-License-Identifier: BSD-2-Clause */
#include "controller.h"

#include "programs/service/service.h"

#include <stdlib.h>
#include <string.h>

#define CC_ENABLE   0x1u
#define CC_SHUTDOWN 0xc000u

#define CSTS_READY    0x1u
#define CSTS_FATAL    0x2u
#define CSTS_SHUTTING 0x4u
#define CSTS_SHUT     0x8u

/* How long a host of discovery that asks for no Keep Alive may be silent: what the standard has as
 * an example (Base 2.0, 3.1.2.3), and other targets, too. */
#define DISCOVERY_MS 120000u

/* CAP: entries of a queue less one, contiguous queues, time-out 15 * 500 ms, NVM command set. */
#define CAPABILITIES                                                                               \
    ((uint64_t)(NVMF_QUEUE_DEPTH - 1) | UINT64_C(1) << 16 | UINT64_C(15) << 24 | UINT64_C(1) << 37)

struct nvmf_controller *nvmf_controller_find(const struct nvmf_controllers *all, uint16_t id)
{
    struct nvmf_controller *controller = all->first;

    while (controller && controller->id != id) {
        controller = controller->next;
    }
    return controller;
}

/* IDs from 0xfff0 on are reserved; one that was free last is used last. */
static uint16_t next_id(struct nvmf_controllers *all)
{
    do {
        all->last_id = (uint16_t)(all->last_id % 0xffef + 1);
    } while (nvmf_controller_find(all, all->last_id));
    return all->last_id;
}

struct nvmf_controller *nvmf_controller_new(struct nvmf_controllers *all, struct nvmf_queue *admin,
                                            struct nvmf_subsystem *subsystem,
                                            const struct nvmf_connect *connect, uint64_t now_ms)
{
    struct nvmf_controller *controller = calloc(1, sizeof *controller);

    if (!controller) {
        return NULL;
    }
    controller->all = all;
    controller->subsystem = subsystem;
    controller->id = next_id(all);
    memcpy(controller->host, connect->host, sizeof controller->host);
    memcpy(controller->host_id, connect->host_id, sizeof controller->host_id);
    controller->queues[0] = admin;
    controller->queue_limit = subsystem ? NVMF_QUEUES : 0;
    controller->heard_ms = controller->began_ms = now_ms;
    controller->next = all->first;
    all->first = controller;
    all->count++;
    return controller;
}

static void close_io_queues(struct nvmf_controller *controller)
{
    for (size_t i = 1; i <= NVMF_QUEUES; i++) {
        if (controller->queues[i]) {
            nvmf_queue_close(controller->queues[i]);
            controller->queues[i]->controller = NULL;
            controller->queues[i] = NULL;
        }
    }
}

void nvmf_controller_leave(struct nvmf_queue *queue)
{
    struct nvmf_controller *controller = queue->controller, **at;

    if (!controller) {
        return;
    }
    controller->queues[queue->id] = NULL;
    if (queue->id != 0) {
        return;
    }
    close_io_queues(controller);
    at = &controller->all->first;
    while (*at != controller) {
        at = &(*at)->next;
    }
    *at = controller->next;
    controller->all->count--;
    service_report_peer("%s: host %s has left %s", queue->peer, controller->host,
                        controller->subsystem ? controller->subsystem->nqn : "discovery");
    free(controller);
}

/* --- properties ------------------------------------------------------------------------------ */

bool nvmf_controller_ready(const struct nvmf_controller *controller)
{
    return (controller->csts & CSTS_READY) != 0;
}

bool nvmf_property_get(const struct nvmf_controller *controller, uint32_t offset, bool wide,
                       uint64_t *value)
{
    switch (offset) {
    case NVMF_CAP:
        *value = CAPABILITIES;
        return wide;
    case NVMF_VS:
        *value = NVMF_VERSION;
        return !wide;
    case NVMF_CC:
        *value = controller->cc;
        return !wide;
    case NVMF_CSTS:
        *value = controller->csts;
        return !wide;
    default:
        return false;
    }
}

/* A flush of one disk for a shutdown. The controller may be gone when it is done. */
struct flush {
    struct disk_io io;
    struct nvmf_controllers *all;
    struct nvmf_namespace *ns;
    uint16_t id;
};

static void flush_all(struct nvmf_controller *controller);

static void flushed(struct nvmf_controller *controller)
{
    if (!controller || --controller->flushing > 0) {
        return;
    }
    if (controller->flush_again) {
        flush_all(controller);
    } else if (controller->csts & CSTS_SHUTTING) { /* it was not enabled anew meanwhile */
        controller->csts = (controller->csts & ~CSTS_SHUTTING) | CSTS_SHUT;
    }
}

static void on_flushed(struct disk_io *io)
{
    struct flush *flush = (struct flush *)io;

    if (io->error) {
        service_report_peer("namespace %u (%s): flush for a shutdown: %s", flush->ns->nsid,
                            flush->ns->name, strerror(io->error));
    }
    nvmf_namespace_end(flush->ns);
    flushed(nvmf_controller_find(flush->all, flush->id));
    free(flush);
}

static void flush_all(struct nvmf_controller *controller)
{
    controller->flush_again = false;
    controller->flushing = 1;
    for (uint32_t nsid = 1; controller->subsystem && nsid <= NVMF_NAMESPACES; nsid++) {
        struct nvmf_namespace *ns = nvmf_namespace_find(controller->subsystem, nsid);
        struct flush *flush = ns ? calloc(1, sizeof *flush) : NULL;
        if (flush) {
            flush->io.op = DISK_FLUSH;
            flush->io.done = on_flushed;
            flush->all = controller->all;
            flush->ns = ns;
            flush->id = controller->id;
            controller->flushing++;
            nvmf_namespace_begin(ns);
            disk_do(ns->disk, &flush->io);
        }
    }
    flushed(controller);
}

/* The write caches are the disks', so what they hold is theirs to keep after this. A host may ask
 * for it as often as it likes; each disk has one flush of it at a time. */
static void shut_down(struct nvmf_controller *controller)
{
    controller->csts = (controller->csts & ~CSTS_SHUT) | CSTS_SHUTTING;
    controller->flush_again = true;
    if (controller->flushing == 0) {
        flush_all(controller);
    }
}

/* A host that enables the controller anew asks for events anew, and looks at everything. */
static void forget_events(struct nvmf_controller *controller)
{
    while (controller->aer_count > 0) {
        nvmf_request_answer(controller->aers[--controller->aer_count], NVMF_ABORTED, 0);
    }
    controller->notices = 0;
    nvmf_controller_told(controller, NVMF_LOG_CHANGED);
    nvmf_controller_told(controller, NVMF_LOG_DISCOVERY);
}

bool nvmf_property_set(struct nvmf_controller *controller, uint32_t offset, bool wide,
                       uint64_t value)
{
    uint32_t before = controller->cc;

    if (offset != NVMF_CC || wide) {
        return false;
    }
    controller->cc = (uint32_t)value;
    if (!(before & CC_ENABLE) && (value & CC_ENABLE)) {
        controller->csts = CSTS_READY;
    }
    if ((before & CC_ENABLE) && !(value & CC_ENABLE)) {
        close_io_queues(controller);
        forget_events(controller);
        controller->csts = 0;
        controller->flush_again = false;
    }
    if (!(before & CC_SHUTDOWN) && (value & CC_SHUTDOWN)) {
        shut_down(controller);
    }
    return true;
}

/* --- asynchronous events --------------------------------------------------------------------- */

#define NOTICE           0x02u
#define INFO_NAMESPACE   0x00u
#define INFO_DISCOVERY   0xf0u
#define EVENT(info, log) (NOTICE | (info) << 8 | (uint32_t)(log) << 16)

static void tell(struct nvmf_controller *controller, uint32_t event)
{
    nvmf_request_answer(controller->aers[--controller->aer_count], NVMF_OK, event);
}

/* One event of a kind is told, and no other until the host has read its log page. */
static void tell_events(struct nvmf_controller *controller)
{
    if (controller->aer_count > 0 && controller->changed && !controller->changed_told &&
        (controller->notices & NVMF_NOTICE_NAMESPACE)) {
        controller->changed_told = true;
        tell(controller, EVENT(INFO_NAMESPACE, NVMF_LOG_CHANGED));
    }
    if (controller->aer_count > 0 && controller->discovery && !controller->discovery_told &&
        (controller->notices & NVMF_NOTICE_DISCOVERY)) {
        controller->discovery_told = true;
        tell(controller, EVENT(INFO_DISCOVERY, NVMF_LOG_DISCOVERY));
    }
}

bool nvmf_controller_await(struct nvmf_controller *controller, struct nvmf_request *request)
{
    if (controller->aer_count == NVMF_AERS) {
        return false;
    }
    controller->aers[controller->aer_count++] = request;
    tell_events(controller);
    return true;
}

void nvmf_controller_notices(struct nvmf_controller *controller, uint32_t notices)
{
    controller->notices = notices;
    tell_events(controller);
}

void nvmf_controller_told(struct nvmf_controller *controller, uint8_t log)
{
    if (log == NVMF_LOG_CHANGED) {
        controller->changed = controller->changed_told = false;
        controller->change_count = 0;
    } else if (log == NVMF_LOG_DISCOVERY) {
        controller->discovery = controller->discovery_told = false;
    }
}

static void note_change(struct nvmf_controller *controller, uint32_t nsid)
{
    unsigned i = 0;

    while (i < controller->change_count && controller->changes[i] < nsid) {
        i++;
    }
    if (i == controller->change_count || controller->changes[i] != nsid) {
        memmove(&controller->changes[i + 1], &controller->changes[i],
                (controller->change_count - i) * sizeof controller->changes[0]);
        controller->changes[i] = nsid;
        controller->change_count++;
    }
}

/* From now on no queue may join it. */
static void end(struct nvmf_controller *controller)
{
    controller->csts = CSTS_FATAL;
    close_io_queues(controller);
    nvmf_queue_close(controller->queues[0]);
}

void nvmf_controllers_changed(struct nvmf_controllers *all, struct nvmf_subsystem *subsystem,
                              uint32_t nsid)
{
    for (struct nvmf_controller *c = all->first; c; c = c->next) {
        if (c->subsystem == subsystem && nsid != 0) {
            note_change(c, nsid);
            c->changed = true;
        } else if (!c->subsystem && nsid == 0) {
            c->discovery = true;
        } else if (c->subsystem == subsystem && !nvmf_subsystem_admits(subsystem, c->host)) {
            service_report_peer("%s: host %s may not have %s any more", c->queues[0]->peer, c->host,
                                subsystem->nqn);
            end(c);
        }
        tell_events(c);
    }
}

/* --- errors, Keep Alive ---------------------------------------------------------------------- */

void nvmf_controller_error(struct nvmf_controller *controller, const struct nvmf_request *request,
                           unsigned status)
{
    const struct nvmf_command *command = &request->command;
    struct nvmf_error_entry *entry = &controller->errors[controller->error_count % NVMF_ERRORS];

    *entry = (struct nvmf_error_entry){
        .number = ++controller->error_count,
        .lba = request->queue->id ? command->dw[0] | (uint64_t)command->dw[1] << 32 : 0,
        .nsid = command->nsid,
        .queue = request->queue->id,
        .cid = command->cid,
        .status = (uint16_t)(status << 1)};
}

void nvmf_controllers_tick(struct nvmf_controllers *all, uint64_t now_ms)
{
    for (struct nvmf_controller *c = all->first; c; c = c->next) {
        struct nvmf_queue *admin = c->queues[0];
        uint32_t limit_ms = c->kato_ms || c->subsystem ? c->kato_ms : DISCOVERY_MS;
        /* One unit more: what the host counts with is coarse, too. */
        if (limit_ms == 0 || now_ms - c->heard_ms <= (uint64_t)limit_ms + NVMF_KAS_MS ||
            (c->csts & CSTS_FATAL)) {
            continue;
        }
        service_report_peer("%s: host %s has been silent for %u ms: its connections are ended",
                            admin->peer, c->host, limit_ms);
        all->silent++;
        end(c);
    }
}
