# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# The measurement of tests/interop/run: libiwarp, siw and plain TCP side by side in the guest, over its
# own address, by a program of ours (measure.c, measure_tcp.c) and by perftest.
rounds=${INTEROP_ROUNDS:-5}
repeats=0
json=

# What is linked with libraries of the host comes with them: the guest has others, or none.  perftest
# there is the guest's own file, on our libibverbs and librdmacm.
host_programs()
{
    mkdir -p "$ctl/host"
    cp "$BUILD/interop/iwarp-measure" "$ctl/host/"
    for file in "$BUILD/interop/iwarp-measure" "$(command -v ib_send_lat)"; do
        LD_LIBRARY_PATH=$BUILD/lib/compat ldd "$file"
    done | grep -o '/[^ ]*' | sort -u | while read -r file; do
        cp "$file" "$ctl/host/"
        case $file in *ld-linux*) cp "$file" "$ctl/host/ld.so" ;; esac
    done
    [ ! -d "$BUILD/lib/ossl-modules" ] || cp -r "$BUILD/lib/ossl-modules" "$ctl/host/"
    cp "$BUILD/interop/siw-measure" "$BUILD/interop/tcp-measure" "$ctl/"
    guest_does 60 'cp /ctl/*-measure /usr/bin/; cp -r /ctl/host /tmp/'
    # Otherwise both contenders were siw.
    guest_does 60 'cd /tmp; for p in ib_send_lat ib_write_lat ib_write_bw ib_read_bw ib_send_bw; do
        LD_LIBRARY_PATH= /tmp/host/ld.so --library-path /tmp/host --list /usr/bin/$p |
            grep -c "lib\(ibverbs\|rdmacm\).*=> /tmp/host/" | grep -qx 2 ||
            { echo "$p: not on our libraries"; exit 1; }
    done'
}

# on_ours COMMAND: it with the libraries of the host
on_ours()
{
    echo "/tmp/host/ld.so --library-path /tmp/host $1"
}

# ours WHO CRC WORDS: one run of our program; sets figure and busy, which are empty if it has none
ours()
{
    local command=$1-measure words="$3 crc=$2 time=100"
    [ "$1" != iwarp ] || command=$(on_ours /tmp/host/iwarp-measure)
    number=$((number + 1))
    both_peers 120 $((29100 + number)) "$command $words" "$command $words"
    figure=$(value figure "$client_says") busy=$(value busy "$client_says")
}

# perftest WHO CRC PROGRAM SIZE COUNT: one run of it; sets figure, for latency also typical, and busy
perftest()
{
    local program=/usr/bin/$3 port line ticks='read -r _ u n s _ _ q f t _ </proc/stat; b=$((u + n + s + q + f + t))'
    [ "$1" != iwarp ] || program="env IWARP_CRC=$([ "$2" = 1 ] && echo on || echo off) $(on_ours "$program")"
    number=$((number + 1))
    port=$((29100 + number))
    line="$program -R -F -p $port -s $4 -n $5"
    both_ends 60 "$(guest_listens "$line" $port)" "cd /tmp; $ticks; a=\$b; $line $guest_address; status=\$?
        $ticks; echo busy=\$((b - a)); exit \$status"
    # MB/sec is 2^20 octets there.  It tells inf or 0 where it has not found the clock's frequency.
    read -r figure typical <<<"$(awk -v lat="${3##*_}" '/^ +[0-9]+ +[0-9]+ +[0-9.]+ / && $4 > 0 {
        if (lat == "lat") print $6, $5; else print $4 * 1.048576 }' "$ctl/$guest_number.log")"
    busy=$(sed -n 's/^busy=//p' "$ctl/$guest_number.log" | awk '{ print $1 / 100 }')
}

# one WHO CRC PROGRAM WORDS: one run of a contender; sets figure, typical, and cpu, in seconds per GiB
one()
{
    local size count brief=0
    size=$(value size "$4") count=$(value count "$4")
    typical=
    if [ "$3" = ours ] || [ "$1" = tcp ]; then
        ours "$1" "$2" "$4"
    else
        # Starting perftest is no small part of a run: what a run of few messages takes is taken off.
        if [ "${3##*_}" = bw ]; then
            perftest "$1" "$2" "$3" "$size" 5
            case $client_says in *figures*) ;; *) figure= && return ;; esac
            brief=$busy count=$((count - 5))
        fi
        perftest "$1" "$2" "$3" "$size" "$(value count "$4")"
    fi
    [ -n "$figure" ] || return
    cpu=$(awk -v b="$busy" -v f="$brief" -v n="$count" -v s="$size" \
        'BEGIN { printf "%.2f", (b - f) / (n * s / 2 ^ 30) }')
}

