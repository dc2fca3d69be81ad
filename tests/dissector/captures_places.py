# SPDX-License-Identifier: BSD-2-Clause
#
# Captures in which a dissector has to find out where FPDUs and markers are, or gets octets in an
# order that makes TCP offer some of them again: start-up frames missing, losses, segments that
# changed places.
from cases import case, sends, text
from encode import *


def without_start(c, seen, req=0x40, rep=0x40, **more):
    """A connection of which only those start-up frames were captured."""
    x = Connection(c, **more)
    x.shake_hands()
    for side, frame in ((0, request(req)), (1, reply(rep))):
        x.way[side].plain(frame)
        if seen[side]:
            x.flush(side)
        else:
            x.sent[side] = len(x.way[side].octets)
    return x


@case
def places_lost(c):
    """FPDUs are at multiples of four from the first that was seen, not from sequence number 0."""
    for shift in range(4):
        x = Connection(c, ports=(40000 + shift, 7174)).shake_hands()
        x.way[0].plain(request(private=text(shift)))
        x.sent[0] = len(x.way[0].octets)
        sends(x.way[0], 30, 200)
        lost = x.lose(0, x.sent[0] + 1000, 600)
        x.flush(0, 500)
        x.true(0, lost=[lost])


@case
def places_behind_late(c):
    """The FPDU that ends in a segment begins in the one before, which comes late: TCP divides
    the former in another way on later passes, as the profile has it."""
    c.option('tcp.no_subdissector_on_error:FALSE')
    x = Connection(c).start()
    sends(x.way[0], 40, 30)
    first, end = x.sent[0], len(x.way[0].octets)
    for piece in ((first + 700, first + 1400), (first, first + 700), (first + 1400, end)):
        x.piece(0, *piece)
    c.truth['any_order'] = True
    x.true(0)


@case
def places_markers_found(c):
    """One start-up frame says that there are markers; where is told by those that point."""
    for i, seen in enumerate(((False, True), (True, False), (False, False))):
        x = without_start(c, seen, 0xc0, 0xc0, ports=(40000 + i, 7174), markers=True)
        for side in (0, 1):
            sends(x.way[side], 8, 1400)
            x.flush(side, 536)
            x.true(side)
    c.count('iwarp.mpa.marker.bad', 0)
    c.count('iwarp.mpa.crc.bad', 0)


@case
def places_markers_crc_off(c):
    x = without_start(c, (False, False), ports=(50001, 50002), markers=True, crc='absent')
    sends(x.way[0], 8, 1400)
    x.flush(0, 1448)
    x.true(0)
    c.count('iwarp.mpa.marker.bad', 0)


@case
def places_revision_0(c):
    """Revision 0 of MPA, with the versions of DDP and RDMAP that RFC 5040 and 5041 have."""
    x = Connection(c, markers=True).start(request(0xc0, 0), reply(0xc0, 0))
    for side in (0, 1):
        sends(x.way[side], 6, 1900)
        x.flush(side, 1448)
        x.true(side)
    c.count('iwarp.mpa.marker.bad', 0)
    c.count('iwarp.ddp.dv.bad', 0)


@case
def places_offered_again(c):
    """An FPDU is longer than its first octets tell, by markers that nobody knows of yet. TCP, told
    so in the segment that completes it, offers all of it again with each segment that follows."""
    x = without_start(c, (False, False), ports=(50001, 50002), markers=True)
    sends(x.way[0], 40, 1400)
    x.sent[0] = x.way[0].fpdus[0]['end']
    x.flush(0, 60)
    del x.capture.packets[3:]
    x.sent[0] = x.way[0].fpdus[0]['end'] + 60
    x.flush(0, 700)
    x.true(0, lost=[(0, x.way[0].fpdus[0]['end'])])
    c.count('iwarp.mpa.skipped', 0)


@case
def places_whole_by_the_last(c):
    """An FPDU whose beginning came late is whole by a segment that TCP hands over."""
    x = Connection(c).start()
    x.way[0].fpdu(send(1, text(40)))
    x.way[0].fpdu(send(2, text(4900)))
    x.way[0].fpdu(send(3, text(60)))
    x.way[0].fpdu(send(4, text(2000)))
    f = x.way[0].fpdus
    x.piece(0, f[0]['first'], f[0]['end'])
    at = f[1]['first']
    for a, b in ((1700, 2100), (0, 1700), (2100, 2800), (2800, 4900), (4900, 5100)):
        x.piece(0, at + a, at + b)
    x.flush(0, 1000)
    x.way[0].fpdus = [f[0], f[2], f[1], f[3]]
    x.true(0)


@case
def places_markers_any_crc(c):
    """CRCs are off and their field holds anything; only the Reply was captured."""
    x = without_start(c, (False, True), 0x80, 0x80, markers=True, crc='unverified')
    sends(x.way[0], 40, 700)
    x.flush(0, 1448)
    x.true(0)
    c.count('iwarp.mpa.marker.bad', 0)
    c.count('iwarp.mpa.skipped', 0)


@case
def places_version_0(c):
    """DDP and RDMAP of version 0, as RDMA Consortium had them, without a start-up frame."""
    x = without_start(c, (False, False), ports=(50001, 50002), markers=True)
    for side in (0, 1):
        for i in range(12):
            x.way[side].fpdu(untagged(3, 0, i + 1, payload=text(300 + i), control=0, rv=0))
            x.way[side].fpdu(tagged(0, 5, 300 * i, text(900), control=0, rv=0))
        x.flush(side, 1000)
        x.true(side)
    c.count('iwarp.ddp.dv.bad', 0)


@case
def places_first_octets(c):
    """Segments of one octet to three at the start of either side, also where others own the port."""
    for port in (7174, 445):
        for n in (1, 2, 3):
            x = Connection(c, ports=(40000 + n, port)).shake_hands()
            for side, frame in ((0, request()), (1, reply())):
                x.way[side].plain(frame)
                x.piece(side, 0, n)
                x.flush(side)
            for side in (0, 1):
                sends(x.way[side], 3, 50)
                x.flush(side)
                x.true(side)


@case
def places_fpdus_inside(c):
    """Payload of FPDUs that are right, in FPDUs over many segments: payload all the same."""
    inside = Way()
    sends(inside, 60, 40)
    x = Connection(c).start()
    for i in range(4):
        x.way[0].fpdu(write(5, 10000 * i, bytes(inside.octets)))
        x.way[0].fpdu(send(i + 1, text(30)))
    x.flush(0, 1448)
    x.true(0)
    c.count('iwarp.mpa.length.bad', 0)
