/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests whose queue pair does not know its peer yet, or has not been reset since its last
 * connection: they wait for RTR. The library rejects each after its accept_timeout_ms, and bounds
 * how many of them one address has (docs/listeners.md); here is
 * bounded how many handles there are, with those of Requests that have ended meanwhile.
 */
#include "compat/num.h"

#include <stdlib.h>

enum { HELD_MOST = 4096 };

struct held {
    struct iwarp_conn *conn;
    struct num_hello hello;
    struct held *next;
};

static struct held *first, **end = &first;
static unsigned count;

static struct iwarp_conn *unlink_at(struct held **at)
{
    struct held *h = *at;
    struct iwarp_conn *conn = h->conn;

    *at = h->next;
    if (!h->next) {
        end = at;
    }
    count--;
    free(h);
    return conn;
}

static bool has_ended(struct iwarp_conn *conn)
{
    return iwarp_conn_wait(conn, 0) != IWARP_AGAIN;
}

bool num_held_sweep(void)
{
    for (struct held **at = &first; *at;) {
        if (has_ended((*at)->conn)) {
            (void)iwarp_conn_destroy(unlink_at(at));
        } else {
            at = &(*at)->next;
        }
    }
    return count > 0;
}

void num_held_add(struct iwarp_conn *conn, const struct num_hello *hello)
{
    if (count >= HELD_MOST) {
        (void)num_held_sweep();
    }
    struct held *h = count < HELD_MOST ? calloc(1, sizeof *h) : NULL;
    if (!h) {
        num_conn_refuse(conn, NUM_BUSY);
        return;
    }
    h->conn = conn;
    h->hello = *hello;
    *end = h;
    end = &h->next;
    count++;
}

struct iwarp_conn *num_held_take(uint32_t number, struct num_hello *hello)
{
    for (struct held **at = &first; *at; at = &(*at)->next) {
        if ((*at)->hello.to == number) {
            *hello = (*at)->hello;
            return unlink_at(at);
        }
    }
    return NULL;
}

void num_held_drop(uint32_t number)
{
    struct iwarp_conn *conn;
    struct num_hello hello;

    while ((conn = num_held_take(number, &hello)) != NULL) {
        num_conn_refuse(conn, NUM_NOBODY);
    }
}

void num_held_forget(void)
{
    first = NULL;
    end = &first;
    count = 0;
}
