/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabrics commands: Connect (Fabrics 3.3), Property Get and Set (3.4, 3.5). auth.c has those of
 * authentication.
 */
#include "auth.h"
#include "commands.h"

#include "programs/nvmf-wire/octets.h"
#include "programs/service/service.h"

#include <string.h>

/* Where a parameter that is wrong lies: in the command, or in the data of Connect. */
#define IN_COMMAND(offset) (offset)
#define IN_DATA(offset)    (UINT32_C(0x10000) | (offset))

/* In the response to Connect: a transaction of authentication comes next. */
#define AUTH_REQUIRED UINT32_C(0x20000)

static void refuse(struct nvmf_request *request, unsigned where)
{
    nvmf_request_answer(request, NVMF_CONNECT_PARAMETER | NVMF_DNR, where);
}

static bool is_joining(const struct nvmf_queue *queue)
{
    return queue->controller || queue->connecting;
}

static void joined(struct nvmf_request *request, struct nvmf_controller *controller)
{
    struct nvmf_queue *queue = request->queue;

    queue->controller = controller;
    queue->subsystem = controller->subsystem;
    memcpy(queue->host, controller->host, sizeof queue->host);
    controller->queues[queue->id] = queue;
    queue->sq_entries = (uint16_t)((request->command.dw[1] & 0xffff) + 1);
    queue->no_flow_control = (request->command.dw[1] >> 16 & 0x04) != 0;
    queue->unproved = nvmf_auth_wanted(controller);
    nvmf_request_answer(request, NVMF_OK, controller->id | (queue->unproved ? AUTH_REQUIRED : 0u));
}

static void connect_admin(struct nvmf_controllers *all, struct nvmf_request *request,
                          const struct nvmf_connect *connect, uint64_t now_ms)
{
    bool discovery = strcmp(connect->subsystem, NVMF_DISCOVERY) == 0;
    struct nvmf_subsystem *subsystem =
        discovery ? NULL : nvmf_store_find(all->store, connect->subsystem);
    struct nvmf_controller *controller;

    if (connect->controller_id != 0xffff) {
        refuse(request, IN_DATA(16));
        return;
    }
    if (!discovery && !subsystem) {
        service_report_peer("%s: host %s asks for subsystem %s, which is not here",
                            request->queue->peer, connect->host, connect->subsystem);
        refuse(request, IN_DATA(256));
        return;
    }
    if (subsystem && !nvmf_subsystem_admits(subsystem, connect->host)) {
        service_report_peer("%s: host %s may not have subsystem %s", request->queue->peer,
                            connect->host, connect->subsystem);
        nvmf_request_fail(request, NVMF_CONNECT_HOST);
        return;
    }
    if (subsystem && all->secrets.count > 0 && !nvmf_secrets_find(&all->secrets, connect->host)) {
        service_report_peer("%s: host %s has no line in the file of secrets", request->queue->peer,
                            connect->host);
        nvmf_request_fail(request, NVMF_CONNECT_HOST);
        return;
    }
    controller = nvmf_controller_new(all, request->queue, subsystem, connect, now_ms);
    if (!controller) {
        nvmf_request_answer(request, NVMF_CONNECT_BUSY, 0);
        return;
    }
    controller->kato_ms = request->command.dw[2];
    service_report_peer("%s: host %s has %s, controller %u, Keep Alive %u ms", request->queue->peer,
                        connect->host, connect->subsystem, controller->id, controller->kato_ms);
    joined(request, controller);
}

static void connect_io(struct nvmf_controllers *all, struct nvmf_request *request,
                       const struct nvmf_connect *connect)
{
    struct nvmf_controller *controller = nvmf_controller_find(all, connect->controller_id);
    uint16_t id = request->queue->id;

    if (!controller || !controller->subsystem || !nvmf_controller_ready(controller)) {
        refuse(request, IN_DATA(16));
    } else if (strcmp(controller->subsystem->nqn, connect->subsystem) != 0) {
        refuse(request, IN_DATA(256));
    } else if (strcmp(controller->host, connect->host) != 0) {
        refuse(request, IN_DATA(512));
    } else if (memcmp(controller->host_id, connect->host_id, sizeof connect->host_id) != 0) {
        refuse(request, IN_DATA(0));
    } else if (id > controller->queue_limit || controller->queues[id]) {
        refuse(request, IN_COMMAND(42));
    } else {
        joined(request, controller);
    }
}

