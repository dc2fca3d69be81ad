/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands and their data: receives, RDMA Reads and Writes, responses.
 */
#include "queue.h"

#include "programs/service/service.h"

#include <stdlib.h>
#include <string.h>

/* Which work request of a request has completed: the lowest bits of wr_id. */
enum { OF_RECEIVE = 0, OF_READ = 1, OF_SEND = 2, OF_MASK = 3 };

static uint64_t wr_id(struct nvmf_request *request, unsigned kind)
{
    return (uint64_t)(uintptr_t)request | kind;
}

void nvmf_request_drop(struct nvmf_request *request)
{
    void *piece = request->piece;

    request->data = NULL;
    request->piece = NULL;
    if (piece) {
        arena_give(&request->queue->net->arena, &request->queue->share->buffers, piece);
    }
}

/* --- receives -------------------------------------------------------------------------------- */

void nvmf_request_post(struct nvmf_request *request)
{
    struct nvmf_queue *queue = request->queue;
    uint32_t stag = iwarp_mr_stag(queue->mr);
    struct iwarp_sge sges[2] = {{request->capsule, NVMF_COMMAND_LEN, stag},
                                {request->in_capsule, (uint32_t)queue->in_capsule_len, stag}};
    struct iwarp_recv_wr wr = {NULL, wr_id(request, OF_RECEIVE), sges, 2, 0};

    request->state = NVMF_POSTED;
    /* What is posted to a connection that has ended is flushed; nothing else goes wrong. */
    iwarp_post_recv(queue->qp, &wr, NULL);
}

static void received(struct nvmf_request *request, uint32_t octets)
{
    struct nvmf_queue *queue = request->queue;
    enum nvmf_status error;

    request->state = NVMF_ACTIVE;
    request->began_ns = uv_hrtime();
    request->ns = NULL;
    request->ns_number = 0;
    if (++queue->outstanding > queue->entries) {
        service_report_peer(
            "%s: queue %u: the host has more commands under way than the %u it asked for",
            queue->peer, queue->id, queue->entries);
        nvmf_queue_close(queue);
        return;
    }
    error = nvmf_command_read(
        request->capsule, octets < NVMF_COMMAND_LEN ? octets : NVMF_COMMAND_LEN,
        octets < NVMF_COMMAND_LEN ? 0 : octets - NVMF_COMMAND_LEN, &request->command);
    queue->net->command(request, error);
}

/* --- buffers and the host's data ------------------------------------------------------------- */

static void on_buffer(struct arena_wait *wait, void *piece)
{
    struct nvmf_request *request = (void *)((char *)wait - offsetof(struct nvmf_request, wait));
    struct nvmf_queue *queue = request->queue;
    struct iwarp_sge sge = {piece, request->fetch, iwarp_mr_stag(queue->net->mr)};
    struct iwarp_send_wr read = {.wr_id = wr_id(request, OF_READ),
                                 .opcode = IWARP_WR_READ,
                                 .flags = IWARP_WR_SIGNALED,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .remote_stag = request->command.stag,
                                 .remote_to = request->command.to};

    request->piece = piece;
    request->data = piece;
    if (queue->state != NVMF_LIVE) {
        nvmf_request_drop(request);
        return;
    }
    if (request->fetch == 0) {
        request->then(request);
        return;
    }
    if (request->command.sgl == NVMF_SGL_CAPSULE) {
        memcpy(request->data, request->in_capsule + request->command.to, request->fetch);
        request->then(request);
        return;
    }
    request->moving_ms = queue->net->now_ms;
    if (iwarp_post_send(queue->qp, &read, NULL) != IWARP_OK) {
        service_report_peer("%s: queue %u: RDMA Read: %s", queue->peer, queue->id,
                            iwarp_last_error());
        nvmf_queue_close(queue);
    }
}

static void ask(struct nvmf_request *request, uint32_t fetch, size_t octets,
                void (*then)(struct nvmf_request *request))
{
    if (request->queue->state != NVMF_LIVE) {
        nvmf_request_drop(request); /* nobody would take it out of the line */
        return;
    }
    request->then = then;
    request->fetch = fetch;
    request->wait.ready = on_buffer;
    arena_ask(&request->queue->net->arena, &request->queue->share->buffers, &request->wait, octets);
}

void nvmf_request_take(struct nvmf_request *request, size_t octets,
                       void (*then)(struct nvmf_request *request))
{
    ask(request, 0, octets, then);
}

void nvmf_request_fetch(struct nvmf_request *request, uint32_t octets, size_t space,
                        void (*then)(struct nvmf_request *request))
{
    const struct nvmf_command *command = &request->command;

    /* Data in the capsule stay there, unless they share a buffer with others, or begin where no
     * disk takes them past the page cache. */
    if (command->sgl == NVMF_SGL_CAPSULE && space == octets && command->to % NVMF_PAGE == 0) {
        request->data = request->in_capsule + command->to;
        then(request);
    } else {
        ask(request, octets, space, then);
    }
}

/* --- disks ----------------------------------------------------------------------------------- */

static void on_disk(struct disk_io *io)
{
    struct nvmf_request *request = (void *)((char *)io - offsetof(struct nvmf_request, io));
    struct nvmf_queue *queue = request->queue;

    request->with_disk = false;
    if (--queue->with_disk == 0 && queue->state != NVMF_LIVE) {
        queue->net->settled = true;
    }
    /* The user's step comes in any case: it gives back what it holds. Answers to a queue that is
     * not live go nowhere. */
    request->then(request);
}

