/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of one device, connected through memory or TCP on the loopback interface, with
 * registered memory on either side. For tests of the verbs; side 0 is the initiator.
 *
 * Every wait ends after PAIR_WAIT_MS with a failed test. Only the thread of the test may call
 * what is declared here.
 */
#ifndef TESTS_VERBS_PAIR_H
#define TESTS_VERBS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <iwarp/iwarp.h>
#include <netinet/in.h>
#include <string.h>

#define PAIR_WAIT_MS 90000
#define PAIR_ALL     (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ)

/* The call returns OK, or the test fails with its sentence. */
#define must(call) pair_must((call), #call, __FILE__, __LINE__)
void pair_must(enum iwarp_status status, const char *what, const char *file, int line);

/* The call returns `status`, and iwarp_last_error says something with `part` in it. */
#define must_fail(call, status, part)                                                              \
    pair_must_fail((call), status, part, #call, __FILE__, __LINE__)
void pair_must_fail(enum iwarp_status got, enum iwarp_status expected, const char *part,
                    const char *what, const char *file, int line);

enum pair_transport {
    PAIR_MEMORY,
    PAIR_TCP4,
    PAIR_TCP6,
#ifdef IWARP_HAVE_LWIP
    PAIR_LWIP, /* of the device with itself: inside lwIP */
#endif
    PAIR_TRANSPORTS
};
extern const char *const pair_transport_names[PAIR_TRANSPORTS];

struct pair_options {
    enum pair_transport transport;
    struct iwarp_device_options device;
    struct iwarp_qp_options qp;        /* of both sides; the queues are filled in */
    struct iwarp_conn_options conn[2]; /* in memory, those of side 0 count for both */
    unsigned cq_entries;               /* of each of the four queues */
    size_t memory;                     /* octets on each side */
    unsigned srq;                      /* entries of an SRQ on each side; 0: none */
    bool no_events;                    /* no event queue at the initiator */
};

struct pair_side {
    struct iwarp_pd *pd;
    struct iwarp_cq *send_cq, *recv_cq;
    struct iwarp_srq *srq;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    uint8_t *p; /* the memory */
    struct iwarp_mr *mr;
};

struct pair {
    struct pair_options options;
    struct iwarp_device *device;
    struct iwarp_eq *eq[2];
    struct iwarp_listener *listener; /* TCP only */
    struct pair_side side[2];
    int link; /* the far end of lwIP's; 0: none */
};

void pair_options_init(struct pair_options *o, enum pair_transport transport);

/* Everything but the connection. */
void pair_prepare(struct pair *p, const struct pair_options *o);

/* Connect, and take the ESTABLISHED events. */
void pair_connect(struct pair *p);
void pair_open(struct pair *p, const struct pair_options *o); /* prepare, connect */

/* Release whatever is still there (members that are NULL are skipped), and close the device. */
void pair_close(struct pair *p);

/* Take the next asynchronous event of the device, which is of this type. */
struct iwarp_async_event pair_async(struct pair *p, enum iwarp_async_type type);

/* Post to the SRQ of a side. */
void pair_srq_recv(struct pair_side *s, uint64_t wr_id, size_t off, size_t len);

/* The pieces that several tests put together themselves. */
void pair_side_open(struct pair_side *s, struct iwarp_device *device, const struct pair_options *o);
void pair_side_close(struct pair_side *s);
struct iwarp_listener *pair_listen(struct iwarp_device *device, enum pair_transport transport,
                                   const struct iwarp_conn_options *o, struct iwarp_eq *eq);
socklen_t pair_loopback(enum pair_transport transport, struct sockaddr_storage *addr);

/* Take the next event, which is of this type. */
struct iwarp_event pair_event(struct iwarp_eq *eq, enum iwarp_event_type type);

/* Take one completion, with this identity. */
struct iwarp_wc pair_wc(struct iwarp_cq *cq, uint64_t wr_id, enum iwarp_wc_status status);

/* No completion now. */
void pair_no_wc(struct iwarp_cq *cq);

/* --- requests; octets [off, off + len) of the side's memory ------------------------------------
 */

struct iwarp_sge pair_sge(const struct pair_side *s, size_t off, size_t len);
void pair_recv(struct pair_side *s, uint64_t wr_id, size_t off, size_t len);
void pair_send(struct pair_side *s, uint64_t wr_id, size_t off, size_t len);

/* From or to the same offsets of `other`'s memory plus `to_off`. */
void pair_write(struct pair_side *s, uint64_t wr_id, size_t off, size_t len,
                const struct pair_side *other, size_t to_off);
void pair_read(struct pair_side *s, uint64_t wr_id, size_t off, size_t len,
               const struct pair_side *other, size_t from_off);

/* A send request with one SGE, signaled; the caller changes what it likes and posts it. */
struct iwarp_send_wr pair_wr(enum iwarp_wr_opcode opcode, uint64_t wr_id, struct iwarp_sge *sge);

/* --- memory ---------------------------------------------------------------------------------- */

/* Octets that follow from seed and position. */
void pair_fill(uint8_t *p, size_t n, uint64_t seed);

/* Descriptors that this process has open. */
unsigned pair_fd_count(void);

/* Wait until every loop of the device is run by its own thread, which may begin late. */
void pair_await_homes(struct iwarp_device *device);

/* Threads of this process. */
unsigned pair_thread_count(void);

#endif
