/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sockopt.h"

#include "transport/tcp_options.h"
#include "verbs/conn.h"

#include <errno.h>

static int result_of(int rc)
{
    if (rc < 0) {
        errno = -rc;
    }
    return rc < 0 ? -1 : 0;
}

int iwarp_conn_getsockopt(struct iwarp_conn *conn, int level, int name, void *value, socklen_t *len)
{
    iwarp_mutex_lock(&conn->lock);
    int rc =
        conn->adopted ? iwarp_tcp_options_get(conn->adopted, level, name, value, len) : -ENOTCONN;
    iwarp_conn_unlock(conn);
    return result_of(rc);
}

int iwarp_conn_setsockopt(struct iwarp_conn *conn, int level, int name, const void *value,
                          socklen_t len)
{
    iwarp_mutex_lock(&conn->lock);
    int rc =
        conn->adopted ? iwarp_tcp_options_set(conn->adopted, level, name, value, len) : -ENOTCONN;
    iwarp_conn_unlock(conn);
    return result_of(rc);
}
