# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What tests/interop/run does within the guest alone, over its own address: the cells between two
# siw, as the reference.  measure.bash measures there.

# both_ends SECONDS SERVER CLIENT: runs both commands in the guest; says what came of each in
# server_says and client_says
both_ends()
{
    local seconds=$1 log
    guest_begin "$seconds" "$2"
    log=$guest_log
    eventually grep -q listening "$log" || echo "the guest does not listen" >&2
    local server=$guest_number
    guest_begin "$seconds" "$3"
    guest_end
    client_says=$(end_said $?)
    guest_number=$server guest_log=$log
    guest_end
    server_says=$(end_said $?)
    guest_number=$((server + 1))
}

# end_said STATUS: of our program its own words, of others the status
end_said()
{
    local said
    said=$(sed -n 's/^outcome //p' "$guest_log" | head -n 1)
    echo "${said:-status=$1 $(program_said "$guest_log")}"
}

# both_peers SECONDS PORT SERVER CLIENT: the same of commands that take words of settings.h
both_peers()
{
    both_ends "$1" "$3 port=$2 role=server" "$4 port=$2 role=client addr=$guest_address"
}

# reference_cell NAME WAY WORDS WE SIW BETWEEN: the cell with siw at both ends.  BETWEEN is what its
# comparison with the cell should come to: same (also when left out), better (libiwarp is), laxer
# (siw takes what libiwarp refuses); A~B is one of them.
reference_cell()
{
    local name=${1%-*} way=$2 words=$3 between=${6:-same} client server seen verdict=pass try
    local one other port seconds
    [ -z "${ran[$name]-}" ] || return 0
    # What siw has no choice about in a connection (its module has: the cells siw-*), or no target for.
    case " $words " in
    *' op=nvme'* | *' op=nfs'* | *' op=iser'* | *' rev='* | *' rtr='*) return 0 ;;
    *' op=rping'*)
        words="${words/op=rping/op=program program=rping}"
        set -- "$1" "$2" "$words" status=0~late status=0~late
        ;;
    esac
    ran[$name]=1
    [ "${between#better}" = "$between" ] || words+=" time=5" # it does not come to an end
    if [ "$announced" = 0 ]; then
        row ""
        row "[$title]$environment"
        announced=1
    fi
    [ "$way" = we ] && client=${4:-ok} server=${5:-ok} || client=${5:-ok} server=${4:-ok}
    for try in 1 2; do
        if ! guest_lives && ! { applied=none; guest_start >>"$work/start.log"; }; then
            break
        fi
        environment_apply || continue
        number=$((number + 1))
        port=$((28100 + number)) seconds=$(($(value time "$words" 15) * 2 + 10))
        if [ "$(value op "$words")" = program ]; then
            both_ends $seconds "$(guest_listens "$(program_line "$words" $port)" $port)" \
                "cd /tmp; $(program_line "$words" $port $guest_address)"
        else
            both_peers $seconds $port "siw-peer $words" "siw-peer $words"
        fi
        seen=better
        # Who goes without a word has nothing to say of how it went.
        one=${client_says%% *} other=${server_says%% *}
        [ "$one" != gone ] || one=${client%% *}
        if [ -z "$(mismatch "${client%% *}" "$one")$(mismatch "${server%% *}" "$other")" ]; then
            seen=same
        else
            case $one:$other in ok:ok | status=0:status=0) seen=laxer ;; esac
        fi
        if guest_crashed; then
            seen=crash
            guest_stop
        fi
        [ -n "$(mismatch "$between" "$seen")" ] || break
    done
    if [ -z "$(mismatch "$between" "$seen")" ]; then
        passed=$((passed + 1))
    else
        verdict=FAIL
        failed=$((failed + 1))
    fi
    row "$(printf '%-5s %-20s %-7s' $verdict "$name" "$seen") connects: $client_says | listens: $server_says"
}
