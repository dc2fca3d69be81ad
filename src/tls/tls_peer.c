/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who a peer is: the identity in a certificate, the name that an initiator expects (RFC 9525), and
 * the list of those that are allowed.
 */
#include "base/log.h"
#include "tls/tls_inner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

/* Nothing in it may end the text early, or reach a terminal. */
static bool keep(char identity[TLS_IDENTITY], const void *text, int len)
{
    if (len <= 0 || len >= TLS_IDENTITY) {
        return false;
    }
    for (int i = 0; i < len; i++) {
        unsigned char c = ((const unsigned char *)text)[i];
        identity[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    identity[len] = '\0';
    return true;
}

static bool keep_address(char identity[TLS_IDENTITY], const ASN1_OCTET_STRING *s)
{
    char address[INET6_ADDRSTRLEN];
    int len = ASN1_STRING_length(s);

    return (len == 4 || len == 16) &&
           inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(s), address,
                     sizeof address) &&
           keep(identity, address, (int)strlen(address));
}

static bool keep_name(char identity[TLS_IDENTITY], const GENERAL_NAME *name)
{
    switch (name->type) {
    case GEN_DNS:
    case GEN_URI:
    case GEN_EMAIL:
        return keep(identity, ASN1_STRING_get0_data(name->d.ia5), ASN1_STRING_length(name->d.ia5));
    case GEN_IPADD:
        return keep_address(identity, name->d.iPAddress);
    default:
        return false;
    }
}

static void keep_subject(char identity[TLS_IDENTITY], X509 *cert)
{
    BIO *text = BIO_new(BIO_s_mem());
    char *data;

    if (text && X509_NAME_print_ex(text, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) > 0) {
        long len = BIO_get_mem_data(text, &data);
        (void)keep(identity, data, len < TLS_IDENTITY ? (int)len : TLS_IDENTITY - 1);
    }
    BIO_free(text);
}

void iwarp_tls_cert_identity(X509 *cert, char identity[TLS_IDENTITY])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;

    identity[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        found = keep_name(identity, sk_GENERAL_NAME_value(names, i));
    }
    GENERAL_NAMES_free(names);
    if (!found) {
        keep_subject(identity, cert);
    }
}

static bool is_allowed(const struct tls_text *text, const char *identity)
{
    for (unsigned i = 0; i < text->allowed; i++) {
        if (strcmp(text->allow[i], identity) == 0) {
            return true;
        }
    }
    return text->allowed == 0;
}

bool iwarp_tls_admit(struct iwarp_tls *t, const char *identity)
{
    static struct iwarp_log_limit told;

    t->forbidden = !is_allowed(&t->context->text, identity);
    if (t->forbidden) {
        iwarp_log_rarely(&told, IWARP_LOG_WARN, "tls", "\"%s\" is not allowed (allow=)", identity);
    }
    return !t->forbidden;
}

/* OpenSSL has checked the certificate; the peer's own, which comes last, must be allowed as well.
 */
int iwarp_tls_verify(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct iwarp_tls *t = SSL_get_app_data(ssl);

    if (!ok || X509_STORE_CTX_get_error_depth(store) != 0) {
        return ok;
    }
    iwarp_tls_cert_identity(X509_STORE_CTX_get_current_cert(store), t->peer);
    if (!iwarp_tls_admit(t, t->peer)) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        return 0;
    }
    return 1;
}

/*
 * RFC 9525: names come from subjectAltName alone, never from the subject (6.3), and a wildcard is
 * the whole of the first label (6.3).
 */
bool iwarp_tls_expect_name(SSL *ssl, const char *name, const struct sockaddr *peer)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    char address[INET6_ADDRSTRLEN] = "";

    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                               X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (!name && peer->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, address,
                  sizeof address);
    } else if (!name && peer->sa_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(in6);
        inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? &in6->s6_addr[12] : &in6->s6_addr[0],
                  address, sizeof address);
    }
    name = name ? name : address;
    if (name[0] == '\0') {
        return false;
    }
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1) {
        return true;
    }
    /* SSL_set_tlsext_host_name, without its cast */
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)name) == 1 &&
           X509_VERIFY_PARAM_set1_host(param, name, 0) == 1;
}
