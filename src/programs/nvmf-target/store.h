/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is served: subsystems, their namespaces, the hosts that may have them.
 *
 * A namespace that is removed while a disk has operations of it stays until they are done: it is
 * GONE, cannot be found any more, and the last operation frees it. A subsystem stays for ever,
 * since controllers refer to it; one that is retired cannot be found and admits nobody.
 */
#ifndef NVMF_STORE_H
#define NVMF_STORE_H

#include "programs/disks/disk.h"
#include "programs/nvmf-wire/nvme.h"

#define NVMF_NAMESPACES 256

/* A namespace as it is asked for. */
struct nvmf_wanted_disk {
    const char *name; /* a path, or ram:SIZE */
    bool read_only;
    uint32_t block; /* octets of a logical block: 512 or 4096; 0: the usual, 4096 */
    uint32_t nsid;  /* 0: the first that is free */
};

struct nvmf_store;
struct nvmf_subsystem;

struct nvmf_namespace {
    struct nvmf_store *store;
    struct nvmf_subsystem *subsystem;
    uint32_t nsid;
    uint64_t number; /* no other one of the store ever has it; not 0 */
    char *name;      /* as it was given */
    struct disk *disk;
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
    bool retired;
};

struct nvmf_store {
    struct disk_engine *engine;
    struct nvmf_subsystem *subsystems;
    uint64_t generation; /* of what Discovery lists */
    uint64_t numbers;    /* of namespaces so far */
    unsigned leaving;    /* namespaces that are GONE: their files are still locked */
    /* Called when a namespace has come, has gone, or has another size; with 0 as nsid, when a
     * subsystem has come or has gone, or other hosts may have it. */
    void (*changed)(void *arg, struct nvmf_subsystem *subsystem, uint32_t nsid);
    void *arg;
};

/* Add a subsystem, behind those that are there. NULL: the name is taken, or no memory. */
struct nvmf_subsystem *nvmf_store_add(struct nvmf_store *store, const char *nqn);
struct nvmf_subsystem *nvmf_store_find(const struct nvmf_store *store, const char *nqn);

/* From now on these hosts alone may have it; none: any. False: no memory. */
bool nvmf_store_hosts(struct nvmf_store *store, struct nvmf_subsystem *subsystem,
                      const char *const *hosts, size_t count);

/* Remove its namespaces; nobody can have it any more. */
void nvmf_store_retire(struct nvmf_store *store, struct nvmf_subsystem *subsystem);
void nvmf_store_close(struct nvmf_store *store);

/* May this host have the subsystem? */
bool nvmf_subsystem_admits(const struct nvmf_subsystem *subsystem, const char *host);

/* NULL after *why is set. */
struct nvmf_namespace *nvmf_namespace_add(struct nvmf_store *store,
                                          struct nvmf_subsystem *subsystem,
                                          const struct nvmf_wanted_disk *disk, const char **why);
void nvmf_namespace_remove(struct nvmf_store *store, struct nvmf_namespace *ns);
struct nvmf_namespace *nvmf_namespace_find(const struct nvmf_subsystem *subsystem, uint32_t nsid);

/* Look at the sizes of all disks again: those that are gone, or whose name is another disk's now,
 * are removed. True: some were. */
bool nvmf_store_look(struct nvmf_store *store);

/* An operation begins, or has ended. */
void nvmf_namespace_begin(struct nvmf_namespace *ns);
void nvmf_namespace_end(struct nvmf_namespace *ns);

#endif
