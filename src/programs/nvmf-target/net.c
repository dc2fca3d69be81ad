/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include "programs/service/service.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In-capsule data of the admin queue: that of Connect. */
#define ADMIN_IN_CAPSULE NVMF_PAGE

bool nvmf_net_open(struct nvmf_net *net, uv_loop_t *loop, size_t memory, const char *tls)
{
    struct iwarp_device_options options;

    iwarp_device_options_init(&options);
    options.progress = IWARP_PROGRESS_EMBEDDED;
    options.loop = loop;
    options.tls = tls;
    if (iwarp_device_open(&options, &net->device) != IWARP_OK) {
        return false;
    }
    if (iwarp_pd_create(net->device, &net->pd) == IWARP_OK) {
        if (iwarp_cq_create(net->device, 1024, net, &net->cq) == IWARP_OK) {
            if (arena_open(&net->arena, memory)) {
                if (iwarp_mr_register(net->pd, net->arena.base, arena_len(&net->arena),
                                      IWARP_ACCESS_LOCAL_WRITE, &net->mr) == IWARP_OK) {
                    return true;
                }
                arena_close(&net->arena);
            }
            iwarp_cq_destroy(net->cq);
        }
        iwarp_pd_destroy(net->pd);
    }
    iwarp_device_close(net->device);
    return false;
}

void nvmf_net_close(struct nvmf_net *net)
{
    iwarp_mr_deregister(net->mr);
    arena_close(&net->arena);
    iwarp_cq_destroy(net->cq);
    iwarp_pd_destroy(net->pd);
    iwarp_device_close(net->device);
}

/* --- a new queue ----------------------------------------------------------------------------- */

/* Receives, reads, and a write and a response for each request. */
static unsigned completions_of(const struct nvmf_queue *queue)
{
    return queue->count * 4;
}

static bool room_for_completions(struct nvmf_net *net, unsigned more)
{
    unsigned entries = iwarp_cq_entries(net->cq);

    while (entries < net->cq_needed + more) {
        entries *= 2;
    }
    if (entries > iwarp_cq_entries(net->cq) && iwarp_cq_resize(net->cq, entries) != IWARP_OK) {
        return false;
    }
    net->cq_needed += more;
    return true;
}

static bool make_memory(struct nvmf_queue *queue)
{
    size_t each = queue->in_capsule_len;
    size_t commands =
        (queue->count * (size_t)NVMF_COMMAND_LEN + NVMF_PAGE - 1) / NVMF_PAGE * NVMF_PAGE;

    queue->memory_len = queue->count * each + commands;
    queue->memory = mmap(NULL, queue->memory_len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    queue->requests = calloc(queue->count, sizeof *queue->requests);
    if (queue->memory == MAP_FAILED || !queue->requests) {
        return false;
    }
    /* Data begin at a page, so that disks take them past the page cache. */
    for (unsigned i = 0; i < queue->count; i++) {
        queue->requests[i].queue = queue;
        queue->requests[i].in_capsule = queue->memory + i * each;
        queue->requests[i].capsule =
            queue->memory + queue->count * each + i * (size_t)NVMF_COMMAND_LEN;
    }
    return iwarp_mr_register(queue->net->pd, queue->memory, queue->memory_len,
                             IWARP_ACCESS_LOCAL_WRITE, &queue->mr) == IWARP_OK;
}

static bool make_queue_pair(struct nvmf_queue *queue)
{
    struct iwarp_qp_options options;

    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = queue->net->cq;
    options.max_recv_wr = queue->count;
    options.max_recv_sge = 2;
    options.max_send_wr = queue->count * 3;
    options.max_send_sge = 1;
    options.max_inline = NVMF_RESPONSE_LEN;
    options.access = 0; /* the host reaches no memory of the target */
    options.user = queue;
    return iwarp_qp_create(queue->net->pd, &options, &queue->qp) == IWARP_OK;
}

/* The share of the peer's address; NULL: no memory. */
static struct nvmf_share *join_share(struct nvmf_net *net, const struct sockaddr_storage *addr)
{
    struct nvmf_share *share = net->shares;
    uint8_t owner[ADDRESS_OWNER_LEN];

    address_owner(addr, owner);
    while (share && memcmp(share->owner, owner, sizeof owner) != 0) {
        share = share->next;
    }
    if (!share) {
        share = calloc(1, sizeof *share);
        if (!share) {
            return NULL;
        }
        memcpy(share->owner, owner, sizeof owner);
        share->next = net->shares;
        net->shares = share;
    }
    share->queues++;
    return share;
}

static void leave_share(struct nvmf_queue *queue)
{
    struct nvmf_share **at = &queue->net->shares, *share = queue->share;

    if (!share || --share->queues > 0) {
        return;
    }
    while (*at != share) {
        at = &(*at)->next;
    }
    *at = share->next;
    free(share);
}

static void free_queue(struct nvmf_queue *queue)
{
    if (queue->qp) {
        iwarp_qp_destroy(queue->qp);
    }
    if (queue->mr) {
        iwarp_mr_deregister(queue->mr);
    }
    if (queue->memory && queue->memory != MAP_FAILED) {
        munmap(queue->memory, queue->memory_len);
    }
    free(queue->requests);
    leave_share(queue);
    free(queue);
}

/* False: no memory. */
static bool know_peer(struct nvmf_queue *queue)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;

    if (iwarp_conn_peer_addr(queue->conn, &addr, &len) != IWARP_OK) {
        addr.ss_family = AF_UNSPEC;
    }
    address_text(&addr, queue->peer);
    queue->share = join_share(queue->net, &addr);
    return queue->share != NULL;
}

