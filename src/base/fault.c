/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault table, its sentences, and the last error of each thread. Knows no protocol beyond the
 * table: what a fault means for a stream is decided in src/stream.
 */
#include "base/fault.h"
#include "base/probe.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct iwarp_fault_row rows[IWARP_FAULT_COUNT] = {
    [IWARP_FAULT_NONE] = {"NONE", IWARP_OK, -1, 0, 0, "", "no fault"},
#define FAULT(name, status, layer, etype, code, rfc, text)                                         \
    [IWARP_FAULT_##name] = {#name, IWARP_##status, layer, etype, code, rfc, text},
#include <iwarp/faults.def>
#undef FAULT
};

static __thread char last_error[512];

const struct iwarp_fault_row *iwarp_fault_row(enum iwarp_fault_code code)
{
    return &rows[(unsigned)code < IWARP_FAULT_COUNT ? code : IWARP_FAULT_NONE];
}

void iwarp_fault_set(struct iwarp_fault *fault, enum iwarp_fault_code code,
                     enum iwarp_fault_side side, uint64_t d0, uint64_t d1, uint64_t d2)
{
    if (fault->code != IWARP_FAULT_NONE) {
        return;
    }
    fault->code = code;
    fault->side = side;
    fault->detail[0] = d0;
    fault->detail[1] = d1;
    fault->detail[2] = d2;
    IWARP_PROBE5(fault, code, side, d0, d1, d2);
}

enum iwarp_fault_code iwarp_fault_code(const struct iwarp_fault *fault)
{
    return fault ? fault->code : IWARP_FAULT_NONE;
}

enum iwarp_fault_side iwarp_fault_side(const struct iwarp_fault *fault)
{
    return fault ? fault->side : IWARP_SIDE_LOCAL;
}

enum iwarp_status iwarp_fault_status(const struct iwarp_fault *fault)
{
    return iwarp_fault_row(iwarp_fault_code(fault))->status;
}

const char *iwarp_fault_name(enum iwarp_fault_code code)
{
    return iwarp_fault_row(code)->name;
}

const char *iwarp_status_text(enum iwarp_status status)
{
    switch (status) {
    case IWARP_OK:
        return "ok";
    case IWARP_AGAIN:
        return "try again";
    case IWARP_MISUSE:
        return "misuse";
    case IWARP_NO_MEMORY:
        return "out of memory";
    case IWARP_LIMIT:
        return "limit reached";
    case IWARP_PROTOCOL:
        return "protocol error";
    case IWARP_PEER:
        return "ended by the peer";
    case IWARP_TRANSPORT:
        return "connection failed";
    case IWARP_CLOSED:
        return "closed";
    }
    return "unknown status";
}

/* --- sentences ------------------------------------------------------------------------------- */

struct text {
    char *buf;
    size_t size, len;
};

static void text_add(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, t->len++) {
        if (t->len + 1 < t->size) {
            t->buf[t->len] = s[i];
        }
    }
}

static void text_str(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

/* What an alert of TLS means (RFC 8446 6.2), for the end that receives it. */
static const char *alert_meaning(uint64_t alert)
{
    static const struct {
        unsigned alert;
        const char *text;
    } meanings[] = {
        {10, "it did not expect this message"},
        {20, "a record of this end was changed, lost or repeated on its way"},
        {22, "a record of this end was too long, or changed on its way"},
        {40, "the two ends agree on nothing: it has no such pre-shared key, wants certificates, or "
             "does not allow this end"},
        {42, "the certificate of this end is bad, or not for the name that the peer expects"},
        {43, "it cannot use this kind of certificate"},
        {44, "the certificate of this end was revoked"},
        {45, "the certificate of this end has expired"},
        {46, "it does not accept the certificate of this end"},
        {47, "what this end has sent is not allowed, or the pre-shared keys differ"},
        {48, "it does not know the CA of this end's certificate"},
        {49, "it does not allow this end"},
        {50, "it cannot decode what this end has sent"},
        {51, "a signature or the pre-shared key of this end is wrong"},
        {70, "it has no TLS 1.3, or what this end has sent was changed on its way"},
        {71, "it wants stronger ciphers"},
        {80, "it has failed by itself"},
        {86, "it thinks that somebody on the path wants an older TLS"},
        {90, "it was told to stop"},
        {109, "it misses something in what this end has sent"},
        {110, "it was answered what it had not asked for"},
        {112, "it does not know the name that this end connects to"},
        {113, "it does not accept what this end shows about its certificate's revocation"},
        {115, "it does not know the identity of this end's pre-shared key"},
        {116, "it wants a certificate of this end"},
        {120, "it does not speak iWARP (ALPN)"},
    };

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].alert == alert) {
            return meanings[i].text;
        }
    }
    return "RFC 8446 6.2 says what it means";
}

/* Of an error of OpenSSL, whose reasons mean something in their library only. */
static const char *openssl_words(uint64_t error)
{
    const char *words = ERR_reason_error_string((unsigned long)error);

    return words ? words : "OpenSSL has no words for it";
}

