/* SPDX-License-Identifier: BSD-2-Clause */
#include "target.h"

#include "auth.h"
#include "commands.h"
#include "net.h"

#include "programs/service/service.h"

#include <string.h>
#include <unistd.h>

/* How long a new queue may be without its Connect command, the data of a command may be on their
 * way from or to the host (Linux's host gives a command up after 30 s), and a target may take to
 * stop. */
#define TICK_MS     1000
#define CONNECT_MS  10000
#define TRANSFER_MS 60000
#define STOP_MS     2000

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

static struct nvmf_target *target_of(struct nvmf_net *net)
{
    return (void *)((char *)net - offsetof(struct nvmf_target, net));
}

/* --- commands -------------------------------------------------------------------------------- */

static void on_command(struct nvmf_request *request, enum nvmf_status error)
{
    struct nvmf_controller *controller = request->queue->controller;

    if (controller) {
        controller->heard_ms = now_ms();
    }
    if (error != NVMF_OK) {
        nvmf_request_fail(request, error);
    } else if (request->command.opcode == NVMF_FABRICS) {
        nvmf_fabrics(request);
    } else if (request->queue->unproved) {
        nvmf_request_fail(request, NVMF_AUTH_REQUIRED);
    } else if (!controller || !nvmf_controller_ready(controller)) {
        nvmf_request_fail(request, NVMF_SEQUENCE);
    } else if (request->queue->id == 0) {
        nvmf_admin(request);
    } else {
        nvmf_io(request);
    }
}

static void on_answered(struct nvmf_request *request, unsigned status)
{
    struct nvmf_queue *queue = request->queue;
    const struct nvmf_command *command = &request->command;

    if (status != NVMF_OK && queue->controller) {
        nvmf_controller_error(queue->controller, request, status);
    }
    nvmf_stats_count(&target_of(queue->net)->stats, nvmf_kind_of(queue->id, command->opcode),
                     status, command->len, uv_hrtime() - request->began_ns);
}

static void on_ended(struct nvmf_queue *queue)
{
    nvmf_auth_end(queue);
    nvmf_controller_leave(queue);
}

