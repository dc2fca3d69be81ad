/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Identify and Get Log Page give to the host: the octets of each page, made anew at each
 * question. Fields that are not set are 0, which says that there is no such thing.
 */
#ifndef NVMF_PAGES_H
#define NVMF_PAGES_H

#include "controller.h"

void nvmf_page_controller(const struct nvmf_controller *controller, uint8_t at[NVMF_IDENTIFY_LEN]);
void nvmf_page_namespace(const struct nvmf_namespace *ns, uint8_t at[NVMF_IDENTIFY_LEN]);
void nvmf_page_descriptors(const struct nvmf_namespace *ns, uint8_t at[NVMF_IDENTIFY_LEN]);

/* NSIDs above `after`, in order. */
void nvmf_page_list(const struct nvmf_subsystem *subsystem, uint32_t after,
                    uint8_t at[NVMF_IDENTIFY_LEN]);

/* Write the log page to at, whose size is nvmf_log_len. */
void nvmf_log_write(const struct nvmf_controller *controller, uint8_t log, uint64_t now_ms,
                    const struct nvmf_queue *queue, uint8_t *at);

/* 0: there is no such page. */
size_t nvmf_log_len(const struct nvmf_controller *controller, uint8_t log);

#endif
