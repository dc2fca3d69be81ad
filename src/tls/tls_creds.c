/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credentials: the SSL_CTX for what a text names. TLS 1.3 only, no tickets, no early data, no
 * resumption. Certificates are always demanded; with pre-shared keys no certificate is trusted, so
 * that a responder without the key cannot pass by showing one.
 *
 * OpenSSL has an OSSL_LIB_CTX of its own here, which the application's settings do not touch, and
 * which is never freed: threads of the library may still run when the process exits.
 */
#include "base/log.h"
#include "base/settings.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The fastest first, where a processor has AES. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
/* A pre-shared key goes with SHA-256. If a cipher with another hash were agreed on, the key could
 * not be used, and there would be nothing left. */
#define CIPHERS_OF_KEYS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

enum { CHAIN_MAX = 65536 }; /* octets of certificates that a peer may send */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static OSSL_LIB_CTX *library;

/* No clean-up at exit, if the application has not asked for it before. */
static void begin(void)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    library = OSSL_LIB_CTX_new();
}

/* --- the log of keys ------------------------------------------------------------------------- */

/* One line in one write, so that processes may share the file; never waits: it may be a FIFO. */
static void log_keys(const SSL *ssl, const char *line)
{
    const char *path = iwarp_setting("IWARP_TLS_KEYLOG");
    char text[512];

    iwarp_tls_keys_note(SSL_get_app_data(ssl), line);
    if (!path || !path[0]) {
        return;
    }
    int n = snprintf(text, sizeof text, "%s\n", line);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

    if (fd < 0 || n >= (int)sizeof text || write(fd, text, (size_t)n) != n) {
        static struct iwarp_log_limit told;
        iwarp_log_rarely(&told, IWARP_LOG_WARN, "tls", "IWARP_TLS_KEYLOG: cannot write to %s: %s",
                         path, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    OPENSSL_cleanse(text, sizeof text);
}

static void use_key_log(SSL_CTX *ssl)
{
    static struct iwarp_log_limit told;
    const char *path = iwarp_setting("IWARP_TLS_KEYLOG");

    SSL_CTX_set_keylog_callback(ssl, log_keys);
    if (path && path[0]) {
        iwarp_log_rarely(&told, IWARP_LOG_WARN, "tls",
                         "the keys of all connections are written to %s (IWARP_TLS_KEYLOG): "
                         "whoever reads it can read what they carry",
                         path);
    }
}

/* Counts what the peer sends, and sees a KeyUpdate that asks for one of this end (RFC 8446 4.6.3).
 */
static void see_message(int sent, int version, int type, const void *p, size_t n, SSL *ssl,
                        void *none)
{
    const unsigned char *octet = p;
    struct iwarp_tls *t = SSL_get_app_data(ssl);

    (void)version;
    (void)none;
    t->messages += !sent && type == TLS_HANDSHAKE;
    if (!sent && type == TLS_HANDSHAKE && n == 5 && octet[0] == SSL3_MT_KEY_UPDATE &&
        octet[4] == 1) {
        t->seal.asked = true;
    }
}

/* --- ALPN ------------------------------------------------------------------------------------ */

/* Not called for a peer without ALPN, which is accepted. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    unsigned char *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, iwarp_tls_alpn, sizeof iwarp_tls_alpn, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* --- certificates ---------------------------------------------------------------------------- */

/* The first error of OpenSSL in this thread says most. */
static enum iwarp_status refused(const char *what, const char *path)
{
    char reason[200];

    ERR_error_string_n(ERR_peek_error(), reason, sizeof reason);
    const char *last = strrchr(reason, ':');
    ERR_clear_error();
    return iwarp_fail(IWARP_MISUSE, "TLS: %s %s cannot be used: %s", what, path,
                      last ? last + 1 : reason);
}

static void warn_of_readers(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && (st.st_mode & (S_IROTH | S_IWOTH))) {
        iwarp_log(IWARP_LOG_WARN, "tls",
                  "%s holds a secret, and all users of this machine may %s it", path,
                  st.st_mode & S_IROTH ? "read" : "change");
    }
}

/*
 * What OpenSSL finds out about a certificate at its first use, and keeps in it, is found out here:
 * connections of several threads share these certificates, and then only read them.
 */
static void look_through(SSL_CTX *ssl)
{
    STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ssl));
    STACK_OF(X509) *chain = NULL;

    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
        if (ca) {
            (void)X509_check_purpose(ca, -1, 0);
        }
    }
    (void)X509_check_purpose(SSL_CTX_get0_certificate(ssl), -1, 0);
    (void)SSL_CTX_get0_chain_certs(ssl, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++) {
        (void)X509_check_purpose(sk_X509_value(chain, i), -1, 0);
    }
}

