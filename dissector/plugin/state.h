/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the plugin remembers of a file. All of it is made on the first pass, when frames come in
 * order, and only read on later ones, which come in any order; it lives as long as the file.
 */
#ifndef PLUGIN_STATE_H
#define PLUGIN_STATE_H

#include "fields.h"
#include "options.h"

#include "../walk.h"

/* An RDMA Read or Atomic and its response. */
struct iwarp_exchange {
    struct iwarp_exchange *next; /* in order of the requests */
    bool atomic;
    uint32_t request_frame, response_frame; /* 0: not seen */
    nstime_t request_time, response_time;
    uint32_t stag; /* sink */
    uint64_t to;
    uint32_t length, received;
    uint32_t id;     /* Atomic */
    uint32_t number; /* of the request's FPDU */
};

struct iwarp_message {
    struct iwarp_message *next;           /* of those that have data */
    uint32_t id, first_frame, last_frame; /* last_frame: 0 while it is not complete */
    uint8_t opcode;
    uint32_t segments;
    uint64_t start; /* TO of the first octet, or 0 */
    uint32_t stag, msn;
    uint64_t covered, total; /* octets that came; all, once known */
    bool has_total, broken;  /* broken: too long, or with gaps; never put together */
    uint8_t *data;
    size_t room;
};

struct iwarp_fpdu {
    struct dissect_item item;
    uint32_t number; /* in this file, from 1 */
    uint32_t frame;
    uint8_t opcode;
    unsigned side;
    uint64_t experts;
    struct iwarp_exchange *exchange;
    bool ends_exchange;
    struct iwarp_message *message;
    uint32_t segment; /* of the message, from 1 */
    bool ends_message;
    uint32_t outstanding;
    uint32_t related; /* Terminate: frame that caused it; others: frame of the Terminate */
    uint32_t stag_first, stag_invalid;
    bool rtr;
    void **rpc; /* what RPC-over-RDMA knows of it, see ulp.c; NULL: nothing */
};

/* A Request or Reply. */
struct iwarp_start {
    struct dissect_setup setup;
    uint64_t experts;
};

struct iwarp_piece {
    struct dissect_item *item;
    struct iwarp_fpdu *fpdu; /* one of these two, or neither */
    struct iwarp_start *start;
};

/* What one call of the dissector found. */
struct iwarp_record {
    struct iwarp_conn *conn;
    unsigned side;
    unsigned count;
    struct iwarp_piece *pieces;
    bool waits;
    uint32_t wait_at, wait_for;
};

enum { RECENT_HEADERS = 64 };

/* What one side of a connection sends. */
struct iwarp_side {
    bool has_msn[4];
    uint32_t msn[4]; /* the next one */
    struct iwarp_exchange *first, **last;
    uint32_t outstanding;
    struct iwarp_message *write, *response; /* of tagged messages that go on */
    wmem_map_t *sends;                      /* by MSN: those that go on */
    uint32_t terminate_frame;
    bool has_first; /* the first FPDU was seen */
    bool lossy;     /* octets of it are missing in the capture */
    struct {
        uint8_t octets[DISSECT_UNTAGGED_SIZE];
        struct iwarp_fpdu *fpdu;
    } recent[RECENT_HEADERS];
    unsigned n_recent;
    struct iwarp_fpdu *bad_crc; /* the last one */
};

struct iwarp_stag {
    uint32_t first_frame, invalid_frame;
};

struct iwarp_conn {
    struct dissect_conn walk;
    uint32_t id;
    address addr[2];
    uint32_t port[2];
    uint32_t start_frame[2]; /* of Request and Reply */
    uint32_t setup_frame;    /* where the connection was first seen */
    struct iwarp_side side[2];
    wmem_map_t *stags; /* by owner and STag */
    uint8_t private_data[2][36];
    unsigned private_size[2];
    enum iwarp_ulp ulp;
    bool has_ulp;
    struct iwarp_late *late[2]; /* of late.c */
    wmem_map_t *late_records;   /* by frame */
    void *nvme;                 /* made up by ulp_nvme.c, for this FPDU and later ones */
    uint32_t nvme_from;
    bool within_tls;  /* tls.c; TCP's octets mean nothing then */
    uint32_t next[2]; /* what TLS hands over next */
};

/* --- conn.c --- */

/* Whether this side of the connection is the initiator; false if neither is known to be. */
bool iwarp_is_initiator(const struct iwarp_conn *c, unsigned side);

/* The side that listened: known, or guessed by the smaller port. */
unsigned iwarp_responder(const struct iwarp_conn *c);

/* The side that sent this packet. */
unsigned iwarp_side_of(const struct iwarp_conn *c, packet_info *pinfo);

/* --- track.c: what FPDUs mean to each other, on the first pass --- */

