/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/pair_name.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* Behind the zero that makes a name abstract. */
static const char mark[] = "iwarp-sockets";

/* pid and ns: no two sockets of a network namespace may have the same name. */
struct content {
    char mark[sizeof mark];
    int pid;
    int64_t ns;
    socklen_t local_len, peer_len;
    char local[sizeof(struct sockaddr_in6)], peer[sizeof(struct sockaddr_in6)];
};

_Static_assert(sizeof(struct content) < sizeof((struct sockaddr_un *)0)->sun_path, "it has room");

static bool fits(socklen_t len)
{
    return len > 0 && len <= sizeof(struct sockaddr_in6);
}

void pair_name_give(int other_end, const struct sock *s)
{
    struct content c = {
        .pid = getpid(), .ns = sock_now_ns(), .local_len = s->local_len, .peer_len = s->peer_len};
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    if (fits(s->local_len) && fits(s->peer_len)) {
        memcpy(c.mark, mark, sizeof mark);
        memcpy(c.local, &s->local, s->local_len);
        memcpy(c.peer, &s->peer, s->peer_len);
        memcpy(name.sun_path + 1, &c, sizeof c);
        (void)real()->bind(other_end, (struct sockaddr *)&name,
                           offsetof(struct sockaddr_un, sun_path) + 1 + sizeof c);
    }
}

bool pair_name_take(int face, struct pair_names *names)
{
    struct sockaddr_un name = {0};
    socklen_t len = sizeof name;
    struct content c;

    if (real()->getpeername(face, (struct sockaddr *)&name, &len) != 0 ||
        name.sun_family != AF_UNIX ||
        len != offsetof(struct sockaddr_un, sun_path) + 1 + sizeof c || name.sun_path[0] != 0) {
        return false;
    }
    memcpy(&c, name.sun_path + 1, sizeof c);
    if (memcmp(c.mark, mark, sizeof mark) != 0 || !fits(c.local_len) || !fits(c.peer_len)) {
        return false;
    }
    *names = (struct pair_names){.local_len = c.local_len, .peer_len = c.peer_len};
    memcpy(&names->local, c.local, c.local_len);
    memcpy(&names->peer, c.peer, c.peer_len);
    return true;
}
