/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection as both ends of iwarp-cp use it: a queue pair with its own protection domain,
 * completion queue and message buffers, and the slots that file data goes through.
 *
 * The number of message buffers follows from the slots: the protocol (wire.h) never has more
 * messages under way. Memory of buffers and slots that are not used is never touched. One thread
 * per channel.
 */
#ifndef CP_CHANNEL_H
#define CP_CHANNEL_H

#include "limits.h"

#include <iwarp/iwarp.h>

/* Beyond one message per slot: OPEN, FAILED. */
#define CP_SPARE_BUFFERS 2
#define CP_BUFFERS_MAX   (CP_SLOTS_MAX + CP_SPARE_BUFFERS)

/* Memory of a peer. */
struct cp_target {
    uint32_t stag;
    uint64_t to;
};

struct cp_counts {
    uint64_t writes, write_bytes;
    uint64_t reads, read_bytes;
    uint64_t sends;
    uint64_t receives;
};

struct cp_channel {
    struct iwarp_device *device; /* borrowed */
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn; /* owned once set */
    unsigned buffers;
    uint8_t *messages; /* buffers to receive into, then buffers to send from, then the pulses */
    struct iwarp_mr *message_mr;
    bool send_busy[CP_BUFFERS_MAX];
    unsigned slots;
    size_t slot_size;
    uint8_t *slot_memory;
    struct iwarp_mr *slot_mr;
    struct iwarp_mr *pulse_mr;
    struct cp_target peer_pulse; /* see wire.h; STag 0: the peer has none */
    bool asked;                  /* it is being read */
    int wake_fd;                 /* readable: wait returns CP_EVENT_WAKE; -1: none */
    struct iwarp_wc done[32];
    int done_count, done_next;
    struct cp_counts counts;
};

enum cp_event_type {
    CP_EVENT_TIMEOUT,
    CP_EVENT_WAKE,
    CP_EVENT_MESSAGE, /* index: receive buffer, to be given back */
    CP_EVENT_SENT,    /* index: send buffer, free again */
    CP_EVENT_READ,    /* index: slot, its data is here */
    CP_EVENT_ALIVE,   /* the peer works, whatever keeps it from its next message */
    CP_EVENT_BROKEN   /* the stream has ended */
};

struct cp_event {
    enum cp_event_type type;
    unsigned index;
    const uint8_t *data;
    size_t len;
    const struct iwarp_fault *fault; /* BROKEN; NULL if the peer closed in order */
};

/*
 * Create everything but the connection and the slots, of which there are to be so many at most, and
 * post receives for what is not about a slot.
 */
enum iwarp_status cp_channel_open(struct cp_channel *channel, struct iwarp_device *device,
                                  unsigned slots, size_t slot_size);

/* Once: there are so many slots, at most those of open. Posts a receive for each. */
bool cp_channel_use_slots(struct cp_channel *channel, unsigned slots);

/* Make and register the slots, with enum iwarp_access rights. */
enum iwarp_status cp_channel_add_slots(struct cp_channel *channel, unsigned access);
uint8_t *cp_channel_slot(const struct cp_channel *channel, unsigned slot);

/* Where message number index is written before sending it; CP_MESSAGE_MAX octets. */
uint8_t *cp_channel_message(const struct cp_channel *channel, unsigned index);

/* A send buffer that is not in use, or -1. */
int cp_channel_free_message(const struct cp_channel *channel);

/*
 * Send len octets of message number index. If write_len is not 0, an RDMA Write of that many octets
 * from the beginning of slot goes before it, to target; the message's SENT then covers both.
 */
bool cp_channel_send(struct cp_channel *channel, unsigned index, size_t len, unsigned slot,
                     size_t write_len, struct cp_target target);

/* RDMA Read of len octets into the beginning of slot. */
bool cp_channel_read(struct cp_channel *channel, unsigned slot, size_t len,
                     struct cp_target target);

/* Give a received message's buffer back. */
bool cp_channel_release(struct cp_channel *channel, unsigned index);

/* cp_channel_wait would not wait. */
bool cp_channel_has_event(struct cp_channel *channel);

/* TIMEOUT: for so long there was no event, the peer did not work (as far as it has a pulse), and
 * hardly any data moved. */
void cp_channel_wait(struct cp_channel *channel, struct cp_event *event, int timeout_ms);

/* The pulse of this end, for its hello. */
struct cp_target cp_channel_pulse(const struct cp_channel *channel);

/* Octets that a channel's queue pair has sent and received; `before` if that cannot be told. */
uint64_t cp_channel_octets(struct iwarp_qp *qp, uint64_t before);

/* Close in order, waiting for the end at most so long. */
void cp_channel_finish(struct cp_channel *channel, int timeout_ms);

/* Release everything, aborting a living connection; may be called after a failed open. */
void cp_channel_close(struct cp_channel *channel);

#endif
