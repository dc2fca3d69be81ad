/* SPDX-License-Identifier: BSD-2-Clause */
/* See tls.h. Touches no file: the library reads those that the text names. */
#include "tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

const char *cp_tls_begin(const char *value, char text[CP_TLS_MAX])
{
    int n;

    if (strchr(value, '=')) {
        n = snprintf(text, CP_TLS_MAX, "%s", value);
    } else if (strchr(value, ',')) {
        return "a folder with a comma in its name; write cert=FILE,key=FILE,ca=FILE with other "
               "names";
    } else {
        n = snprintf(text, CP_TLS_MAX, "cert=%s/cert.pem,key=%s/key.pem,ca=%s/ca.pem", value, value,
                     value);
    }
    return n < CP_TLS_MAX ? NULL : "it is too long";
}

const char *cp_tls_allow(const char *id, char text[CP_TLS_MAX])
{
    size_t len = strlen(text);

    if (id[0] == '\0' || strchr(id, ',')) {
        return "not an identity";
    }
    return snprintf(text + len, CP_TLS_MAX - len, ",allow=%s", id) < (int)(CP_TLS_MAX - len)
               ? NULL
               : "more identities than there is room for";
}

static bool is_address(const char *host)
{
    unsigned char octets[16];

    return strchr(host, ':') || inet_pton(AF_INET, host, octets) == 1;
}

bool cp_tls_expect(const char *host, const char *text, char full[CP_TLS_MAX])
{
    bool expects = strncmp(text, "cert=", 5) == 0 || strstr(text, ",cert=");
    bool named = strncmp(text, "name=", 5) == 0 || strstr(text, ",name=");
    const char *name = expects && !named && !is_address(host) ? host : "";

    return snprintf(full, CP_TLS_MAX, "%s%s%s", text, name[0] ? ",name=" : "", name) < CP_TLS_MAX;
}

const char *cp_tls_hint(const char *sentence, const char *otherwise)
{
    return strncmp(sentence, "TLS:", 4) == 0 ? "check --tls and the files that it names"
                                             : otherwise;
}