static void on_changed(void *arg, struct nvmf_subsystem *subsystem, uint32_t nsid)
{
    nvmf_controllers_changed(&((struct nvmf_target *)arg)->controllers, subsystem, nsid);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void take_events(struct nvmf_target *target)
{
    struct iwarp_event event;

    while (target->eq && iwarp_eq_get(target->eq, &event, 0) == IWARP_OK) {
        switch (event.type) {
        case IWARP_EVENT_REQUEST:
            nvmf_net_request(&target->net, event.conn, now_ms());
            break;
        case IWARP_EVENT_ESTABLISHED:
            target->stats.connections++;
            break;
        case IWARP_EVENT_REJECTED:
        case IWARP_EVENT_FAILED:
        case IWARP_EVENT_DISCONNECTED:
            target->stats.faults += event.status != IWARP_OK;
            nvmf_net_gone(event.user, &event);
            break;
        }
    }
}

static void turn(struct nvmf_target *target)
{
    do {
        take_events(target);
        target->engine->turn(target->engine);
        if (target->net.settled) {
            target->net.settled = false;
            nvmf_connect_again(&target->net);
        }
    } while (nvmf_net_turn(&target->net));
    nvmf_net_sweep(&target->net);
    if (target->stopping && target->net.queue_count == 0) {
        target->stopping = false;
        target->stopped(target);
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    turn(prepare->data);
}

static void on_check(uv_check_t *check)
{
    turn(check->data);
}

static void on_tick(uv_timer_t *timer)
{
    struct nvmf_target *target = timer->data;
    bool late = now_ms() - target->ticked_ms > 2 * TICK_MS;

    target->ticked_ms = now_ms();
    if (late && !target->ticked_late) {
        target->ticked_late = true; /* what hosts have sent meanwhile comes before the next tick */
        return;
    }
    target->ticked_late = false;
    nvmf_controllers_tick(&target->controllers, now_ms());
    nvmf_net_idle(&target->net, now_ms(), CONNECT_MS);
    nvmf_net_stuck(&target->net, now_ms(), TRANSFER_MS);
}

/* --- beginning and end ----------------------------------------------------------------------- */

static void watch(struct nvmf_target *target)
{
    uv_prepare_init(target->loop, &target->prepare);
    uv_check_init(target->loop, &target->check);
    uv_timer_init(target->loop, &target->tick);
    target->prepare.data = target->check.data = target->tick.data = target;
    uv_prepare_start(&target->prepare, on_prepare);
    uv_check_start(&target->check, on_check);
    target->ticked_ms = now_ms();
    uv_timer_start(&target->tick, on_tick, TICK_MS, TICK_MS);
}

bool nvmf_target_open(struct nvmf_target *target, uv_loop_t *loop, size_t memory, bool uring,
                      const char *tls)
{
    memset(target, 0, sizeof *target);
    target->loop = loop;
    target->began_ns = uv_hrtime();
    if (!nvmf_net_open(&target->net, loop, memory, tls)) {
        return false;
    }
    target->net.now_ms = now_ms();
    target->net.command = on_command;
    target->net.answered = on_answered;
    target->net.ended = on_ended;
    target->net.user = &target->controllers;
    target->engine =
        disk_engine_open(loop, target->net.arena.base, arena_len(&target->net.arena), uring);
    if (!target->engine) {
        nvmf_net_close(&target->net);
        return false;
    }
    if (iwarp_eq_create(target->net.device, &target->eq) != IWARP_OK) {
        target->engine->close(target->engine);
        nvmf_net_close(&target->net);
        return false;
    }
    target->store.engine = target->engine;
    target->store.changed = on_changed;
    target->store.arg = target;
    target->controllers.store = &target->store;
    /* A host that comes back after this target was started anew must not find the number of another
     * controller that it has: Linux rejects those. */
    target->controllers.last_id = (uint16_t)(target->began_ns >> 10 ^ (uint64_t)getpid());
    watch(target);
    return true;
}

#define BACKLOG 256

static struct iwarp_conn_options listen_options(bool crc)
{
    struct iwarp_conn_options options;

    iwarp_conn_options_init(&options);
    options.crc = crc;
    options.ord = NVMF_QUEUE_DEPTH;
    return options;
}

bool nvmf_target_listen(struct nvmf_target *target, const struct sockaddr *addr, socklen_t len,
                        bool crc)
{
    struct iwarp_conn_options options = listen_options(crc);

    return iwarp_listen(target->net.device, addr, len, &options, BACKLOG, target->eq, target,
                        &target->listener) == IWARP_OK;
}

bool nvmf_target_listen_socket(struct nvmf_target *target, int fd, bool crc)
{
    struct iwarp_conn_options options = listen_options(crc);

    return iwarp_listen_socket(target->net.device, fd, &options, BACKLOG, target->eq, target,
                               &target->listener) == IWARP_OK;
}

static void on_stop_late(uv_timer_t *timer)
{
    struct nvmf_target *target = timer->data;

    if (target->stopping) {
        target->stopping = false;
        target->stopped(target);
    }
}

void nvmf_target_stop(struct nvmf_target *target, void (*stopped)(struct nvmf_target *target))
{
    if (target->listener) {
        iwarp_listener_close(target->listener);
        target->listener = NULL;
    }
    for (struct nvmf_queue *queue = target->net.queues; queue; queue = queue->next) {
        nvmf_queue_close(queue);
    }
    target->stopping = true;
    target->stopped = stopped;
    uv_timer_start(&target->tick, on_stop_late, STOP_MS, 0);
}

/* Queues that did not end by themselves. What a disk still has of them keeps their memory; a flush
 * for a shutdown belongs to no queue. */
static void end_queues(struct nvmf_target *target)
{
    struct nvmf_queue *next;

    for (struct nvmf_queue *queue = target->net.queues; queue; queue = next) {
        next = queue->next;
        if (queue->state != NVMF_ENDED) {
            nvmf_net_gone(queue, NULL);
        }
    }
    while (target->net.queues || target->engine->under_way > 0) {
        uv_run(target->loop, UV_RUN_ONCE); /* until disks have done what they were asked for */
        nvmf_net_sweep(&target->net);
    }
}

void nvmf_target_close(struct nvmf_target *target)
{
    if (target->listener) {
        iwarp_listener_close(target->listener);
    }
    end_queues(target);
    uv_close((uv_handle_t *)&target->prepare, NULL);
    uv_close((uv_handle_t *)&target->check, NULL);
    uv_close((uv_handle_t *)&target->tick, NULL);
    iwarp_eq_destroy(target->eq);
    nvmf_store_close(&target->store);
    nvmf_secrets_free(&target->controllers.secrets);
    target->engine->close(target->engine);
    nvmf_net_close(&target->net);
}
