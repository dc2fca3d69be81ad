/* SPDX-License-Identifier: BSD-2-Clause */
#include "serve.h"

#include "programs/service/service.h"

#include <string.h>

/* Is it the namespace that is wanted, or one that has to make room for it? */
static bool is_same(const struct nvmf_namespace *ns, const struct nvmf_wanted_disk *disk)
{
    uint32_t block = disk->block ? disk->block : NVMF_PAGE;

    return strcmp(ns->name, disk->name) == 0 && ns->read_only == disk->read_only &&
           ns->block == block && (disk->nsid == 0 || disk->nsid == ns->nsid);
}

/* Which disks are there already, by their number in `wanted`. Two namespaces may be alike, as with
 * ram:1G twice: each stands for one disk. */
static void remove_others(struct nvmf_store *store, struct nvmf_subsystem *subsystem,
                          const struct nvmf_wanted *wanted, bool *there)
{
    for (uint32_t nsid = 1; nsid <= NVMF_NAMESPACES; nsid++) {
        struct nvmf_namespace *ns = nvmf_namespace_find(subsystem, nsid);
        size_t i = 0;
        while (ns && i < wanted->disk_count && (there[i] || !is_same(ns, &wanted->disks[i]))) {
            i++;
        }
        if (ns && i < wanted->disk_count) {
            there[i] = true;
        } else if (ns) {
            service_report("%s: namespace %u (%s) removed: it is not asked for any more",
                           subsystem->nqn, nsid, ns->name);
            nvmf_namespace_remove(store, ns);
        }
    }
}

static bool add(struct nvmf_store *store, struct nvmf_subsystem *subsystem,
                const struct nvmf_wanted_disk *disk)
{
    const char *why = "";
    const struct nvmf_namespace *ns = nvmf_namespace_add(store, subsystem, disk, &why);

    if (!ns) {
        service_report("%s: %s: %s", subsystem->nqn, disk->name, why);
        return false;
    }
    service_report("%s: namespace %u is %s, %llu blocks of %u octets%s%s", subsystem->nqn, ns->nsid,
                   ns->name, (unsigned long long)ns->blocks, ns->block,
                   ns->read_only ? ", read-only" : "",
                   disk_is_ram(ns->disk)      ? ""
                   : disk_is_direct(ns->disk) ? ", direct"
                                              : ", through the page cache");
    return true;
}

static bool serve_subsystem(struct nvmf_store *store, const struct nvmf_wanted *wanted)
{
    struct nvmf_subsystem *subsystem = nvmf_store_find(store, wanted->nqn);
    bool there[NVMF_NAMESPACES] = {false}, good = true;

    if (!subsystem) {
        subsystem = nvmf_store_add(store, wanted->nqn);
    }
    if (!subsystem) {
        service_report("%s: not a name for a subsystem (nqn.YYYY-MM.REVERSED.DOMAIN:NAME)",
                       wanted->nqn);
        return false;
    }
    if (wanted->disk_count > NVMF_NAMESPACES) {
        service_report("%s: more than %u namespaces", wanted->nqn, NVMF_NAMESPACES);
        return false;
    }
    good = nvmf_store_hosts(store, subsystem, wanted->hosts, wanted->host_count);
    remove_others(store, subsystem, wanted, there);
    /* Those that have a number of their own first, so that no other one takes it. */
    for (unsigned numbered = 2; numbered-- > 0;) {
        for (size_t i = 0; i < wanted->disk_count; i++) {
            if (!there[i] && (wanted->disks[i].nsid > 0) == numbered) {
                good = add(store, subsystem, &wanted->disks[i]) && good;
            }
        }
    }
    return good;
}

static size_t times_wanted(const struct nvmf_options *options, const char *nqn)
{
    size_t times = 0;

    for (size_t i = 0; i < options->subsystem_count; i++) {
        times += strcmp(options->subsystems[i].nqn, nqn) == 0;
    }
    return times;
}

bool nvmf_serve(struct nvmf_store *store, const struct nvmf_options *options)
{
    bool good = true;

    for (struct nvmf_subsystem *s = store->subsystems; s; s = s->next) {
        if (!s->retired && times_wanted(options, s->nqn) == 0) {
            service_report("%s: removed: it is not asked for any more", s->nqn);
            nvmf_store_retire(store, s);
        }
    }
    for (size_t i = 0; i < options->subsystem_count; i++) {
        const struct nvmf_wanted *wanted = &options->subsystems[i];
        if (times_wanted(options, wanted->nqn) > 1) {
            service_report("%s: given twice", wanted->nqn);
            good = false;
        } else if (!serve_subsystem(store, wanted)) {
            good = false;
        }
    }
    return good;
}
