/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection may be asked for: its options, their defaults and bounds, and what they mean
 * for the MPA start-up (RFC 6581 9). Touches no connection.
 */
#include "verbs/conn_options.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/settings.h"
#include "mpa/mpa_setup.h"
#include "verbs/addr.h"

#include <limits.h>
#include <netinet/in.h>

#define KEEPALIVE_MAX 32767 /* seconds; MAX_TCP_KEEPIDLE of Linux */

/*
 * Settings of the environment are the defaults: programs that were written for libibverbs have no
 * other way to choose.
 */
static enum iwarp_placement placement_wished(void)
{
    static const char *const words[] = {"verified", "early", NULL};
    static const enum iwarp_placement placements[] = {IWARP_PLACE_VERIFIED, IWARP_PLACE_EARLY};

    return placements[iwarp_setting_word("IWARP_PLACEMENT", words, 0)];
}

/* Octets; 0: as the path carries. */
static unsigned ulpdu_max_wished(void)
{
    return iwarp_setting_number("IWARP_ULPDU_MAX", IWARP_MPA_MULPDU_MIN, IWARP_MPA_ULPDU_MAX, 0);
}

/* What people wish (iwarp_env(7)) is the default; an application that sets an option has the last
 * word. [MPA-1.2-02] [MPA-4.4-02] [VERBS-6.5-02] */
void iwarp_conn_options_init(struct iwarp_conn_options *options)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options =
        (struct iwarp_conn_options){.size = sizeof *options,
                                    .mpa_rev = iwarp_setting_number("IWARP_MPA_REV", 1, 2, 2),
                                    .mpa_fallback = true,
                                    .crc = iwarp_setting_on("IWARP_CRC", true),
                                    .markers = iwarp_setting_on("IWARP_MARKERS", false),
                                    .peer_to_peer = true,
                                    .placement = placement_wished(),
                                    .ulpdu_max = ulpdu_max_wished(),
                                    .ird = 32,
                                    .ord = 32,
                                    .connect_timeout_ms = 10000,
                                    .startup_timeout_ms = 10000,
                                    .close_timeout_ms = 5000,
                                    .accept_timeout_ms = 60000,
                                    .user_timeout_ms = 60000,
                                    .keepalive_s = 30,
                                    .strict = iwarp_setting_on("IWARP_STRICT", false),
                                    .remind = true,
                                    .traffic_class = -1,
                                    .rnr_timeout_ms = IWARP_RNR_OF_DEVICE,
                                    .tls = NULL};
}

/* A time-out of 0 is refused: it could mean "none" as well as "at once". */
static enum iwarp_status check_placement_and_times(const struct iwarp_conn_options *in)
{
    const struct {
        const char *name;
        unsigned ms;
    } times[] = {{"connect_timeout_ms", in->connect_timeout_ms},
                 {"startup_timeout_ms", in->startup_timeout_ms},
                 {"close_timeout_ms", in->close_timeout_ms},
                 {"accept_timeout_ms", in->accept_timeout_ms}};

    if (in->placement != IWARP_PLACE_VERIFIED && in->placement != IWARP_PLACE_EARLY) {
        return iwarp_fail(IWARP_MISUSE,
                          "connection options: placement is %u, allowed are "
                          "IWARP_PLACE_VERIFIED (%d) and IWARP_PLACE_EARLY (%d)",
                          (unsigned)in->placement, IWARP_PLACE_VERIFIED, IWARP_PLACE_EARLY);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (times[i].ms == 0) {
            return iwarp_fail(IWARP_MISUSE, "connection options: %s is 0, expected at least 1",
                              times[i].name);
        }
    }
    return IWARP_OK;
}

/*
 * What the kernel's TCP can be told: its socket options are int, and Linux bounds the keepalive
 * time.
 */
