# SPDX-License-Identifier: BSD-2-Clause
#
# What the files of captures share: the list of functions that each make one, and octets to carry.
from encode import send

CASES = []


def case(function):
    CASES.append(function)
    return function


def text(n, seed=0):
    return bytes((i * 7 + seed) & 255 for i in range(n))


def sends(way, n, size, first=1):
    for i in range(n):
        way.fpdu(send(first + i, text(size + i, i)))
