/* SPDX-License-Identifier: BSD-2-Clause */
/* The text that the library gets for TLS (iwarp/tls.h), out of --tls, --allow-id and the URL. */
#ifndef CP_TLS_H
#define CP_TLS_H

#include <stdbool.h>
#include <stddef.h>

#define CP_TLS_MAX 16384 /* octets of a text, with its end */

/* The value of --tls: a text of the library, or a folder that keygen has made. NULL, or a sentence
 * that says what is wrong. */
const char *cp_tls_begin(const char *value, char text[CP_TLS_MAX]);

/* One more peer that is let in. */
const char *cp_tls_allow(const char *id, char text[CP_TLS_MAX]);

/* A client expects the certificate of the host in its URL. An address is what the library expects
 * anyway. False: no room. */
bool cp_tls_expect(const char *host, const char *text, char full[CP_TLS_MAX]);

/* What to do about an error of the library that no peer has made: about --tls, if it is what the
 * sentence is about, or else `otherwise`. */
const char *cp_tls_hint(const char *sentence, const char *otherwise);

#endif
