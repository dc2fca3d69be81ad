# SPDX-License-Identifier: BSD-2-Clause
#
# For tests that are scripts: `check NAME COMMAND...` runs a command, whose status is the result, and
# prints a TAP line; what the command said only if it failed. Counts in `number` and `failed`.
number=0
failed=0
check()
{
    local name=$1 out
    shift
    number=$((number + 1))
    if out=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        printf '%s\n' "$out"
        failed=1
    fi
}
