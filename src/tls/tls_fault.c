/* SPDX-License-Identifier: BSD-2-Clause */
/* Why OpenSSL has given up: its reasons become faults (iwarp/faults.def), each with a sentence. */
#include "base/log.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <string.h>

struct why {
    enum iwarp_fault_code code;
    enum iwarp_fault_side side;
    uint64_t d0, d1;
};

static uint64_t first_octets(const struct iwarp_tls *t)
{
    return (uint64_t)t->first[0] << 24 | (uint64_t)t->first[1] << 16 | (uint64_t)t->first[2] << 8 |
           t->first[3];
}

/* A record begins with its type, 20 to 24, and the version 3.x (RFC 8446 5.1). */
bool iwarp_tls_is_strange(const struct iwarp_tls *t)
{
    return t->firsts == sizeof t->first &&
           (t->first[0] < 20 || t->first[0] > 24 || t->first[1] != 3);
}

/* RFC 5280 and RFC 9525 by the numbers of OpenSSL. */
static struct why of_certificate(const struct iwarp_tls *t)
{
    long result = SSL_get_verify_result(t->ssl);
    enum iwarp_fault_code code = IWARP_FAULT_TLS_CERT;

    if (t->creds->psk) {
        code = IWARP_FAULT_TLS_NO_PSK;
    } else if (t->forbidden) {
        code = IWARP_FAULT_TLS_FORBIDDEN;
    } else if (result == X509_V_ERR_CERT_HAS_EXPIRED) {
        code = IWARP_FAULT_TLS_CERT_EXPIRED;
    } else if (result == X509_V_ERR_CERT_NOT_YET_VALID) {
        code = IWARP_FAULT_TLS_CERT_EARLY;
    } else if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        code = IWARP_FAULT_TLS_CERT_NAME;
    } else if (result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
               result == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
               result == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
               result == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
               result == X509_V_ERR_CERT_SIGNATURE_FAILURE) {
        code = IWARP_FAULT_TLS_CERT_CA;
    }
    return (struct why){code, IWARP_SIDE_LOCAL, (uint64_t)result, 0};
}

/* The connection below has ended or failed. */
static struct why of_end(const struct iwarp_tls *t)
{
    bool hung_up = t->error == ECONNRESET || t->error == EPIPE;

    if (!t->cut && (t->done || !hung_up)) {
        return (struct why){IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, (uint64_t)t->error, 0};
    }
    return (struct why){t->done ? IWARP_FAULT_TLS_TRUNCATED : IWARP_FAULT_TLS_CLOSED,
                        t->done ? IWARP_SIDE_TRANSPORT : IWARP_SIDE_PEER, t->firsts, 0};
}

/* A reason of libssl, or 0; -1: another library's, whose numbers mean something else. */
static int reason_of(unsigned long error)
{
    int reason = ERR_GET_REASON(error);

    return error == 0 || ERR_GET_LIB(error) == ERR_LIB_SSL || reason == ERR_R_MALLOC_FAILURE
               ? reason
               : -1;
}

static struct why of_error(unsigned long error)
{
    const struct {
        int reason;
        enum iwarp_fault_code code;
    } rows[] = {{SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, IWARP_FAULT_TLS_NO_CERT},
                {SSL_R_UNSUPPORTED_PROTOCOL, IWARP_FAULT_TLS_VERSION},
                {SSL_R_NO_PROTOCOLS_AVAILABLE, IWARP_FAULT_TLS_VERSION},
                {SSL_R_WRONG_SSL_VERSION, IWARP_FAULT_TLS_VERSION},
                {SSL_R_NO_APPLICATION_PROTOCOL, IWARP_FAULT_TLS_ALPN},
                {SSL_R_BINDER_DOES_NOT_VERIFY, IWARP_FAULT_TLS_PSK_KEY},
                {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, IWARP_FAULT_TLS_RECORD},
                {SSL_R_ENCRYPTED_LENGTH_TOO_LONG, IWARP_FAULT_TLS_RECORD},
                {SSL_R_DATA_LENGTH_TOO_LONG, IWARP_FAULT_TLS_RECORD},
                {SSL_R_PACKET_LENGTH_TOO_LONG, IWARP_FAULT_TLS_RECORD},
                {SSL_R_WRONG_VERSION_NUMBER, IWARP_FAULT_TLS_RECORD},
                {SSL_R_BAD_RECORD_TYPE, IWARP_FAULT_TLS_RECORD}};
    int reason = reason_of(error);

