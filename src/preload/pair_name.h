/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of a connection whose face is an end of a socket pair: the other end is bound to an
 * abstract name that holds them. So a process that is given the face by a message, or by exec, can
 * tell the program's peer. Whoever may give a process a descriptor can make such a name up.
 */
#ifndef IWARP_PRELOAD_PAIR_NAME_H
#define IWARP_PRELOAD_PAIR_NAME_H

#include "preload/sock.h"

/* The end of the pair that is not the face. Without a name the face has those of a socket pair. */
void pair_name_give(int other_end, const struct sock *s);

/* The names of a face, if it has some. */
struct pair_names {
    struct sockaddr_storage local, peer;
    socklen_t local_len, peer_len;
};
bool pair_name_take(int face, struct pair_names *names);

#endif
