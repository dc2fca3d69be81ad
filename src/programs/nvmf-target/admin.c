/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admin commands, Base 5.
 */
#include "commands.h"
#include "net.h"
#include "pages.h"

#include "programs/nvmf-wire/octets.h"

#include <stdlib.h>
#include <string.h>

/* A buffer for data that go to the host; the request is answered if the command has no place for
 * `octets` of them. */
static void take_for_host(struct nvmf_request *request, uint32_t octets, size_t space,
                          void (*then)(struct nvmf_request *request))
{
    if (request->command.sgl == NVMF_SGL_CAPSULE) {
        nvmf_request_fail(request, NVMF_SGL_TYPE);
    } else if (request->command.len < octets) {
        nvmf_request_fail(request, NVMF_SGL_LENGTH);
    } else {
        nvmf_request_take(request, space, then);
    }
}

/* --- Identify -------------------------------------------------------------------------------- */

enum { CNS_NAMESPACE, CNS_CONTROLLER, CNS_LIST, CNS_DESCRIPTORS, CNS_COMMAND_SET = 6 };

static void identify_namespace(struct nvmf_request *request)
{
    const struct nvmf_controller *controller = request->queue->controller;
    uint32_t nsid = request->command.nsid;
    const struct nvmf_namespace *ns = nvmf_namespace_find(controller->subsystem, nsid);
    uint8_t cns = (uint8_t)request->command.dw[0];

    if (nsid == 0 || (nsid > NVMF_NAMESPACES && nsid != NVMF_NSID_ALL) ||
        (!ns && cns == CNS_DESCRIPTORS)) {
        nvmf_request_fail(request, NVMF_INVALID_NAMESPACE);
        return;
    }
    if (!ns) {
        memset(request->data, 0, NVMF_IDENTIFY_LEN); /* an inactive one, Base 5.15.2.1 */
        if (nsid == NVMF_NSID_ALL) {
            request->data[128 + 2] = 12;
        }
    } else if (cns == CNS_DESCRIPTORS) {
        nvmf_page_descriptors(ns, request->data);
    } else {
        nvmf_page_namespace(ns, request->data);
    }
    nvmf_request_give(request, NVMF_IDENTIFY_LEN);
}

