/* SPDX-License-Identifier: BSD-2-Clause */
#include "store.h"

#include "programs/service/service.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 16 octets that depend on these two texts alone, so that they are the same after a restart. */
static void digest(const char *a, const char *b, uint8_t out[16])
{
    uint8_t sum[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1) {
        EVP_DigestUpdate(context, a, strlen(a) + 1);
        EVP_DigestUpdate(context, b, strlen(b) + 1);
        EVP_DigestFinal_ex(context, sum, NULL);
    }
    EVP_MD_CTX_free(context);
    memcpy(out, sum, 16);
}

/* Retired ones, too. */
static struct nvmf_subsystem *find_any(const struct nvmf_store *store, const char *nqn)
{
    struct nvmf_subsystem *subsystem = store->subsystems;

    while (subsystem && strcmp(subsystem->nqn, nqn) != 0) {
        subsystem = subsystem->next;
    }
    return subsystem;
}

struct nvmf_subsystem *nvmf_store_find(const struct nvmf_store *store, const char *nqn)
{
    struct nvmf_subsystem *subsystem = find_any(store, nqn);

    return subsystem && !subsystem->retired ? subsystem : NULL;
}

static void listing_changed(struct nvmf_store *store, struct nvmf_subsystem *subsystem)
{
    store->generation++;
    if (store->changed) {
        store->changed(store->arg, subsystem, 0);
    }
}

static struct nvmf_subsystem *make_subsystem(struct nvmf_store *store, const char *nqn)
{
    struct nvmf_subsystem **last = &store->subsystems, *subsystem = calloc(1, sizeof *subsystem);
    uint8_t sum[16];

    if (!subsystem) {
        return NULL;
    }
    memcpy(subsystem->nqn, nqn, strlen(nqn));
    digest("serial", nqn, sum);
    for (size_t i = 0; i < 10; i++) {
        snprintf(subsystem->serial + 2 * i, 3, "%02x", sum[i]);
    }
    while (*last) {
        last = &(*last)->next;
    }
    *last = subsystem;
    return subsystem;
}

struct nvmf_subsystem *nvmf_store_add(struct nvmf_store *store, const char *nqn)
{
    struct nvmf_subsystem *subsystem;

    if (strlen(nqn) > NVMF_NQN_MAX || strncmp(nqn, "nqn.", 4) != 0 ||
        strcmp(nqn, NVMF_DISCOVERY) == 0 || nvmf_store_find(store, nqn)) {
        return NULL;
    }
    subsystem = find_any(store, nqn);
    if (!subsystem) {
        subsystem = make_subsystem(store, nqn);
    }
    if (subsystem) {
        subsystem->retired = false;
        listing_changed(store, subsystem);
    }
    return subsystem;
}

static void free_hosts(char **hosts, size_t count)
{
    while (count > 0) {
        free(hosts[--count]);
    }
    free(hosts);
}

bool nvmf_store_hosts(struct nvmf_store *store, struct nvmf_subsystem *subsystem,
                      const char *const *hosts, size_t count)
{
    char **copies = calloc(count + 1, sizeof *copies);
    bool same = count == subsystem->host_count;

    for (size_t i = 0; copies && i < count; i++) {
        copies[i] = strdup(hosts[i]);
        if (!copies[i]) {
            free_hosts(copies, i);
            return false;
        }
        same = same && strcmp(hosts[i], subsystem->hosts[i]) == 0;
    }
    if (!copies) {
        return false;
    }
    free_hosts(subsystem->hosts, subsystem->host_count);
    subsystem->hosts = copies;
    subsystem->host_count = count;
    if (!same) {
        listing_changed(store, subsystem);
    }
    return true;
}

void nvmf_store_retire(struct nvmf_store *store, struct nvmf_subsystem *subsystem)
{
    subsystem->retired = true;
    listing_changed(store, subsystem);
    for (size_t i = 0; i < NVMF_NAMESPACES; i++) {
        if (subsystem->namespaces[i]) {
            nvmf_namespace_remove(store, subsystem->namespaces[i]);
        }
    }
}

bool nvmf_subsystem_admits(const struct nvmf_subsystem *subsystem, const char *host)
{
    for (size_t i = 0; i < subsystem->host_count; i++) {
        if (strcmp(subsystem->hosts[i], host) == 0) {
            return !subsystem->retired;
        }
    }
    return subsystem->host_count == 0 && !subsystem->retired;
}

static void free_namespace(struct nvmf_namespace *ns)
{
    disk_close(ns->disk);
    free(ns->name);
    free(ns);
}

void nvmf_store_close(struct nvmf_store *store)
{
    while (store->subsystems) {
        struct nvmf_subsystem *subsystem = store->subsystems;
        for (size_t i = 0; i < NVMF_NAMESPACES; i++) {
            if (subsystem->namespaces[i]) {
                free_namespace(subsystem->namespaces[i]);
            }
        }
        store->subsystems = subsystem->next;
        free_hosts(subsystem->hosts, subsystem->host_count);
        free(subsystem);
    }
}

static bool is_taken(const struct nvmf_subsystem *subsystem, const uint8_t uuid[16])
{
    size_t i = 0;

    while (i < NVMF_NAMESPACES &&
           !(subsystem->namespaces[i] && memcmp(subsystem->namespaces[i]->uuid, uuid, 16) == 0)) {
        i++;
    }
    return i < NVMF_NAMESPACES;
}

