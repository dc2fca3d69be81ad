/* SPDX-License-Identifier: BSD-2-Clause */
#include "secrets.h"

#include "programs/service/service.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct nvmf_host_secret *nvmf_secrets_find(const struct nvmf_secrets *secrets,
                                                 const char *host)
{
    for (size_t i = 0; i < secrets->count; i++) {
        if (strcmp(secrets->hosts[i].host, host) == 0) {
            return &secrets->hosts[i];
        }
    }
    return NULL;
}

void nvmf_secrets_free(struct nvmf_secrets *secrets)
{
    OPENSSL_clear_free(secrets->hosts, secrets->count * sizeof *secrets->hosts);
    *secrets = (struct nvmf_secrets){0};
}

/* NULL, or what is wrong with the line. */
static const char *read_line(struct nvmf_secrets *secrets, char *line)
{
    char *rest = NULL, *host = strtok_r(line, " \t\r\n", &rest);
    const char *own = strtok_r(NULL, " \t\r\n", &rest), *target = strtok_r(NULL, " \t\r\n", &rest);
    struct nvmf_host_secret entry = {.mutual = target != NULL}, *grown;

    if (!host || *host == '#') {
        return NULL;
    }
    if (strlen(host) > NVMF_NQN_MAX || nvmf_secrets_find(secrets, host)) {
        return "a name that is too long, or is there twice";
    }
    if (!own || !nvmf_secret_read(own, &entry.own) ||
        (target && !nvmf_secret_read(target, &entry.target))) {
        return "not a secret (DHHC-1:HH:BASE64:), or its checksum is wrong";
    }
    strcpy(entry.host, host);
    grown = OPENSSL_clear_realloc(secrets->hosts, secrets->count * sizeof *grown,
                                  (secrets->count + 1) * sizeof *grown);
    if (!grown) {
        return "not enough memory";
    }
    secrets->hosts = grown;
    secrets->hosts[secrets->count++] = entry;
    OPENSSL_cleanse(&entry, sizeof entry);
    return NULL;
}

static bool read_lines(FILE *file, const char *path, struct nvmf_secrets *secrets)
{
    char line[2048];
    const char *wrong = NULL;

    for (unsigned number = 1; !wrong && fgets(line, sizeof line, file); number++) {
        wrong = strchr(line, '\n') || feof(file) ? read_line(secrets, line) : "too long a line";
        if (wrong) {
            service_report("%s:%u: %s", path, number, wrong);
        }
    }
    OPENSSL_cleanse(line, sizeof line);
    if (!wrong && (ferror(file) || secrets->count == 0)) {
        service_report("%s: %s", path, ferror(file) ? strerror(errno) : "there is no host in it");
        return false;
    }
    return !wrong;
}

bool nvmf_secrets_load(struct nvmf_secrets *secrets, const char *path)
{
    struct nvmf_secrets loaded = {0};
    FILE *file = fopen(path, "re");
    struct stat st;
    bool good = file && fstat(fileno(file), &st) == 0;

    if (!good) {
        service_report("%s: %s", path, strerror(errno));
    } else if (st.st_mode & (S_IRWXO | S_IWGRP)) {
        service_report(
            "%s: others than its owner and group may read it, or others than its owner change it",
            path);
        good = false;
    } else {
        good = read_lines(file, path, &loaded);
    }
    if (file) {
        fclose(file);
    }
    nvmf_secrets_free(good ? secrets : &loaded);
    if (good) {
        *secrets = loaded;
    }
    return good;
}