/* The new queue counts in its share already. */
static bool has_place(const struct nvmf_queue *queue)
{
    return queue->share->queues + queue->net->queue_count <= NVMF_NET_QUEUES;
}

/* Each more takes one place from what is free, and needs as many free beside it. */
unsigned nvmf_net_room(const struct nvmf_queue *queue)
{
    unsigned taken = queue->share->queues + queue->net->queue_count;

    return taken > NVMF_NET_QUEUES ? 0 : (NVMF_NET_QUEUES + 1 - taken) / 2;
}

static struct nvmf_queue *make_queue(struct nvmf_net *net, struct iwarp_conn *conn,
                                     const struct nvmf_hello *hello)
{
    struct nvmf_queue *queue = calloc(1, sizeof *queue);

    if (!queue) {
        return NULL;
    }
    queue->net = net;
    queue->conn = conn;
    queue->id = hello->qid;
    queue->entries = hello->entries;
    queue->receives = hello->receives;
    queue->count = 2u * hello->entries;
    queue->in_capsule_len = hello->qid == 0 ? ADMIN_IN_CAPSULE : NVMF_IN_CAPSULE;
    if (know_peer(queue) && !has_place(queue)) {
        service_report_peer("%s: queue %u refused: too many queues, %u of them of this address",
                            queue->peer, queue->id, queue->share->queues - 1);
    } else if (queue->share && make_memory(queue) && make_queue_pair(queue) &&
               room_for_completions(net, completions_of(queue))) {
        return queue;
    } else {
        service_report_peer("%s: queue %u refused: %s", queue->peer, queue->id,
                            queue->share ? iwarp_last_error() : "no memory");
    }
    free_queue(queue);
    return NULL;
}

static void reject(struct iwarp_conn *conn, unsigned reason)
{
    uint8_t octets[4];

    nvmf_reject_write(octets, reason);
    iwarp_reject(conn, octets, sizeof octets);
    iwarp_conn_destroy(conn);
}

void nvmf_net_request(struct nvmf_net *net, struct iwarp_conn *conn, uint64_t now_ms)
{
    uint8_t welcome[NVMF_PRIVATE_LEN];
    struct nvmf_queue *queue;
    struct nvmf_hello hello;
    size_t octets;
    const void *private = iwarp_conn_private_data(conn, &octets);
    unsigned reason = nvmf_hello_read(private, octets, &hello);

    if (reason) {
        reject(conn, reason);
        return;
    }
    queue = make_queue(net, conn, &hello);
    if (!queue) {
        reject(conn, NVMF_REJECT_RESOURCES);
        return;
    }
    for (unsigned i = 0; i < queue->count; i++) {
        nvmf_request_post(&queue->requests[i]);
    }
    nvmf_welcome_write(welcome, queue->entries);
    queue->since_ms = now_ms;
    queue->next = net->queues;
    queue->at = &net->queues;
    if (queue->next) {
        queue->next->at = &queue->next;
    }
    net->queues = queue;
    net->queue_count++;
    if (iwarp_accept(conn, queue->qp, NULL, welcome, sizeof welcome, queue) != IWARP_OK) {
        nvmf_net_gone(queue, NULL); /* the Request has ended */
    }
}

