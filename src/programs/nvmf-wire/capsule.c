/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capsules: Base 4.2 (command), 4.4 (SGL), 4.6 (response), Fabrics 3.3 (Connect), 7.3 (RDMA).
 */
#include "capsule.h"

#include "octets.h"

#include <string.h>

/* The two upper bits of the flags: an SGL, whose descriptor is in the command. The two lower ones
 * would fuse it with another command. */
#define FLAGS_SGL 0x40

#define KEYED      0x40
#define INVALIDATE 0x4f
#define OFFSET     0x01

static enum nvmf_status read_sgl(const uint8_t *at, size_t in_capsule, struct nvmf_command *command)
{
    command->to = nvmf_get64(at);
    switch (at[15]) {
    case KEYED:
    case INVALIDATE:
        command->len = (uint32_t)nvmf_get(at + 8, 3);
        command->stag = nvmf_get32(at + 11);
        command->sgl = command->len ? NVMF_SGL_HOST : NVMF_SGL_NONE;
        command->invalidate = at[15] == INVALIDATE && command->len > 0;
        return NVMF_OK;
    case OFFSET:
        command->len = nvmf_get32(at + 8);
        command->sgl = NVMF_SGL_CAPSULE;
        if (command->to > in_capsule) {
            return NVMF_SGL_OFFSET;
        }
        return command->len <= in_capsule - command->to ? NVMF_OK : NVMF_SGL_LENGTH;
    default:
        return NVMF_SGL_TYPE;
    }
}

enum nvmf_status nvmf_command_read(const uint8_t *at, size_t octets, size_t in_capsule,
                                   struct nvmf_command *command)
{
    memset(command, 0, sizeof *command);
    if (octets < NVMF_COMMAND_LEN) {
        command->cid = octets < 4 ? 0 : nvmf_get16(at + 2);
        return NVMF_INVALID_FIELD;
    }
    memcpy(command->raw, at, NVMF_COMMAND_LEN);
    command->opcode = at[0];
    command->cid = nvmf_get16(at + 2);
    if (at[0] == NVMF_FABRICS) {
        command->fabrics_type = at[4];
    } else {
        command->nsid = nvmf_get32(at + 4);
    }
    for (size_t i = 0; i < 6; i++) {
        command->dw[i] = nvmf_get32(at + 40 + 4 * i);
    }
    /* Fabrics commands have no flags, and those of properties no SGL: these octets are reserved,
     * though Linux's host sets them. */
    if (at[1] != FLAGS_SGL && !(at[0] == NVMF_FABRICS && at[1] == 0)) {
        return NVMF_INVALID_FIELD;
    }
    if (at[0] == NVMF_FABRICS && (at[4] == NVMF_PROPERTY_GET || at[4] == NVMF_PROPERTY_SET)) {
        return NVMF_OK;
    }
    return read_sgl(at + 24, in_capsule, command);
}

void nvmf_response_write(uint8_t at[NVMF_RESPONSE_LEN], const struct nvmf_response *response)
{
    nvmf_put64(at, response->result);
    nvmf_put16(at + 8, response->sq_head);
    nvmf_put16(at + 10, response->qid);
    nvmf_put16(at + 12, response->cid);
    /* Bit 0 is the phase, which fabrics have not. */
    nvmf_put16(at + 14, (uint16_t)(response->status << 1));
}

void nvmf_response_read(const uint8_t at[NVMF_RESPONSE_LEN], struct nvmf_response *response)
{
    response->result = nvmf_get64(at);
    response->sq_head = nvmf_get16(at + 8);
    response->qid = nvmf_get16(at + 10);
    response->cid = nvmf_get16(at + 12);
    response->status = nvmf_get16(at + 14) >> 1;
}

#define HOST_ID    0
#define CONTROLLER 16
#define SUBSYSTEM  256
#define HOST       512

static bool read_nqn(const uint8_t *at, char nqn[NVMF_NQN_MAX + 1])
{
    size_t len = strnlen((const char *)at, NVMF_NQN_MAX + 1);

    if (len == 0 || len > NVMF_NQN_MAX) {
        return false;
    }
    /* The name goes into logs: printable octets only. */
    for (size_t i = 0; i < len; i++) {
        if (at[i] < 0x20 || at[i] == 0x7f) {
            return false;
        }
    }
    memcpy(nqn, at, len);
    nqn[len] = '\0';
    return true;
}

unsigned nvmf_connect_read(const uint8_t at[NVMF_CONNECT_LEN], struct nvmf_connect *connect)
{
    memset(connect, 0, sizeof *connect);
    memcpy(connect->host_id, at + HOST_ID, sizeof connect->host_id);
    connect->controller_id = nvmf_get16(at + CONTROLLER);
    if (!read_nqn(at + SUBSYSTEM, connect->subsystem)) {
        return SUBSYSTEM;
    }
    return read_nqn(at + HOST, connect->host) ? 0 : HOST;
}

void nvmf_connect_write(uint8_t at[NVMF_CONNECT_LEN], const struct nvmf_connect *connect)
{
    memset(at, 0, NVMF_CONNECT_LEN);
    memcpy(at + HOST_ID, connect->host_id, sizeof connect->host_id);
    nvmf_put16(at + CONTROLLER, connect->controller_id);
    memcpy(at + SUBSYSTEM, connect->subsystem, strlen(connect->subsystem));
    memcpy(at + HOST, connect->host, strlen(connect->host));
}

unsigned nvmf_hello_read(const uint8_t *at, size_t octets, struct nvmf_hello *hello)
{
    if (octets < NVMF_PRIVATE_LEN) {
        return NVMF_REJECT_LENGTH;
    }
    if (nvmf_get16(at) != 0) {
        return NVMF_REJECT_FORMAT;
    }
    hello->qid = nvmf_get16(at + 2);
    hello->receives = nvmf_get16(at + 4);
    if (hello->qid > NVMF_QUEUES) {
        return NVMF_REJECT_QID;
    }
    if (hello->receives == 0) {
        return NVMF_REJECT_HRQSIZE;
    }
    /* What is sent is one less than the number of entries. */
    if (nvmf_get16(at + 6) >= NVMF_QUEUE_DEPTH) {
        return NVMF_REJECT_HSQSIZE;
    }
    hello->entries = (uint16_t)(nvmf_get16(at + 6) + 1);
    return 0;
}

void nvmf_hello_write(uint8_t at[NVMF_PRIVATE_LEN], const struct nvmf_hello *hello)
{
    memset(at, 0, NVMF_PRIVATE_LEN);
    nvmf_put16(at + 2, hello->qid);
    nvmf_put16(at + 4, hello->receives);
    nvmf_put16(at + 6, (uint16_t)(hello->entries - 1));
}

void nvmf_welcome_write(uint8_t at[NVMF_PRIVATE_LEN], uint16_t receives)
{
    memset(at, 0, NVMF_PRIVATE_LEN);
    nvmf_put16(at + 2, receives);
}

void nvmf_reject_write(uint8_t at[4], unsigned reason)
{
    nvmf_put16(at, 0);
    nvmf_put16(at + 2, (uint16_t)reason);
}
