# SPDX-License-Identifier: BSD-2-Clause
#
# How rping ends, for tests that are scripts.

# ended_well STATUS FILE: a program has ended with that status, and FILE is its output.  At the end of rping
# its second thread may ask for an event of the channel that the first one has destroyed, with any
# librdmacm; its status is not 0 then.
ended_well()
{
    [ "$1" = 0 ] || grep -q '^rdma_get_cm_event: Bad file descriptor' "$2" || { cat "$2"; return 1; }
}
