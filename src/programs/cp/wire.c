/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encoding and decoding of control messages. Decoding checks every length and every enumeration
 * before anything is handed on; whether a message makes sense now is for session.c and client.c.
 */
#include "wire.h"

#include "limits.h"

#define HELLO_MAGIC 0x69776370u /* "iwcp" */
#define BATCH_LEN   8

size_t cp_hello_write(uint8_t buf[CP_HELLO_LEN], const struct cp_hello *hello)
{
    struct cp_writer writer = {buf, CP_HELLO_LEN, false};

    cp_add_number(&writer, HELLO_MAGIC, 4);
    cp_add_number(&writer, hello->version, 2);
    cp_add_number(&writer, hello->slots, 2);
    cp_add_number(&writer, hello->slot_size, 4);
    cp_result_write(&writer, hello->result);
    cp_add_number(&writer, hello->pulse_stag, 4);
    cp_add_number(&writer, hello->pulse_to, 8);
    return CP_HELLO_LEN;
}

bool cp_hello_read(const void *data, size_t len, struct cp_hello *hello)
{
    struct cp_reader reader = {data, len, false};

    /* Not compared for equality: a later version may say more. */
    if (len < CP_HELLO_MIN || cp_take_u32(&reader) != HELLO_MAGIC) {
        return false;
    }
    hello->version = cp_take_u16(&reader);
    hello->slots = cp_take_u16(&reader);
    hello->slot_size = cp_take_u32(&reader);
    bool is_read = cp_result_read(&reader, &hello->result);
    hello->pulse_stag = cp_take_u32(&reader);
    hello->pulse_to = cp_take_u64(&reader);
    hello->pulse_stag = reader.bad ? 0 : hello->pulse_stag;
    return is_read;
}

void cp_message_begin(struct cp_writer *writer, uint8_t *buf, size_t size,
                      enum cp_message_type type, unsigned slot)
{
    *writer = (struct cp_writer){buf, size, false};
    cp_add_number(writer, (uint64_t)type, 1);
    cp_add_number(writer, 0, 1);
    cp_add_number(writer, slot, 2);
    cp_add_number(writer, 0, 4);
}

size_t cp_message_finish(const struct cp_writer *writer, uint8_t *buf)
{
    size_t len = (size_t)(writer->at - buf);
    struct cp_writer length = {buf + 4, 4, false};

    cp_add_number(&length, len - CP_HEAD_LEN, 4);
    return writer->full ? 0 : len;
}

bool cp_message_read(const void *data, size_t len, struct cp_message *message)
{
    struct cp_reader reader = {data, len, false};
    unsigned type = cp_take_u8(&reader);

    (void)cp_take_u8(&reader);
    message->slot = cp_take_u16(&reader);
    uint32_t body_len = cp_take_u32(&reader);
    if (reader.bad || body_len != reader.left || type < CP_MESSAGE_OPEN ||
        type > CP_MESSAGE_FAILED) {
        return false;
    }
    message->type = (enum cp_message_type)type;
    message->body = reader;
    return true;
}

void cp_open_write(struct cp_writer *writer, const struct cp_open *open)
{
    cp_add_number(writer, (uint64_t)open->action, 1);
    cp_add_number(writer, open->flags, 1);
    cp_add_number(writer, open->name_len, 2);
    cp_add(writer, open->name, open->name_len);
}

bool cp_open_read(struct cp_reader *reader, struct cp_open *open)
{
    unsigned action = cp_take_u8(reader);

    open->flags = cp_take_u8(reader);
    open->name_len = cp_take_u16(reader);
    open->name = (const char *)cp_take(reader, open->name_len);
    if (reader->bad || reader->left != 0 || action < CP_ACTION_PUT || action > CP_ACTION_LIST ||
        open->name_len >= CP_PATH_MAX || memchr(open->name, 0, open->name_len)) {
        return false;
    }
    open->action = (enum cp_action)action;
    return true;
}

void cp_opened_write(struct cp_writer *writer, const struct cp_opened *opened)
{
    cp_result_write(writer, opened->result);
    cp_add_number(writer, (uint64_t)opened->kind, 4);
    cp_add_number(writer, opened->stag, 4);
    cp_add_number(writer, opened->slots, 4);
    cp_add_number(writer, opened->to, 8);
    cp_add_number(writer, opened->total_files, 8);
    cp_add_number(writer, opened->total_bytes, 8);
}

bool cp_opened_read(struct cp_reader *reader, struct cp_opened *opened)
{
    if (reader->left != CP_OPENED_LEN || !cp_result_read(reader, &opened->result)) {
        return false;
    }
    uint32_t kind = cp_take_u32(reader);
    opened->stag = cp_take_u32(reader);
    opened->slots = cp_take_u32(reader);
    opened->to = cp_take_u64(reader);
    opened->total_files = cp_take_u64(reader);
    opened->total_bytes = cp_take_u64(reader);
    if (kind > CP_KIND_DIRECTORY) {
        return false;
    }
    opened->kind = (enum cp_kind)kind;
    return true;
}

uint8_t *cp_batch_reserve(struct cp_writer *writer)
{
    uint8_t *at = writer->at;

    cp_add_number(writer, 0, BATCH_LEN);
    return at;
}

void cp_batch_set(uint8_t *at, const struct cp_batch *batch)
{
    struct cp_writer writer = {at, BATCH_LEN, false};

    cp_add_number(&writer, batch->data_len, 4);
    cp_add_number(&writer, batch->flags, 4);
}

bool cp_batch_read(struct cp_reader *reader, struct cp_batch *batch)
{
    batch->data_len = cp_take_u32(reader);
    batch->flags = cp_take_u32(reader);
    return !reader->bad;
}

void cp_failure_write(struct cp_writer *writer, const struct cp_failure *failure)
{
    cp_add_number(writer, failure->sequence, 8);
    cp_result_write(writer, failure->result);
}

int cp_failure_read(struct cp_reader *reader, struct cp_failure *failure)
{
    if (reader->left == 0 && !reader->bad) {
        return 0;
    }
    failure->sequence = cp_take_u64(reader);
    return cp_result_read(reader, &failure->result) ? 1 : -1;
}

void cp_result_write(struct cp_writer *writer, struct cp_result result)
{
    cp_add_number(writer, (uint64_t)result.status, 2);
    cp_add_number(writer, result.system_errno, 2);
}

bool cp_result_read(struct cp_reader *reader, struct cp_result *result)
{
    unsigned status = cp_take_u16(reader);

    result->system_errno = cp_take_u16(reader);
    /* A row that only a later version knows: the errno, if any, still says something. */
    result->status = status < CP_STATUS_COUNT ? (enum cp_status)status : CP_SYSTEM;
    return !reader->bad;
}
