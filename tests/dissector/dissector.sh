#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 3000
#
# The Wireshark plugin in tshark, as an ordinary user (personal plugins are silently ignored for
# root): captures made here, with all that is true about them (tests/dissector), and recorded ones,
# on one pass, on two, filtered first, without reassembly; what other protocols show stays as it
# was; disabled, the built-in dissectors are back; damaged and cut captures do no harm.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
if ! command -v tshark >/dev/null || ! pkg-config --exists wireshark; then
    echo "there is no tshark, or nothing to compile its plugin against (libwireshark-dev)"
    exit 77
fi

work=$TMPDIR/dissector
mkdir -p "$work/home" "$work/captures" "$work/out"
: >"$work/errors"
chmod 755 "$TMPDIR"
make -s WERROR=1 dissector-plugin || exit 1
cp -r "$BUILD/dissector" "$work/plugins" || exit 1
python3 tests/dissector/captures.py "$work/captures" || exit 1
cp tests/captures/*.pcap tests/dissector/captures/*.pcap tests/dissector/captures/*.pcapng "$work/captures"
chmod -R a+rX "$work"
as_user=()
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    chown 65534 "$work/home"
fi

# Nobody's own preferences; a bug in a dissector ends the program.
plain()
{
    local names=(-n)
    [ "$1" != -G ] || names=()
    env HOME="$work/home" XDG_CONFIG_HOME="$work/home" WIRESHARK_ABORT_ON_DISSECTOR_BUG=1 \
        "${as_user[@]}" timeout 120 tshark "$@" "${names[@]}" 2>"$work/errors"
}

ours()
{
    WIRESHARK_PLUGIN_DIR=$work/plugins plain "$@"
}

number=0 failed=0
# Only those whose names match ONLY, if that is set.
check()
{
    local name=$1 result=ok
    shift
    [[ $name =~ ${ONLY-} ]] || return
    number=$((number + 1))
    if ! "$@" >"$work/why" 2>&1; then
        result='not ok'
        failed=1
        head -n 14 "$work/why"
        grep -v '^Running as' "$work/errors" | head -n 3
    fi
    echo "$result $number - $name"
}

# Standard error has nothing but remarks that are no fault.
quiet()
{
    ! grep -v 'Running as user' "$work/errors" | grep .
}

loaded()
{
    ours -G plugins >"$work/out/list"; grep '^iwarp.so' "$work/out/list" && quiet
}

# Names, types and bases are those of names.txt; CRC status counts as Wireshark's own do.
named()
{
    ours -G fields >"$work/out/fields" && quiet &&
        awk -F '\t' '$1 == "F" && $3 ~ /^iwarp\./ { print $3, $4, $4 ~ /^FT_UINT/ ? $6 : "-" }' \
            "$work/out/fields" | sort >"$work/out/have" &&
        sed '/^#/d; s/  */ /g' tests/dissector/names.txt | sort >"$work/out/wanted" &&
        comm -13 "$work/out/have" "$work/out/wanted" >"$work/out/missing" &&
        ! grep . "$work/out/missing" || return 1
    ours -G values | awk -F '\t' '$2 == "iwarp.mpa.crc.status" { print $3, $4 }' >"$work/out/a"
    printf '%s\n' '0 Bad' '1 Good' '2 Unverified' '3 Not present' >"$work/out/b"
    same_output || return 1
    ours -G protocols | grep -P '^iWARP \(MPA, DDP, RDMAP\)\tiWARP\tiwarp(\t|$)' || return 1
    ours -G defaultprefs >"$work/out/list"
    local option
    for option in midstream midstream_strict check_crc check_markers reassemble_messages \
        max_reassembly track_stags ulp ulp_ports shared_ports compat_fields summary_in_tree; do
        grep -q "^#iwarp\.$option:" "$work/out/list" || { echo "no option $option"; return 1; }
    done
}

