/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Controllers: what one host has of one subsystem, from the Connect of its admin queue to the end
 * of that queue.
 *
 *   state      CC.EN  CSTS            leaves it by
 *   NEW        0      0               CC.EN = 1: ENABLED
 *   ENABLED    1      RDY             CC.EN = 0: NEW, its I/O queues are closed
 *                                     CC.SHN:    SHUTDOWN
 *                                     Keep Alive does not come, or the host may not have the
 *                                     subsystem any more: FATAL
 *   SHUTDOWN   1      RDY, SHST       CC.EN = 0: NEW. SHST is 1 while disks are flushed, then 2
 *   FATAL      1      CFS             all its queues are closed
 *
 * The end of the admin queue frees the controller in any state, and closes its other queues first.
 */
#ifndef NVMF_CONTROLLER_H
#define NVMF_CONTROLLER_H

#include "queue.h"
#include "secrets.h"
#include "store.h"

struct nvmf_error_entry {
    uint64_t number, lba;
    uint32_t nsid;
    uint16_t queue, cid, status;
};

struct nvmf_controllers {
    struct nvmf_controller *first;
    struct nvmf_store *store;
    struct nvmf_secrets secrets; /* none: no host has to show one */
    uint16_t last_id;
    unsigned count;
    uint64_t silent; /* hosts whose Keep Alive did not come */
};

struct nvmf_controller {
    struct nvmf_controller *next;
    struct nvmf_controllers *all;
    struct nvmf_subsystem *subsystem; /* NULL: discovery */
    uint16_t id;
    char host[NVMF_NQN_MAX + 1];
    uint8_t host_id[16];
    struct nvmf_queue *queues[NVMF_QUEUES + 1];
    unsigned queue_limit; /* I/O queues that may be connected */
    uint32_t cc, csts;
    unsigned flushing; /* disks, for a shutdown */
    bool flush_again;  /* another shutdown was asked for meanwhile */
    uint32_t kato_ms;  /* 0: no Keep Alive is asked for; discovery has a limit then, too */
    uint64_t heard_ms;
    /* Asynchronous events: requests that wait for one, and what waits for a request. */
    struct nvmf_request *aers[NVMF_AERS];
    unsigned aer_count;
    uint32_t notices; /* the feature: which notices the host wants */
    bool changed, changed_told, discovery, discovery_told;
    uint32_t changes[NVMF_NAMESPACES];
    unsigned change_count;
    struct nvmf_error_entry errors[NVMF_ERRORS];
    uint64_t error_count;
    /* For the SMART log. */
    uint64_t reads, writes, read_octets, written_octets, media_errors, began_ms;
};

/* NULL: no memory. */
struct nvmf_controller *nvmf_controller_new(struct nvmf_controllers *all, struct nvmf_queue *admin,
                                            struct nvmf_subsystem *subsystem,
                                            const struct nvmf_connect *connect, uint64_t now_ms);
struct nvmf_controller *nvmf_controller_find(const struct nvmf_controllers *all, uint16_t id);

/* A queue has ended. */
void nvmf_controller_leave(struct nvmf_queue *queue);

/* False: there is no such property, of that size. */
bool nvmf_property_get(const struct nvmf_controller *controller, uint32_t offset, bool wide,
                       uint64_t *value);
bool nvmf_property_set(struct nvmf_controller *controller, uint32_t offset, bool wide,
                       uint64_t value);
bool nvmf_controller_ready(const struct nvmf_controller *controller);

/* An Asynchronous Event Request came. False: there are as many as can be. */
bool nvmf_controller_await(struct nvmf_controller *controller, struct nvmf_request *request);

/* From now on the host wants these notices; what it has not been told yet is one of them. */
void nvmf_controller_notices(struct nvmf_controller *controller, uint32_t notices);

/* What `changed` of a store says: hosts that have it, or Discovery, are told; those that may not
 * have it any more lose it. */
void nvmf_controllers_changed(struct nvmf_controllers *all, struct nvmf_subsystem *subsystem,
                              uint32_t nsid);

/* The log page that tells more was read: the next event may come. */
void nvmf_controller_told(struct nvmf_controller *controller, uint8_t log);

/* Note a command that was answered with an error. */
void nvmf_controller_error(struct nvmf_controller *controller, const struct nvmf_request *request,
                           unsigned status);

/* Once a second: end controllers whose hosts are silent. */
void nvmf_controllers_tick(struct nvmf_controllers *all, uint64_t now_ms);

#endif
