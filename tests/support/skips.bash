# SPDX-License-Identifier: BSD-2-Clause
#
# Which tests may skip themselves.  Sourced with the top of the source tree as working directory.

# is_known_skip NAME: tests/skips.txt has it, with a reason
is_known_skip()
{
    awk -F '\t' -v name="$1" '$1 == name && $2 != "" { found = 1 } END { exit !found }' \
        tests/skips.txt
}
