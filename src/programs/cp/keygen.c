/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Certificates for a trial. The first run makes a CA in DIR (ca.pem, ca.key); each run makes with
 * it, for each NAME[=HOST,...], a folder DIR/NAME that --tls takes: cert.pem, key.pem and ca.pem.
 * Nothing is overwritten, and nothing is left of what could not be written, which would stand in
 * the way of the next run. Keys are on P-256, and no one but their owner may read them.
 */
#include "keygen.h"

#include "report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CA_DAYS = 3650, DAYS = 397, PATH = 4096, NAMES = 2048, HOST = 256 };

struct pair {
    EVP_PKEY *key;
    X509 *cert;
};

static void pair_free(struct pair *p)
{
    EVP_PKEY_free(p->key);
    X509_free(p->cert);
    *p = (struct pair){NULL, NULL};
}

static bool complain(const char *what, const char *why)
{
    cp_error(what, why, "see man iwarp-cp");
    return false;
}

static bool complain_of_openssl(const char *what)
{
    char why[256];

    ERR_error_string_n(ERR_get_error(), why, sizeof why);
    return complain(what, why);
}

/* --- files ----------------------------------------------------------------------------------- */

/* False after a message: it is too long. */
static bool join(char path[PATH], const char *dir, const char *name)
{
    const int len = snprintf(path, PATH, "%s/%s", dir, name);

    return (len >= 0 && len < PATH) || complain(dir, strerror(ENAMETOOLONG));
}

/* A new file, or NULL after a message. */
static FILE *create(const char *dir, const char *name, mode_t mode)
{
    char path[PATH];

    if (!join(path, dir, name)) {
        return NULL;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        complain(path, strerror(errno));
    }
    return file;
}

/* A file that this run has made. */
static void take_back(const char *dir, const char *name)
{
    char path[PATH];

    if (join(path, dir, name)) {
        (void)unlink(path);
    }
}

static bool finish(FILE *file, bool good, const char *dir, const char *name)
{
    good = fclose(file) == 0 && good;
    if (!good) {
        take_back(dir, name);
    }
    return good || complain(name, "it cannot be written");
}

static bool write_cert(const char *dir, const char *name, X509 *cert)
{
    FILE *file = create(dir, name, 0644);

    return file && finish(file, PEM_write_X509(file, cert) == 1, dir, name);
}

static bool write_key(const char *dir, const char *name, EVP_PKEY *key)
{
    FILE *file = create(dir, name, 0600);

    return file &&
           finish(file, PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1, dir,
                  name);
}

static FILE *open_old(const char *dir, const char *name)
{
    char path[PATH];

    if (!join(path, dir, name)) {
        return NULL;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        complain(path, strerror(errno));
    }
    return file;
}

/* --- certificates ---------------------------------------------------------------------------- */

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool good = e && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

