/* SPDX-License-Identifier: BSD-2-Clause */
#include "host.h"

#include "programs/nvmf-wire/octets.h"

#include <stdlib.h>
#include <string.h>

/* In a queue's memory: commands with their data, then responses. */
#define CAPSULE (NVMF_COMMAND_LEN + NVMF_IN_CAPSULE)

bool nvmf_host_open(struct nvmf_host *host, uv_loop_t *loop, size_t memory, const char *tls)
{
    struct iwarp_device_options options;

    memset(host, 0, sizeof *host);
    host->loop = loop;
    host->memory_len = memory;
    host->memory = aligned_alloc(NVMF_PAGE, memory);
    if (host->memory) {
        memset(host->memory, 0, memory); /* what was here before must not reach a disk */
    }
    iwarp_device_options_init(&options);
    options.progress = IWARP_PROGRESS_EMBEDDED;
    options.loop = loop;
    options.tls = tls;
    return host->memory && iwarp_device_open(&options, &host->device) == IWARP_OK &&
           iwarp_pd_create(host->device, &host->pd) == IWARP_OK &&
           iwarp_cq_create(host->device, 65536, NULL, &host->cq) == IWARP_OK &&
           iwarp_mr_register(host->pd, host->memory, memory,
                             IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_READ |
                                 IWARP_ACCESS_REMOTE_WRITE,
                             &host->mr) == IWARP_OK;
}

void nvmf_host_close(struct nvmf_host *host)
{
    iwarp_mr_deregister(host->mr);
    iwarp_cq_destroy(host->cq);
    iwarp_pd_destroy(host->pd);
    iwarp_device_close(host->device);
    free(host->memory);
}

static uint8_t *response_of(struct nvmf_host_queue *queue, size_t n)
{
    return queue->capsules + queue->entries * (size_t)CAPSULE + n * NVMF_RESPONSE_LEN;
}

/* The receive of a response; its number is in wr_id. */
static void post_receive(struct nvmf_host_queue *queue, size_t n)
{
    struct iwarp_sge sge = {response_of(queue, n), NVMF_RESPONSE_LEN, iwarp_mr_stag(queue->mr)};
    struct iwarp_recv_wr wr = {NULL, n, &sge, 1, 0};

    iwarp_post_recv(queue->qp, &wr, NULL);
}

static bool prepare(struct nvmf_host_queue *queue)
{
    size_t len = queue->entries * (size_t)(CAPSULE + NVMF_RESPONSE_LEN);
    struct iwarp_qp_options options;

    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = queue->host->cq;
    options.max_send_wr = options.max_recv_wr = queue->entries;
    options.user = queue;
    queue->slots = calloc(queue->entries, sizeof *queue->slots);
    queue->capsules = calloc(1, len);
    return queue->slots && queue->capsules &&
           iwarp_mr_register(queue->host->pd, queue->capsules, len, IWARP_ACCESS_LOCAL_WRITE,
                             &queue->mr) == IWARP_OK &&
           iwarp_qp_create(queue->host->pd, &options, &queue->qp) == IWARP_OK;
}

struct nvmf_host_queue *nvmf_host_queue_open(struct nvmf_host *host, const struct sockaddr *addr,
                                             socklen_t len, uint16_t id, uint16_t entries, bool crc)
{
    struct nvmf_host_queue *queue = calloc(1, sizeof *queue);
    struct nvmf_hello hello = {id, entries, host->announce ? host->announce : entries};
    struct iwarp_conn_options options;
    uint8_t private[NVMF_PRIVATE_LEN];

    if (!queue) {
        return NULL;
    }
    queue->host = host;
    queue->id = id;
    queue->entries = entries;
    iwarp_conn_options_init(&options);
    options.crc = crc;
    options.ird = entries;
    if (host->source.ss_family != AF_UNSPEC) {
        options.source = (const struct sockaddr *)&host->source;
        options.source_len = len;
    }
    nvmf_hello_write(private, &hello);
    if (!prepare(queue)) {
        nvmf_host_queue_close(queue);
        return NULL;
    }
    for (size_t i = 0; i < entries; i++) {
        post_receive(queue, i);
    }
    if (iwarp_connect(queue->qp, addr, len, &options, private, sizeof private, NULL, NULL,
                      &queue->conn) != IWARP_OK ||
        iwarp_conn_wait(queue->conn, 10000) != IWARP_OK) {
        nvmf_host_queue_close(queue);
        return NULL;
    }
    return queue;
}

void nvmf_host_queue_close(struct nvmf_host_queue *queue)
{
    if (queue->conn) {
        iwarp_disconnect(queue->conn);
        iwarp_conn_wait_end(queue->conn, 10000);
        iwarp_conn_destroy(queue->conn);
    }
    if (queue->qp) {
        iwarp_qp_destroy(queue->qp);
    }
    if (queue->mr) {
        iwarp_mr_deregister(queue->mr);
    }
    free(queue->capsules);
    free(queue->slots);
    free(queue);
}

