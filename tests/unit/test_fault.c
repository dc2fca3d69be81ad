/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault table and its sentences: every row of faults.def names an RFC section, owes a Terminate
 * that is registered, and tells all it knows. Also the first fault winning, and the last error of
 * each thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"

#define ROW(name) [IWARP_FAULT_##name]

/* Which details the code that finds a fault fills in, bit by bit: the text has to tell them. */
static const unsigned details[IWARP_FAULT_COUNT] = {
    ROW(MPA_KEY) = 7,
    ROW(MPA_REVISION) = 3,
    ROW(MPA_PRIVATE_DATA_LEN) = 3,
    ROW(MPA_ENHANCED_MISSING) = 7,
    ROW(MPA_RTR_MISMATCH) = 3,
    ROW(MPA_CLOSED) = 3,
    ROW(MPA_TIMEOUT) = 3,
    ROW(MPA_UNANSWERED) = 1,
    ROW(MPA_CROWDED) = 1,
    ROW(MPA_BACKLOG) = 1,
    ROW(MPA_BEFORE_REPLY) = 1,
    ROW(MPA_RETRY_FAILED) = 1,
    ROW(MPA_RETRY_TIMEOUT) = 1,
    ROW(MPA_IRD_INSUFFICIENT) = 3,
    ROW(MPA_NO_RTR) = 7,
    ROW(MPA_CRC) = 7,
    ROW(MPA_MARKER) = 7,
    ROW(MPA_ULPDU_LEN) = 7,
    ROW(DDP_SEGMENT_SHORT) = 3,
    ROW(DDP_STAG_INVALID) = 1,
    ROW(DDP_BOUNDS) = 7,
    ROW(DDP_STAG_STREAM) = 1,
    ROW(DDP_STAG_QP) = 7,
    ROW(DDP_ACCESS) = 3,
    ROW(DDP_QP_ACCESS) = 3,
    ROW(DDP_TO_WRAP) = 7,
    ROW(DDP_TAGGED_VERSION) = 1,
    ROW(DDP_QN) = 7,
    ROW(DDP_NO_BUFFER) = 3,
    ROW(DDP_WAITED) = 7,
    ROW(DDP_MSN) = 7,
    ROW(DDP_IRD_EXCEEDED) = 7,
    ROW(DDP_MO) = 7,
    ROW(DDP_TOO_LONG) = 7,
    ROW(DDP_UNTAGGED_VERSION) = 1,
    ROW(RDMAP_STAG_INVALID) = 1,
    ROW(RDMAP_BOUNDS) = 7,
    ROW(RDMAP_ACCESS) = 3,
    ROW(RDMAP_QP_ACCESS) = 3,
    ROW(RDMAP_STAG_STREAM) = 1,
    ROW(RDMAP_STAG_QP) = 7,
    ROW(RDMAP_TO_WRAP) = 7,
    ROW(RDMAP_INVALIDATE) = 1,
    ROW(RDMAP_INVALIDATE_SHARED) = 3,
    ROW(RDMAP_INVALIDATE_BOUND) = 3,
    ROW(ATOMIC_STAG_INVALID) = 1,
    ROW(ATOMIC_BOUNDS) = 7,
    ROW(ATOMIC_ACCESS) = 3,
    ROW(ATOMIC_QP_ACCESS) = 3,
    ROW(ATOMIC_STAG_STREAM) = 1,
    ROW(ATOMIC_STAG_QP) = 7,
    ROW(ATOMIC_TO_WRAP) = 7,
    ROW(ATOMIC_OPERATION) = 3,
    ROW(ATOMIC_ALIGNMENT) = 3,
    ROW(ATOMIC_RESPONSE_UNEXPECTED) = 3,
    ROW(ATOMIC_RESPONSE_ID) = 3,
    ROW(RDMAP_VERSION) = 1,
    ROW(RDMAP_OPCODE) = 3,
    ROW(RDMAP_SWITCHED_OFF) = 1,
    ROW(RDMAP_READ_RESPONSE_UNEXPECTED) = 1,
    ROW(RDMAP_HEADER_LEN) = 7,
    ROW(RDMAP_NOT_LAST) = 1,
    ROW(RDMAP_PEER_CLOSED) = 7,
    ROW(READ_RESPONSE_STAG) = 3,
    ROW(READ_RESPONSE_BOUNDS) = 7,
    ROW(LOCAL_SGE) = 7,
    ROW(LOCAL_SGE_ACCESS) = 7,
    ROW(LOCAL_SGE_BOUNDS) = 7,
    ROW(LOCAL_MEMORY) = 3,
    ROW(LOCAL_DEREGISTERED) = 1,
    ROW(LOCAL_STAG_ZERO) = 1,
    ROW(LOCAL_SEND_IMM) = 0,
    ROW(LOCAL_INVALIDATE) = 1,
    ROW(LOCAL_INVALIDATE_BOUND) = 3,
    ROW(LOCAL_REGISTER) = 1,
    ROW(LOCAL_REGISTER_VALID) = 3,
    ROW(LOCAL_BIND_WINDOW) = 1,
    ROW(LOCAL_BIND_VALID) = 3,
    ROW(LOCAL_BIND_REGION) = 3,
    ROW(LOCAL_BIND_ACCESS) = 7,
    ROW(LOCAL_BIND_BOUNDS) = 7,
    ROW(LOCAL_NO_MEMORY) = 1,
    ROW(LOCAL_BUFFER_LIMIT) = 3,
    ROW(LOCAL_CQ_OVERFLOW) = 1,
    ROW(PEER_TERMINATE) = 7,
    ROW(PEER_NO_RFC7306) = 7,
    ROW(PEER_NO_SEND_IMM) = 7,
    ROW(TCP_CONNECT) = 1,
    ROW(TCP_TIMEOUT) = 1,
    ROW(TCP_LOST) = 1,
    ROW(TCP_CLOSE_TIMEOUT) = 1,
    ROW(TCP_SLOW) = 3,
    ROW(MPA_TLS) = 1,
    ROW(TLS_NOT_TLS) = 1,
    ROW(TLS_CLOSED) = 1,
    ROW(TLS_TIMEOUT) = 1,
    ROW(TLS_ALERT) = 1,
    ROW(TLS_CERT_CA) = 1,
    ROW(TLS_CERT) = 1,
    ROW(TLS_PSK_UNKNOWN) = 1,
    ROW(TLS_RECORD) = 1,
    ROW(TLS_FAILED) = 1,
};

