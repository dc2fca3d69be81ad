/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encoding and decoding of records. A record that was read has a usable name (one component, not
 * one of iwarp-cp's own temporary names; only a SKIP may tell of those), permission bits only, a
 * possible time and size. The order of records is checked by the sink.
 */
#include "record.h"

#include "path.h"

#define FILE_FIXED_LEN 27 /* all of a FILE record but the name */
_Static_assert(FILE_FIXED_LEN + CP_NAME_MAX <= CP_RECORD_MAX, "largest record");

static void write_name(struct cp_writer *writer, const struct cp_record *record)
{
    size_t len = strlen(record->name);

    cp_add_number(writer, len, 2);
    cp_add(writer, record->name, len);
}

static bool read_name(struct cp_reader *reader, struct cp_record *record)
{
    size_t len = cp_take_u16(reader);
    const uint8_t *name = cp_take(reader, len);

    if (!name || !cp_name_is_component((const char *)name, len)) {
        return false;
    }
    memcpy(record->name, name, len);
    record->name[len] = '\0';
    return record->type == CP_RECORD_SKIP || !cp_name_reserved(record->name);
}

static void write_attributes(struct cp_writer *writer, const struct cp_record *record)
{
    cp_add_number(writer, record->mode, 4);
    cp_add_number(writer, (uint64_t)record->mtime, 8);
    cp_add_number(writer, record->mtime_ns, 4);
    cp_add_number(writer, record->size, 8);
    write_name(writer, record);
}

static bool read_attributes(struct cp_reader *reader, struct cp_record *record)
{
    bool is_dir = record->type == CP_RECORD_DIRECTORY;

    record->mode = cp_take_u32(reader) & (is_dir ? CP_DIRECTORY_MODE : CP_FILE_MODE);
    record->mtime = (int64_t)cp_take_u64(reader);
    record->mtime_ns = cp_take_u32(reader);
    record->size = cp_take_u64(reader);
    return record->mtime_ns < 1000000000 && record->size <= INT64_MAX && read_name(reader, record);
}

void cp_record_write(struct cp_writer *writer, const struct cp_record *record)
{
    cp_add_number(writer, (uint64_t)record->type, 1);
    switch (record->type) {
    case CP_RECORD_FILE:
    case CP_RECORD_DIRECTORY:
        write_attributes(writer, record);
        break;
    case CP_RECORD_DATA:
        cp_add_number(writer, record->data_len, 4);
        break;
    case CP_RECORD_END:
        cp_add_number(writer, record->digest_len, 1);
        cp_add(writer, record->digest, record->digest_len);
        break;
    case CP_RECORD_ABORT:
        cp_add_number(writer, (uint64_t)record->result.status, 2);
        cp_add_number(writer, record->result.system_errno, 2);
        break;
    case CP_RECORD_SKIP:
        cp_add_number(writer, (uint64_t)record->result.status, 2);
        cp_add_number(writer, record->result.system_errno, 2);
        write_name(writer, record);
        break;
    case CP_RECORD_LEAVE:
        break;
    }
}

static bool read_digest(struct cp_reader *reader, struct cp_record *record)
{
    record->digest_len = cp_take_u8(reader);
    if (record->digest_len != 0 && record->digest_len != CP_DIGEST_LEN) {
        return false;
    }
    const uint8_t *digest = cp_take(reader, record->digest_len);
    if (digest) {
        memcpy(record->digest, digest, record->digest_len);
    }
    return digest != NULL;
}

static bool read_result(struct cp_reader *reader, struct cp_record *record)
{
    unsigned status = cp_take_u16(reader);

    record->result.system_errno = cp_take_u16(reader);
    record->result.status = status < CP_STATUS_COUNT ? (enum cp_status)status : CP_SYSTEM;
    return status != CP_OK;
}

int cp_record_read(struct cp_reader *reader, struct cp_record *record)
{
    bool ok = true;

    if (reader->left == 0 && !reader->bad) {
        return 0;
    }
    unsigned type = cp_take_u8(reader);
    if (type < CP_RECORD_FILE || type > CP_RECORD_SKIP) {
        return -1;
    }
    record->type = (enum cp_record_type)type;
    switch (record->type) {
    case CP_RECORD_FILE:
    case CP_RECORD_DIRECTORY:
        ok = read_attributes(reader, record);
        break;
    case CP_RECORD_DATA:
        record->data_len = cp_take_u32(reader);
        break;
    case CP_RECORD_END:
        ok = read_digest(reader, record);
        break;
    case CP_RECORD_ABORT:
        ok = read_result(reader, record);
        break;
    case CP_RECORD_SKIP:
        ok = read_result(reader, record) && read_name(reader, record);
        break;
    case CP_RECORD_LEAVE:
        break;
    }
    return ok && !reader->bad ? 1 : -1;
}