# Each field and each expert information has a value, or a number, that some capture has to show.
known()
{
    ours -G fields | awk -F '\t' '$1 == "F" && $3 ~ /^iwarp\./ { print $3 }' >"$work/out/have"
    python3 tests/dissector/judge.py known "$work/out/have" \
        "$work"/captures/*.json
}

described()
{
    ours -G heuristic-decodes | grep -P '^tcp\tiwarp(_tcp)?\tT' && quiet &&
        ours -G fields | awk -F '\t' '$1 == "F" && $3 ~ /^iwarp\./ && $4 != "FT_NONE" && ($2 == "" || $8 == "") {
            print; bad = 1 } $1 == "F" && $3 ~ /^iwarp\./ && seen[$3]++ { print; bad = 1 }
            { n += $3 ~ /^iwarp\./ } END { exit bad || n < 90 }'
}

options_of()
{
    python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["options"])' "$1"
}

# Without upper layers: each payload is to be compared octet by octet. On one pass, on two, and with
# a filter first, when fields that nobody asks for are not made; where each FPDU is in a segment
# of its own, also without TCP's reassembly.
generated()
{
    local name=$1 options fields=() columns='"n","%m"'
    options=$(options_of "$work/captures/$name.json")
    for field in rdmap.opcode mpa.ulpdu_len mpa.crc.status ddp.msn ddp.to stream; do
        fields+=("iwarp.$field")
        columns+=",\"x\",\"%Cus:iwarp.$field:0:U\""
    done
    # shellcheck disable=SC2086 # words
    ours -r "$work/captures/$name.pcap" -o iwarp.ulp:none $options -T pdml >"$work/out/one" &&
        ours -2 -r "$work/captures/$name.pcap" -o iwarp.ulp:none $options -T pdml \
            >"$work/out/two" && quiet &&
        python3 tests/dissector/judge.py truth "$work/captures/$name.json" "$work/out/two" &&
        python3 tests/dissector/judge.py same "$work/out/one" "$work/out/two" || return 1
    # So many FPDUs in a frame do not fit into its columns.
    ! grep -q '"crowded": true' "$work/captures/$name.json" || return 0
    # shellcheck disable=SC2086
    ours -r "$work/captures/$name.pcap" -o iwarp.ulp:none $options -Y iwarp -T tabs \
            -o "gui.column.format:$columns" >"$work/out/text" && quiet &&
        python3 tests/dissector/judge.py filtered "$work/out/one" "$work/out/text" \
            "${fields[@]}" || return 1
    grep -q '"aligned": true' "$work/captures/$name.json" || return 0
    # shellcheck disable=SC2086
    ours -2 -r "$work/captures/$name.pcap" -o iwarp.ulp:none $options \
        -o tcp.desegment_tcp_streams:FALSE -T pdml >"$work/out/two" && quiet &&
        python3 tests/dissector/judge.py truth "$work/captures/$name.json" "$work/out/two"
}

# NAME FPDUS, by the README beside it; one pass, two, only those of a filter. Upper layers may see
# more on the second pass, and have checks of their own.
recorded()
{
    local file=$work/captures/$1.pcap
    ours -r "$file" -o iwarp.ulp:none -T pdml -J 'iwarp data tcp ip' >"$work/out/one" &&
        ours -2 -r "$file" -o iwarp.ulp:none -T pdml -J 'iwarp data tcp ip' >"$work/out/two" && quiet &&
        ours -r "$file" -Y iwarp -o iwarp.ulp:none -T pdml -J 'iwarp data tcp ip' >"$work/out/filtered" &&
        python3 tests/dissector/judge.py good "$work/out/one" "$2" &&
        python3 tests/dissector/judge.py good "$work/out/filtered" "$2" &&
        python3 tests/dissector/judge.py same "$work/out/one" "$work/out/two"
}

# KINDS OPTION...: FPDUs of which all octets are there are found, whatever else is missing, with
# these settings of TCP.
with_holes()
{
    local name kind kinds=$1
    shift
    for name in siw-nvme siw-iser siw-nfs4 siw-nfs40-crc iwarp-nvmf; do
        for kind in $kinds; do
            python3 tests/dissector/damage.py make "$work/captures/$name.pcap" $kind \
                "$work/out/bad.pcap" || return 1
            chmod a+r "$work/out/bad.pcap"
            ours -r "$work/out/bad.pcap" "$@" -T pdml -J 'iwarp tcp _ws.malformed' >"$work/out/two" &&
                python3 tests/dissector/damage.py judge "$work/captures/$name.pcap" \
                    "$work/out/bad.pcap" "$work/out/two" ||
                { echo "$name, $kind"; return 1; }
        done
    done
}

# What is put together out of order is the same on each pass, and with each way to count octets.
out_of_order()
{
    local options
    python3 tests/dissector/damage.py make "$work/captures/siw-nfs40-crc.pcap" swap \
        "$work/out/bad.pcap" && chmod a+r "$work/out/bad.pcap" || return 1
    for options in '' '-o tcp.relative_sequence_numbers:FALSE' \
        '-o tcp.reassemble_out_of_order:TRUE' '-o tcp.no_subdissector_on_error:FALSE'; do
        # shellcheck disable=SC2086 # words
        ours -r "$work/out/bad.pcap" $options -o iwarp.ulp:none -T pdml >"$work/out/one" && quiet &&
            ours -2 -r "$work/out/bad.pcap" $options -o iwarp.ulp:none -T pdml >"$work/out/two" &&
            quiet && python3 tests/dissector/judge.py same "$work/out/one" "$work/out/two" &&
            python3 tests/dissector/damage.py judge "$work/captures/siw-nfs40-crc.pcap" \
                "$work/out/bad.pcap" "$work/out/two" || { echo "$options"; return 1; }
    done
}

# rpc FILE OPTION...: transactions, and operations of NFS, each as often as it is shown.
rpc()
{
    ours -r "$1" "${@:2}" -T fields -E aggregator=/s -e rpc.xid -e nfs.opcode | tr '\t ' '\n\n' | grep . | sort
}

# Messages with chunks are put together also where several of them share a frame.
joined()
{
    local passes
    python3 tests/dissector/damage.py make "$work/captures/siw-nfs40-crc.pcap" join "$work/out/bad.pcap" &&
        chmod a+r "$work/out/bad.pcap" && rpc "$work/captures/siw-nfs40-crc.pcap" >"$work/out/a" &&
        [ "$(wc -l <"$work/out/a")" -gt 150 ] || return 1
    for passes in '' -2; do
        # shellcheck disable=SC2086 # none or one
        rpc "$work/out/bad.pcap" $passes >"$work/out/b" && same_output || return 1
    done
}

# Without reassembly nothing is lost but what lies across segments.
unassembled()
{
    local name n
    for name in rping-v2-crc-20000 write-crc-1500; do
        n=$(ours -r "$work/captures/$name.pcap" -o tcp.desegment_tcp_streams:FALSE -T fields \
            -e iwarp.mpa.ulpdu_len | tr ',' '\n' | grep -c .)
        [ "$n" = "$(ours -r "$work/captures/$name.pcap" -T fields -e iwarp.mpa.ulpdu_len |
            tr ',' '\n' | grep -c .)" ] || { echo "$name: $n FPDUs"; return 1; }
    done
    ours -r "$work/captures/cut_tails.pcap" -o tcp.desegment_tcp_streams:FALSE -V \
        >"$work/out/text" && ! grep -i 'malformed' "$work/out/text"
}

same_output()
{
    cmp "$work/out/a" "$work/out/b" || { diff "$work/out/a" "$work/out/b" | head -n 6; false; }
}

# Disabled, or with a capture of other protocols: as if the plugin were not there.
disabled()
{
    local name
    for name in opcodes port_4420 port_445 rping-v2-crc send-crc-4096; do
        plain -r "$work/captures/$name.pcap" -V >"$work/out/a"
        ours -r "$work/captures/$name.pcap" -V --disable-protocol iwarp >"$work/out/b"
        same_output || return 1
    done
}

others_unchanged()
{
    local name more
    for name in other_protocols foreign; do
        for more in '' -2 '-o tcp.try_heuristic_first:TRUE' '-o tcp.desegment_tcp_streams:FALSE'; do
            # shellcheck disable=SC2086 # none, one or two
            plain $more -r "$work/captures/$name.pcap" -V >"$work/out/a"
            # shellcheck disable=SC2086
            ours $more -r "$work/captures/$name.pcap" -V >"$work/out/b"
            same_output || { echo "$name $more"; return 1; }
        done
    done
}

# On clean captures the built-in dissector's fields have the built-in dissector's values.
builtin_fields()
{
    local name fields=()
    # All that have a value, but for the reassembly of Sends: the built-in one says of some
    # that are whole that they were put together.
    for name in $(plain -G fields | awk -F '\t' '$1 == "F" && $4 != "FT_NONE" &&
        $3 ~ /^iwarp_(mpa|ddp|rdma)\./ && $3 !~ /send\./ { print $3 }' | sort -u); do
        fields+=(-e "$name")
    done
    [ ${#fields[@]} -gt 120 ] || { echo "only ${#fields[@]} words"; return 1; }
    for name in rping-v2-crc rping-v2-nocrc write-crc-1500 read-v1-crc opcodes messages; do
        plain -r "$work/captures/$name.pcap" --disable-protocol rpcordma -T fields \
            -E occurrence=a "${fields[@]}" >"$work/out/a"
        ours -r "$work/captures/$name.pcap" --disable-protocol rpcordma -T fields \
            -E occurrence=a "${fields[@]}" >"$work/out/b"
        grep -q '[0-9]' "$work/out/a" && same_output || return 1
    done
    [ "$(ours -r "$work/captures/opcodes.pcap" -o iwarp.compat_fields:FALSE -Y iwarp_mpa |
        wc -l)" = 0 ]
}

# editcap damages one octet in fifty behind the headers; whatever comes of it, no end of tshark.
damaged()
{
    local seed name
    for seed in 1 2; do
        for name in opcodes terminates markers_unaligned messages revision_2 port_4420 \
            rping-v2-p2p-crc send-crc-4096 carriers_wrap fields_upper; do
            editcap -E 0.02 -o 54 --seed $seed "$work/captures/$name.pcap" "$work/out/bad.pcap" \
                2>/dev/null
            chmod a+r "$work/out/bad.pcap"
            # 3 GB of address space: damage is no reason to ask for much memory.
            (ulimit -v 3000000
                WIRESHARK_DEBUG_WMEM_OVERRIDE=strict ours -2 -Vxr "$work/out/bad.pcap" \
                    >"$work/out/text") || { echo "$name, seed $seed: $?"; return 1; }
            ! grep 'Dissector bug' "$work/out/text" || return 1
        done
    done
}

# KIND OPTION...: what is meant to cost much takes no 3 GB of address space and no 20 s of a processor, and
# no dissector fails.
hostile()
{
    python3 tests/dissector/hostile.py "$work/out/bad.pcap" "$1" && chmod a+r "$work/out/bad.pcap" &&
        (ulimit -v 3000000 -t 20
            ours -r "$work/out/bad.pcap" "${@:2}" >"$work/out/text") && quiet &&
        ! grep 'Dissector bug' "$work/out/text"
}

# Too many messages at a time are given up, and the next one is put together nevertheless.
hostile_offsets()
{
    hostile offsets -V && grep -q 'Reassembled data: 77686f6c65' "$work/out/text"
}

hostile_stags()
{
    hostile stags -q -z iwarp,stag && [ "$(grep -c '^0x[0-9a-f]* .* 1 .* 0 .* 8 ' "$work/out/text")" = 70000 ]
}

# NAME DAMAGE: a capture, as an option of editcap leaves it, through the plugin with sanitizers. What
# Wireshark itself leaks at its end is not ours to judge.
sanitized()
{
    local sanitizers
    sanitizers=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
    # shellcheck disable=SC2086 # words
    editcap $2 "$work/captures/$1.pcap" "$work/out/bad.pcap" 2>/dev/null
    chmod a+r "$work/out/bad.pcap"
    env LD_PRELOAD="$sanitizers" ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 \
        UBSAN_OPTIONS=print_stacktrace=1 HOME="$work/home" XDG_CONFIG_HOME="$work/home" \
        WIRESHARK_ABORT_ON_DISSECTOR_BUG=1 WIRESHARK_PLUGIN_DIR="$work/san/dissector" \
        "${as_user[@]}" timeout 200 tshark -2 -n -Vr "$work/out/bad.pcap" \
        >"$work/out/text" 2>"$work/errors" ||
        { echo "$1 $2: $?"; grep -A 9 'ERROR\|runtime error' "$work/errors"; return 1; }
}

# All that is made here, and some damaged and cut.
all_sanitized()
{
    local name
    env -u BUILD make -s SAN=address,undefined OUT="$work/san" dissector-plugin || return 1
    chmod -R a+rX "$work/san"
    python3 tests/dissector/damage.py make "$work/captures/siw-nfs40-crc.pcap" swap \
        "$work/captures/swapped.pcap" || return 1
    for name in "${names[@]}" siw-nvme swapped; do
        sanitized "$name" '-F pcap' || return 1
        grep -q iWARP "$work/out/text" || [[ $name =~ ^(foreign|other_protocols)$ ]] ||
            { echo "$name: no iWARP"; return 1; }
    done
    for name in opcodes terminates markers_unaligned messages upper_iser siw-nvme swapped \
        carriers_wrap fields_upper places_offered_again; do
        sanitized "$name" '-E 0.02 -o 54 --seed 7' && sanitized "$name" '-s 90' || return 1
        grep -q iWARP "$work/out/text" || { echo "$name, cut: no iWARP"; return 1; }
    done
}

cut_short()
{
    local size name
    for size in 60 75 90 128; do
        for name in opcodes terminates markers_unaligned revision_2; do
            editcap -s $size "$work/captures/$name.pcap" "$work/out/bad.pcap" 2>/dev/null
            chmod a+r "$work/out/bad.pcap"
            ours -2 -Vr "$work/out/bad.pcap" >"$work/out/text" ||
                { echo "$name, $size octets: $?"; return 1; }
            ! grep -i 'Dissector bug\|Malformed' "$work/out/text" || return 1
        done
    done
}

options_both_ways()
{
    local option
    for option in midstream midstream_strict check_crc check_markers reassemble_messages \
        reassemble_tagged track_stags compat_fields summary_in_tree; do
        ours -2 -r "$work/captures/opcodes.pcap" -o "iwarp.$option:TRUE" -V >"$work/out/a" &&
            ours -2 -r "$work/captures/opcodes.pcap" -o "iwarp.$option:FALSE" -V >"$work/out/b" &&
            quiet && grep -q 'Read Response' "$work/out/a" && grep -q 'Read Response' "$work/out/b" ||
            { echo "$option"; return 1; }
    done
    [ "$(ours -r "$work/captures/midstream.pcap" -o iwarp.midstream:FALSE -Y iwarp | wc -l)" = 0 ] &&
        ours -r "$work/captures/opcodes.pcap" -o 'iwarp.ulp_ports:smb=1;nvme=7000-7200' -T fields \
            -e iwarp.conn.ulp >"$work/out/a" && quiet && grep -q NVMe "$work/out/a"
}

# fpdus FILE OPTION...: direction, opcode and length of each FPDU, by direction, in their order
fpdus()
{
    ours "${@:2}" -r "$work/captures/$1.pcapng" -Y iwarp -T fields -e tcp.dstport -e iwarp.rdmap.opcode \
        -e iwarp.mpa.ulpdu_len | awk -F '\t' '{ n = split($2, o, ","); split($3, l, ",")
            for (i = 1; i <= n; i++) print $1, o[i], l[i] }' | sort -s -k 1,1
}

# A connection under TLS, with its secrets, against what one end of it recorded of itself.
within_tls()
{
    local passes
    fpdus tls-inside >"$work/out/inside" && quiet && [ "$(wc -l <"$work/out/inside")" -gt 15 ] || return 1
    for passes in '' -2; do
        # shellcheck disable=SC2086 # none or one
        fpdus tls $passes >"$work/out/within" && quiet && diff "$work/out/inside" "$work/out/within" || return 1
    done
    # Without ALPN it is found by its start-up frames.
    [ "$(fpdus tls-no-alpn | grep -c ' 20014$')" = 4 ] &&
        [ "$(fpdus tls --disable-protocol iwarp | wc -l)" = 0 ]
}

# What the plugin may cost, in CPU time and memory, as parts of what tshark takes without it.
cost()
{
    local kind
    for kind in none acks; do
        python3 tests/dissector/bulk.py "$work/captures/bulk.pcap" 10000 $kind
        chmod a+r "$work/captures/bulk.pcap"
        env HOME="$work/home" XDG_CONFIG_HOME="$work/home" python3 tests/dissector/cost.py \
            "$work/captures/bulk.pcap" "$work/plugins" 1.3 1.15 "${as_user[@]}" || return 1
    done
}

profile()
{
    mkdir -p "$work/home/wireshark/profiles/iWARP"
    cp dissector/profile/* "$work/home/wireshark/profiles/iWARP/"
    chmod -R a+rX "$work/home"
    ours -C iWARP -r "$work/captures/wrong_crc.pcap" --color -T fields \
        -e frame.coloring_rule.name >"$work/out/rules"
    quiet && [ "$(grep -c 'iWARP wrong CRC' "$work/out/rules")" = 1 ] &&
        ours -C iWARP -r "$work/captures/opcodes.pcap" >"$work/out/list" && quiet &&
        grep -q '0x11223344' "$work/out/list"
}

# FILE WORD...: each word is in the details, on both passes; no upper layer fails or is cut.
upper_layer()
{
    local passes word name=$1
    shift
    for passes in '' -2; do
        # shellcheck disable=SC2086 # none or one
        ours $passes -r "$work/captures/$name.pcap" -V >"$work/out/text" && quiet || return 1
        for word; do
            grep -q -- "$word" "$work/out/text" || { echo "$name $passes: no $word"; return 1; }
        done
        ! grep -i 'malformed\|Dissector bug\|gave up' "$work/out/text" || return 1
    done
}

# Hidden fields for old filters are no protocols of their own.
hierarchy()
{
    ours -q -r "$work/captures/siw-nvme.pcap" -z io,phs >"$work/out/text" && quiet &&
        grep -q ' iwarp  *frames:92 ' "$work/out/text" &&
        grep -q ' nvme  *frames:63 ' "$work/out/text" && ! grep 'iwarp_' "$work/out/text"
}

# OPTION FILE WORD...: each word is in what the statistic prints.
statistic()
{
    local option=$1 name=$2 word
    shift 2
    ours -q -r "$work/captures/$name.pcap" -z "$option" >"$work/out/text" && quiet || return 1
    for word; do
        grep -Eq -- "$word" "$work/out/text" || { echo "$option: no $word"; cat "$work/out/text"
            return 1; }
    done
}

# All payload, in order: what the last statistic printed against what is in the capture.
followed()
{
    [ "$(grep -xE '[0-9a-f]+' "$work/out/text" | tr -d '\n' | sha256sum)" = \
        "$(python3 -c 'import json, sys; print(end="".join(f["payload"] for f in
json.load(open(sys.argv[1]))["fpdus"]))' "$work/captures/$1.json" | sha256sum)" ]
}

statistics()
{
    statistic iwarp,tree wrong_crc 'Bad +2 ' 'Good +4 ' 'Payload octets +6 ' 'iwarp.mpa.crc.bad +2 ' &&
        statistic iwarp,tree markers_aligned 'Markers +[1-9]' &&
        statistic iwarp,srt opcodes 'RDMA Read +1 +0.001000' 'Atomic +2 +0.001000' &&
        statistic iwarp,stag opcodes '0x00010203 .* 1 .* 1 .* 28 ' '0x12345678 .* 5 ' &&
        statistic conv,iwarp opcodes '10.0.0.1 .* 4 32 bytes +11 179 bytes' &&
        statistic endpoints,iwarp opcodes '10.0.0.2 +15 +211 (bytes )? *4 ' &&
        statistic follow,iwarp,hex,0 opcodes '68 65 6c 6c 6f' '0000001B' &&
        statistic follow,iwarp,raw,0 messages '^=====' && followed messages &&
        statistic expert violations 'Message sequence number leaves some out'
}

exported()
{
    mkdir -p "$work/objects" && chmod 777 "$work/objects"
    ours -q -r "$work/captures/messages.pcap" --export-objects "iwarp,$work/objects" &&
        [ "$(stat -c %s "$work/objects/stream0-a-msn1")" = 3000 ] &&
        [ "$(cat "$work/objects/stream0-a-msn4")" = three ] &&
        cmp "$work/objects/stream0-a-msn1" "$work/objects/stream0-frame5-stag00000005-to100"
}

for f in "$work"/captures/*.json; do
    names+=("$(basename "$f" .json)")
done
mapfile -t counts < <(awk -F ' *[|] *' '$2 ~ /^[a-z0-9-]+$/ && $13 ~ /^[0-9]+$/ { print $2, $13 }' \
    tests/captures/README.md
    awk -F ' *[|] *' '$4 ~ /^[0-9]+$/ { print $2, $4 }' tests/dissector/captures/README.md)
check "the plugin is loaded" loaded
check "fields and heuristics are registered, each once" described
check "names, types and options that users rely on" named
check "each field has a known value somewhere" known
for name in "${names[@]}"; do
    check "generated: $name" generated "$name"
done
for row in "${counts[@]}"; do
    # shellcheck disable=SC2086 # two words
    check "recorded: ${row% *}" recorded $row
done
check "without TCP reassembly" unassembled
check "disabled: the built-in dissectors' output" disabled
check "other protocols: unchanged" others_unchanged
check "fields of the built-in dissectors" builtin_fields
check "damaged captures" damaged
check "hostile: opcodes" hostile opcodes -2 -V
check "hostile: offsets" hostile_offsets
check "hostile: responses" hostile responses
check "hostile: STags" hostile_stags
check "captures cut short" cut_short
check "sanitizers find nothing" all_sanitized
check "every option both ways" options_both_ways
check "the profile" profile
check "NFS over RDMA" upper_layer upper_nfs 'Program: NFS (100003)' 'Procedure: NULL (0)' \
    'Message Type: Reply (1)'
check "SMB Direct" upper_layer upper_smb NegotiateRequest NegotiateResponse
check "iSER" upper_layer upper_iser 'iSCSI (Login Command)' 'iSER-IRD: 8' 'iSER-ORD: 4' \
    'Read STag: 0x00007788' 'iSCSI (SCSI Command)'
check "NVMe over Fabrics" upper_layer upper_nvme 'NVM Express Fabrics' 'NVM Express (Cqe)' 'Cmd Latency' \
    'Cmd Qid: 1 (IOQ)' 'Opcode: 0x01 Write' 'Opcode: 0x02 Read'
check "NVMe over Fabrics, recorded" upper_layer siw-nvme 'Opcode: 0x01 Write' 'Opcode: 0x06 Identify' \
    'Cmd Qid: 2 (IOQ)' 'NVMe controller receive queue size' 'Cmd Latency'
check "NVMe over Fabrics, iwarp-nvmf as the target" upper_layer iwarp-nvmf 'Fabric Command' \
    'Opcode: 0x0c Async Event Request' 'Opcode: 0x05 Compare' 'Opcode: 0x08 Write Zero' \
    'Opcode: 0x09 Dataset Management' 'Opcode: 0x00 Flush' 'Opcode: 0x11 Reserve Acquire' \
    '(Compare Failure)' 'Cmd Qid: 2 (IOQ)' 'Cmd Latency'
check "iSER, recorded" upper_layer siw-iser 'iSCSI (Login Response)' 'iSCSI (SCSI Response)' \
    'Send with Invalidate not supported: ' 'Inquiry'
check "NFS over RDMA, recorded" upper_layer siw-nfs40-crc 'Opcode: WRITE' 'Opcode: READDIR' \
    'RPC-over-RDMA send size: '
check "NFS over RDMA, recorded, in joined segments" joined
check "within TLS" within_tls
check "protocol hierarchy" hierarchy
check "captures with holes" with_holes \
    'drop later third one-way no-start twice swap behind snap'
check "captures with holes, the profile's settings" with_holes 'drop swap' \
    -o tcp.no_subdissector_on_error:FALSE -o tcp.try_heuristic_first:TRUE
check "captures out of order" out_of_order
check "statistics" statistics
check "export of messages" exported
check "cost, as parts of the built-in dissectors'" cost
echo "1..$number"
exit $failed
