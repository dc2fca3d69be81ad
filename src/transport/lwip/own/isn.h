/* SPDX-License-Identifier: BSD-2-Clause */
/* Initial sequence numbers, which lwIP asks for by this hook. */
#ifndef IWARP_LWIP_OWN_ISN_H
#define IWARP_LWIP_OWN_ISN_H

#include <lwip/ip_addr.h>

u32_t iwarp_lw_isn(const ip_addr_t *own, u16_t own_port, const ip_addr_t *peer, u16_t peer_port);

#endif
