# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells with op=program: unchanged programs of the distribution, in the guest over siw, and on the
# host over our libibverbs and librdmacm (iwarp-run).  Words: program= is rping, rstream, riostream, one of perftest's,
# or fio-write, fio-read, fio-send, fio-verify (send with verify=crc32c); size, count; more= has
# further arguments, with commas for spaces.
#
# Most of them do not look at their data.  The capture of iwarp-run then says how many messages of
# which size there were, c.Write:1444=20, of how many FPDUs the CRC or the header was wrong, bad=N, and
# how many had no CRC, unchecked=N, by the dissector's code.

# The judge of captures knows nothing of src/.
programs_prepare()
{
    gcc -std=c11 -O2 -I. -o "$work/messages" tests/programs/count.c \
        dissector/{crc,frame,header,setup}.c
}

# program_line WORDS PORT [ADDRESS]: the command; with an address, of the end that connects
program_line()
{
    local program more size count
    program=$(value program "$1") more=$(value more "$1") size=$(value size "$1" 65536)
    count=$(value count "$1" 20)
    case $program in
    rping) echo "rping $([ -n "${3-}" ] && echo "-c -a $3" || echo -s) -p $2 -V -C $count -S $size" ;;
    rstream | riostream) echo "$program ${3+-s $3} -p $2 -S $size -C $count ${more//,/ }" ;;
    ib_*) echo "$program -R -F -p $2 -n $count -s $size ${more//,/ } ${3-}" ;;
    fio-*) fio_line "${program#fio-}" "$2" "$size" "$count" "${3-}" ;;
    esac
}

# fio_line VERB PORT SIZE COUNT ADDRESS: the receiver posts a receive for each message, since with
# verb=send fio has no flow control, and a Send that finds none ends an iWARP stream.
fio_line()
{
    local line="fio --ioengine=rdma --port=$2 --bs=$3 --size=$(($3 * $4))"
    if [ "$1" = verify ]; then
        line+=" --verify=crc32c"
        set -- send "${@:2}"
    fi
    if [ -n "$5" ]; then
        echo "$line --name=sender --hostname=$5 --verb=$1 --rw=write --iodepth=16"
    else
        echo "$line --name=receiver --rw=read --iodepth=$4"
    fi
}

# In the guest, until somebody listens, on siw or on TCP.
guest_listens()
{
    echo "cd /tmp; $1 & pid=\$!
        for i in \$(seq 200); do rdma res show cm_id | grep -q ':$2 ' && break
            grep -q ':$(printf %04X "$2") 00000000:0000 0A' /proc/net/tcp && break; sleep 0.1; done
        echo listening; wait \$pid"
}

host_listens()
{
    ss -Hltn "sport = :$1" | grep -q .
}

# program_end PORT: the host's end in the background, in a folder of its own; sets host_pid
program_end()
{
    local command=$1 seconds=$2 log=$3
    rm -rf "$work/end"
    mkdir "$work/end"
    (
        cd "$work/end" || exit 1
        # shellcheck disable=SC2086 # words
        exec timeout -k 2 "$seconds" "$BUILD/bin/iwarp-run" --pcap="$work/end/%p.pcapng" $command
    ) >"$log" 2>&1 </dev/null &
    host_pid=$!
}

# program_run WAY WORDS PORT SECONDS LOG: both ends; sets we_says, leaves the guest to guest_end
program_run()
{
    local way=$1 words=$2 port=$3 seconds=$4 log=$5
    if [ "$way" = we ]; then
        guest_begin "$seconds" "$(guest_listens "$(program_line "$words" "$port")" "$port")"
        eventually grep -q listening "$guest_log" || echo "the guest does not listen" >&2
        program_end "$(program_line "$words" "$port" "$guest_address")" "$seconds" "$log"
    else
        program_end "$(program_line "$words" "$port")" "$seconds" "$log"
        eventually host_listens "$port" || echo "the host's program does not listen" >&2
        guest_begin "$seconds" "cd /tmp; $(program_line "$words" "$port" "$host_address")"
    fi
    wait $host_pid
    we_says="status=$? $(program_said "$log")"
}

# program_said LOG: what came of it in words, of those whose status does not say all.  late: rping has
# closed its events at its end while a thread of it still asked for one, and so has another status.
program_said()
{
    ! grep -q 'rdma_get_cm_event: Bad file descriptor' "$1" || echo -n "late "
    ! grep -q 'err= 0' "$1" || echo -n "err=0 "
    ! grep -qE '^ +[0-9]+ +[0-9]+ +[0-9.]+ ' "$1" || echo -n "figures "
}

# Messages by size, as words.
program_messages()
{
    local -a files=("$work"/end/*.pcapng)
    [ -e "${files[0]}" ] || return 0
    "$work/messages" "${files[@]}" 2>&1 | awk '
        /^(bad|unchecked) / { words = words " " $1 "=" $2; next }
        /^[cs] / { side = $1; n = $NF; size = $(NF - 1); $1 = $NF = $(NF - 1) = ""; gsub(/ /, "")
            words = words " " side "." $0 ":" size "=" n; next }
        /^count: / { words = words " " $0 }
        END { print words }'
}
