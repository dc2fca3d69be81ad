#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# iwarp-cp with a file above 4 GiB, where 32-bit arithmetic would show: its octets around every
# boundary of 32 bits must be at their places.  Takes half a minute and 9 GB of disk or, with
# TMPDIR, memory, so only when asked for by SLOW=1.
set -u
if [ "${SLOW-}" != 1 ]; then
    echo "takes 9 GB of disk or, with TMPDIR, memory; run it with SLOW=1"
    exit 77
fi
. tests/support/cp.bash

mkdir export
size=$((4 * 1024 * 1024 * 1024 + 12345))
truncate -s $size large
for at in 0 2147483640 4294967290 $((size - 7)); do
    printf 'at%05d' $((at % 99991)) | dd of=large bs=1 seek=$at conv=notrunc status=none
done
serve export || exit 1
limit=280 check "put above 4 GiB" succeeds "$cp" put --checksum large "iwarp://$address/large"
check "is the same" cmp large export/large
rm large
limit=280 check "get above 4 GiB" succeeds "$cp" get --checksum "iwarp://$address/large" large
check "is the same again" cmp large export/large
stop
finish
