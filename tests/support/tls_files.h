/* SPDX-License-Identifier: BSD-2-Clause */
/* Certificates and keys for tests, in scratch_path (scratch.h), and texts that name them. */
#ifndef TESTS_TLS_FILES_H
#define TESTS_TLS_FILES_H

/* NAME.pem and NAME.key: a CA that has signed itself. */
void tls_files_ca(const char *name);

/*
 * NAME.pem and NAME.key, of this CA. san: as openssl's subjectAltName,
 * "DNS:a.example,IP:127.0.0.1". Valid from `from` to `until`, in seconds from now.
 */
void tls_files_cert(const char *name, const char *ca, const char *san, long from, long until);

/* A file of text. */
void tls_files_text(const char *name, const char *text);

/* The file "keys", with two keys, of alice and bob. */
void tls_files_psk(void);

/* The text with each %s replaced by scratch_path. In static memory, of which there are eight. */
const char *tls_files_context(const char *text);

#endif