/* --- the end of a queue ---------------------------------------------------------------------- */

void nvmf_net_gone(struct nvmf_queue *queue, const struct iwarp_event *event)
{
    char why[512];

    if (queue->state == NVMF_LIVE && event && event->status != IWARP_OK) {
        iwarp_fault_text(event->fault, why, sizeof why);
        service_report_peer("%s: queue %u: %s", queue->peer, queue->id, why);
    }
    queue->state = NVMF_ENDED;
    queue->net->ended(queue);
    queue->controller = NULL;
    iwarp_conn_destroy(queue->conn);
    iwarp_qp_destroy(queue->qp); /* from here on nothing reads or writes buffers but disks */
    queue->conn = NULL;
    queue->qp = NULL;
    for (unsigned i = 0; i < queue->count; i++) {
        arena_leave(&queue->net->arena, &queue->requests[i].wait);
    }
    for (unsigned i = 0; i < queue->count; i++) {
        if (!queue->requests[i].with_disk) {
            nvmf_request_drop(&queue->requests[i]);
        }
    }
}

void nvmf_net_sweep(struct nvmf_net *net)
{
    struct nvmf_queue *next;

    for (struct nvmf_queue *queue = net->queues; queue; queue = next) {
        next = queue->next;
        if (queue->state != NVMF_ENDED || queue->with_disk > 0) {
            continue;
        }
        *queue->at = next;
        if (next) {
            next->at = queue->at;
        }
        net->queue_count--;
        net->cq_needed -= completions_of(queue);
        free_queue(queue);
    }
}

void nvmf_net_idle(struct nvmf_net *net, uint64_t now_ms, uint64_t limit_ms)
{
    for (struct nvmf_queue *queue = net->queues; queue; queue = queue->next) {
        if (queue->state == NVMF_LIVE && (!queue->controller || queue->unproved) &&
            now_ms - queue->since_ms > limit_ms) {
            service_report_peer("%s: queue %u: %s", queue->peer, queue->id,
                                queue->controller ? "the host did not show that it knows its secret"
                                : queue->connecting
                                    ? "a disk is still at work for what the host had before"
                                    : "no Connect command came");
            if (queue->connecting) {
                /* Without an answer Linux waits for a minute, though the connection has ended. */
                nvmf_request_answer(queue->connecting, NVMF_CONNECT_BUSY, 0);
                queue->connecting = NULL;
            }
            nvmf_queue_close(queue);
        }
    }
}

/* Its buffer is lent: nobody else has the request then but a disk, and a request in line has no
 * buffer yet. */
static bool is_moving(const struct nvmf_request *request)
{
    return request->piece && !request->with_disk && request->state != NVMF_POSTED;
}

static bool is_stuck(const struct nvmf_queue *queue, uint64_t limit_ms)
{
    unsigned i = 0;

    while (i < queue->count && !(is_moving(&queue->requests[i]) &&
                                 queue->net->now_ms > queue->requests[i].moving_ms + limit_ms)) {
        i++;
    }
    return i < queue->count;
}

void nvmf_net_stuck(struct nvmf_net *net, uint64_t now_ms, uint64_t limit_ms)
{
    net->now_ms = now_ms;
    for (struct nvmf_queue *queue = net->queues; queue; queue = queue->next) {
        if (queue->state == NVMF_LIVE && queue->share->buffers.used > 0 &&
            is_stuck(queue, limit_ms)) {
            service_report_peer(
                "%s: queue %u: the host has not moved the data of a command for %u s", queue->peer,
                queue->id, (unsigned)(limit_ms / 1000));
            queue->state = NVMF_CLOSING;
            iwarp_abort(queue->conn); /* an orderly end would wait for these data */
        }
    }
}