static void identify(struct nvmf_request *request)
{
    const struct nvmf_controller *controller = request->queue->controller;
    uint8_t cns = (uint8_t)request->command.dw[0];

    if (cns != CNS_CONTROLLER && !controller->subsystem) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    switch (cns) {
    case CNS_NAMESPACE:
    case CNS_DESCRIPTORS:
        identify_namespace(request);
        return;
    case CNS_CONTROLLER:
        nvmf_page_controller(controller, request->data);
        break;
    case CNS_LIST:
        if (request->command.nsid >= 0xfffffffeu) {
            nvmf_request_fail(request, NVMF_INVALID_NAMESPACE);
            return;
        }
        nvmf_page_list(controller->subsystem, request->command.nsid, request->data);
        break;
    case CNS_COMMAND_SET:
        if (request->command.dw[1] >> 24 != 0) {
            nvmf_request_fail(request, NVMF_INVALID_FIELD);
            return;
        }
        memset(request->data, 0, NVMF_IDENTIFY_LEN); /* no limits but those of the controller */
        break;
    default:
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    nvmf_request_give(request, NVMF_IDENTIFY_LEN);
}

/* --- Get Log Page ---------------------------------------------------------------------------- */

static uint64_t log_octets(const struct nvmf_command *command)
{
    return ((command->dw[0] >> 16 | (uint64_t)(command->dw[1] & 0xffff) << 16) + 1) * 4;
}

static void log_page(struct nvmf_request *request)
{
    struct nvmf_controller *controller = request->queue->controller;
    const struct nvmf_command *command = &request->command;
    uint8_t log = (uint8_t)command->dw[0];
    uint64_t offset = command->dw[2] | (uint64_t)command->dw[3] << 32;
    size_t octets = (size_t)log_octets(command), len = nvmf_log_len(controller, log);
    uint8_t *page = len > 0 ? malloc(len) : NULL;

    if (!page) {
        nvmf_request_fail(request, len ? NVMF_INTERNAL : NVMF_INVALID_LOG);
        return;
    }
    if (offset % 4 != 0 || offset > len) {
        free(page);
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    nvmf_log_write(controller, log, uv_hrtime() / 1000000, request->queue, page);
    memset(request->data, 0, octets);
    memcpy(request->data, page + offset, len - offset < octets ? len - offset : octets);
    free(page);
    if (!(command->dw[0] & 0x8000)) { /* "retain asynchronous event" */
        nvmf_controller_told(controller, log);
    }
    nvmf_request_give(request, (uint32_t)octets);
}

static void get_log_page(struct nvmf_request *request)
{
    uint64_t octets = log_octets(&request->command);

    if (octets > NVMF_TRANSFER_MAX) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
    } else {
        take_for_host(request, (uint32_t)octets, octets, log_page);
    }
}

/* --- features -------------------------------------------------------------------------------- */

/* I/O queues that a host may have that asks for so many. One that could not connect all that it was
 * promised would do without any. */
static unsigned promise(const struct nvmf_queue *admin, unsigned asked)
{
    unsigned most = nvmf_net_room(admin);

    most = most < 1 ? 1 : most > NVMF_QUEUES ? NVMF_QUEUES : most;
    return asked < most ? asked : most;
}

static void set_features(struct nvmf_request *request)
{
    struct nvmf_controller *controller = request->queue->controller;
    uint32_t value = request->command.dw[1], submission, completion;

    if (request->command.dw[0] & 0x80000000u) {
        nvmf_request_fail(request, NVMF_NOT_SAVEABLE);
        return;
    }
    switch ((uint8_t)request->command.dw[0]) {
    case NVMF_FEATURE_QUEUES:
        submission = (value & 0xffff) + 1;
        completion = (value >> 16) + 1;
        if (submission == 0x10000 || completion == 0x10000 || !controller->subsystem) {
            nvmf_request_fail(request, NVMF_INVALID_FIELD);
            return;
        }
        controller->queue_limit = promise(request->queue, submission);
        value = controller->queue_limit - 1;
        nvmf_request_answer(request, NVMF_OK, value | value << 16);
        return;
    case NVMF_FEATURE_EVENTS:
        nvmf_controller_notices(controller, value);
        break;
    case NVMF_FEATURE_KATO:
        controller->kato_ms = value;
        break;
    case NVMF_FEATURE_CACHE:
        if (!(value & 1)) {
            nvmf_request_fail(request, NVMF_NOT_CHANGEABLE);
            return;
        }
        break;
    case NVMF_FEATURE_ARBITRATION:
    case NVMF_FEATURE_POWER:
    case NVMF_FEATURE_RECOVERY:
    case NVMF_FEATURE_ATOMICITY:
        nvmf_request_fail(request, NVMF_NOT_CHANGEABLE);
        return;
    case NVMF_FEATURE_HOST_ID:
        nvmf_request_fail(request, NVMF_SEQUENCE); /* Connect has set it */
        return;
    default:
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    nvmf_request_answer(request, NVMF_OK, 0);
}

static void give_host_id(struct nvmf_request *request)
{
    memcpy(request->data, request->queue->controller->host_id, 16);
    nvmf_request_give(request, 16);
}

static void get_features(struct nvmf_request *request)
{
    const struct nvmf_controller *controller = request->queue->controller;
    uint32_t value = 0;

    if (request->command.dw[0] & 0x700) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD); /* there is the current value alone */
        return;
    }
    switch ((uint8_t)request->command.dw[0]) {
    case NVMF_FEATURE_QUEUES:
        value = controller->queue_limit ? controller->queue_limit - 1 : 0;
        value |= value << 16;
        break;
    case NVMF_FEATURE_EVENTS:
        value = controller->notices;
        break;
    case NVMF_FEATURE_KATO:
        value = controller->kato_ms;
        break;
    case NVMF_FEATURE_CACHE:
        value = 1;
        break;
    case NVMF_FEATURE_ARBITRATION:
    case NVMF_FEATURE_POWER:
    case NVMF_FEATURE_RECOVERY:
    case NVMF_FEATURE_ATOMICITY:
        break;
    case NVMF_FEATURE_HOST_ID:
        if (!(request->command.dw[1] & 1)) {
            nvmf_request_fail(request,
                              NVMF_INVALID_FIELD); /* one of 64 bits, which fabrics have not */
        } else {
            take_for_host(request, 16, 16, give_host_id);
        }
        return;
    default:
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return;
    }
    nvmf_request_answer(request, NVMF_OK, value);
}

/* --------------------------------------------------------------------------------------------- */

void nvmf_admin(struct nvmf_request *request)
{
    switch (request->command.opcode) {
    case NVMF_IDENTIFY:
        take_for_host(request, NVMF_IDENTIFY_LEN, NVMF_IDENTIFY_LEN, identify);
        break;
    case NVMF_GET_LOG_PAGE:
        get_log_page(request);
        break;
    case NVMF_SET_FEATURES:
        set_features(request);
        break;
    case NVMF_GET_FEATURES:
        get_features(request);
        break;
    case NVMF_ASYNC_EVENT:
        if (!nvmf_controller_await(request->queue->controller, request)) {
            nvmf_request_answer(request, NVMF_AER_LIMIT, 0);
        }
        break;
    case NVMF_ABORT:
        nvmf_request_answer(request, NVMF_OK, 1); /* it was not aborted, which is allowed */
        break;
    case NVMF_KEEP_ALIVE:
        nvmf_request_answer(request, NVMF_OK, 0);
        break;
    default:
        nvmf_request_fail(request, NVMF_INVALID_OPCODE);
        break;
    }
}
