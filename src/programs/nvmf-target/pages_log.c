/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log pages, Base 5.14, and that of discovery, Fabrics 5.3.
 */
#include "pages.h"

#include "programs/nvmf-wire/octets.h"
#include "programs/service/address.h"

#include <stdio.h>
#include <string.h>

#define DISCOVERY_ENTRY 1024

/* Subsystems that this host may have. */
static size_t admitted(const struct nvmf_controller *controller)
{
    size_t n = 0;

    for (struct nvmf_subsystem *s = controller->all->store->subsystems; s; s = s->next) {
        n += nvmf_subsystem_admits(s, controller->host);
    }
    return n;
}

size_t nvmf_log_len(const struct nvmf_controller *controller, uint8_t log)
{
    switch (log) {
    case NVMF_LOG_ERROR:
        return (size_t)NVMF_ERRORS * 64;
    case NVMF_LOG_SMART:
    case NVMF_LOG_FIRMWARE:
        return controller->subsystem ? 512 : 0;
    case NVMF_LOG_CHANGED:
    case NVMF_LOG_EFFECTS:
        return controller->subsystem ? 4096 : 0;
    case NVMF_LOG_DISCOVERY:
        return controller->subsystem ? 0 : (1 + admitted(controller)) * DISCOVERY_ENTRY;
    default:
        return 0;
    }
}

/* The newest first. */
static void put_errors(const struct nvmf_controller *controller, uint8_t *at)
{
    uint64_t count = controller->error_count < NVMF_ERRORS ? controller->error_count : NVMF_ERRORS;

    for (uint64_t i = 0; i < count; i++, at += 64) {
        const struct nvmf_error_entry *e =
            &controller->errors[(controller->error_count - 1 - i) % NVMF_ERRORS];
        nvmf_put64(at, e->number);
        nvmf_put16(at + 8, e->queue);
        nvmf_put16(at + 10, e->cid);
        nvmf_put16(at + 12, e->status);
        nvmf_put16(at + 14, 0xffff); /* not the fault of one parameter */
        nvmf_put64(at + 16, e->lba);
        nvmf_put32(at + 24, e->nsid);
        at[29] = 1; /* RDMA */
    }
}

static void put_smart(const struct nvmf_controller *controller, uint64_t now_ms, uint8_t *at)
{
    /* Thousands of 512 octets, rounded up. */
    nvmf_put64(at + 32, (controller->read_octets + 511999) / 512000);
    nvmf_put64(at + 48, (controller->written_octets + 511999) / 512000);
    nvmf_put64(at + 64, controller->reads);
    nvmf_put64(at + 80, controller->writes);
    nvmf_put64(at + 112, 1); /* power cycles: of this controller */
    nvmf_put64(at + 128, (now_ms - controller->began_ms) / 3600000);
    nvmf_put64(at + 160, controller->media_errors);
    nvmf_put64(at + 176, controller->error_count);
    at[3] = 100; /* per cent of the spare blocks are there */
}

static void put_firmware(uint8_t *at)
{
    size_t len = strlen(iwarp_version());

    at[0] = 1;
    memset(at + 8, ' ', 8);
    memcpy(at + 8, iwarp_version(), len < 8 ? len : 8);
}

static void put_effects(uint8_t *at)
{
    static const uint8_t admin[] = {NVMF_GET_LOG_PAGE, NVMF_IDENTIFY,     NVMF_ABORT,
                                    NVMF_SET_FEATURES, NVMF_GET_FEATURES, NVMF_ASYNC_EVENT,
                                    NVMF_KEEP_ALIVE};
    static const uint8_t reading[] = {NVMF_FLUSH, NVMF_READ, NVMF_COMPARE, NVMF_VERIFY};
    static const uint8_t writing[] = {NVMF_WRITE, NVMF_WRITE_ZEROES, NVMF_DATASET};

    for (size_t i = 0; i < sizeof admin; i++) {
        nvmf_put32(at + 4 * admin[i], 1);
    }
    for (size_t i = 0; i < sizeof reading; i++) {
        nvmf_put32(at + 1024 + 4 * reading[i], 1);
    }
    for (size_t i = 0; i < sizeof writing; i++) {
        nvmf_put32(at + 1024 + 4 * writing[i], 3); /* and it changes logical blocks */
    }
}

/* Where the host has found discovery, it finds the rest. */
static void put_address(const struct nvmf_queue *queue, uint8_t *at)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;

    at[0] = 1; /* RDMA */
    if (iwarp_conn_local_addr(queue->conn, &addr, &len) != IWARP_OK) {
        return;
    }
    at[1] = addr.ss_family == AF_INET6 ? 2 : 1;
    snprintf((char *)at + 32, 32, "%u", address_split(&addr, (char *)at + 512));
    at[768] = 1;     /* reliable connected queue pairs */
    at[768 + 1] = 5; /* iWARP */
    at[768 + 2] = 1; /* RDMA_CM */
}

static void put_discovery(const struct nvmf_controller *controller, const struct nvmf_queue *queue,
                          uint8_t *at)
{
    uint8_t *entry = at + DISCOVERY_ENTRY;

    nvmf_put64(at, controller->all->store->generation);
    nvmf_put64(at + 8, admitted(controller));
    for (struct nvmf_subsystem *s = controller->all->store->subsystems; s; s = s->next) {
        if (!nvmf_subsystem_admits(s, controller->host)) {
            continue;
        }
        put_address(queue, entry);
        entry[2] = 2;    /* an NVM subsystem */
        entry[3] = 0x04; /* can do without flow control of the queue */
        nvmf_put16(entry + 4, 1);
        nvmf_put16(entry + 6, 0xffff); /* controllers are made for each host */
        nvmf_put16(entry + 8, NVMF_ADMIN_MIN);
        strcpy((char *)entry + 256, s->nqn);
        entry += DISCOVERY_ENTRY;
    }
}

void nvmf_log_write(const struct nvmf_controller *controller, uint8_t log, uint64_t now_ms,
                    const struct nvmf_queue *queue, uint8_t *at)
{
    memset(at, 0, nvmf_log_len(controller, log));
    switch (log) {
    case NVMF_LOG_ERROR:
        put_errors(controller, at);
        break;
    case NVMF_LOG_SMART:
        put_smart(controller, now_ms, at);
        break;
    case NVMF_LOG_FIRMWARE:
        put_firmware(at);
        break;
    case NVMF_LOG_CHANGED:
        for (size_t i = 0; i < controller->change_count; i++) {
            nvmf_put32(at + 4 * i, controller->changes[i]);
        }
        break;
    case NVMF_LOG_EFFECTS:
        put_effects(at);
        break;
    default:
        put_discovery(controller, queue, at);
        break;
    }
}