void nvmf_host_data(const struct nvmf_host *host, uint8_t command[NVMF_COMMAND_LEN], size_t offset,
                    uint32_t octets)
{
    nvmf_put64(command + 24, (uint64_t)(uintptr_t)host->memory + offset);
    nvmf_put(command + 32, octets, 3);
    nvmf_put32(command + 35, iwarp_mr_stag(host->mr));
    command[39] = 0x40;
}

struct nvmf_host_slot *nvmf_host_send(struct nvmf_host_queue *queue,
                                      const uint8_t command[NVMF_COMMAND_LEN], const void *data,
                                      uint32_t in_capsule,
                                      void (*done)(struct nvmf_host_slot *slot), void *arg)
{
    struct nvmf_host_slot *slot = queue->slots;
    struct iwarp_sge sge;
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};
    uint8_t *at;

    while (slot < queue->slots + queue->entries && slot->busy) {
        slot++;
    }
    if (slot == queue->slots + queue->entries) {
        return NULL;
    }
    at = queue->capsules + (size_t)(slot - queue->slots) * CAPSULE;
    memcpy(at, command, NVMF_COMMAND_LEN);
    nvmf_put16(at + 2, (uint16_t)(slot - queue->slots));
    at[1] = command[1] ? command[1] : 0x40;
    if (in_capsule > 0) {
        memcpy(at + NVMF_COMMAND_LEN, data, in_capsule);
    }
    sge = (struct iwarp_sge){at, NVMF_COMMAND_LEN + in_capsule, iwarp_mr_stag(queue->mr)};
    if (iwarp_post_send(queue->qp, &wr, NULL) != IWARP_OK) {
        return NULL;
    }
    slot->busy = true;
    slot->done = done;
    slot->arg = arg;
    slot->began_ns = uv_hrtime();
    return slot;
}

static void received(struct nvmf_host_queue *queue, size_t n)
{
    struct nvmf_response response;
    struct nvmf_host_slot *slot;

    nvmf_response_read(response_of(queue, n), &response);
    post_receive(queue, n);
    if (response.cid >= queue->entries || !queue->slots[response.cid].busy) {
        iwarp_abort(queue->conn); /* nobody has asked for it */
        return;
    }
    slot = &queue->slots[response.cid];
    slot->response = response;
    slot->busy = false;
    if (slot->done) {
        slot->done(slot);
    }
}

bool nvmf_host_turn(struct nvmf_host *host)
{
    struct iwarp_wc wc[32];
    int n = iwarp_cq_poll(host->cq, wc, 32);

    for (int i = 0; i < n; i++) {
        struct nvmf_host_queue *queue = iwarp_qp_user(wc[i].qp);
        if (wc[i].status != IWARP_WC_SUCCESS) {
            queue->ended = true;
        } else if (wc[i].opcode == IWARP_WC_RECV) {
            received(queue, wc[i].wr_id);
        }
    }
    return n > 0;
}

int nvmf_host_do(struct nvmf_host_queue *queue, const uint8_t command[NVMF_COMMAND_LEN],
                 const void *data, uint32_t in_capsule, uint64_t *result)
{
    struct nvmf_host_slot *slot = nvmf_host_send(queue, command, data, in_capsule, NULL, NULL);

    while (slot && slot->busy && !queue->ended) {
        if (!nvmf_host_turn(queue->host)) {
            uv_run(queue->host->loop, UV_RUN_ONCE);
        }
    }
    if (!slot || slot->busy) {
        return -1;
    }
    if (result) {
        *result = slot->response.result;
    }
    return slot->response.status;
}

static int enable(struct nvmf_host_queue *queue)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_PROPERTY_SET};

    command[39] = 0x40; /* an SGL of no octets */
    nvmf_put32(command + 44, NVMF_CC);
    nvmf_put64(command + 48, 0x460001);
    return nvmf_host_do(queue, command, NULL, 0, NULL);
}

int nvmf_host_join(struct nvmf_host_queue *queue, const struct nvmf_connect *connect,
                   uint32_t kato_ms, uint16_t *controller_id)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_CONNECT}, data[NVMF_CONNECT_LEN];
    uint64_t result = 0;
    int status;

    nvmf_connect_write(data, connect);
    nvmf_put32(command + 32, sizeof data);
    command[39] = 0x01; /* in the capsule */
    nvmf_put16(command + 42, queue->id);
    nvmf_put16(command + 44,
               (uint16_t)((queue->host->announce ? queue->host->announce : queue->entries) - 1));
    nvmf_put32(command + 48, queue->id == 0 ? kato_ms : 0);
    status = nvmf_host_do(queue, command, data, sizeof data, &result);
    if (status != NVMF_OK) {
        return status;
    }
    if (controller_id) {
        *controller_id = (uint16_t)result;
    }
    return queue->id == 0 ? enable(queue) : NVMF_OK;
}
