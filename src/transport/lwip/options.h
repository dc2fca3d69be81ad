/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the text of a transport says, behind "lwip:":
 *
 *   unix=PATH   a port of the switch that iwarp-link offers at PATH
 *   shm=PATH    one of the two ends of a pair of rings in the file PATH
 *   tap=NAME    a tap interface by name, with the rights for that
 *   xdp=NAME    queue 0 of a network interface, by AF_XDP, with the rights for that
 *   fd=NUMBER   a descriptor handed in: a tap, or a socket that keeps the borders of frames
 *
 * and then, by commas: addr=ADDRESS/PREFIX (IPv4 or IPv6, each at most once), gw=ADDRESS (IPv4).
 */
#ifndef IWARP_LWIP_OPTIONS_H
#define IWARP_LWIP_OPTIONS_H

#include <iwarp/status.h>
#include <netinet/in.h>
#include <stdbool.h>

#define IWARP_LW_TEXT 512

enum iwarp_lw_kind { IWARP_LW_UNIX, IWARP_LW_SHM, IWARP_LW_TAP, IWARP_LW_XDP, IWARP_LW_FD };

struct iwarp_lw_options {
    char text[IWARP_LW_TEXT]; /* all of it */
    enum iwarp_lw_kind kind;
    char place[108]; /* path or name */
    int fd;
    bool has4, has6;
    struct in_addr addr, mask, gw; /* gw 0: none */
    struct in6_addr addr6;
    unsigned prefix6;
};

/* Not OK: iwarp_last_error says what is wrong with it. */
enum iwarp_status iwarp_lw_options_read(const char *text, struct iwarp_lw_options *o);

#endif
