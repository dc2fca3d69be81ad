/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of results: from errno to a row, from a row to a sentence. What happens to the sentence
 * is up to report.c.
 */
#include "status.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *text;
    const char *hint;
} rows[CP_STATUS_COUNT] = {
#define ROW(name, text, hint) {text, hint},
    CP_STATUS_TABLE(ROW)
#undef ROW
};

static const struct {
    int error;
    enum cp_status status;
} known[] = {
    {ENOENT, CP_NOT_FOUND},
    {EACCES, CP_DENIED},
    {EPERM, CP_DENIED},
    {ENOSPC, CP_NO_SPACE},
    {EDQUOT, CP_QUOTA},
    {EROFS, CP_READ_ONLY_DISK},
    {EISDIR, CP_IS_DIRECTORY},
    {ENOTDIR, CP_NOT_DIRECTORY},
    {EXDEV, CP_OUTSIDE},
    {ELOOP, CP_IS_LINK},
    {ENAMETOOLONG, CP_LONG_NAME},
    {EFBIG, CP_TOO_BIG},
    {EIO, CP_IO},
    {ENOMEM, CP_NO_MEMORY},
    {EINVAL, CP_BAD_NAME},
};

struct cp_result cp_result_from_errno(int error)
{
    struct cp_result result = {CP_SYSTEM, (uint16_t)error};

    if (error == 0) {
        result.status = CP_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].error == error) {
            result.status = known[i].status;
        }
    }
    return result;
}

struct cp_result cp_result_of(enum cp_status status)
{
    return (struct cp_result){status, 0};
}

struct cp_result cp_result_of_special(mode_t mode)
{
    if (S_ISFIFO(mode)) {
        return cp_result_of(CP_IS_FIFO);
    }
    if (S_ISSOCK(mode)) {
        return cp_result_of(CP_IS_SOCKET);
    }
    return cp_result_of(S_ISCHR(mode) || S_ISBLK(mode) ? CP_IS_DEVICE : CP_IS_SPECIAL);
}

bool cp_result_is_full(struct cp_result result)
{
    return result.status == CP_NO_SPACE || result.status == CP_QUOTA ||
           result.status == CP_KEPT_FREE;
}

bool cp_result_is_left_out(struct cp_result result)
{
    return result.status == CP_IS_LINK || result.status == CP_IS_SPECIAL ||
           result.status == CP_IS_FIFO || result.status == CP_IS_SOCKET ||
           result.status == CP_IS_DEVICE || result.status == CP_RESERVED;
}

const char *cp_result_text(struct cp_result result)
{
    if (result.status == CP_SYSTEM && result.system_errno != 0) {
        return strerror(result.system_errno);
    }
    return result.status < CP_STATUS_COUNT ? rows[result.status].text : "unknown reason";
}

const char *cp_result_hint(struct cp_result result, bool at_server)
{
    /* The row speaks of names at the server, which is where most of them are. */
    if (result.status == CP_NOT_FOUND && !at_server) {
        return "check the name";
    }
    return result.status < CP_STATUS_COUNT ? rows[result.status].hint
                                           : "use the same version of iwarp-cp at both ends";
}