static enum iwarp_status check_tcp(const struct iwarp_conn_options *in)
{
    if (in->user_timeout_ms > INT_MAX) {
        return iwarp_fail(IWARP_MISUSE, "connection options: user_timeout_ms is %u, at most %d",
                          in->user_timeout_ms, INT_MAX);
    }
    if (in->keepalive_s > KEEPALIVE_MAX) {
        return iwarp_fail(IWARP_MISUSE, "connection options: keepalive_s is %u, at most %d",
                          in->keepalive_s, KEEPALIVE_MAX);
    }
    if (in->traffic_class < -1 || in->traffic_class > UINT8_MAX) {
        return iwarp_fail(IWARP_MISUSE,
                          "connection options: traffic_class is %d, allowed are -1 to %d",
                          in->traffic_class, UINT8_MAX);
    }
    return in->source_len == 0 ? IWARP_OK : iwarp_addr_check(in->source, in->source_len);
}

/*
 * Numbers out of range are refused, never cut to the bound: the application would not learn what it
 * runs with. A struct of another size comes from a program built with another version.
 */
enum iwarp_status iwarp_conn_options_check(const struct iwarp_conn_options *in,
                                           struct iwarp_conn_options *out)
{
    if (!in) {
        iwarp_conn_options_init(out);
        return IWARP_OK;
    }
    if (in->size != sizeof *in) {
        return iwarp_fail(IWARP_MISUSE,
                          "connection options: size is %zu, expected %zu; call "
                          "iwarp_conn_options_init first",
                          in->size, sizeof *in);
    }
    if (in->mpa_rev != 1 && in->mpa_rev != 2) {
        return iwarp_fail(IWARP_MISUSE, "connection options: mpa_rev is %u, allowed are 1 and 2",
                          in->mpa_rev);
    }
    if (in->ird > IWARP_MAX_READ_DEPTH || in->ord > IWARP_MAX_READ_DEPTH) {
        return iwarp_fail(IWARP_MISUSE, "connection options: ird %u and ord %u, at most %d",
                          in->ird, in->ord, IWARP_MAX_READ_DEPTH);
    }
    if (in->rtr & ~(unsigned)(IWARP_RTR_SEND | IWARP_RTR_WRITE | IWARP_RTR_READ)) {
        return iwarp_fail(IWARP_MISUSE, "connection options: rtr is 0x%x, allowed are bits 0x7",
                          in->rtr);
    }
    if (in->ulpdu_max != 0 &&
        (in->ulpdu_max < IWARP_MPA_MULPDU_MIN || in->ulpdu_max > IWARP_MPA_ULPDU_MAX)) {
        return iwarp_fail(IWARP_MISUSE,
                          "connection options: ulpdu_max is %u, allowed are 0 and %d "
                          "to %d octets",
                          in->ulpdu_max, IWARP_MPA_MULPDU_MIN, IWARP_MPA_ULPDU_MAX);
    }
    if (in->send_imm > IWARP_SEND_IMM_AGREED) {
        return iwarp_fail(IWARP_MISUSE, "connection options: send_imm is %d, allowed are 0 to %d",
                          (int)in->send_imm, (int)IWARP_SEND_IMM_AGREED);
    }
    enum iwarp_status status = check_placement_and_times(in);
    if (status == IWARP_OK) {
        status = check_tcp(in);
    }
    if (status == IWARP_OK) {
        *out = *in;
        out->source = NULL; /* the caller's memory; iwarp_connect copies the address itself */
    }
    return status;
}

/* src/mpa knows no options of connections, so they are translated. */
void iwarp_conn_wish(const struct iwarp_conn_options *o, struct iwarp_mpa_wish *wish)
{
    *wish = (struct iwarp_mpa_wish){.rev = (uint8_t)o->mpa_rev,
                                    .crc = o->crc,
                                    .markers_rx = o->markers,
                                    .peer_to_peer = o->peer_to_peer,
                                    .rtr = (uint8_t)o->rtr,
                                    .ird = (uint16_t)o->ird,
                                    .ord = (uint16_t)o->ord,
                                    .strict = o->strict};
}
