#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Each public header compiles alone, first in its file and twice over, as strict C99 and C11, and as
# C++11 and C++20, by both compilers, without the library's own feature macros, and with the warnings
# that a program may have chosen.
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
        "$@" -x "$language" -Iinclude -pedantic-errors -Wall -Wextra -Wundef -Wshadow \
            -Wconversion -Wsign-conversion -Wcast-qual -Werror -fsyntax-only - 2>&1); then
        echo "ok $number - $name: $*"
    else
        echo "not ok $number - $name: $*"
        printf '%s\n' "$out"
        failed=1
    fi
}

headers=(include/iwarp/*.h)
echo "1..$((${#headers[@]} * 8))"
for header in "${headers[@]}"; do
    name=${header##*/}
    for standard in c99 c11; do
        check "$name" c gcc -std=$standard -Wstrict-prototypes
        check "$name" c clang -std=$standard -Wstrict-prototypes
    done
    for standard in c++11 c++20; do
        check "$name" c++ g++ -std=$standard -Wold-style-cast -Wuseless-cast
        check "$name" c++ clang++ -std=$standard -Wold-style-cast
    done
done
exit $failed