# Of an odd number of lines.
middle()
{
    local -a lines
    mapfile -t lines < <(sort -g)
    echo "${lines[${#lines[@]} / 2]}"
}

# in_turn CRC PROGRAM WORDS CONTENDER...: all rounds; sets all[KIND WHO], a line a run, which
# measure-runs.txt has, too.  A run without a figure is repeated, which the table says: beside other work
# perftest often does not find the clock's frequency.
in_turn()
{
    local crc=$1 program=$2 words=$3 round who try
    shift 3
    all=()
    for ((round = 0; round < rounds; round++)); do
        for who in "$@"; do
            for try in {1..8}; do
                one "$who" "$crc" "$program" "$words"
                [ -z "$figure" ] || break
                repeats=$((repeats + 1))
                row "# no figure: $who, $program $words: $client_says; $server_says"
            done
            [ -n "$figure" ] || return 1
            echo "$program $words crc=$crc: $who $figure $typical $cpu" >>"$work/measure-runs.txt"
            all[figure $who]+=$figure$'\n'
            all[typical $who]+=$typical$'\n'
            all[cpu $who]+=$cpu$'\n'
        done
    done
}

median()
{
    [ -z "${all[$1]-}" ] || middle <<<"${all[$1]%$'\n'}"
}

# json_row ROW CONTENDER VALUE UNIT
json_row()
{
    json+="{\"row\": \"$1\", \"contender\": \"$2\", \"value\": $3, \"unit\": \"$4\"},"$'\n'
}

# measured TITLE UNIT KIND: a line of the table, with the CPU time if the unit is a rate
measured()
{
    local who name factor=1 unit=us
    local -A of=()
    [ "$2" = us ] || { unit=B/s; factor=1000000; }
    for who in tcp siw iwarp; do
        of[$who]=$(median "$3 $who")
        of[cpu $who]=$([ "$2" = us ] || median "cpu $who")
        case $who in tcp) name="plain TCP" ;; iwarp) name=libiwarp ;; *) name=$who ;; esac
        [ -z "${of[$who]}" ] ||
            json_row "$1" "$name" "$(awk -v v="${of[$who]}" -v f=$factor 'BEGIN { printf "%.10g", v * f }')" $unit
        [ -z "${of[cpu $who]}" ] || json_row "$1, CPU" "$name" "${of[cpu $who]}" s/GiB
    done
    passed=$((passed + 1))
    row "$(awk -v title="$1, $2" -v t="${of[tcp]}" -v s="${of[siw]}" -v w="${of[iwarp]}" \
        -v ct="${of[cpu tcp]}" -v cs="${of[cpu siw]}" -v cw="${of[cpu iwarp]}" '
        function have(v, f) { return v == "" ? "-" : sprintf(f, v) }
        function ratio(v, by) { return v == "" || by == "" ? "-" : sprintf("%.2f", v / by) }
        BEGIN { printf "%-42s %8s %8s %8s  %7s %7s %7s  %6s %6s %6s", title,
            have(t, "%.1f"), have(s, "%.1f"), have(w, "%.1f"), ratio(s, t), ratio(w, t), ratio(w, s),
            have(ct, "%.1f"), have(cs, "%.1f"), have(cw, "%.1f") }')"
}

heading()
{
    row ""
    row "# $1"
    row "$(printf '%-42s %8s %8s %8s  %7s %7s %7s  %6s %6s %6s' "" TCP siw libiwarp siw:TCP we:TCP we:siw TCP siw we)"
}

# for_the_bench NOTE: the rows for bench/run; of what could not be measured it says so
for_the_bench()
{
    local note=$1
    [ "$failed" = 0 ] || note+="; rows that could not be measured: $failed, see interop/measure.txt"
    mkdir -p "$BUILD/bench"
    printf '{"note": "%s",\n"rows": [\n%s\n]}\n' "$note" "$(sed '$s/,$//' <<<"${json%$'\n'}")" \
        >"$BUILD/bench/siw.json"
}

