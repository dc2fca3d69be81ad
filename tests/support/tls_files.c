/* SPDX-License-Identifier: BSD-2-Clause */
/* See tls_files.h. */
#include "tls_files.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static FILE *open_file(const char *name, const char *suffix, const char *mode)
{
    char path[5000];

    snprintf(path, sizeof path, "%s/%s%s", scratch_path, name, suffix);
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    return file;
}

static EVP_PKEY *new_key(const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *file = open_file(name, ".key", "w");

    assert_non_null(key);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    return key;
}

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *new_cert(const char *name, EVP_PKEY *key, long from, long until)
{
    static long serial;
    X509 *cert = X509_new();

    assert_non_null(cert);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), from);
    X509_gmtime_adj(X509_getm_notAfter(cert), until);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                               (const unsigned char *)name, -1, -1, 0);
    return cert;
}

static void sign(X509 *cert, EVP_PKEY *key, const char *name)
{
    FILE *file = open_file(name, ".pem", "w");

    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    X509_free(cert);
}

void tls_files_ca(const char *name)
{
    EVP_PKEY *key = new_key(name);
    X509 *cert = new_cert(name, key, -60, 3600);

    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    extend(cert, NID_basic_constraints, "critical,CA:TRUE");
    extend(cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    sign(cert, key, name);
    EVP_PKEY_free(key);
}

void tls_files_cert(const char *name, const char *ca, const char *san, long from, long until)
{
    FILE *file = open_file(ca, ".pem", "r");
    X509 *issuer = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    file = open_file(ca, ".key", "r");
    EVP_PKEY *issuer_key = PEM_read_PrivateKey(file, NULL, NULL, NULL), *key = new_key(name);
    fclose(file);
    X509 *cert = new_cert(name, key, from, until);

    assert_non_null(issuer);
    assert_non_null(issuer_key);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    if (san) {
        extend(cert, NID_subject_alt_name, san);
    }
    sign(cert, issuer_key, name);
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
    EVP_PKEY_free(key);
}

void tls_files_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
    assert_int_equal(fchmodat(scratch_fd, name, 0600, 0), 0);
}

void tls_files_psk(void)
{
    tls_files_text("keys", "# of tests\nalice:000102030405060708090a0b0c0d0e0f"
                           "101112131415161718191a1b1c1d1e1f\n"
                           "bob:202122232425262728292a2b2c2d2e2f\n");
}

const char *tls_files_context(const char *text)
{
    static char texts[8][20000];
    static unsigned next;
    char *out = texts[next++ % 8], *to = out;

    for (; *text; text++) {
        if (strncmp(text, "%s", 2) == 0) {
            to += sprintf(to, "%s", scratch_path);
            text++;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return out;
}
