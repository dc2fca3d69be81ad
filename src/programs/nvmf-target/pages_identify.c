/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identify, Base 5.15. The numbers are offsets of its figures.
 */
#include "pages.h"

#include "programs/nvmf-wire/octets.h"

#include <string.h>

/* ASCII, padded with spaces. */
static void put_text(uint8_t *at, size_t size, const char *text)
{
    size_t len = strlen(text);

    memset(at, ' ', size);
    memcpy(at, text, len < size ? len : size);
}

/* What a controller of a subsystem has and one of discovery has not. */
static void put_io_controller(const struct nvmf_subsystem *subsystem, uint8_t *at)
{
    put_text(at + 4, 20, subsystem->serial);
    at[76] = 0x02; /* several controllers may have the subsystem */
    nvmf_put32(at + 92, NVMF_NOTICE_NAMESPACE);
    nvmf_put32(at + 96, 0x41); /* host identifier of 128 bits; any command keeps it alive */
    at[111] = 1;               /* an I/O controller */
    at[261] |= 0x02;           /* the log of effects */
    nvmf_put32(at + 516, NVMF_NAMESPACES);
    nvmf_put16(at + 520, 0x8d); /* Compare, Dataset Management, Write Zeroes, Verify */
    at[525] = 0x07;             /* a volatile cache; Flush takes all namespaces at once */
    strcpy((char *)at + 768, subsystem->nqn);
    nvmf_put32(at + 1792, (NVMF_COMMAND_LEN + NVMF_IN_CAPSULE) / 16);
}

void nvmf_page_controller(const struct nvmf_controller *controller, uint8_t at[NVMF_IDENTIFY_LEN])
{
    memset(at, 0, NVMF_IDENTIFY_LEN);
    put_text(at + 4, 20, "discovery");
    put_text(at + 24, 40, "libiwarp iwarp-nvmf");
    put_text(at + 64, 8, iwarp_version());
    at[77] = NVMF_MDTS;
    nvmf_put16(at + 78, controller->id);
    nvmf_put32(at + 80, NVMF_VERSION);
    at[259] = NVMF_AERS - 1;
    at[260] = 0x03; /* one firmware slot, which cannot be written */
    at[261] = 0x04; /* offsets in log pages */
    at[262] = NVMF_ERRORS - 1;
    nvmf_put16(at + 320, NVMF_KAS_MS / 100);
    at[512] = 0x66; /* 64 octets a command */
    at[513] = 0x44; /* 16 a response */
    nvmf_put16(at + 514, NVMF_QUEUE_DEPTH);
    nvmf_put32(at + 536, 0x100005); /* SGLs, keyed, offset within the capsule */
    nvmf_put32(at + 1792, NVMF_COMMAND_LEN / 16);
    nvmf_put32(at + 1796, NVMF_RESPONSE_LEN / 16);
    at[1803] = 1; /* SGL descriptors of a command */
    if (controller->subsystem) {
        put_io_controller(controller->subsystem, at);
    } else {
        nvmf_put32(at + 92, NVMF_NOTICE_DISCOVERY);
        nvmf_put32(at + 96, 0x41);
        at[111] = 2;
        strcpy((char *)at + 768, NVMF_DISCOVERY);
    }
}

void nvmf_page_namespace(const struct nvmf_namespace *ns, uint8_t at[NVMF_IDENTIFY_LEN])
{
    uint64_t octets = ns->blocks * ns->block;

    memset(at, 0, NVMF_IDENTIFY_LEN);
    nvmf_put64(at, ns->blocks);
    nvmf_put64(at + 8, ns->blocks);
    nvmf_put64(at + 16, ns->blocks);
    at[30] = 1;    /* several controllers may have it */
    at[33] = 0x09; /* what is deallocated reads as 0; Write Zeroes may deallocate */
    nvmf_put64(at + 48, octets);
    at[99] = ns->read_only ? 1 : 0;
    at[128 + 2] = ns->block == 512 ? 9 : 12;
}

void nvmf_page_descriptors(const struct nvmf_namespace *ns, uint8_t at[NVMF_IDENTIFY_LEN])
{
    memset(at, 0, NVMF_IDENTIFY_LEN);
    at[0] = 3; /* UUID */
    at[1] = 16;
    memcpy(at + 4, ns->uuid, 16);
    at[20] = 4; /* the NVM command set, number 0 */
    at[21] = 1;
}

void nvmf_page_list(const struct nvmf_subsystem *subsystem, uint32_t after,
                    uint8_t at[NVMF_IDENTIFY_LEN])
{
    size_t n = 0;

    memset(at, 0, NVMF_IDENTIFY_LEN);
    for (uint32_t nsid = 1; nsid <= NVMF_NAMESPACES; nsid++) {
        if (nsid > after && nvmf_namespace_find(subsystem, nsid)) {
            nvmf_put32(at + 4 * n++, nsid);
        }
    }
}
