/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection as packets of a capture: handshake, sequence numbers and acknowledgements that fit
 * what it carried, and its end. Side 0 is the one that sent the MPA Request.
 *
 * When both ends of a connection are recorded into one file, they share one flow, which records
 * what each end sends and not what it receives; else each octet would be there twice. The records
 * are in the order of sending, since a sender holds the flow from before it sends until it has
 * recorded (iwarp_flow_hold).
 */
#ifndef IWARP_CAPTURE_FLOW_H
#define IWARP_CAPTURE_FLOW_H

#include "capture/capture.h"

#include <sys/socket.h>

struct iwarp_flow;

/* False: it is no address of IPv4 or IPv6. IPv4 in IPv6 becomes IPv4, as it is on the wire. */
bool iwarp_flow_addr(struct iwarp_headers_addr *to, const struct sockaddr *addr, socklen_t len);

/* A number of this process's, and for each number a pair of addresses (RFC 5737): [0] is side 0's.
 */
uint32_t iwarp_flow_number(void);
void iwarp_flow_made_up(uint32_t number, struct iwarp_headers_addr addr[2]);

/* Record side `side` of the connection between addr[0] and addr[1]. NULL: no memory. */
struct iwarp_flow *iwarp_flow_join(struct iwarp_capture *c, const struct iwarp_headers_addr addr[2],
                                   unsigned side);

/* End this side's part; the flow goes with its last. */
void iwarp_flow_leave(struct iwarp_flow *f, unsigned side);

/* Around sending and recording what was sent. */
void iwarp_flow_hold(struct iwarp_flow *f);
void iwarp_flow_release(struct iwarp_flow *f);

/* held: this side has sent the first len octets of iov. */
void iwarp_flow_sent(struct iwarp_flow *f, unsigned side, const struct iovec *iov, size_t len);

/* held: FIN or RST of this side. */
void iwarp_flow_ended(struct iwarp_flow *f, unsigned side, bool reset);

/* Not held: this side has received this. */
void iwarp_flow_received(struct iwarp_flow *f, unsigned side, const struct iovec *iov, size_t len);
void iwarp_flow_received_end(struct iwarp_flow *f, unsigned side, bool reset);

/*
 * Writes what an STag of this side stands for, of size octets at most, 0 at their end; or nothing,
 * if it is not known. Called with the flow held, so it may wait for nobody.
 */
typedef void iwarp_flow_describe_fn(void *arg, uint32_t stag, char *text, size_t size);

/* Packets that use an STag of this side, recently not used, tell by a comment what it stands for.
 * Until leave. */
void iwarp_flow_describe(struct iwarp_flow *f, unsigned side, iwarp_flow_describe_fn *fn,
                         void *arg);

/* The next packet that this side records has this comment too; at most 63 octets. */
void iwarp_flow_note(struct iwarp_flow *f, unsigned side, const char *text);

#endif