/* 16 random octets: no two certificates of a CA have the same, and nobody can guess them. */
static bool set_serial(X509 *cert)
{
    BIGNUM *n = BN_new();
    bool good = n && BN_rand(n, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;

    BN_free(n);
    return good;
}

/* A key and what is to be certified of it; valid from now on. */
static bool begin(struct pair *p, const char *name, int days)
{
    p->key = EVP_EC_gen("P-256");
    p->cert = X509_new();
    return p->key && p->cert && X509_set_version(p->cert, 2) == 1 && set_serial(p->cert) &&
           X509_gmtime_adj(X509_getm_notBefore(p->cert), -60) && /* clocks differ a little */
           X509_time_adj_ex(X509_getm_notAfter(p->cert), days, 0, NULL) &&
           X509_set_pubkey(p->cert, p->key) == 1 &&
           X509_NAME_add_entry_by_txt(X509_get_subject_name(p->cert), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool make_ca(struct pair *ca)
{
    return begin(ca, "iwarp-cp trial CA", CA_DAYS) &&
           X509_set_issuer_name(ca->cert, X509_get_subject_name(ca->cert)) == 1 &&
           extend(ca->cert, ca->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           extend(ca->cert, ca->cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           extend(ca->cert, ca->cert, NID_subject_key_identifier, "hash") &&
           X509_sign(ca->cert, ca->key, EVP_sha256()) > 0;
}

static bool make_leaf(struct pair *leaf, const struct pair *ca, const char *name, const char *hosts)
{
    return begin(leaf, name, DAYS) &&
           X509_set_issuer_name(leaf->cert, X509_get_subject_name(ca->cert)) == 1 &&
           extend(leaf->cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(leaf->cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
           extend(leaf->cert, ca->cert, NID_ext_key_usage, "serverAuth,clientAuth") &&
           extend(leaf->cert, ca->cert, NID_subject_alt_name, hosts) &&
           extend(leaf->cert, ca->cert, NID_authority_key_identifier, "keyid") &&
           X509_sign(leaf->cert, ca->key, EVP_sha256()) > 0;
}

/* --- the CA ---------------------------------------------------------------------------------- */

static bool read_ca(const char *dir, struct pair *ca)
{
    FILE *file = open_old(dir, "ca.pem");

    if (file) {
        ca->cert = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
    }
    file = file ? open_old(dir, "ca.key") : NULL;
    if (file) {
        ca->key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        fclose(file);
    }
    if (file && (!ca->cert || !ca->key || X509_check_private_key(ca->cert, ca->key) != 1)) {
        return complain_of_openssl("ca.pem and ca.key");
    }
    return file != NULL;
}

static bool find_ca(const char *dir, struct pair *ca)
{
    char path[PATH];

    if (!join(path, dir, "ca.pem")) {
        return false;
    }
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return complain(dir, strerror(errno));
    }
    if (access(path, F_OK) == 0) {
        return read_ca(dir, ca);
    }
    if (!(make_ca(ca) || complain_of_openssl("the CA")) || !write_key(dir, "ca.key", ca->key)) {
        return false;
    }
    bool good = write_cert(dir, "ca.pem", ca->cert);
    if (!good) {
        take_back(dir, "ca.key");
    }
    return good;
}

/* --- folders --------------------------------------------------------------------------------- */

static bool is_host(const char *host, size_t len)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               ".-_:*@";

    return len > 0 && len < HOST && strspn(host, good) >= len;
}

/* As OpenSSL wants subjectAltName, "DNS:a.example,IP:192.0.2.1". False: a host is none. */
static bool list_hosts(const char *hosts, char list[NAMES])
{
    unsigned char octets[16];
    size_t used = 0;

    for (const char *end; *hosts; hosts = *end ? end + 1 : end) {
        char host[HOST];
        end = hosts + strcspn(hosts, ",");
        if (!is_host(hosts, (size_t)(end - hosts))) {
            return false;
        }
        snprintf(host, sizeof host, "%.*s", (int)(end - hosts), hosts);
        bool ip = inet_pton(AF_INET, host, octets) == 1 || inet_pton(AF_INET6, host, octets) == 1;
        used += (size_t)snprintf(list + used, NAMES - used, "%s%s:%s", used ? "," : "",
                                 ip                  ? "IP"
                                 : strchr(host, '@') ? "email"
                                                     : "DNS",
                                 host);
        if (used >= NAMES) {
            return false;
        }
    }
    return used > 0;
}

static bool write_folder(const char *dir, const struct pair *leaf, const struct pair *ca)
{
    if (mkdir(dir, 0755) != 0) {
        return complain(dir, strerror(errno));
    }
    bool good = write_key(dir, "key.pem", leaf->key) && write_cert(dir, "cert.pem", leaf->cert) &&
                write_cert(dir, "ca.pem", ca->cert);
    if (!good) {
        take_back(dir, "key.pem");
        take_back(dir, "cert.pem");
        (void)rmdir(dir);
    }
    return good;
}

/* word: NAME, or NAME=HOST,...; NAME alone is a host. */
static bool make_folder(const char *dir, const struct pair *ca, const char *word)
{
    size_t len = strcspn(word, "=");
    const char *hosts = word[len] ? word + len + 1 : word;
    char path[PATH], name[HOST], list[NAMES];
    struct pair leaf = {NULL, NULL};

    if (!is_host(word, len) || word[0] == '.' || !list_hosts(hosts, list)) {
        return complain(word, "not NAME or NAME=HOST,...");
    }
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    if (!join(path, dir, name)) {
        return false;
    }
    bool good = (make_leaf(&leaf, ca, name, list) || complain_of_openssl(name)) &&
                write_folder(path, &leaf, ca);
    pair_free(&leaf);
    if (good) {
        printf("%s: %s\n", path, list);
    }
    return good;
}

/* Who says no names gets a server that is this machine, and one client. */
static bool make_usual(const char *dir, const struct pair *ca)
{
    char host[HOST] = "", word[2 * HOST];

    (void)gethostname(host, sizeof host - 1);
    snprintf(word, sizeof word, "server=%s%slocalhost,127.0.0.1,::1", host, host[0] ? "," : "");
    return make_folder(dir, ca, word) && make_folder(dir, ca, "client");
}

int cp_run_keygen(const struct cp_options *options)
{
    const char *dir = options->arguments[0];
    struct pair ca = {NULL, NULL};
    bool good = find_ca(dir, &ca);

    if (good && options->argument_count == 1) {
        good = make_usual(dir, &ca);
    }
    for (size_t i = 1; i < options->argument_count && good; i++) {
        good = make_folder(dir, &ca, options->arguments[i]);
    }
    pair_free(&ca);
    return good && cp_output_flush() ? CP_EXIT_OK : CP_EXIT_FAILED;
}
