/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O commands, Base 6. Each is a chain of steps: get a buffer, get the host's data into it, go to
 * the disk once or more often, answer. Between two steps the namespace may be removed, and another
 * one may get its NSID, so each step looks for it anew.
 */
#include "commands.h"

#include "programs/nvmf-wire/octets.h"
#include "programs/service/service.h"

#include <errno.h>
#include <string.h>

#define FUA        0x40000000u /* of dword 12 */
#define DEALLOCATE 0x02000000u

/* The namespace of the command: the one that an earlier step has found, or none. */
static struct nvmf_namespace *find(struct nvmf_request *request)
{
    const struct nvmf_controller *controller = request->queue->controller;
    struct nvmf_namespace *ns =
        controller ? nvmf_namespace_find(controller->subsystem, request->command.nsid) : NULL;

    if (ns && request->ns_number == 0) {
        request->ns_number = ns->number;
    }
    return ns && ns->number == request->ns_number ? ns : NULL;
}

/* --- to the disk and back -------------------------------------------------------------------- */

static unsigned status_of(const struct disk_io *io)
{
    switch (io->error) {
    case 0:
        return NVMF_OK;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return NVMF_CAPACITY | NVMF_DNR;
    case EROFS:
    case EACCES:
    case EPERM:
        return NVMF_WRITE_PROTECTED | NVMF_DNR;
    case ENOMEM:
        return NVMF_INTERNAL;
    default:
        return (io->op == DISK_READ ? NVMF_READ_ERROR : NVMF_WRITE_FAULT) | NVMF_DNR;
    }
}

/* The disk has done a step: NVMF_OK, or the status to answer with. */
static unsigned after_disk(struct nvmf_request *request)
{
    struct nvmf_namespace *ns = request->ns;
    struct nvmf_controller *controller = request->queue->controller;
    unsigned status = status_of(&request->io);

    if (status != NVMF_OK && request->io.error != EOPNOTSUPP) {
        service_report_peer("namespace %u (%s): %s at octet %llu: %s", ns->nsid, ns->name,
                            request->io.op == DISK_READ    ? "read"
                            : request->io.op == DISK_FLUSH ? "flush"
                                                           : "write",
                            (unsigned long long)request->io.offset, strerror(request->io.error));
        if (controller && (status & NVMF_STATUS_TYPE) == NVMF_MEDIA) {
            controller->media_errors++;
        }
    }
    request->ns = NULL;
    nvmf_namespace_end(ns);
    return status;
}

static bool has_fua(const struct nvmf_request *request)
{
    return (request->command.dw[2] & FUA) != 0;
}

/* Has the disk do `op` to len octets at offset, data at request->data + skip. */
static void to_disk(struct nvmf_request *request, enum disk_op op, uint64_t offset, uint64_t len,
                    size_t skip, void (*then)(struct nvmf_request *request))
{
    struct nvmf_namespace *ns = find(request);

    if (!ns || request->queue->state != NVMF_LIVE) {
        nvmf_request_fail(request, NVMF_INVALID_NAMESPACE);
        return;
    }
    if (offset > ns->blocks * ns->block || len > ns->blocks * ns->block - offset) {
        nvmf_request_fail(request, NVMF_LBA_RANGE); /* it has become smaller meanwhile */
        return;
    }
    request->ns = ns;
    request->io.op = op;
    request->io.through = op == DISK_WRITE && has_fua(request);
    request->io.offset = offset;
    request->io.len = len;
    request->io.data = request->data ? request->data + skip : NULL;
    nvmf_namespace_begin(ns);
    nvmf_request_disk(request, ns->disk, then);
}

static void answer_after_disk(struct nvmf_request *request)
{
    nvmf_request_answer(request, after_disk(request), 0);
}

/* With FUA, what was written or read has to be on stable storage first. */
static void answer_when_stable(struct nvmf_request *request, unsigned status)
{
    if (status == NVMF_OK && has_fua(request)) {
        to_disk(request, DISK_FLUSH, 0, 0, 0, answer_after_disk);
    } else {
        nvmf_request_answer(request, status, 0);
    }
}

/* --- what the command names ------------------------------------------------------------------ */

/* Sets request->offset and left, both octets. False after it has answered. */
static bool range(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    const struct nvmf_command *command = &request->command;
    uint64_t first = command->dw[0] | (uint64_t)command->dw[1] << 32;
    uint64_t count = (command->dw[2] & 0xffff) + 1;

    if (first > ns->blocks || count > ns->blocks - first) {
        nvmf_request_fail(request, NVMF_LBA_RANGE);
        return false;
    }
    request->offset = first * ns->block;
    request->left = count * ns->block;
    return true;
}

/* The same of a command whose data are the blocks. */
static bool range_with_data(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (!range(request, ns)) {
        return false;
    }
    if (request->left > NVMF_TRANSFER_MAX) {
        nvmf_request_fail(request, NVMF_INVALID_FIELD);
        return false;
    }
    if (request->command.sgl == NVMF_SGL_NONE || request->command.len != request->left) {
        nvmf_request_fail(request, NVMF_SGL_LENGTH);
        return false;
    }
    return true;
}