    if (reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        return (struct why){IWARP_FAULT_TLS_ALERT, IWARP_SIDE_PEER,
                            (uint64_t)(reason - SSL_AD_REASON_OFFSET), 0};
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].reason == reason) {
            return (struct why){rows[i].code, IWARP_SIDE_LOCAL, error, 0};
        }
    }
    return (struct why){IWARP_FAULT_TLS_FAILED, IWARP_SIDE_LOCAL, error, 0};
}

static struct why find_out(const struct iwarp_tls *t, unsigned long error)
{
    int reason = reason_of(error);

    if (!t->done && iwarp_tls_is_strange(t) && memcmp(t->first, "MPA ", 4) == 0) {
        return (struct why){IWARP_FAULT_TLS_PLAIN, IWARP_SIDE_LOCAL, 0, 0};
    }
    if (!t->done && iwarp_tls_is_strange(t)) {
        return (struct why){IWARP_FAULT_TLS_NOT_TLS, IWARP_SIDE_LOCAL, first_octets(t), 0};
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        return of_certificate(t);
    }
    if (!t->done && t->below.responder && t->forbidden) {
        return (struct why){IWARP_FAULT_TLS_FORBIDDEN, IWARP_SIDE_LOCAL, 0, 0};
    }
    if (t->cut || t->error) {
        return of_end(t);
    }
    if (reason == 0 || reason == ERR_R_MALLOC_FAILURE) { /* none for the reason either */
        return (struct why){IWARP_FAULT_TLS_NO_MEMORY, IWARP_SIDE_LOCAL, 0, 0};
    }
    if (!t->done && t->below.responder && t->creds->psk && reason != SSL_R_BINDER_DOES_NOT_VERIFY &&
        !t->peer[0] && reason < SSL_AD_REASON_OFFSET &&
        (reason == SSL_R_NO_SHARED_CIPHER || reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM ||
         t->psk_unknown)) {
        return (struct why){IWARP_FAULT_TLS_PSK_UNKNOWN, IWARP_SIDE_LOCAL, t->psk_unknown, 0};
    }
    return of_error(error);
}

void iwarp_tls_fail(struct iwarp_tls *t)
{
    unsigned long error = ERR_peek_error();
    char text[200];

    if (iwarp_log_on(IWARP_LOG_DEBUG)) {
        ERR_error_string_n(error, text, sizeof text);
        iwarp_log(IWARP_LOG_DEBUG, "tls", "OpenSSL: %s, verification: %s", text,
                  X509_verify_cert_error_string(SSL_get_verify_result(t->ssl)));
    }
    struct why why = find_out(t, error);
    iwarp_fault_set(&t->fault, why.code, why.side, why.d0, why.d1, 0);
    unsigned char alert =
        why.code == IWARP_FAULT_TLS_RECORD ? SSL_AD_BAD_RECORD_MAC : SSL_AD_INTERNAL_ERROR;
    if (t->kernel.sends) { /* OpenSSL's own alert went nowhere */
        (void)iwarp_tls_kernel_alert(t, 2, alert);
    } else if (t->seal.on && why.side == IWARP_SIDE_LOCAL) {
        iwarp_tls_seal_alert(t, 2, alert);
        (void)iwarp_tls_out_flush(t);
    }
    ERR_clear_error();
}
