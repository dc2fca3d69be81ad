/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control protocol of iwarp-cp: what travels as MPA private data and in RDMAP Sends. File data
 * never does; it goes by RDMA Write and RDMA Read between the slots of both ends.
 *
 *   client                                            server
 *   MPA Request, private data: hello (wishes)    ->
 *                                                <-   MPA Reply: hello (grants), or Reject (why)
 *   OPEN n (put, get or list; name)              ->   n: slots that the client wants, of those
 *                                                     that were granted; 0: all, and no fewer
 *                                                <-   OPENED (result, slots, their STag and TO)
 *   put:  RDMA Write into slot n, STORE n        ->
 *                                                <-   STORED n (what failed)
 *   get:  FETCH n                                ->
 *                                                <-   FETCHED n (what is in slot n)
 *         RDMA Read of slot n                    ->
 *   list: FETCH n                                ->
 *                                                <-   FETCHED n (no data)
 *
 * Every request has one answer, in order, and a client has at most as many requests outstanding as
 * there are slots: so neither end ever sends what the other has no receive posted for. FAILED may
 * come at any time, once, from the server; the connection ends after it. The server
 * believes no client about where the server's memory is, and a client reaches the slots of its
 * transfer, the pulse and nothing else.
 *
 * An end that is kept by its disk says nothing meanwhile. So each has a pulse, one octet that the
 * other end may read: it is not 0 while this end does something else than wait for a message. An
 * end that has waited for long reads it, and waits anew if it is not 0. A peer of an older version
 * has none: its hello has 0 for the STag, or is shorter.
 *
 * Numbers are big-endian and of fixed size. A message is a head of 8 octets (type, 0, slot, length
 * of the rest) and that rest, and nothing behind it.
 */
#ifndef CP_WIRE_H
#define CP_WIRE_H

#include "octets.h"
#include "status.h"

#define CP_HELLO_MIN  20 /* of an older version, which has no pulse */
#define CP_HELLO_LEN  28
#define CP_HEAD_LEN   8
#define CP_OPENED_LEN 40

/* The two private data blocks. The client wishes, the server grants no more than that. */
struct cp_hello {
    uint16_t version;
    uint16_t slots;
    uint32_t slot_size;
    struct cp_result result; /* of the server; in a Reject the reason */
    uint32_t pulse_stag;     /* of the end that says it; 0: it has none */
    uint64_t pulse_to;
};

enum cp_message_type {
    CP_MESSAGE_OPEN = 1,
    CP_MESSAGE_OPENED,
    CP_MESSAGE_STORE,
    CP_MESSAGE_STORED,
    CP_MESSAGE_FETCH,
    CP_MESSAGE_FETCHED,
    CP_MESSAGE_FAILED
};

enum cp_action { CP_ACTION_PUT = 1, CP_ACTION_GET, CP_ACTION_LIST };

enum cp_open_flags {
    CP_OPEN_RECURSIVE = 1 << 0,
    CP_OPEN_CHECKSUM = 1 << 1, /* SHA-256 of every file */
    CP_OPEN_INTO = 1 << 2,     /* put: the name is a directory, made if missing */
    CP_OPEN_ONE_FILE = 1 << 3, /* put: one file; goes into the name if that is a directory */
    CP_OPEN_TOTALS = 1 << 4,   /* get: count files and octets first */
    CP_OPEN_SYNC = 1 << 5      /* put: on stable storage before STORED; get: the client flushes */
};

struct cp_open {
    enum cp_action action;
    unsigned flags;
    const char *name; /* not terminated */
    size_t name_len;
};

/* What the name of OPEN turned out to be. */
enum cp_kind { CP_KIND_NAME = 0, CP_KIND_FILE, CP_KIND_DIRECTORY };

struct cp_opened {
    struct cp_result result;
    enum cp_kind kind;
    uint32_t stag;
    uint32_t slots; /* of the transfer; 0, from older servers: all that were granted */
    uint64_t to;
    uint64_t total_files;
    uint64_t total_bytes;
};

/* The rest of STORE and FETCHED is records, see record.h. */
#define CP_FETCHED_END 1 /* nothing comes after this slot */
struct cp_batch {
    uint32_t data_len; /* octets in the slot */
    uint32_t flags;
};

/* One entry of STORED: which file or directory of the transfer, counted from 0, and why. */
struct cp_failure {
    uint64_t sequence;
    struct cp_result result;
};

struct cp_message {
    enum cp_message_type type;
    uint16_t slot;
    struct cp_reader body;
};

size_t cp_hello_write(uint8_t buf[CP_HELLO_LEN], const struct cp_hello *hello);

/* False if this is not iwarp-cp's private data. Other versions are read, as far as it goes. */
bool cp_hello_read(const void *data, size_t len, struct cp_hello *hello);

/* Begin a message in buf (at least CP_HEAD_LEN octets); finish returns the whole length, 0 if full.
 */
void cp_message_begin(struct cp_writer *writer, uint8_t *buf, size_t size,
                      enum cp_message_type type, unsigned slot);
size_t cp_message_finish(const struct cp_writer *writer, uint8_t *buf);
bool cp_message_read(const void *data, size_t len, struct cp_message *message);

void cp_open_write(struct cp_writer *writer, const struct cp_open *open);
bool cp_open_read(struct cp_reader *reader, struct cp_open *open);
void cp_opened_write(struct cp_writer *writer, const struct cp_opened *opened);
bool cp_opened_read(struct cp_reader *reader, struct cp_opened *opened);

/* The data length is known only after the records: the batch is written first and set at the end.
 */
uint8_t *cp_batch_reserve(struct cp_writer *writer);
void cp_batch_set(uint8_t *at, const struct cp_batch *batch);
bool cp_batch_read(struct cp_reader *reader, struct cp_batch *batch);

void cp_failure_write(struct cp_writer *writer, const struct cp_failure *failure);

/* 1: an entry, 0: the end, -1: malformed. */
int cp_failure_read(struct cp_reader *reader, struct cp_failure *failure);

void cp_result_write(struct cp_writer *writer, struct cp_result result);
bool cp_result_read(struct cp_reader *reader, struct cp_result *result);

#endif