/* --- read, write, flush ---------------------------------------------------------------------- */

static void give(struct nvmf_request *request)
{
    struct nvmf_controller *controller = request->queue->controller;
    unsigned status = after_disk(request);

    if (status != NVMF_OK) {
        nvmf_request_answer(request, status, 0);
        return;
    }
    if (controller) {
        controller->reads++;
        controller->read_octets += request->left;
    }
    nvmf_request_give(request, (uint32_t)request->left);
}

/* With FUA: what was read may be in a cache yet, as another command has written it. */
static void read_done(struct nvmf_request *request)
{
    unsigned status = after_disk(request);

    if (status != NVMF_OK) {
        nvmf_request_answer(request, status, 0);
    } else {
        to_disk(request, DISK_FLUSH, 0, 0, 0, give);
    }
}

static void read_start(struct nvmf_request *request)
{
    to_disk(request, DISK_READ, request->offset, request->left, 0,
            has_fua(request) ? read_done : give);
}

static void read_command(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (!range_with_data(request, ns)) {
        return;
    }
    if (request->command.sgl != NVMF_SGL_HOST) {
        nvmf_request_fail(request, NVMF_SGL_TYPE);
        return;
    }
    nvmf_request_take(request, request->left, read_start);
}

static void write_start(struct nvmf_request *request)
{
    struct nvmf_controller *controller = request->queue->controller;

    if (controller) {
        controller->writes++;
        controller->written_octets += request->left;
    }
    to_disk(request, DISK_WRITE, request->offset, request->left, 0, answer_after_disk);
}

static void write_command(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (range_with_data(request, ns)) {
        nvmf_request_fetch(request, (uint32_t)request->left, request->left, write_start);
    }
}

static void flush_next(struct nvmf_request *request);

static void flush_done(struct nvmf_request *request)
{
    unsigned status = after_disk(request);

    if (status == NVMF_OK && request->left == NVMF_NSID_ALL) {
        flush_next(request);
    } else {
        nvmf_request_answer(request, status, 0);
    }
}

/* left: what the host said; command.nsid: the namespace that was flushed last. */
static void flush_next(struct nvmf_request *request)
{
    struct nvmf_controller *controller = request->queue->controller;
    uint32_t nsid = request->command.nsid;

    do {
        nsid++;
    } while (controller && nsid <= NVMF_NAMESPACES &&
             !nvmf_namespace_find(controller->subsystem, nsid));
    if (!controller || nsid > NVMF_NAMESPACES) {
        nvmf_request_answer(request, NVMF_OK, 0);
        return;
    }
    request->command.nsid = nsid;
    request->ns_number = 0;
    to_disk(request, DISK_FLUSH, 0, 0, 0, flush_done);
}

static void flush_command(struct nvmf_request *request)
{
    request->left = request->command.nsid;
    if (request->left == NVMF_NSID_ALL) {
        request->command.nsid = 0;
        flush_next(request);
    } else {
        to_disk(request, DISK_FLUSH, 0, 0, 0, flush_done);
    }
}

/* --- write zeroes, dataset management -------------------------------------------------------- */

static void zeros_written(struct nvmf_request *request);

/* What is still to be done, as far as a buffer has room. */
static uint64_t next_piece(const struct nvmf_request *request)
{
    return request->left < NVMF_TRANSFER_MAX ? request->left : NVMF_TRANSFER_MAX;
}

/* Where the file system has no call for it, octets are written. */
static void write_zeros(struct nvmf_request *request)
{
    uint64_t piece = next_piece(request);

    if (request->left == 0) {
        nvmf_request_answer(request, NVMF_OK, 0);
        return;
    }
    memset(request->data, 0, piece);
    to_disk(request, DISK_WRITE, request->offset, piece, 0, zeros_written);
}

static void zeros_written(struct nvmf_request *request)
{
    uint64_t piece = request->io.len;
    unsigned status = after_disk(request);

    if (status != NVMF_OK) {
        nvmf_request_answer(request, status, 0);
        return;
    }
    request->offset += piece;
    request->left -= piece;
    write_zeros(request);
}

static void zeroed(struct nvmf_request *request)
{
    bool unknown = request->io.error == EOPNOTSUPP;
    unsigned status = after_disk(request);

    if (unknown) {
        nvmf_request_take(request, next_piece(request), write_zeros);
    } else {
        answer_when_stable(request, status);
    }
}

static void zeroes_command(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (range(request, ns)) {
        to_disk(request, request->command.dw[2] & DEALLOCATE ? DISK_DISCARD : DISK_ZERO,
                request->offset, request->left, 0, zeroed);
    }
}

static void discard_next(struct nvmf_request *request);

