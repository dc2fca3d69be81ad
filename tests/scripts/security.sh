#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# docs/security.md names a test for each attack: each of them is there, under that name.
set -u
number=0 failed=0 file=
while read -r word; do
    case $word in
    tests/*) file=$word ;;
    *__*)
        number=$((number + 1))
        if [ -n "$file" ] && grep -q "\b$word\b" "$file"; then
            echo "ok $number - $word"
        else
            echo "not ok $number - $word is not in ${file:-any file}"
            failed=1
        fi
        ;;
    esac
done < <(grep -o '`[^` ]*`' docs/security.md | tr -d '`')
echo "1..$number"
[ $number -gt 20 ] && [ $failed = 0 ]
