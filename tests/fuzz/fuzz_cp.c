/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing what iwarp-cp reads of its peer, and of its caller. The first octet says what the rest
 * is:
 *
 *   0  private data: a hello
 *   1  a message of the control protocol, with all that can be behind its head
 *   2  records
 *   3  a URL
 *
 * Checked is that what was read and is written again is the same, and is read alike; that no name
 * leads out of its directory.
 */
#include "fuzz.h"

#include "programs/cp/path.h"
#include "programs/cp/record.h"
#include "programs/cp/url.h"
#include "programs/cp/wire.h"

#include <string.h>

enum { ROOM = 1 << 16 };

static uint8_t again[ROOM];

static void check_hello(const uint8_t *data, size_t size)
{
    struct cp_hello hello, other;
    uint8_t buf[CP_HELLO_LEN];

    memset(&hello, 0, sizeof hello);
    if (!cp_hello_read(data, size, &hello) || size < CP_HELLO_LEN) {
        return;
    }
    memset(&other, 0, sizeof other);
    FUZZ_EXPECT(cp_hello_write(buf, &hello) == CP_HELLO_LEN);
    FUZZ_EXPECT(cp_hello_read(buf, sizeof buf, &other));
    FUZZ_EXPECT(hello.version == other.version && hello.slots == other.slots &&
                hello.slot_size == other.slot_size && hello.pulse_stag == other.pulse_stag &&
                hello.pulse_to == other.pulse_to);
}

/* --- records --------------------------------------------------------------------------------- */

static void check_record(const struct cp_record *r)
{
    struct cp_writer writer = {again, sizeof again, false};
    struct cp_record other;

    if (r->type == CP_RECORD_FILE || r->type == CP_RECORD_DIRECTORY) {
        FUZZ_EXPECT(cp_name_is_component(r->name, strlen(r->name)));
        FUZZ_EXPECT(!strchr(r->name, '/') && strcmp(r->name, "..") != 0 && r->name[0]);
    }
    FUZZ_EXPECT(strlen(r->name) <= CP_NAME_MAX && r->digest_len <= CP_DIGEST_LEN);
    cp_record_write(&writer, r);
    FUZZ_EXPECT(!writer.full);
    struct cp_reader reader = {again, sizeof again - writer.left, false};
    memset(&other, 0, sizeof other);
    FUZZ_EXPECT(cp_record_read(&reader, &other) == 1 && reader.left == 0);
    FUZZ_EXPECT(other.type == r->type && strcmp(other.name, r->name) == 0 &&
                other.data_len == r->data_len && other.size == r->size);
}

static void check_records(struct cp_reader *reader)
{
    struct cp_record record;
    int rc;

    /* What a type does not have is left alone. */
    memset(&record, 0, sizeof record);
    for (size_t left = reader->left; (rc = cp_record_read(reader, &record)) == 1;) {
        FUZZ_EXPECT(reader->left < left); /* it comes to an end */
        left = reader->left;
        check_record(&record);
        memset(&record, 0, sizeof record);
    }
    FUZZ_EXPECT(rc == 0 || rc == -1);
    FUZZ_EXPECT(rc == -1 || reader->left == 0);
}

/* --- messages -------------------------------------------------------------------------------- */

static void check_open(struct cp_reader reader)
{
    struct cp_writer writer = {again, sizeof again, false};
    size_t before = reader.left;
    struct cp_open open, other;

    if (!cp_open_read(&reader, &open)) {
        return;
    }
    FUZZ_EXPECT(open.name_len <= before && !memchr(open.name, 0, open.name_len));
    cp_open_write(&writer, &open);
    struct cp_reader back = {again, sizeof again - writer.left, false};
    FUZZ_EXPECT(!writer.full && cp_open_read(&back, &other));
    FUZZ_EXPECT(other.action == open.action && other.flags == open.flags &&
                other.name_len == open.name_len &&
                memcmp(other.name, open.name, open.name_len) == 0);
}

static void check_opened(struct cp_reader reader)
{
    struct cp_writer writer = {again, sizeof again, false};
    struct cp_opened opened, other;

    if (cp_opened_read(&reader, &opened)) {
        cp_opened_write(&writer, &opened);
        struct cp_reader back = {again, sizeof again - writer.left, false};
        FUZZ_EXPECT(!writer.full && cp_opened_read(&back, &other));
        FUZZ_EXPECT(other.kind == opened.kind && other.stag == opened.stag &&
                    other.to == opened.to && other.total_bytes == opened.total_bytes);
    }
}

static void check_failures(struct cp_reader reader)
{
    struct cp_failure failure;
    int rc;

    for (size_t left = reader.left; (rc = cp_failure_read(&reader, &failure)) == 1;) {
        FUZZ_EXPECT(reader.left < left);
        left = reader.left;
    }
    FUZZ_EXPECT(rc == 0 || rc == -1);
}

static void check_message(const uint8_t *data, size_t size)
{
    struct cp_message message;
    struct cp_result result;
    struct cp_batch batch;

    if (!cp_message_read(data, size, &message)) {
        return;
    }
    FUZZ_EXPECT(message.body.left == size - CP_HEAD_LEN);
    check_open(message.body);
    check_opened(message.body);
    check_failures(message.body);
    struct cp_reader reader = message.body;
    (void)cp_result_read(&reader, &result);
    reader = message.body;
    if (cp_batch_read(&reader, &batch)) {
        check_records(&reader);
    }
}

/* --- URLs ------------------------------------------------------------------------------------ */

static void check_url(const uint8_t *data, size_t size)
{
    char text[4096];
    struct cp_url url;

    if (size >= sizeof text) {
        return;
    }
    memcpy(text, data, size);
    text[size] = 0;
    const char *why = cp_url_parse(text, &url);
    if (why) {
        FUZZ_EXPECT(why[0] && !strchr(why, '\n'));
        return;
    }
    FUZZ_EXPECT(url.name[0] != '/' && strlen(url.address.host) < CP_HOST_MAX);
    FUZZ_EXPECT(strspn(url.address.port, "0123456789") == strlen(url.address.port));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct cp_reader reader = {data + 1, size - 1, false};
    switch (data[0] & 3) {
    case 0:
        check_hello(data + 1, size - 1);
        break;
    case 1:
        check_message(data + 1, size - 1);
        break;
    case 2:
        check_records(&reader);
        break;
    default:
        check_url(data + 1, size - 1);
        break;
    }
    return 0;
}