static enum iwarp_status load_certificates(const struct tls_text *text, struct tls_creds *creds)
{
    const char *key = text->key ? text->key : text->cert;

    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(creds->ssl, text->cert) != 1) {
        return refused("certificate", text->cert);
    }
    if (SSL_CTX_use_PrivateKey_file(creds->ssl, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(creds->ssl) != 1) {
        return refused("private key", key);
    }
    if (SSL_CTX_load_verify_file(creds->ssl, text->ca) != 1) {
        return refused("CA file", text->ca);
    }
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file_ex(text->ca, library, NULL);
    if (names) {
        SSL_CTX_set_client_CA_list(creds->ssl, names);
    }
    look_through(creds->ssl);
    ERR_clear_error();
    warn_of_readers(key);
    iwarp_tls_cert_identity(SSL_CTX_get0_certificate(creds->ssl), creds->own);
    return IWARP_OK;
}

/* --- the whole ------------------------------------------------------------------------------- */

static bool set_rules(SSL_CTX *ssl, const char *ciphers)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(ssl, iwarp_tls_alpn, sizeof iwarp_tls_alpn);
    SSL_CTX_set_num_tickets(ssl, 0);
    SSL_CTX_set_max_early_data(ssl, 0);
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_default_read_buffer_len(ssl, TLS_READ_AHEAD);
    SSL_CTX_set_max_cert_list(ssl, CHAIN_MAX);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, iwarp_tls_verify);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    SSL_CTX_set_msg_callback(ssl, see_message);
    use_key_log(ssl);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ssl, ciphers) == 1 &&
           SSL_CTX_set_alpn_protos(ssl, iwarp_tls_alpn, sizeof iwarp_tls_alpn) == 0;
}

enum iwarp_status iwarp_tls_creds_open(const struct tls_text *text, struct tls_creds **out)
{
    struct tls_creds *creds = calloc(1, sizeof *creds);

    pthread_once(&once, begin);
    if (creds) {
        atomic_store(&creds->refs, 1);
        creds->library = library;
        creds->ssl = SSL_CTX_new_ex(library, NULL, TLS_method());
    }
    enum iwarp_status status = IWARP_OK;
    if (!creds || !creds->ssl || !set_rules(creds->ssl, text->psk ? CIPHERS_OF_KEYS : CIPHERS)) {
        status = iwarp_fail(IWARP_NO_MEMORY, "TLS: no memory, or OpenSSL has no TLS 1.3");
    } else if (text->psk) {
        iwarp_tls_psk_use(creds->ssl);
        status = iwarp_tls_psk_read(text, creds);
        warn_of_readers(text->psk);
    } else {
        status = load_certificates(text, creds);
    }
    ERR_clear_error();
    if (status != IWARP_OK) {
        iwarp_tls_creds_put(creds);
        return status;
    }
    *out = creds;
    return IWARP_OK;
}

void iwarp_tls_creds_put(struct tls_creds *creds)
{
    if (creds && atomic_fetch_sub(&creds->refs, 1) == 1) {
        SSL_CTX_free(creds->ssl);
        if (creds->psk) {
            OPENSSL_cleanse(creds->psk, creds->psks * sizeof *creds->psk);
        }
        free(creds->psk);
        free(creds);
    }
}
