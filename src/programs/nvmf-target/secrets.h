/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of --secrets: which hosts have to show that they know a secret, and what this target
 * shows them. Each line is
 *
 *     HOSTNQN SECRET [SECRET of this target]
 *
 * with secrets as `nvme gen-dhchap-key` prints them. Empty lines and those with # in front do not
 * count.
 */
#ifndef NVMF_SECRETS_H
#define NVMF_SECRETS_H

#include "programs/nvmf-wire/dhchap.h"
#include "programs/nvmf-wire/nvme.h"

struct nvmf_host_secret {
    char host[NVMF_NQN_MAX + 1];
    struct nvmf_secret own; /* the host's */
    bool mutual;
    struct nvmf_secret target; /* if mutual */
};

struct nvmf_secrets {
    struct nvmf_host_secret *hosts;
    size_t count;
};

/* False after a line in the log; what `secrets` had before, it has still. */
bool nvmf_secrets_load(struct nvmf_secrets *secrets, const char *path);

/* NULL: this host is not in the file. */
const struct nvmf_host_secret *nvmf_secrets_find(const struct nvmf_secrets *secrets,
                                                 const char *host);
void nvmf_secrets_free(struct nvmf_secrets *secrets);

#endif