void nvmf_request_disk(struct nvmf_request *request, struct disk *disk,
                       void (*then)(struct nvmf_request *request))
{
    request->then = then;
    request->io.done = on_disk;
    request->with_disk = true;
    request->queue->with_disk++;
    disk_do(disk, &request->io);
}

/* --- responses ------------------------------------------------------------------------------- */

/* One call of the system for all of them, instead of one for each. */
static enum iwarp_status post_answers(struct nvmf_queue *queue)
{
    const struct iwarp_send_wr *answers = queue->answers;

    queue->answers = NULL;
    return answers ? iwarp_post_send_together(queue->qp, answers, NULL) : IWARP_OK;
}

static void send_answers(struct nvmf_net *net)
{
    while (net->answering) {
        struct nvmf_queue *queue = net->answering;

        net->answering = queue->next_answering;
        queue->is_answering = false;
        if (queue->state == NVMF_LIVE && post_answers(queue) != IWARP_OK) {
            service_report_peer("%s: queue %u: response: %s", queue->peer, queue->id,
                                iwarp_last_error());
            nvmf_queue_close(queue);
        }
    }
}

static void put_answer(struct nvmf_queue *queue, struct iwarp_send_wr *first,
                       struct iwarp_send_wr *last)
{
    if (!queue->answers) {
        queue->answers_end = &queue->answers;
    }
    *queue->answers_end = first;
    queue->answers_end = &last->next;
    if (!queue->is_answering) {
        queue->is_answering = true;
        queue->next_answering = queue->net->answering;
        queue->net->answering = queue;
    }
}

static void answer(struct nvmf_request *request, unsigned status, uint64_t result, uint32_t octets)
{
    struct nvmf_queue *queue = request->queue;
    const struct nvmf_command *command = &request->command;

    if (queue->state != NVMF_LIVE) {
        nvmf_request_drop(request);
        return;
    }
    queue->net->answered(request, status);
    queue->outstanding--;
    if (queue->sq_entries > 0) {
        queue->sq_head = (uint16_t)((queue->sq_head + 1) % queue->sq_entries);
    }
    nvmf_response_write(
        request->response,
        &(struct nvmf_response){.result = result,
                                .sq_head = queue->no_flow_control ? 0xffff : queue->sq_head,
                                .qid = queue->id,
                                .cid = command->cid,
                                .status = (uint16_t)status});
    request->state = NVMF_ANSWERED;
    request->send_sge = (struct iwarp_sge){request->response, sizeof request->response, 0};
    request->send =
        (struct iwarp_send_wr){.wr_id = wr_id(request, OF_SEND),
                               .opcode = command->invalidate ? IWARP_WR_SEND_INV : IWARP_WR_SEND,
                               .flags = IWARP_WR_SIGNALED | IWARP_WR_INLINE,
                               .sg_list = &request->send_sge,
                               .num_sge = 1,
                               .invalidate_stag = command->invalidate ? command->stag : 0};
    if (octets == 0) {
        nvmf_request_drop(request); /* what a disk has written, say: nothing of it goes out */
        put_answer(queue, &request->send, &request->send);
        return;
    }
    request->moving_ms = queue->net->now_ms;
    request->write_sge = (struct iwarp_sge){request->data, octets, iwarp_mr_stag(queue->net->mr)};
    request->write = (struct iwarp_send_wr){.next = &request->send,
                                            .wr_id = wr_id(request, OF_SEND),
                                            .opcode = IWARP_WR_WRITE,
                                            .sg_list = &request->write_sge,
                                            .num_sge = 1,
                                            .remote_stag = command->stag,
                                            .remote_to = command->to};
    put_answer(queue, &request->write, &request->send);
}

void nvmf_request_answer(struct nvmf_request *request, unsigned status, uint64_t result)
{
    answer(request, status, result, 0);
}

void nvmf_request_fail(struct nvmf_request *request, unsigned status)
{
    answer(request, status | NVMF_DNR, 0, 0);
}

void nvmf_request_give(struct nvmf_request *request, uint32_t octets)
{
    answer(request, NVMF_OK, 0, octets);
}

/* --- completions ----------------------------------------------------------------------------- */

static void completed(const struct iwarp_wc *wc)
{
    struct nvmf_request *request =
        (struct nvmf_request *)(uintptr_t)(wc->wr_id & ~(uint64_t)OF_MASK);

    /* The event that tells of the end gives back what requests hold. */
    if (wc->status != IWARP_WC_SUCCESS || request->queue->state != NVMF_LIVE) {
        return;
    }
    switch (wc->wr_id & OF_MASK) {
    case OF_RECEIVE:
        received(request, wc->byte_len);
        break;
    case OF_READ:
        request->then(request);
        break;
    default:
        nvmf_request_drop(request);
        nvmf_request_post(request);
        break;
    }
}

bool nvmf_net_turn(struct nvmf_net *net)
{
    struct iwarp_wc wc[32];
    int n = iwarp_cq_poll(net->cq, wc, 32);

    for (int i = 0; i < n; i++) {
        completed(&wc[i]);
    }
    send_answers(net);
    return n > 0;
}

/* --- the end --------------------------------------------------------------------------------- */

void nvmf_queue_close(struct nvmf_queue *queue)
{
    if (queue->state == NVMF_LIVE) {
        post_answers(queue);
        queue->state = NVMF_CLOSING;
        iwarp_disconnect(queue->conn);
    }
}
