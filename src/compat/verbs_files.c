/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files in which programs look for InfiniBand devices, as the kernel would show them for ours:
 * below /sys/class/infiniband and /sys/class/infiniband_verbs, and the device file, which programs
 * ask about and never open. They exist nowhere: src/compat/files.c shows them to programs that
 * iwarp-run starts with IWARP_PERSONA=roce. What they say is asked of the same functions that
 * programs call, so it is never another answer.
 */
#include "compat/compat.h"
#include "compat/files.h"
#include "compat/identity.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define CLASS "/sys/class/infiniband/"
#define VERBS "/sys/class/infiniband_verbs/"
#define DEV   "/dev/infiniband/"

/* What is behind prefix in path; NULL: path does not begin so. */
static const char *behind(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(path, prefix, n) == 0 ? path + n : NULL;
}

/* The device whose name, or that of its device file, path begins with, up to a / or the end. Then
 * *rest is what follows the /. */
static struct ibv_device *device_in(const char *path, bool by_file, const char **rest)
{
    size_t n = strcspn(path, "/");
    struct ibv_device *d;

    for (unsigned i = 0; (d = iwarp_compat_device_at(i)); i++) {
        const char *name = by_file ? d->dev_name : d->name;
        if (strlen(name) == n && memcmp(name, path, n) == 0) {
            *rest = path + n + (path[n] == '/');
            return d;
        }
    }
    return NULL;
}

/* One of the folders that hold what is of devices, written with or without the / at its end. */
static bool is_top(const char *path)
{
    static const char *const tops[] = {CLASS, VERBS, DEV};
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        if (strncmp(path, tops[i], n) == 0 && n + 1 >= strlen(tops[i])) {
            return true;
        }
    }
    return false;
}

static int text(char *to, const char *line)
{
    snprintf(to, COMPAT_FILE_OCTETS, "%s\n", line);
    return COMPAT_FILE_TEXT;
}

static int guid_text(char *to, __be64 guid)
{
    const uint8_t *p = (const void *)&guid;

    snprintf(to, COMPAT_FILE_OCTETS, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", p[0], p[1], p[2],
             p[3], p[4], p[5], p[6], p[7]);
    return COMPAT_FILE_TEXT;
}

/* An index, and nothing behind it. False: there is none. */
static bool index_of(const char *name, uint32_t *index)
{
    char end;

    return name && sscanf(name, "%3u%c", index, &end) == 1;
}

static int gid_text(struct ibv_context *context, const char *name, bool type, char *to)
{
    struct ibv_gid_entry entry;
    uint32_t index;

    if (!index_of(name, &index) ||
        _ibv_query_gid_ex(context, 1, index, &entry, 0, sizeof entry) != 0) {
        return COMPAT_FILE_NONE;
    }
    if (type) {
        return text(to, entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
    }
    const uint8_t *g = entry.gid.raw;
    for (unsigned i = 0, n = 0; i < 16; i += 2, n += 5) {
        snprintf(to + n, COMPAT_FILE_OCTETS - n, "%02x%02x%c", g[i], g[i + 1], i < 14 ? ':' : '\n');
    }
    return COMPAT_FILE_TEXT;
}

static int port_file(struct ibv_context *context, const char *name, char *to)
{
    static const char *const lines[][2] = {{"state", "4: ACTIVE"},
                                           {"phys_state", "5: LinkUp"},
                                           {"link_layer", "Ethernet"},
                                           {"rate", "40 Gb/sec (4X QDR)"},
                                           {"lid", "0x0"},
                                           {"lid_mask_count", "0"},
                                           {"sm_lid", "0x0"},
                                           {"pkeys/0", "0xffff"}};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(name, lines[i][0]) == 0) {
            return text(to, lines[i][1]);
        }
    }
    if (behind(name, "gids/")) {
        return gid_text(context, behind(name, "gids/"), false, to);
    }
    return gid_text(context, behind(name, "gid_attrs/types/"), true, to);
}

static int class_file(struct ibv_device *d, const char *name, char *to)
{
    struct ibv_context context = {.device = d};
    const char *port = behind(name, "ports/1/");
    struct ibv_device_attr attr;

    if (*name == '\0') {
        return COMPAT_FILE_FOLDER;
    }
    if (strcmp(name, "node_type") == 0) {
        return text(to, "1: CA");
    }
    if (strcmp(name, "node_guid") == 0 || strcmp(name, "sys_image_guid") == 0) {
        return guid_text(to, ibv_get_device_guid(d));
    }
    if (strcmp(name, "fw_ver") == 0) {
        return ibv_query_device(&context, &attr) == 0 ? text(to, attr.fw_ver) : COMPAT_FILE_NONE;
    }
    return port ? port_file(&context, port, to) : COMPAT_FILE_NONE;
}

enum compat_file iwarp_compat_file(const char *path, char *to)
{
    const char *name, *rest = "";
    struct ibv_device *d;
    int kind = COMPAT_FILE_NONE;

    if (!iwarp_compat_poses_as_roce()) {
        return COMPAT_FILE_NONE;
    }
    if (is_top(path)) {
        return COMPAT_FILE_FOLDER;
    }
    if ((name = behind(path, CLASS)) && (d = device_in(name, false, &rest))) {
        kind = class_file(d, rest, to);
    } else if ((name = behind(path, VERBS)) && (d = device_in(name, true, &rest))) {
        kind = *rest == '\0'                      ? COMPAT_FILE_FOLDER
               : strcmp(rest, "ibdev") == 0       ? text(to, d->name)
               : strcmp(rest, "abi_version") == 0 ? text(to, "1")
                                                  : COMPAT_FILE_NONE;
    } else if ((name = behind(path, DEV)) && (d = device_in(name, true, &rest))) {
        kind = *rest == '\0' ? COMPAT_FILE_DEVICE : COMPAT_FILE_NONE;
    }
    return (enum compat_file)kind;
}
