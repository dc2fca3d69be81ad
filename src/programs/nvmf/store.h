/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is served: subsystems, their namespaces, the hosts that may have them.
 *
 * A namespace that is removed while a disk has operations of it stays until they are done: it is
 * GONE, cannot be found any more, and the last operation frees it.
 */
#ifndef NVMF_STORE_H
#define NVMF_STORE_H

#include "disk.h"
#include "nvme.h"

#define NVMF_NAMESPACES 256

struct nvmf_subsystem;

struct nvmf_namespace {
    struct nvmf_subsystem *subsystem;
    uint32_t nsid;
    char *name; /* as it was given */
    struct nvmf_disk *disk;
    uint64_t blocks;
    uint32_t block; /* octets of one */
    uint8_t uuid[16];
    bool read_only;
    bool gone;
    unsigned busy; /* operations that a disk has */
};

struct nvmf_subsystem {
    struct nvmf_subsystem *next;
    char nqn[NVMF_NQN_MAX + 1];
    char serial[21];
    struct nvmf_namespace *namespaces[NVMF_NAMESPACES]; /* NSID 1 is the first */
    char **hosts;
    size_t host_count; /* 0: any host may */
};

struct nvmf_store {
    struct nvmf_engine *engine;
    struct nvmf_subsystem *subsystems;
    /* Called when a namespace has come, has gone, or has another size. */
    void (*changed)(void *arg, struct nvmf_subsystem *subsystem, uint32_t nsid);
    void *arg;
};

/* Add a subsystem, behind those that are there. NULL: the name is taken, or no memory. */
struct nvmf_subsystem *nvmf_store_add(struct nvmf_store *store, const char *nqn);
struct nvmf_subsystem *nvmf_store_find(const struct nvmf_store *store, const char *nqn);
bool nvmf_store_allow(struct nvmf_subsystem *subsystem, const char *host);
void nvmf_store_close(struct nvmf_store *store);

/* May this host have the subsystem? */
bool nvmf_subsystem_admits(const struct nvmf_subsystem *subsystem, const char *host);

/* Add a namespace with the first NSID that is free. block: 512, 4096, or 0 for the
 * usual, 4096. NULL after *why is set. */
struct nvmf_namespace *nvmf_namespace_add(struct nvmf_store *store,
                                          struct nvmf_subsystem *subsystem, const char *name,
                                          bool read_only, uint32_t block, const char **why);
void nvmf_namespace_remove(struct nvmf_store *store, struct nvmf_namespace *ns);
struct nvmf_namespace *nvmf_namespace_find(const struct nvmf_subsystem *subsystem, uint32_t nsid);

/* Look at the sizes of all disks again: those that are gone are removed. */
void nvmf_store_look(struct nvmf_store *store);

/* An operation begins, or has ended. */
void nvmf_namespace_begin(struct nvmf_namespace *ns);
void nvmf_namespace_end(struct nvmf_namespace *ns);

#endif
