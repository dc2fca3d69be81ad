/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The octets of capsules: command, response, Connect data, and the private data of the RDMA
 * transport. Nothing here has a state or looks at what the numbers mean for a controller.
 */
#ifndef NVMF_CAPSULE_H
#define NVMF_CAPSULE_H

#include "nvme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the data of a command are. */
enum nvmf_sgl { NVMF_SGL_NONE, NVMF_SGL_HOST, NVMF_SGL_CAPSULE };

struct nvmf_command {
    uint8_t opcode;
    uint8_t fabrics_type; /* of opcode NVMF_FABRICS, which has no nsid */
    uint16_t cid;
    uint32_t nsid;
    enum nvmf_sgl sgl;
    bool invalidate;    /* HOST: the host wants its STag invalidated by the response */
    uint32_t stag, len; /* len: octets of data, in HOST and CAPSULE */
    uint64_t to;        /* HOST: TO; CAPSULE: offset behind the command */
    uint32_t dw[6];     /* dwords 10 to 15 */
    uint8_t raw[NVMF_COMMAND_LEN];
};

/* A command of `octets` octets, behind which are in_capsule octets of data. Returns NVMF_OK or what
 * is wrong; the rest is set as far as there are octets. */
enum nvmf_status nvmf_command_read(const uint8_t *at, size_t octets, size_t in_capsule,
                                   struct nvmf_command *command);

struct nvmf_response {
    uint64_t result;
    uint16_t sq_head, qid, cid, status; /* status: enum nvmf_status */
};

void nvmf_response_write(uint8_t at[NVMF_RESPONSE_LEN], const struct nvmf_response *response);
void nvmf_response_read(const uint8_t at[NVMF_RESPONSE_LEN], struct nvmf_response *response);

struct nvmf_connect {
    uint8_t host_id[16];
    uint16_t controller_id;
    char subsystem[NVMF_NQN_MAX + 1], host[NVMF_NQN_MAX + 1];
};

/* Returns 0, or the octet at which the data of Connect are wrong. */
unsigned nvmf_connect_read(const uint8_t at[NVMF_CONNECT_LEN], struct nvmf_connect *connect);
void nvmf_connect_write(uint8_t at[NVMF_CONNECT_LEN], const struct nvmf_connect *connect);

/* The Request of a queue. entries: of its submission queue; receives: of the host. */
struct nvmf_hello {
    uint16_t qid, receives, entries;
};

/* Returns 0 or enum nvmf_reject. */
unsigned nvmf_hello_read(const uint8_t *at, size_t octets, struct nvmf_hello *hello);
void nvmf_hello_write(uint8_t at[NVMF_PRIVATE_LEN], const struct nvmf_hello *hello);
void nvmf_welcome_write(uint8_t at[NVMF_PRIVATE_LEN], uint16_t receives);
void nvmf_reject_write(uint8_t at[4], unsigned reason);

#endif
