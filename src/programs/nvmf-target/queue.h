/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA transport of one NVMe queue: one connection, its receives, its commands under way. This
 * file knows capsules, buffers and data transfers, and nothing of what commands mean: each command
 * goes to `command` of the net, whose user asks for a buffer or for the host's data, and answers.
 *
 * A queue:    LIVE     the Request is accepted
 *             CLOSING  this end has closed it; nothing is answered any more
 *             ENDED    there is no connection; kept until no command is with a disk
 *
 * A request:  POSTED   its receive waits for a command
 *             ACTIVE   a command is under way; exactly one of these has it: the user of the net,
 *                      the line for buffers, an RDMA Read, a disk
 *             ANSWERED its response is on the way; its buffer is lent to the RDMA Write before it
 *
 * There are twice as many requests as commands that the host may have under way, so that a command
 * that comes right behind a response finds a receive, though the completion of the response has not
 * been looked at.
 */
#ifndef NVMF_QUEUE_H
#define NVMF_QUEUE_H

#include "programs/disks/arena.h"
#include "programs/disks/disk.h"
#include "programs/nvmf-wire/capsule.h"
#include "programs/service/address.h"

#include <iwarp/iwarp.h>

struct nvmf_auth;
struct nvmf_controller;
struct nvmf_namespace;
struct nvmf_queue;
struct nvmf_subsystem;

struct nvmf_request {
    struct nvmf_queue *queue;
    enum { NVMF_POSTED, NVMF_ACTIVE, NVMF_ANSWERED } state;
    struct nvmf_command command;
    uint64_t began_ns;
    uint8_t *capsule, *in_capsule; /* of the receive */
    bool with_disk;
    uint8_t *data;      /* buffer, or within the capsule; NULL: none */
    void *piece;        /* of the arena, or NULL */
    uint32_t fetch;     /* octets of the host to be put into the buffer once there is one */
    uint64_t moving_ms; /* since when the buffer is lent to an RDMA Read or Write */
    struct arena_wait wait;
    void (*then)(struct nvmf_request *request);
    /* Of the user of the net: */
    struct disk_io io;
    struct nvmf_namespace *ns; /* while a disk has the request */
    uint64_t ns_number;        /* of the namespace that the command is about; 0: none yet */
    uint64_t offset, left;     /* octets of the namespace that are still to be done */
    /* The answer, from nvmf_request_answer until it is posted. */
    struct iwarp_send_wr write, send;
    struct iwarp_sge write_sge, send_sge;
    uint8_t response[NVMF_RESPONSE_LEN];
};

/* What the queues of one address have together, so that it cannot have everything. */
struct nvmf_share {
    struct nvmf_share *next;
    uint8_t owner[ADDRESS_OWNER_LEN];
    unsigned queues;
    struct arena_share buffers;
};

struct nvmf_queue {
    struct nvmf_net *net;
    struct nvmf_queue *next, **at;
    struct nvmf_share *share;
    enum { NVMF_LIVE, NVMF_CLOSING, NVMF_ENDED } state;
    uint16_t id, entries, receives; /* as the Request said */
    uint16_t sq_entries, sq_head;   /* as the Connect command said */
    bool no_flow_control;
    unsigned outstanding; /* commands that are not answered */
    unsigned with_disk;   /* of these, or after the end, in the hands of a disk */
    uint64_t since_ms;
    struct nvmf_controller *controller; /* NULL before Connect */
    /* Of the user of the net, whose queue it is; stays when the controller is gone. */
    const struct nvmf_subsystem *subsystem;
    char host[NVMF_NQN_MAX + 1];
    struct nvmf_request *connecting; /* Connect, which waits for disks */
    bool unproved;                   /* the host has yet to show that it knows its secret */
    struct nvmf_auth *auth;          /* while it does so */
    char peer[ADDRESS_TEXT_MAX];
    struct iwarp_conn *conn;
    struct iwarp_qp *qp;
    struct iwarp_mr *mr;
    uint8_t *memory;
    size_t memory_len, in_capsule_len;
    struct nvmf_request *requests;
    unsigned count;
    /* Answers that nvmf_net_turn posts together: a chain, and the next queue that has some. */
    const struct iwarp_send_wr *answers, **answers_end;
    struct nvmf_queue *next_answering;
    bool is_answering;
};

/* What all queues share. */
struct nvmf_net {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_mr *mr; /* of the arena */
    struct arena arena;
    unsigned cq_needed;
    struct nvmf_queue *queues; /* all that are not freed */
    struct nvmf_share *shares; /* each has a queue */
    uint64_t now_ms;           /* at the last tick, once a second */
    struct nvmf_queue *answering;
    unsigned queue_count;
    bool settled; /* a disk has done the last of what it had of a queue that is not live */
    /* Set by the user: a command came. error is NVMF_OK or what is wrong with its octets. */
    void (*command)(struct nvmf_request *request, enum nvmf_status error);
    void (*answered)(struct nvmf_request *request, unsigned status);
    void (*ended)(struct nvmf_queue *queue); /* the connection is gone */
    void *user;
};

/* Look at what has completed, then send what is answered: the answers of a turn go out together.
 * True if there was anything. */
bool nvmf_net_turn(struct nvmf_net *net);

/* Post the receive of a request that is nobody's. */
void nvmf_request_post(struct nvmf_request *request);

/* Give back the buffer. */
void nvmf_request_drop(struct nvmf_request *request);

/* End the connection; what is answered already still goes out. */
void nvmf_queue_close(struct nvmf_queue *queue);

/* Get a buffer of `octets`, at most ARENA_LARGEST, then call `then`. */
void nvmf_request_take(struct nvmf_request *request, size_t octets,
                       void (*then)(struct nvmf_request *request));

/* Get the first `octets` octets of data that the command has; they are at request->data when `then`
 * is called. space: of the buffer, at least octets. */
void nvmf_request_fetch(struct nvmf_request *request, uint32_t octets, size_t space,
                        void (*then)(struct nvmf_request *request));

/* Begin request->io, all of which but `done` is set, then call `then`, also when the queue has
 * ended meanwhile. */
void nvmf_request_disk(struct nvmf_request *request, struct disk *disk,
                       void (*then)(struct nvmf_request *request));

/* Answer; the request is not the caller's any more. If the queue is not live, nobody hears it. */
void nvmf_request_answer(struct nvmf_request *request, unsigned status, uint64_t result);

/* The same with an error that the host need not try again. */
void nvmf_request_fail(struct nvmf_request *request, unsigned status);

/* The same with success, and before it `octets` octets at request->data, a buffer, for the host. */
void nvmf_request_give(struct nvmf_request *request, uint32_t octets);

#endif