# Runs of each in turn, of which the middle one counts.
measure()
{
    local title unit program crc contenders words environment processor head=
    local -A all
    host_programs || return 1
    : >"$work/measure-runs.txt"
    row "# $rounds runs of each in turn, the median counts; on the right CPU seconds per GiB, of the whole guest"
    processor="$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
    row "# $processor, the guest has 2; a load of $(cut -d ' ' -f 1 /proc/loadavg) at the beginning"
    while IFS='|' read -r title unit crc program contenders words; do
        if [ -z "$unit" ]; then
            head=$title
            continue
        fi
        case " ${chosen[*]-} " in '  ' | *" $program "*) ;; *) continue ;; esac
        [ -z "$head" ] || heading "$head"
        head=
        environment=" mpa_crc_required=$crc"
        environment_apply || return 1
        # shellcheck disable=SC2086 # words
        if ! in_turn "$crc" "$program" "$words" $contenders; then
            row "FAIL $title: $client_says; $server_says"
            failed=$((failed + 1))
            continue
        fi
        case $program in
        *_lat)
            measured "$title, mean" "$unit" figure
            # Of TCP there is a mean only.
            measured "$title, median" "$unit" typical
            ;;
        *) measured "$title" "$unit" figure ;;
        esac
    done <<'END'
measure.c; all sleep until something comes; 16 requests at a time; a Write counts when the peer has it all
round trip / 2, 64 octets|us|0|ours|tcp siw iwarp|op=send size=64 count=200
round trip / 2, 4096 octets|us|0|ours|tcp siw iwarp|op=send size=4096 count=200
round trip / 2, 4096 octets, CRC|us|1|ours|tcp siw iwarp|op=send size=4096 count=200
Write of 64 KiB|MB/s|0|ours|tcp siw iwarp|op=write size=65536 count=500
Write of 64 KiB, CRC|MB/s|1|ours|tcp siw iwarp|op=write size=65536 count=500
Write of 1 MiB|MB/s|0|ours|tcp siw iwarp|op=write size=1048576 count=40
Read of 64 KiB|MB/s|0|ours|tcp siw iwarp|op=read size=65536 count=500
Read of 64 KiB, CRC|MB/s|1|ours|tcp siw iwarp|op=read size=65536 count=500
perftest, which busy-polls, -R and its defaults; TCP, which sleeps, where measure_tcp.c does the same
ib_send_lat of 64|us|0|ib_send_lat|tcp siw iwarp|op=send size=64 count=200
ib_send_lat of 4096|us|0|ib_send_lat|tcp siw iwarp|op=send size=4096 count=200
ib_send_lat of 4096, CRC|us|1|ib_send_lat|tcp siw iwarp|op=send size=4096 count=200
ib_write_lat of 64|us|0|ib_write_lat|siw iwarp|size=64 count=200
ib_write_lat of 4096|us|0|ib_write_lat|siw iwarp|size=4096 count=200
ib_write_lat of 4096, CRC|us|1|ib_write_lat|siw iwarp|size=4096 count=200
ib_write_bw of 64 KiB|MB/s|0|ib_write_bw|siw iwarp|size=65536 count=500
ib_write_bw of 64 KiB, CRC|MB/s|1|ib_write_bw|siw iwarp|size=65536 count=500
ib_write_bw of 1 MiB|MB/s|0|ib_write_bw|siw iwarp|size=1048576 count=40
ib_read_bw of 64 KiB|MB/s|0|ib_read_bw|tcp siw iwarp|op=read size=65536 count=500
ib_read_bw of 64 KiB, CRC|MB/s|1|ib_read_bw|tcp siw iwarp|op=read size=65536 count=500
ib_read_bw of 1 MiB|MB/s|0|ib_read_bw|tcp siw iwarp|op=read size=1048576 count=40
ib_send_bw of 64 KiB|MB/s|0|ib_send_bw|siw iwarp|size=65536 count=500
ib_send_bw of 64 KiB, CRC|MB/s|1|ib_send_bw|siw iwarp|size=65536 count=500
ib_send_bw of 1 MiB|MB/s|0|ib_send_bw|siw iwarp|size=1048576 count=40
END
    row ""
    row "# $repeats runs without a figure were repeated; a load of $(cut -d ' ' -f 1 /proc/loadavg) at the end"
    [ ${#chosen[@]} = 0 ] || machine+="; ${chosen[*]} only"
    [ "$passed" = 0 ] || for_the_bench "$versions; $machine; $processor; medians of $rounds runs in turn, CPU of both\
 sides together"
}
