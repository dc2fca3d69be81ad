/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a device offers, for programs that choose by it. The bounds are those that the creating
 * calls check (base/limits.h); nothing here changes while the device is open, so no lock is taken.
 * Verbs draft 9.2. How much of it is in use: stats.c.
 */
#include "base/fault.h"
#include "base/limits.h"
#include "base/process.h"
#include "verbs/addr.h"
#include "verbs/device.h"

#include <errno.h>
#include <iwarp/protocol.h>
#include <string.h>

/* Any thread. The struct's size tells versions of the header apart. */
enum iwarp_status iwarp_device_query(const struct iwarp_device *device,
                                     struct iwarp_device_info *info)
{
    IWARP_UNCANCELLED;
    if (!iwarp_device_usable(device) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE,
                          "device query: set size to sizeof(struct iwarp_device_info)");
    }
    *info = (struct iwarp_device_info){
        .size = sizeof *info,
        .options = device->options,
        .features = device->rfc7306 ? IWARP_FEATURE_IMMEDIATE | IWARP_FEATURE_ATOMIC : 0,
        .max_wr = IWARP_MAX_WR,
        .max_sge = IWARP_MAX_SGE,
        .max_sge_rd = IWARP_MAX_SGE,
        .max_inline = IWARP_MAX_INLINE,
        .max_cq_entries = IWARP_MAX_CQE,
        .max_ird = IWARP_MAX_READ_DEPTH,
        .max_ord = IWARP_MAX_READ_DEPTH,
        .max_message = UINT32_MAX,
        .max_region = SIZE_MAX,
        .max_private_data = IWARP_MPA_PRIVATE_DATA_MAX,
    };
    info->options.transport = device->stack->ops->name;
    return IWARP_OK;
}

/* Any thread: stacks answer with no lock of the library held. */
enum iwarp_status iwarp_device_source(const struct iwarp_device *device,
                                      const struct sockaddr *addr, socklen_t addr_len,
                                      struct sockaddr_storage *source, socklen_t *source_len)
{
    IWARP_UNCANCELLED;
    if (!iwarp_device_usable(device) || !IWARP_GIVEN(source) || !IWARP_GIVEN(source_len)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = iwarp_addr_check(addr, addr_len);
    if (status != IWARP_OK) {
        return status;
    }
    int rc = device->stack->ops->source(device->stack, addr, addr_len, source, source_len);
    return rc == 0
               ? IWARP_OK
               : iwarp_fail(IWARP_TRANSPORT, "there is no way to that address: %s", strerror(-rc));
}