/* Registered codes: RFC 5040 figure 9, RFC 5041 7.2, RFC 5044 8, RFC 6581 8. Layer, type, code. */
static const unsigned char registered[][3] = {
    {0, 0, 0x00}, {0, 1, 0x00}, {0, 1, 0x01}, {0, 1, 0x02}, {0, 1, 0x03}, {0, 1, 0x04},
    {0, 1, 0x09}, {0, 1, 0xff}, {0, 2, 0x05}, {0, 2, 0x06}, {0, 2, 0x07}, {0, 2, 0x08},
    {0, 2, 0x09}, {0, 2, 0xff}, {1, 0, 0x00}, {1, 1, 0x00}, {1, 1, 0x01}, {1, 1, 0x02},
    {1, 1, 0x03}, {1, 1, 0x04}, {1, 2, 0x01}, {1, 2, 0x02}, {1, 2, 0x03}, {1, 2, 0x04},
    {1, 2, 0x05}, {1, 2, 0x06}, {2, 0, 0x01}, {2, 0, 0x02}, {2, 0, 0x03}, {2, 0, 0x04},
    {2, 0, 0x05}, {2, 0, 0x06}, {2, 0, 0x07},
};

/* Sections that exist, as "RFC section" without what stands in parentheses behind it. */
static const char *const sections[] = {
    "RFC 5040 4",
    "RFC 5040 4.8",
    "RFC 5040 5.2",
    "RFC 5040 5.3",
    "RFC 5040 6.1",
    "RFC 5040 6.2",
    "RFC 5040 7.1",
    "RFC 5040 7.2",
    "RFC 5040 8.1.1",
    "RFC 5041 4",
    "RFC 5041 6.2",
    "RFC 5041 7.1",
    "RFC 5042 6.4",
    "RFC 5044 3",
    "RFC 5044 4.3",
    "RFC 5044 4.4",
    "RFC 5044 7.1.1",
    "RFC 5044 7.1.2",
    "RFC 5044 8",
    "RFC 6581 9.1",
    "RFC 6581 9.2",
    "RFC 6581 9.3",
    "RFC 7306 1.1",
    "RFC 7306 5.2.1",
    "RFC 7306 5.2.2",
    "RFC 7306 8.2",
    "RFC 6581 10",
    "RFC 5041 8.3.1",
    "draft-hilland-rddp-verbs 7.3",
    "draft-hilland-rddp-verbs 7.8",
    "draft-hilland-rddp-verbs 8.1.3.2.1",
    "draft-hilland-rddp-verbs 7.10",
    "RFC 8446 4",
    "RFC 8446 4.1.2",
    "RFC 8446 4.2.1",
    "RFC 8446 4.2.11",
    "RFC 8446 4.2.11.2",
    "RFC 8446 4.4.2.4",
    "RFC 8446 4.6.3",
    "RFC 8446 5.1",
    "RFC 8446 5.2",
    "RFC 8446 6",
    "RFC 8446 6.1",
    "RFC 8446 6.2",
    "RFC 7301 3.2",
    "RFC 5280 4.1.2.5",
    "RFC 5280 6.1",
    "RFC 9525 6.1",
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *text_of(const struct iwarp_fault *fault)
{
    static char buf[600];

    assert_true(iwarp_fault_text(fault, buf, sizeof buf) < sizeof buf);
    return buf;
}

/* --- rows --- */

static void row__each__owes_a_registered_terminate_or_none(void **state)
{
    (void)state;
    for (unsigned c = 1; c < IWARP_FAULT_COUNT; c++) {
        const struct iwarp_fault_row *row = iwarp_fault_row((enum iwarp_fault_code)c);
        bool good = row->layer == -1 && row->etype == 0 && row->code == 0;
        for (size_t i = 0; i < COUNT(registered); i++) {
            good = good || (row->layer == registered[i][0] && row->etype == registered[i][1] &&
                            row->code == registered[i][2]);
        }
        if (!good) {
            fail_msg("%s: %d/%u/%02x is not registered", row->name, row->layer, row->etype,
                     row->code);
        }
    }
}

static void row__each__names_a_section_that_exists(void **state)
{
    (void)state;
    for (unsigned c = 1; c < IWARP_FAULT_COUNT; c++) {
        const struct iwarp_fault_row *row = iwarp_fault_row((enum iwarp_fault_code)c);
        size_t len = strcspn(row->rfc, "(");
        bool good = false;
        while (len > 0 && row->rfc[len - 1] == ' ') {
            len--;
        }
        for (size_t i = 0; i < COUNT(sections); i++) {
            good = good || (strlen(sections[i]) == len && strncmp(sections[i], row->rfc, len) == 0);
        }
        if (!good) {
            fail_msg("%s: no such section: %s", row->name, row->rfc);
        }
    }
}

/* The status of each row, and whether the peer is told: only a fault found here may owe it a
 * Terminate. */
static void row__each__has_a_name_of_its_own_and_a_fitting_status(void **state)
{
    (void)state;
    for (unsigned c = 1; c < IWARP_FAULT_COUNT; c++) {
        const struct iwarp_fault_row *row = iwarp_fault_row((enum iwarp_fault_code)c);
        const struct iwarp_fault fault = {.code = (enum iwarp_fault_code)c};
        for (unsigned other = 1; other < c; other++) {
            assert_string_not_equal(row->name, iwarp_fault_name((enum iwarp_fault_code)other));
        }
        assert_string_equal(iwarp_fault_name((enum iwarp_fault_code)c), row->name);
        assert_int_equal(iwarp_fault_status(&fault), row->status);
        switch ((int)row->status) {
        case IWARP_PROTOCOL:
        case IWARP_NO_MEMORY:
        case IWARP_LIMIT:
            break;
        case IWARP_PEER:
            assert_true(row->layer == -1 || c == IWARP_FAULT_RDMAP_PEER_CLOSED);
            break;
        case IWARP_TRANSPORT:
        case IWARP_CLOSED:
            assert_true(row->layer == -1 || c == IWARP_FAULT_LOCAL_TERMINATE);
            break;
        default:
            fail_msg("%s: status %d", row->name, row->status);
        }
    }
}

/* --- sentences --- */

/* Does the sentence show this detail, in decimal, in hexadecimal, or as an error of the system? */
static bool shows(const char *text, uint64_t value)
{
    char decimal[32], hex[32];

    snprintf(decimal, sizeof decimal, "%llu", (unsigned long long)value);
    snprintf(hex, sizeof hex, "0x%08llx", (unsigned long long)value);
    return strstr(text, decimal) || strstr(text, hex) ||
           (value < 200 && strstr(text, strerror((int)value)));
}

static void text__each_row__tells_its_details_name_and_section(void **state)
{
    (void)state;
    for (unsigned c = 1; c < IWARP_FAULT_COUNT; c++) {
        enum iwarp_fault_code code = (enum iwarp_fault_code)c;
        const struct iwarp_fault_row *row = iwarp_fault_row(code);
        bool system = code == IWARP_FAULT_TCP_CONNECT || code == IWARP_FAULT_TCP_LOST;
        const struct iwarp_fault fault = {
            .code = code,
            .rx_pos = 777000777,
            .detail = {system ? ECONNRESET : 111111101, 222222202, 333333303}};
        const char *text = text_of(&fault);
        for (unsigned i = 0; i < 3; i++) {
            if (shows(text, fault.detail[i]) != ((details[c] >> i & 1) == 1)) {
                fail_msg("%s, detail %u: %s", row->name, i, text);
            }
        }
        if (strpbrk(text, "{}") || !strstr(text, row->name) || !strstr(text, row->rfc) ||
            !strstr(text, "after 777000777 received octets")) {
            fail_msg("%s: %s", row->name, text);
        }
    }
}

/* As a person reads them; the width of hexadecimal numbers goes by their size. */
static void text__examples__read_like_this(void **state)
{
    static const struct {
        struct iwarp_fault fault;
        const char *text;
    } row[] = {
        {{IWARP_FAULT_DDP_BOUNDS, IWARP_SIDE_LOCAL, 1234, {0xabcd42, 0x7f0012345678, 4096}, {0}},
         "tagged segment outside its region: STag 0x00abcd42, TO 0x00007f0012345678, 4096 octets "
         "[DDP_BOUNDS, RFC 5041 7.1, after 1234 received octets]"},
        {{IWARP_FAULT_MPA_CRC, IWARP_SIDE_LOCAL, 52, {20, 0x12345678, 0xff}, {0}},
         "CRC32c of the FPDU at stream octet 20 is wrong: it holds 0x12345678, computed 0xff "
         "[MPA_CRC, RFC 5044 4.4, after 52 received octets]"},
        {{IWARP_FAULT_RDMAP_VERSION, IWARP_SIDE_LOCAL, 0, {3, 0, 0}, {0}},
         "RDMAP version 3, expected 1 [RDMAP_VERSION, RFC 5040 7.2, after 0 received octets]"},
        {{IWARP_FAULT_DDP_TO_WRAP, IWARP_SIDE_LOCAL, 9, {0, UINT64_MAX, UINT64_MAX}, {0}},
         "TO 0xffffffffffffffff plus 18446744073709551615 octets wraps past 2^64 (STag 0x00) "
         "[DDP_TO_WRAP, RFC 5041 7.1, after 9 received octets]"},
        {{IWARP_FAULT_READ_RESPONSE_STAG, IWARP_SIDE_LOCAL, 2, {UINT32_MAX, 256, 0}, {0}},
         "RDMA Read Response to STag 0xffffffff, the oldest outstanding RDMA Read has sink STag "
         "0x00000100 [READ_RESPONSE_STAG, RFC 5040 5.2, after 2 received octets]"},
        {{IWARP_FAULT_READ_RESPONSE_STAG, IWARP_SIDE_LOCAL, 2, {1ull << 32, 255, 0}, {0}},
         "RDMA Read Response to STag 0x0000000100000000, the oldest outstanding RDMA Read has sink "
         "STag 0xff [READ_RESPONSE_STAG, RFC 5040 5.2, after 2 received octets]"},
        {{IWARP_FAULT_PEER_TERMINATE, IWARP_SIDE_PEER, 1, {1, 2, 5}, {0}},
         "the peer sent a Terminate: layer 1, error type 2, code 0x05 (DDP_TOO_LONG): a message "
         "was "
         "longer than the receive posted for it "
         "[PEER_TERMINATE, RFC 5040 4.8, after 1 received octets]"},
        /* errors without a code share these: no name */
        {{IWARP_FAULT_PEER_TERMINATE, IWARP_SIDE_PEER, 1, {0, 2, 7}, {0}},
         "the peer sent a Terminate: layer 0, error type 2, code 0x07: this stream cannot go on "
         "there "
         "[PEER_TERMINATE, RFC 5040 4.8, after 1 received octets]"},
        {{IWARP_FAULT_PEER_TERMINATE, IWARP_SIDE_PEER, 1, {0, 0, 0}, {0}},
         "the peer sent a Terminate: layer 0, error type 0, code 0x00: it had a local "
         "catastrophic error; its log or its events tell which "
         "[PEER_TERMINATE, RFC 5040 4.8, after 1 received octets]"},
        {{IWARP_FAULT_PEER_TERMINATE, IWARP_SIDE_PEER, 1, {0, 1, 1}, {0}},
         "the peer sent a Terminate: layer 0, error type 1, code 0x01 (RDMAP_BOUNDS): a remote "
         "access went beyond its "
         "region "
         "[PEER_TERMINATE, RFC 5040 4.8, after 1 received octets]"},
        {{IWARP_FAULT_PEER_TERMINATE, IWARP_SIDE_PEER, 1, {9, 9, 0x99}, {0}},
         "the peer sent a Terminate: layer 9, error type 9, code 0x99: not registered "
         "[PEER_TERMINATE, RFC 5040 4.8, after 1 received octets]"},
        {{IWARP_FAULT_TCP_CONNECT, IWARP_SIDE_TRANSPORT, 0, {ECONNREFUSED, 0, 0}, {0}},
         "connecting failed: Connection refused "
         "[TCP_CONNECT, RFC 5044 8, after 0 received octets]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(row); i++) {
        assert_string_equal(text_of(&row[i].fault), row[i].text);
    }
}

static void text__no_fault__says_so(void **state)
{
    const struct iwarp_fault none = {.code = IWARP_FAULT_NONE};

    (void)state;
    assert_string_equal(text_of(NULL), "no fault");
    assert_string_equal(text_of(&none), "no fault");
    assert_int_equal(iwarp_fault_code(NULL), IWARP_FAULT_NONE);
    assert_int_equal(iwarp_fault_status(NULL), IWARP_OK);
    assert_int_equal(iwarp_fault_side(NULL), IWARP_SIDE_LOCAL);
}

/* As snprintf: the length is that of the whole text, the end is always there, nothing behind it. */
static void text__any_buffer_size__is_cut_like_snprintf(void **state)
{
    const struct iwarp_fault fault = {.code = IWARP_FAULT_DDP_MSN, .detail = {0, 5, 4}};
    char whole[300], buf[300];
    size_t len = iwarp_fault_text(&fault, whole, sizeof whole);

    (void)state;
    assert_int_equal(len, strlen(whole));
    assert_int_equal(iwarp_fault_text(&fault, NULL, 0), len);
    for (size_t size = 0; size <= len + 2; size++) {
        memset(buf, 0x55, sizeof buf);
        assert_int_equal(iwarp_fault_text(&fault, buf, size), len);
        size_t kept = size == 0 ? 0 : size <= len ? size - 1 : len;
        assert_memory_equal(buf, whole, kept);
        if (size > 0) {
            assert_int_equal(buf[kept], '\0');
        }
        for (size_t i = size == 0 ? 0 : kept + 1; i < sizeof buf; i++) {
            assert_int_equal(buf[i], 0x55);
        }
    }
}

/* --- recording --- */

/* RFC 5040 7.1: the first error is the one that is told. */
static void set__second_fault__changes_nothing(void **state)
{
    struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};

    (void)state;
    iwarp_fault_set(&fault, IWARP_FAULT_DDP_MO, IWARP_SIDE_PEER, 1, 2, 3);
    iwarp_fault_set(&fault, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, 4, 5, 6);
    assert_int_equal(iwarp_fault_code(&fault), IWARP_FAULT_DDP_MO);
    assert_int_equal(iwarp_fault_side(&fault), IWARP_SIDE_PEER);
    assert_int_equal(fault.detail[0], 1);
    assert_int_equal(fault.detail[1], 2);
    assert_int_equal(fault.detail[2], 3);
}

static void row__number_out_of_range__is_none(void **state)
{
    (void)state;
    assert_string_equal(iwarp_fault_name(IWARP_FAULT_COUNT), "NONE");
    assert_string_equal(iwarp_fault_name((enum iwarp_fault_code)100000), "NONE");
    assert_string_equal(iwarp_fault_name(IWARP_FAULT_NONE), "NONE");
}

static void status_text__each_status__is_one_of_a_kind(void **state)
{
    (void)state;
    for (int a = IWARP_CLOSED; a <= IWARP_OK; a++) {
        const char *text = iwarp_status_text((enum iwarp_status)a);
        assert_true(strlen(text) > 0);
        assert_string_not_equal(text, "unknown status");
        for (int b = IWARP_CLOSED; b < a; b++) {
            assert_string_not_equal(text, iwarp_status_text((enum iwarp_status)b));
        }
    }
    assert_string_equal(iwarp_status_text((enum iwarp_status)17), "unknown status");
}

/* --- last error --- */

static void *fail_elsewhere(void *arg)
{
    (void)arg;
    if (strcmp(iwarp_last_error(), "") != 0) {
        return NULL;
    }
    iwarp_fail(IWARP_LIMIT, "elsewhere");
    return strcmp(iwarp_last_error(), "elsewhere") == 0 ? (void *)1 : NULL;
}

static void fail__each_thread__has_its_own_sentence(void **state)
{
    pthread_t thread;
    void *good = NULL;

    (void)state;
    assert_int_equal(iwarp_fail(IWARP_MISUSE, "%s is %d", "it", 7), IWARP_MISUSE);
    assert_string_equal(iwarp_last_error(), "it is 7");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_non_null(good);
    assert_string_equal(iwarp_last_error(), "it is 7");
}

static void fail__overlong_sentence__is_cut(void **state)
{
    char lots[2000];

    (void)state;
    memset(lots, 'x', sizeof lots - 1);
    lots[sizeof lots - 1] = '\0';
    iwarp_fail(IWARP_LIMIT, "%s", lots);
    assert_true(strlen(iwarp_last_error()) >= 255);
    assert_true(strlen(iwarp_last_error()) < sizeof lots - 1);
}

static void fail_fault__sets_the_sentence_and_returns_the_status(void **state)
{
    const struct iwarp_fault fault = {.code = IWARP_FAULT_LOCAL_BUFFER_LIMIT, .detail = {5, 6, 0}};

    (void)state;
    assert_int_equal(iwarp_fail_fault(&fault), IWARP_LIMIT);
    assert_string_equal(iwarp_last_error(), text_of(&fault));
}

static void terminate_meaning__of_all_numbers__is_there_for_the_registered_ones(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 1u << 16; n++) {
        unsigned layer = n >> 12, etype = n >> 8 & 15, code = n & 255;
        bool expected = layer == 0 && etype == 0; /* any code */
        for (size_t i = 0; i < COUNT(registered); i++) {
            expected |=
                registered[i][0] == layer && registered[i][1] == etype && registered[i][2] == code;
        }
        const char *meaning = iwarp_terminate_meaning(layer, etype, code);
        assert_int_equal(meaning != NULL, expected);
        assert_true(!meaning || strlen(meaning) > 10);
    }
    for (int i = 1; i < IWARP_FAULT_COUNT; i++) { /* what this end sends is registered */
        const struct iwarp_fault_row *row = iwarp_fault_row((enum iwarp_fault_code)i);
        assert_true(row->layer < 0 ||
                    iwarp_terminate_meaning((unsigned)row->layer, row->etype, row->code));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminate_meaning__of_all_numbers__is_there_for_the_registered_ones),
        cmocka_unit_test(row__each__owes_a_registered_terminate_or_none),
        cmocka_unit_test(row__each__names_a_section_that_exists),
        cmocka_unit_test(row__each__has_a_name_of_its_own_and_a_fitting_status),
        cmocka_unit_test(text__each_row__tells_its_details_name_and_section),
        cmocka_unit_test(text__examples__read_like_this),
        cmocka_unit_test(text__no_fault__says_so),
        cmocka_unit_test(text__any_buffer_size__is_cut_like_snprintf),
        cmocka_unit_test(set__second_fault__changes_nothing),
        cmocka_unit_test(row__number_out_of_range__is_none),
        cmocka_unit_test(status_text__each_status__is_one_of_a_kind),
        cmocka_unit_test(fail__each_thread__has_its_own_sentence),
        cmocka_unit_test(fail__overlong_sentence__is_cut),
        cmocka_unit_test(fail_fault__sets_the_sentence_and_returns_the_status),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
