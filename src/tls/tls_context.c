/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts: each text of a device is read once. Its files are looked at before a handshake, at most
 * once in LOOK_MS, and read again if one has changed; handshakes and connections that have begun
 * keep what they began with.
 */
#include "base/log.h"
#include "tls/tls_inner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 1000 };

void iwarp_tls_store_init(struct iwarp_tls_store *store)
{
    pthread_mutex_init(&store->lock, NULL);
    store->first = NULL;
}

static void context_free(struct iwarp_tls_context *context)
{
    iwarp_tls_creds_put(context->creds);
    iwarp_tls_text_free(&context->text);
    pthread_mutex_destroy(&context->lock);
    free(context->whole);
    free(context);
}

void iwarp_tls_store_fini(struct iwarp_tls_store *store)
{
    while (store->first) {
        struct iwarp_tls_context *context = store->first;
        store->first = context->next;
        context_free(context);
    }
    pthread_mutex_destroy(&store->lock);
}

/* --- files ----------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A file that is not there, or not named, is all zeros. */
static void look(const struct tls_text *text, struct stat seen[TLS_FILES])
{
    const char *const paths[TLS_FILES] = {text->psk ? text->psk : text->cert, text->key, text->ca};

    memset(seen, 0, TLS_FILES * sizeof *seen);
    for (int i = 0; i < TLS_FILES; i++) {
        if (paths[i] && stat(paths[i], &seen[i]) != 0) {
            memset(&seen[i], 0, sizeof seen[i]);
        }
    }
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* context.lock held. Files that are wrong are tried again when they change the next time. */
static void reload(struct iwarp_tls_context *context)
{
    struct stat now[TLS_FILES];
    struct tls_creds *creds;
    bool same = true;

    look(&context->text, now);
    for (int i = 0; i < TLS_FILES; i++) {
        same = same && is_same(&now[i], &context->seen[i]);
    }
    if (same) {
        return;
    }
    memcpy(context->seen, now, sizeof now);
    if (iwarp_tls_creds_open(&context->text, &creds) != IWARP_OK) {
        iwarp_log(IWARP_LOG_WARN, "tls", "files have changed, and the old ones stay in use: %s",
                  iwarp_last_error());
        return;
    }
    iwarp_tls_creds_put(context->creds);
    context->creds = creds;
    iwarp_log(IWARP_LOG_INFO, "tls", "files have changed and were read again");
}

struct tls_creds *iwarp_tls_context_creds(struct iwarp_tls_context *context)
{
    pthread_mutex_lock(&context->lock);
    int64_t now = now_ms();
    if (now - context->looked_ms >= LOOK_MS) {
        context->looked_ms = now;
        reload(context);
    }
    struct tls_creds *creds = context->creds;
    atomic_fetch_add(&creds->refs, 1);
    pthread_mutex_unlock(&context->lock);
    return creds;
}

/* --- finding --------------------------------------------------------------------------------- */

static enum iwarp_status context_open(const char *text, struct iwarp_tls_context **out)
{
    struct iwarp_tls_context *context = calloc(1, sizeof *context);

    if (!context || !(context->whole = strdup(text))) {
        free(context);
        return iwarp_fail(IWARP_NO_MEMORY, "TLS: no memory");
    }
    pthread_mutex_init(&context->lock, NULL);
    enum iwarp_status status = iwarp_tls_text_parse(text, &context->text);
    if (status != IWARP_OK) {
        context->text = (struct tls_text){.words = NULL};
    } else {
        look(&context->text, context->seen); /* before they are read: a change meanwhile shows */
        context->looked_ms = now_ms();
        status = iwarp_tls_creds_open(&context->text, &context->creds);
    }
    if (status != IWARP_OK) {
        context_free(context);
        return status;
    }
    *out = context;
    return IWARP_OK;
}

enum iwarp_status iwarp_tls_store_find(struct iwarp_tls_store *store, const char *text,
                                       struct iwarp_tls_context **out)
{
    enum iwarp_status status = IWARP_OK;
    struct iwarp_tls_context *context;

    *out = NULL;
    if (text[0] == '\0' || strcmp(text, "off") == 0) {
        return IWARP_OK;
    }
    pthread_mutex_lock(&store->lock);
    for (context = store->first; context; context = context->next) {
        if (context->whole == text || strcmp(context->whole, text) == 0) {
            break;
        }
    }
    if (!context) {
        status = context_open(text, &context);
        if (status == IWARP_OK) {
            context->next = store->first;
            store->first = context;
        }
    }
    pthread_mutex_unlock(&store->lock);
    *out = status == IWARP_OK ? context : NULL;
    return status;
}

const char *iwarp_tls_text(const struct iwarp_tls_context *context)
{
    return context ? context->whole : "off";
}

bool iwarp_tls_leaves_crc(const struct iwarp_tls_context *context)
{
    return context->text.crc;
}