static void discarded(struct nvmf_request *request)
{
    /* It is a hint: a file system that punches no holes is no error. */
    bool unknown = request->io.error == EOPNOTSUPP;
    unsigned status = after_disk(request);

    if (status != NVMF_OK && !unknown) {
        nvmf_request_answer(request, status, 0);
    } else {
        discard_next(request);
    }
}

/* request->left ranges are still to be done, from request->offset in the data on. */
static void discard_next(struct nvmf_request *request)
{
    struct nvmf_namespace *ns = find(request);
    const uint8_t *at = request->data + request->offset;
    uint64_t count, first;

    if (!ns) {
        nvmf_request_fail(request, NVMF_INVALID_NAMESPACE);
        return;
    }
    while (request->left > 0) {
        count = nvmf_get32(at + 4);
        first = nvmf_get64(at + 8);
        request->left--;
        request->offset += 16;
        at += 16;
        if (first > ns->blocks || count > ns->blocks - first) {
            nvmf_request_fail(request, NVMF_LBA_RANGE);
            return;
        }
        if (count > 0) {
            to_disk(request, DISK_DISCARD, first * ns->block, count * ns->block, 0, discarded);
            return;
        }
    }
    nvmf_request_answer(request, NVMF_OK, 0);
}

static void dataset_command(struct nvmf_request *request)
{
    uint32_t ranges = (request->command.dw[0] & 0xff) + 1;

    if (request->command.sgl == NVMF_SGL_NONE || request->command.len < ranges * 16) {
        nvmf_request_fail(request, NVMF_SGL_LENGTH);
    } else if (!(request->command.dw[1] & 0x04)) {
        nvmf_request_answer(request, NVMF_OK, 0); /* hints about use, which nobody needs here */
    } else {
        request->offset = 0;
        request->left = ranges;
        nvmf_request_fetch(request, ranges * 16, ranges * (size_t)16, discard_next);
    }
}

/* --- compare, verify ------------------------------------------------------------------------- */

static void compared(struct nvmf_request *request)
{
    unsigned status = after_disk(request);

    if (status == NVMF_OK && (!request->data || memcmp(request->data, request->data + request->left,
                                                       request->left) != 0)) {
        status = NVMF_COMPARE_FAILED | NVMF_DNR;
    }
    answer_when_stable(request, status);
}

static void compare_start(struct nvmf_request *request)
{
    to_disk(request, DISK_READ, request->offset, request->left, request->left, compared);
}

static void compare_command(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (range_with_data(request, ns)) {
        nvmf_request_fetch(request, (uint32_t)request->left, 2 * request->left, compare_start);
    }
}

static void verified(struct nvmf_request *request);

static void verify_next(struct nvmf_request *request)
{
    to_disk(request, DISK_READ, request->offset, next_piece(request), 0, verified);
}

static void verified(struct nvmf_request *request)
{
    uint64_t piece = request->io.len;
    unsigned status = after_disk(request);

    request->offset += piece;
    request->left -= piece;
    if (status == NVMF_OK && request->left > 0) {
        verify_next(request);
    } else {
        answer_when_stable(request, status);
    }
}

static void verify_command(struct nvmf_request *request, const struct nvmf_namespace *ns)
{
    if (!range(request, ns)) {
        return;
    }
    if (disk_is_ram(ns->disk)) {
        /* There is no medium that could have failed. 256 MiB would be read at once, with all hosts
         * waiting for it. */
        nvmf_request_answer(request, NVMF_OK, 0);
    } else {
        nvmf_request_take(request, next_piece(request), verify_next);
    }
}

/* --------------------------------------------------------------------------------------------- */

static bool is_write(uint8_t opcode)
{
    return opcode == NVMF_WRITE || opcode == NVMF_WRITE_ZEROES || opcode == NVMF_DATASET;
}

void nvmf_io(struct nvmf_request *request)
{
    const struct nvmf_namespace *ns = find(request);
    uint8_t opcode = request->command.opcode;
    bool all = opcode == NVMF_FLUSH && request->command.nsid == NVMF_NSID_ALL;

    if (opcode == NVMF_FLUSH && (ns || all)) {
        flush_command(request);
        return;
    }
    if (!ns) {
        nvmf_request_fail(request, NVMF_INVALID_NAMESPACE);
        return;
    }
    if (ns->read_only && is_write(opcode)) {
        nvmf_request_fail(request, NVMF_WRITE_PROTECTED);
        return;
    }
    switch (opcode) {
    case NVMF_READ:
        read_command(request, ns);
        break;
    case NVMF_WRITE:
        write_command(request, ns);
        break;
    case NVMF_WRITE_ZEROES:
        zeroes_command(request, ns);
        break;
    case NVMF_DATASET:
        dataset_command(request);
        break;
    case NVMF_COMPARE:
        compare_command(request, ns);
        break;
    case NVMF_VERIFY:
        verify_command(request, ns);
        break;
    default:
        nvmf_request_fail(request, NVMF_INVALID_OPCODE);
        break;
    }
}
