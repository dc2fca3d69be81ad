/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records: what the octets in a slot are. A transfer is one sequence of records, cut into messages;
 * the data that they speak of lies in the slots, one piece after the other.
 *
 *   file      = FILE DATA* (END | ABORT)
 *   directory = DIRECTORY (file | directory | SKIP)* LEAVE
 *   transfer  = (file | directory | SKIP)*
 *
 * Names are single components, so no record can lead out of the directory it is read in.
 */
#ifndef CP_RECORD_H
#define CP_RECORD_H

#include "limits.h"
#include "octets.h"
#include "status.h"

#define CP_DIGEST_LEN 32

/*
 * What is copied of a mode. Of a directory also the sticky bit, which keeps people from removing
 * the files of others, and set-group-ID, which gives no right to anybody. A file with set-user-ID
 * or set-group-ID would run with the rights of whoever receives it.
 */
#define CP_FILE_MODE      0777
#define CP_DIRECTORY_MODE 03777

enum cp_record_type {
    CP_RECORD_FILE = 1,  /* a file begins: name, mode, time, size */
    CP_RECORD_DATA,      /* its next data_len octets, from the slot */
    CP_RECORD_END,       /* it is complete; digest if asked for */
    CP_RECORD_ABORT,     /* it cannot be completed: result */
    CP_RECORD_DIRECTORY, /* a directory begins: name, mode, time */
    CP_RECORD_LEAVE,     /* it is complete */
    CP_RECORD_SKIP       /* something that is not copied: name, result */
};

struct cp_record {
    enum cp_record_type type;
    char name[CP_NAME_MAX + 1];
    uint32_t mode; /* CP_FILE_MODE or CP_DIRECTORY_MODE of it */
    uint64_t size;
    int64_t mtime;
    uint32_t mtime_ns;
    uint32_t data_len;
    size_t digest_len; /* 0 or CP_DIGEST_LEN */
    uint8_t digest[CP_DIGEST_LEN];
    struct cp_result result;
};

void cp_record_write(struct cp_writer *writer, const struct cp_record *record);

/* 1: a record, 0: the end, -1: malformed. */
int cp_record_read(struct cp_reader *reader, struct cp_record *record);

#endif