/* Does a disk still have commands of this host from a queue that has ended? They were never
 * answered, so the host sends them again, and the old ones must not be carried out after that. */
static bool disks_have_commands_of(const struct nvmf_net *net, const struct nvmf_connect *connect)
{
    const struct nvmf_queue *queue = net->queues;

    while (queue && !(queue->state != NVMF_LIVE && queue->with_disk > 0 && queue->subsystem &&
                      strcmp(queue->subsystem->nqn, connect->subsystem) == 0 &&
                      strcmp(queue->host, connect->host) == 0)) {
        queue = queue->next;
    }
    return queue != NULL;
}

/* The request has the data of Connect. `user` of the net is the list of controllers. */
static void connect_data(struct nvmf_request *request)
{
    struct nvmf_controllers *all = request->queue->net->user;
    struct nvmf_connect connect;
    unsigned wrong = nvmf_connect_read(request->data, &connect);

    if (is_joining(request->queue)) { /* by another Connect, whose data came meanwhile */
        nvmf_request_fail(request, NVMF_SEQUENCE);
    } else if (wrong) {
        refuse(request, IN_DATA(wrong));
    } else if (disks_have_commands_of(request->queue->net, &connect)) {
        request->queue->connecting = request;
    } else if (request->queue->id == 0) {
        connect_admin(all, request, &connect, uv_hrtime() / 1000000);
    } else {
        connect_io(all, request, &connect);
    }
}

void nvmf_connect_again(struct nvmf_net *net)
{
    for (struct nvmf_queue *queue = net->queues; queue; queue = queue->next) {
        struct nvmf_request *request = queue->connecting;
        queue->connecting = NULL;
        if (request && queue->state == NVMF_LIVE) {
            connect_data(request);
        }
    }
}

static void connect_command(struct nvmf_request *request)
{
    const struct nvmf_command *command = &request->command;
    uint32_t entries = (command->dw[1] & 0xffff) + 1;

    if ((command->dw[0] & 0xffff) != 0) {
        nvmf_request_fail(request, NVMF_CONNECT_FORMAT);
    } else if (is_joining(request->queue)) {
        nvmf_request_fail(request, NVMF_SEQUENCE);
    } else if (command->dw[0] >> 16 != request->queue->id) {
        refuse(request, IN_COMMAND(42));
    } else if (entries < 2 || entries > NVMF_QUEUE_DEPTH) {
        refuse(request, IN_COMMAND(44));
    } else if (command->sgl == NVMF_SGL_NONE || command->len != NVMF_CONNECT_LEN) {
        nvmf_request_fail(request, NVMF_SGL_LENGTH);
    } else {
        nvmf_request_fetch(request, NVMF_CONNECT_LEN, NVMF_CONNECT_LEN, connect_data);
    }
}

static void property_command(struct nvmf_request *request, bool set)
{
    struct nvmf_controller *controller = request->queue->controller;
    const struct nvmf_command *command = &request->command;
    bool wide = (command->dw[0] & 7) == 1, known = (command->dw[0] & 7) <= 1;
    uint64_t value = nvmf_get64(command->raw + 48);

    if (known && set) {
        known = nvmf_property_set(controller, command->dw[1], wide, value);
        value = 0;
    } else if (known) {
        known = nvmf_property_get(controller, command->dw[1], wide, &value);
    }
    if (known) {
        nvmf_request_answer(request, NVMF_OK, value);
    } else {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
    }
}

void nvmf_fabrics(struct nvmf_request *request)
{
    uint8_t type = request->command.fabrics_type;

    if (type == NVMF_CONNECT) {
        connect_command(request);
    } else if (type != NVMF_PROPERTY_GET && type != NVMF_PROPERTY_SET && type != NVMF_AUTH_SEND &&
               type != NVMF_AUTH_RECEIVE) {
        nvmf_request_fail(request, NVMF_INVALID_OPCODE);
    } else if (!request->queue->controller) {
        nvmf_request_fail(request, NVMF_SEQUENCE);
    } else if (type == NVMF_AUTH_SEND) {
        nvmf_auth_send(request);
    } else if (type == NVMF_AUTH_RECEIVE) {
        nvmf_auth_receive(request);
    } else if (request->queue->unproved) {
        nvmf_request_fail(request, NVMF_AUTH_REQUIRED);
    } else if (request->queue->id != 0) {
        nvmf_request_fail(request, NVMF_SEQUENCE);
    } else {
        property_command(request, type == NVMF_PROPERTY_SET);
    }
}
