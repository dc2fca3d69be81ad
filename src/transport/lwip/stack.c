/* SPDX-License-Identifier: BSD-2-Clause */
/* lwIP as a stack (transport/stack.h): a device's, and the table of its operations. */
#include "base/fault.h"
#include "base/log.h"
#include "transport/lwip/core.h"
#include "transport/lwip/lwip.h"

#include <errno.h>
#include <lwip/init.h>
#include <stdlib.h>

static struct iwarp_lw_netif *netif_of(struct iwarp_stack *stack)
{
    return ((struct iwarp_lw_stack *)(void *)stack)->netif;
}

static void close_stack(struct iwarp_stack *stack)
{
    iwarp_lw_netif_put(netif_of(stack));
    free(stack);
}

static int source(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                  struct sockaddr_storage *from, socklen_t *from_len)
{
    struct iwarp_lw_netif *n = netif_of(stack);
    ip_addr_t to, own;
    u16_t port;
    int rc = -EAFNOSUPPORT;

    LOCK_TCPIP_CORE();
    if (iwarp_lw_from_sockaddr(n, addr, addr_len, &to, &port)) {
        rc = iwarp_lw_source(n, &to, &own) ? 0 : -ENETUNREACH;
    }
    if (rc == 0) {
        iwarp_lw_to_sockaddr(&own, 0, from, from_len);
    }
    UNLOCK_TCPIP_CORE();
    return rc;
}

static const struct iwarp_stack_ops ops = {
    .name = "lwip",
    .close = close_stack,
    .join = iwarp_lw_seat_join,
    .sit = iwarp_lw_seat_sit,
    .leave = iwarp_lw_seat_leave,
    .source = source,
    .connect = iwarp_lw_connect,
    .listen = iwarp_lw_listen,
    .locate = iwarp_lw_locate,
    .open = iwarp_lw_acceptor_open,
    .pause = iwarp_lw_pause,
    .accept = iwarp_lw_accept,
    .refuse = iwarp_lw_refuse,
    .attach = iwarp_lw_attach,
    .unlisten = iwarp_lw_unlisten,
    .error = iwarp_lw_error,
    .local_addr = iwarp_lw_local_addr,
    .peer_addr = iwarp_lw_peer_addr,
    .patience = iwarp_lw_patience,
    .taken = iwarp_lw_taken,
    .watch_end = iwarp_lw_watch_end,
    .unread = iwarp_lw_unread,
    .await_end = iwarp_lw_await_end,
    .ending = iwarp_lw_ending,
    .go_away = iwarp_lw_go_away,
    .come_back = iwarp_lw_come_back,
    .is_away = iwarp_lw_is_away,
};

enum iwarp_status iwarp_lwip_open(const char *text, struct iwarp_stack **stack)
{
    struct iwarp_lw_stack *s = calloc(1, sizeof *s);

    if (!s) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a stack");
    }
    enum iwarp_status status = iwarp_lw_netif_get(text, &s->netif);
    if (status != IWARP_OK) {
        free(s);
        return status;
    }
    s->base.ops = &ops;
    *stack = &s->base;
    iwarp_log(IWARP_LOG_INFO, "lwip", "%s: lwIP %s, MSS %d, window %d, send buffer %d octets", text,
              LWIP_VERSION_STRING, TCP_MSS, (int)TCP_WND, (int)TCP_SND_BUF);
    return IWARP_OK;
}