struct iwarp_track {
    packet_info *pinfo;
    struct iwarp_conn *conn;
    struct iwarp_fpdu *fpdu;
    const uint8_t *ulpdu; /* captured octets of it, without markers */
    size_t have;
    struct dissect_header header;
};

void iwarp_track_fpdu(struct iwarp_track *t);

/* --- message.c: segments put together --- */

void iwarp_message_reset(void);
void iwarp_message_add(struct iwarp_track *t);

/* --- ports.c: ports that have another owner --- */

void iwarp_ports_start(dissector_handle_t ours);
void iwarp_ports_apply(void);

/* --- keep.c: memory for small things that live as long as the file --- */

/* Filled with zeroes. */
void *iwarp_keep(size_t n);
void iwarp_keep_reset(void);

/* --- stream.c --- */

void iwarp_stream_register(void);
struct iwarp_conn *iwarp_new_conn(packet_info *pinfo);
void iwarp_count_conn(struct iwarp_conn *c);
int iwarp_dissect(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data);
bool iwarp_try(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data, bool patient);

/* --- record.c --- */

void iwarp_record_reset(void);
/* Walks over what is here, on the first pass; NULL if it is not iWARP. */
struct iwarp_record *iwarp_walk_over(packet_info *pinfo, struct iwarp_conn *c, unsigned side,
                                     const struct dissect_octets *o);
void iwarp_paint(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, const struct iwarp_record *r);

/* --- late.c: what TCP does not hand over --- */

void iwarp_late_register(void);
void iwarp_tls_register(void);
uint32_t iwarp_late_origin(conversation_t *conversation, packet_info *pinfo);
void iwarp_late_handed(struct iwarp_conn *c, unsigned side, const struct dissect_octets *o,
                       const struct iwarp_record *r);
bool iwarp_late_has(const struct iwarp_conn *c, packet_info *pinfo);
/* This pass has shown what TCP handed over of this frame. */
void iwarp_late_shown(packet_info *pinfo, tvbuff_t *tvb, struct iwarp_record *r);

/* --- paint_start.c, paint_fpdu.c, paint_terminate.c --- */

void iwarp_paint_start(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                       const struct iwarp_record *r, const struct iwarp_piece *piece);
void iwarp_paint_fpdu(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, proto_tree *top,
                      const struct iwarp_record *r, const struct iwarp_piece *piece);
void iwarp_paint_terminate(tvbuff_t *body, unsigned at, unsigned n, packet_info *pinfo,
                           proto_tree *tree, const struct iwarp_fpdu *f);
void iwarp_paint_conn(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                      const struct iwarp_record *r);

/* --- ulp.c, ulp_nvme.c, ulp_iser.c --- */

void iwarp_ulp_register(void);
/* Whoever asks first makes it known; the answer stays. */
enum iwarp_ulp iwarp_ulp_of(struct iwarp_conn *c);
const char *iwarp_ulp_name(enum iwarp_ulp ulp);

/* A segment of a tagged message, a whole Send, or a Read Request, to its upper layer. */
struct iwarp_offer {
    const struct iwarp_record *record;
    struct iwarp_fpdu *fpdu;
    const struct dissect_header *header;
    proto_item *item;  /* of this FPDU */
    tvbuff_t *payload; /* of this segment */
    tvbuff_t *message; /* of the whole message, where it ends; else NULL */
    const struct dissect_read_request *read;
};

/* True if it was taken. */
bool iwarp_ulp_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top);
bool iwarp_nvme_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top);
void iwarp_iser_register(void);
bool iwarp_iser_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top);

/* --- builtin.c: the fields of the built-in dissectors --- */

void iwarp_builtin_register(void);
void iwarp_builtin_start(tvbuff_t *tvb, proto_tree *tree, const struct dissect_item *item,
                         const struct dissect_setup *s);
void iwarp_builtin_fpdu(tvbuff_t *wire, tvbuff_t *body, proto_tree *tree,
                        const struct iwarp_fpdu *f, const struct dissect_header *h);
void iwarp_builtin_message(tvbuff_t *whole, tvbuff_t *body, proto_tree *tree,
                           const struct iwarp_message *m);

/* --- taps.c and the statistics --- */

struct iwarp_tap {
    const struct iwarp_conn *conn;
    const struct iwarp_fpdu *fpdu;
    struct dissect_header header;
    bool initiator;
    bool has_read;
    struct dissect_read_request read;
    tvbuff_t *payload; /* of this segment */
    tvbuff_t *message; /* of the whole message, where it ends; else NULL */
};

void iwarp_taps_register(void);
void iwarp_taps_handoff(void);
void iwarp_tap(packet_info *pinfo, const struct iwarp_tap *tap);

#endif
