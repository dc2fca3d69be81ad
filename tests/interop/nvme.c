/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first steps of an NVMe over RDMA target, enough to see the kernel as a user of siw: its host
 * sends a Connect capsule of 64 octets, which names 1024 octets of its memory; they are read by
 * RDMA Read, and hold the name of the subsystem that it wants. No answer is given: the host gives
 * up.
 *
 * NVMe over Fabrics 1.1: 3.3 (Connect), NVM Express base: 4.4 (keyed SGL data block).
 */
#include "exchange.h"

#include <string.h>

#define CAPSULE 64
#define DATA    1024

/* What the table of cells gives to the guest. */
static const char subsystem[] = "nqn.2014-08.org.example:interop";

static uint64_t little(const unsigned char *at, unsigned octets)
{
    uint64_t value = 0;

    while (octets > 0) {
        octets--;
        value = value << 8 | at[octets];
    }
    return value;
}

void nvme_run(struct talk *talk)
{
    struct side_request read = {.id = 1, .op = OP_READ, .addr = talk->sink, .len = DATA};
    struct side_done done;
    const unsigned char *capsule;

    if (!talk_next(talk, &done) || !done.receive) {
        talk_complain(talk, "no capsule came");
        return;
    }
    capsule = talk->slots + (size_t)done.id * talk->slot_size;
    /* Opcode Fabrics, command Connect; a keyed SGL of 1024 octets. */
    if (done.len != CAPSULE || capsule[0] != 0x7f || capsule[4] != 1 ||
        (capsule[39] & 0xf0) != 0x40 || little(capsule + 32, 3) != DATA) {
        talk_complain(talk, "%u octets that are no Connect", done.len);
        return;
    }
    read.remote_to = little(capsule + 24, 8);
    read.remote_stag = (uint32_t)little(capsule + 35, 4);
    side_post(talk->link, &read);
    if (!talk_next(talk, &done) || done.receive) {
        talk_complain(talk, "the data of Connect cannot be read");
    } else if (memcmp(talk->sink + 256, subsystem, sizeof subsystem) != 0) {
        talk_complain(talk, "the data of Connect names another subsystem");
    } else {
        talk->judged = true;
    }
}