/* One placeholder, without its braces: "0", "x0", "errno0", "alert0", "ssl0" or "cert0". */
static void text_detail(struct text *t, const char *spec, size_t n, const uint64_t *detail)
{
    char number[160];
    unsigned index = (unsigned)(spec[n - 1] - '0');
    uint64_t value = index < 3 ? detail[index] : 0;

    if (spec[0] == 'a' || spec[0] == 's' || spec[0] == 'c') {
        text_str(t, spec[0] == 'a'   ? alert_meaning(value)
                    : spec[0] == 's' ? openssl_words(value)
                                     : X509_verify_cert_error_string((long)value));
        return;
    }
    if (n == 1) {
        snprintf(number, sizeof number, "%" PRIu64, value);
    } else if (spec[0] == 'x') {
        snprintf(number, sizeof number, "0x%0*" PRIx64,
                 value > UINT32_MAX ? 16
                 : value > 255      ? 8
                                    : 2,
                 value);
    } else {
        char reason[128];
        snprintf(number, sizeof number, "%s", strerror_r((int)value, reason, sizeof reason));
    }
    text_str(t, number);
}

static void text_row(struct text *t, const struct iwarp_fault_row *row, const uint64_t *detail)
{
    for (const char *p = row->text; *p;) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (end) {
            text_detail(t, p + 1, (size_t)(end - p - 1), detail);
            p = end + 1;
        } else {
            text_add(t, p++, 1);
        }
    }
}

/*
 * The row of a fault that this end would report in the same way: of those that share a code the
 * first, which is the general one. None for a local error (0/0/00) and 0/2/07: errors without a
 * code share these. None of the rows of Atomics either: they share their codes, and the quoted
 * opcode tells them apart.
 */
static const char *same_here(const uint64_t *detail)
{
    bool unspecific = detail[0] == 0 && (detail[1] == 0 || (detail[1] == 2 && detail[2] == 7));

    for (unsigned i = 1; i < IWARP_FAULT_COUNT && !unspecific; i++) {
        if (rows[i].layer >= 0 && (uint64_t)rows[i].layer == detail[0] &&
            rows[i].etype == detail[1] && rows[i].code == detail[2] &&
            strncmp(rows[i].name, "ATOMIC_", 7) != 0) {
            return rows[i].name;
        }
    }
    return NULL;
}

const char *iwarp_terminate_meaning(unsigned layer, unsigned etype, unsigned code)
{
    static const struct {
        unsigned layer, etype;
        int code;
        const char *text;
    } meanings[] = {
#define TERMINATE(layer, etype, code, rfc, text) {layer, etype, code, text},
#include <iwarp/terminates.def>
#undef TERMINATE
    };

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].layer == layer && meanings[i].etype == etype &&
            (meanings[i].code < 0 || (unsigned)meanings[i].code == code)) {
            return meanings[i].text;
        }
    }
    return NULL;
}

static void text_quote(struct text *t, const struct iwarp_quote *q)
{
    char quote[160];

    switch ((enum iwarp_quote_kind)q->kind) {
    case IWARP_QUOTE_TAGGED:
        snprintf(quote, sizeof quote,
                 "; it quotes a tagged segment (opcode 0x%x) to STag 0x%08" PRIx32
                 ", TO 0x%016" PRIx64,
                 (unsigned)q->opcode, q->stag, q->to);
        break;
    case IWARP_QUOTE_UNTAGGED:
        snprintf(quote, sizeof quote,
                 "; it quotes message %" PRIu32 " of queue %" PRIu32 " (opcode 0x%x)", q->msn,
                 q->qn, (unsigned)q->opcode);
        break;
    case IWARP_QUOTE_READ:
        snprintf(quote, sizeof quote,
                 "; it quotes RDMA Read Request %" PRIu32 " for %" PRIu32
                 " octets of STag 0x%08" PRIx32 ", TO 0x%016" PRIx64,
                 q->msn, q->len, q->stag, q->to);
        break;
    case IWARP_QUOTE_NONE:
    default:
        return;
    }
    text_str(t, quote);
}

/* All that is known about a Terminate behind its three numbers. */
static void text_terminate(struct text *t, const struct iwarp_fault *fault)
{
    const uint64_t *d = fault->detail;
    const char *name = same_here(d);
    const char *meaning = iwarp_terminate_meaning((unsigned)d[0], (unsigned)d[1], (unsigned)d[2]);

    if (name) {
        text_str(t, " (");
        text_str(t, name);
        text_str(t, ")");
    }
    text_str(t, meaning ? ": " : ": not registered");
    text_str(t, meaning ? meaning : "");
    if (fault->quote.siw_bit_order) {
        text_str(t, "; in the bit order of siw");
    }
    text_quote(t, &fault->quote);
}

size_t iwarp_fault_text(const struct iwarp_fault *fault, char *buf, size_t size)
{
    struct text t = {buf, size, 0};
    const struct iwarp_fault_row *row = iwarp_fault_row(iwarp_fault_code(fault));
    char tail[96];

    if (row->layer < 0 && iwarp_fault_code(fault) == IWARP_FAULT_NONE) {
        text_str(&t, "no fault");
    } else {
        text_row(&t, row, fault->detail);
        if (iwarp_fault_is_terminate(fault)) {
            text_terminate(&t, fault);
        }
        snprintf(tail, sizeof tail, " [%s, %s, after %" PRIu64 " received octets]", row->name,
                 row->rfc, fault->rx_pos);
        text_str(&t, tail);
    }
    if (size > 0) {
        buf[t.len < size ? t.len : size - 1] = '\0';
    }
    return t.len;
}

/* --- the last error of a thread -------------------------------------------------------------- */

const char *iwarp_last_error(void)
{
    return last_error;
}

enum iwarp_status iwarp_fail(enum iwarp_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

enum iwarp_status iwarp_fail_fault(const struct iwarp_fault *fault)
{
    iwarp_fault_text(fault, last_error, sizeof last_error);
    return iwarp_fault_status(fault);
}

bool iwarp_is_null(const char *name)
{
    iwarp_fail(IWARP_MISUSE, "%s is NULL", name);
    return false;
}
