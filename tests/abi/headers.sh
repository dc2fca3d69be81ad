#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Each public header compiles alone, first in its file and twice over, as strict C11 and as
# C++17, by both compilers, without the library's own feature macros.
set -u

number=0
failed=0
check()
{
    local name=$1 language=$2 out
    shift 2
    number=$((number + 1))
    # A header of macros alone would leave an empty translation unit, which C forbids.
    if out=$(printf '#include <iwarp/%s>\n#include <iwarp/%s>\nstruct x;\n' "$name" "$name" |
        "$@" -x "$language" -Iinclude -pedantic-errors -Wall -Wextra -Wundef -Werror \
            -fsyntax-only - 2>&1); then
        echo "ok $number - $name: $*"
    else
        echo "not ok $number - $name: $*"
        printf '%s\n' "$out"
        failed=1
    fi
}

headers=(include/iwarp/*.h)
echo "1..$((${#headers[@]} * 4))"
for header in "${headers[@]}"; do
    name=${header##*/}
    check "$name" c gcc -std=c11 -Wstrict-prototypes
    check "$name" c clang -std=c11 -Wstrict-prototypes
    check "$name" c++ g++ -std=c++17
    check "$name" c++ clang++ -std=c++17
done
exit $failed
