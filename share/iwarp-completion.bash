# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Completion for bash of all programs of libiwarp: options as --help has them, then files.

_iwarp_options()
{
    "$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--[a-z][a-z0-9-]*=?' | tr -d ' ,' | sort -u
}

_iwarp()
{
    local word=${COMP_WORDS[COMP_CWORD]} program=${1##*/} words=''
    case $program:$COMP_CWORD in
    iwarp-cp:1) words='serve put get ls keygen' ;;
    iwarp-nvmf:1) words='status bench' ;;
    iwarp-bench:1) words=$("$1" --help 2>/dev/null | sed -n '/^tests:/,/^$/s/^  \([a-z-]*\) .*/\1/p') ;;
    iwarp-run:*)
        if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} != --* ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
        fi
        words=$("$1" --help 2>/dev/null | sed -n '/--NAME=VALUE/,/--version/p' | sed 1d | grep -oE '\<[a-z][a-z0-9-]*\>' |
            grep -vE '^(version|help)$' | sed 's/.*/--&=/')
        [[ $word == -* ]] || words+=" $(compgen -c -- "$word")"
        compopt -o nospace 2>/dev/null
        ;;
    esac
    [[ $word != -* ]] || words+=" $(_iwarp_options "$1")"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _iwarp iwarp-bench iwarp-cp iwarp-link iwarp-nvmf iwarp-run iwarp-stat
