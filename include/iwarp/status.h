/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What calls return, and how errors explain themselves.
 *
 * Every call that can fail returns `enum iwarp_status`: a small closed set that programs branch on.
 * The reason is in two places:
 *  - iwarp_last_error(): a sentence for the last call that failed on this thread (misuse, limits,
 *    operating system errors).
 *  - struct iwarp_fault: why a stream ended. Each fault is a row of faults.def: status, Terminate
 *    fields, RFC section and text. Completions and events that an ended stream produces carry it.
 */
#ifndef IWARP_STATUS_H
#define IWARP_STATUS_H

#include <iwarp/api.h>
#include <stddef.h>
#include <stdint.h>

IWARP_BEGIN_DECLS

enum iwarp_status {
    IWARP_OK = 0,
    IWARP_AGAIN = -1,     /* nothing to report now, or a queue is full: try again later */
    IWARP_MISUSE = -2,    /* the call or its arguments break the contract in the header */
    IWARP_NO_MEMORY = -3, /* allocation failed */
    IWARP_LIMIT = -4,     /* a bound set at creation, or of the system, is reached */
    IWARP_PROTOCOL = -5,  /* the stream ended on a fault found here, in what the peer sent or in a
                           * request of this end (LOCAL_SGE and so on): the fault says which */
    IWARP_PEER = -6,      /* the peer ended the stream: Terminate, reject, close */
    IWARP_TRANSPORT = -7, /* the connection below failed: refused, unreachable, reset, timed out */
    IWARP_CLOSED = -8     /* the object was closed by this side */
};

/* Which row of faults.def. Rows are only ever added, behind the others: IWARP_FAULT_COUNT grows. */
enum iwarp_fault_code {
    IWARP_FAULT_NONE = 0,
#define FAULT(name, status, layer, etype, code, rfc, text) IWARP_FAULT_##name,
#include <iwarp/faults.def>
#undef FAULT
    IWARP_FAULT_COUNT
};

/* Which side detected the fault. */
enum iwarp_fault_side {
    IWARP_SIDE_LOCAL = 0,    /* this end, in what the peer sent or in the local work */
    IWARP_SIDE_PEER = 1,     /* the peer: it sent a Terminate or Reject, or ended the connection */
    IWARP_SIDE_TRANSPORT = 2 /* the connection below */
};

/*
 * Why a stream ended, in a form that programs can ask. The queue pair or connection that it was got
 * from owns it, and it stays as long as that.
 */
struct iwarp_fault;

/* Return a word for a status ("misuse"), in static storage; never NULL. */
IWARP_API const char *iwarp_status_text(enum iwarp_status status);

/*
 * Return a sentence about the last call that failed on this thread; "" if none did. It stays until
 * the next call that fails on this thread. Calls that succeed leave it alone, so ask only after a
 * failure.
 */
IWARP_API const char *iwarp_last_error(void);

/*
 * Return which fault it is, which side found it, and which status stands for it in calls and
 * events. NULL is allowed: NONE, LOCAL and OK. Any thread.
 */
IWARP_API enum iwarp_fault_code iwarp_fault_code(const struct iwarp_fault *fault);
IWARP_API enum iwarp_fault_side iwarp_fault_side(const struct iwarp_fault *fault);
IWARP_API enum iwarp_status iwarp_fault_status(const struct iwarp_fault *fault);

/*
 * Return the name of a row ("DDP_STAG_INVALID"), in static storage; "NONE" for a code that there is
 * not.
 */
IWARP_API const char *iwarp_fault_name(enum iwarp_fault_code code);

/*
 * Write a full sentence (what was expected, what came, where, which RFC section) into buf, at most
 * size octets with the terminating zero. Returns the length of the whole text in octets, as
 * snprintf does. A NULL fault or code NONE gives "no fault".
 */
IWARP_API size_t iwarp_fault_text(const struct iwarp_fault *fault, char *buf, size_t size);

IWARP_END_DECLS

#endif