static void set_version(uint8_t uuid[16], uint8_t version)
{
    uuid[6] = (uint8_t)(version << 4 | (uuid[6] & 0x0f));
    uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3f));
}

/* Of a file: the same whenever it is served under this name; if it is served twice, the number of
 * the second namespace makes another one. Of memory: of this run alone, since what a host has
 * written is gone with it. As UUIDs of versions 8 and 4 (RFC 9562). */
static void identify(struct nvmf_namespace *ns)
{
    char *path = realpath(ns->name, NULL), *second = NULL;

    if (disk_is_ram(ns->disk) || !path) {
        (void)RAND_bytes(ns->uuid, sizeof ns->uuid);
        set_version(ns->uuid, 4);
    } else {
        digest(ns->subsystem->nqn, path, ns->uuid);
        set_version(ns->uuid, 8);
        if (is_taken(ns->subsystem, ns->uuid) &&
            asprintf(&second, "%s, namespace %u", path, ns->nsid) >= 0) {
            digest(ns->subsystem->nqn, second, ns->uuid);
            set_version(ns->uuid, 8);
            free(second);
        }
    }
    free(path);
}

static struct nvmf_namespace *make_namespace(struct disk_engine *engine,
                                             const struct nvmf_wanted_disk *disk, const char **why)
{
    struct nvmf_namespace *ns = calloc(1, sizeof *ns);

    *why = "not enough memory";
    if (!ns) {
        return NULL;
    }
    ns->name = strdup(disk->name);
    ns->block = disk->block ? disk->block : NVMF_PAGE;
    ns->read_only = disk->read_only;
    ns->disk = ns->name ? disk_open(engine, disk->name, disk->read_only, ns->block, why) : NULL;
    if (!ns->disk) {
        free(ns->name);
        free(ns);
        return NULL;
    }
    ns->blocks = disk_blocks(ns->disk);
    return ns;
}

struct nvmf_namespace *nvmf_namespace_add(struct nvmf_store *store,
                                          struct nvmf_subsystem *subsystem,
                                          const struct nvmf_wanted_disk *disk, const char **why)
{
    struct nvmf_namespace *ns;
    uint32_t free_one = disk->nsid ? disk->nsid - 1 : 0;

    while (!disk->nsid && free_one < NVMF_NAMESPACES && subsystem->namespaces[free_one]) {
        free_one++;
    }
    if (free_one >= NVMF_NAMESPACES) {
        *why = "the subsystem has all the namespaces that it can have";
        return NULL;
    }
    if (subsystem->namespaces[free_one]) {
        *why = "another namespace has its number";
        return NULL;
    }
    ns = make_namespace(store->engine, disk, why);
    if (!ns) {
        return NULL;
    }
    ns->store = store;
    ns->subsystem = subsystem;
    ns->nsid = free_one + 1;
    ns->number = ++store->numbers;
    identify(ns);
    subsystem->namespaces[free_one] = ns;
    if (store->changed) {
        store->changed(store->arg, subsystem, ns->nsid);
    }
    return ns;
}

void nvmf_namespace_remove(struct nvmf_store *store, struct nvmf_namespace *ns)
{
    struct nvmf_subsystem *subsystem = ns->subsystem;
    uint32_t nsid = ns->nsid;

    subsystem->namespaces[nsid - 1] = NULL;
    ns->gone = true;
    if (ns->busy == 0) {
        free_namespace(ns);
    } else {
        store->leaving++;
    }
    if (store->changed) {
        store->changed(store->arg, subsystem, nsid);
    }
}

struct nvmf_namespace *nvmf_namespace_find(const struct nvmf_subsystem *subsystem, uint32_t nsid)
{
    return nsid == 0 || nsid > NVMF_NAMESPACES ? NULL : subsystem->namespaces[nsid - 1];
}

/* True: it was removed. */
static bool look(struct nvmf_store *store, struct nvmf_namespace *ns)
{
    const char *why = disk_look(ns->disk);
    uint64_t blocks = disk_blocks(ns->disk);

    if (!why && !disk_is_at(ns->disk, ns->name)) {
        why = "its name is another one's now";
    }
    if (why) {
        service_report("%s: namespace %u (%s) removed: %s", ns->subsystem->nqn, ns->nsid, ns->name,
                       why);
        nvmf_namespace_remove(store, ns);
        return true;
    }
    if (blocks != ns->blocks) {
        service_report("%s: namespace %u (%s) has %llu blocks now", ns->subsystem->nqn, ns->nsid,
                       ns->name, (unsigned long long)blocks);
        ns->blocks = blocks;
        if (store->changed) {
            store->changed(store->arg, ns->subsystem, ns->nsid);
        }
    }
    return false;
}

bool nvmf_store_look(struct nvmf_store *store)
{
    bool removed = false;

    for (struct nvmf_subsystem *s = store->subsystems; s; s = s->next) {
        for (size_t i = 0; i < NVMF_NAMESPACES; i++) {
            if (s->namespaces[i] && look(store, s->namespaces[i])) {
                removed = true;
            }
        }
    }
    return removed;
}

void nvmf_namespace_begin(struct nvmf_namespace *ns)
{
    ns->busy++;
}

void nvmf_namespace_end(struct nvmf_namespace *ns)
{
    if (--ns->busy == 0 && ns->gone) {
        ns->store->leaving--;
        free_namespace(ns);
    }
}
