#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# cost.py CAPTURE PLUGINS TIME MEMORY [COMMAND...]
#
# tshark over a capture with the plugin and without it, in turn (COMMAND in front of it): medians of
# CPU time, user's and system's, and of the largest memory, of the one are at most TIME and MEMORY
# times those of the other. Other work on the machine disturbs single runs, so three attempts.
import os
import statistics
import subprocess
import sys

ROUNDS, ATTEMPTS = 5, 3


def run(command, plugins):
    """Seconds of CPU and KiB of memory."""
    where = dict(os.environ, WIRESHARK_PLUGIN_DIR=plugins)
    child = subprocess.Popen(command, env=where, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit('tshark ended with %d' % status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def attempt(command, plugins):
    rounds = [(run(command, '/nonexistent'), run(command, plugins)) for _ in range(ROUNDS)]
    return [statistics.median(with_it[i] for _, with_it in rounds) /
            statistics.median(without[i] for without, _ in rounds) for i in range(2)]


def main(capture, plugins, time, memory, *user):
    command = [*user, 'tshark', '-n', '-r', capture]
    frames = subprocess.run([*command, '-q', '-z', 'iwarp,tree'], capture_output=True, text=True,
                            env=dict(os.environ, WIRESHARK_PLUGIN_DIR=plugins)).stdout
    if 'FPDUs by opcode' not in frames or 'Write' not in frames:
        sys.exit('the plugin was not there')
    for _ in range(ATTEMPTS):
        ratios = attempt(command, plugins)
        print('CPU time %.3f, memory %.3f' % tuple(ratios))
        if ratios[0] <= float(time) and ratios[1] <= float(memory):
            return
    sys.exit('more than %s and %s' % (time, memory))


main(*sys.argv[1:])
