/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end that a raw peer plays against: a device with a listener, memory of every kind of rights,
 * one connection under test, and a second, well-behaved connection on the same device and worker
 * that must never notice anything.
 *
 * Names for texts (raw_peer.h):
 *   W  STag of 4096 octets with remote write, T their TO; X the same STag with another key
 *   R  STag of 4096 octets with remote read, U their TO
 *   L  STag of 4096 octets without remote rights, Q their TO
 *   P  STag of 4096 octets of another protection domain with all rights, V their TO
 */
#ifndef TESTS_TCP_HOST_H
#define TESTS_TCP_HOST_H

#include "raw_peer.h"

#include <iwarp/iwarp.h>

#define HOST_AREA     4096
#define HOST_RECEIVES 2
#define HOST_RECV_LEN 64   /* octets of each */
#define HOST_READ_LEN 256  /* of the RDMA Read of some cases, into area L at HOST_READ_AT */
#define HOST_READ_AT  1024 /* behind the receives */

enum host_role { HOST_RESPONDER, HOST_INITIATOR };

/* A registered area between canaries. */
struct host_area {
    uint8_t *block;
    uint8_t *p;
    struct iwarp_mr *mr;
};

struct tcp_host {
    struct iwarp_device *device;
    struct iwarp_pd *pd, *foreign_pd;
    struct iwarp_cq *cq, *quiet_cq;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    struct sockaddr_in addr; /* of the listener */
    struct host_area w, r, l, p;
    struct raw_names names;
    struct iwarp_conn_options options; /* of the connection under test */
    /* The connection under test. */
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    int fd; /* of the raw peer */
    /* The other connection. */
    struct iwarp_qp *quiet_qp[2];
    struct iwarp_conn *quiet_conn[2];
    struct host_area quiet[2];
    unsigned round;
};

/* The default options, with more time for a busy machine. */
void host_options(struct tcp_host *h);

/* listen: NULL for such options. The host lives until host_close; failing asserts leave it behind.
 */
struct tcp_host *host_open(const struct iwarp_device_options *device,
                           const struct iwarp_conn_options *listen);
void host_close(struct tcp_host *h);

/* The next event, which has to be of this type and about the connection under test, if there is
 * one. */
struct iwarp_event host_event(struct tcp_host *h, enum iwarp_event_type type);

/* No event comes within ms. */
void host_no_event(struct tcp_host *h, int ms);

/* A queue pair with `receives` of HOST_RECV_LEN octets posted into area L, 128 octets apart. */
void host_qp(struct tcp_host *h, unsigned receives);

/* Connect the raw peer and the host; literal start-up frames are checked. Ends in Full Operation.
 */
void host_connect(struct tcp_host *h, enum host_role role, unsigned rev, unsigned receives);

/* The same from the Request on: for a responder that has heard it, sends the answer. */
struct iwarp_conn *host_request(struct tcp_host *h);
void host_accept(struct tcp_host *h, struct iwarp_conn *conn, unsigned receives);

/* Post an RDMA Read of HOST_READ_LEN octets from STag 11223344, TO 2000. */
void host_post_read(struct tcp_host *h);

/* The same, and the raw peer sends a zero-length Write (a responder may not ask before) and
 * compares the RDMA Read Request. */
void host_begin_read(struct tcp_host *h);

/* Post n octets of area R as a Send or a Write to STag 11223344, TO 3000. Signaled. */
void host_post(struct tcp_host *h, enum iwarp_wr_opcode opcode, uint64_t wr_id, uint32_t n);

/* A completion of the connection under test. */
struct iwarp_wc host_completion(struct tcp_host *h);

/* The fault is this one, its status too, and the text says so and where that is written. */
void host_check_fault(const struct iwarp_fault *fault, enum iwarp_fault_code code);

/*
 * The connection under test ends: the event, the completions of what was posted (`left` requests,
 * all flushed with that fault; the first receive may be the one that was too short), the state of
 * the queue pair. code NONE: in order.
 */
void host_ended(struct tcp_host *h, enum iwarp_fault_code code, unsigned left);

/* Close the raw socket, destroy queue pair and connection. */
void host_finish(struct tcp_host *h);

/* All areas are as host_open left them, except for what a case may change (receives, Read sink). */
void host_check_memory(struct tcp_host *h);
void host_reset_memory(struct tcp_host *h);

/* A Write and a Send each way over the other connection. */
void host_check_quiet(struct tcp_host *h);

/* --- tables of cases ------------------------------------------------------------------------- */

struct hostile_case {
    const char *name;
    const char *sent;   /* after the start-up; a text */
    const char *answer; /* the Terminate that must come, whole; a text */
    enum iwarp_fault_code fault;
    bool no_receive;    /* nothing is posted */
    bool read;          /* an RDMA Read is outstanding */
    bool read_done;     /* and is answered whole before the end */
    bool no_ird;        /* this end grants no RDMA Reads */
    unsigned delivered; /* receives that complete before the end */
};

/* Run them all: both roles, MPA revisions 1 and 2, both placements. Returns as main does. */
int hostile_run(const char *group, const struct hostile_case *cases, size_t n);

#endif
