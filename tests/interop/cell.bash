# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Cells of tests/interop/run: lines of the table, made into one cell for each size and direction; a
# cell run on both ends; what came of it, compared with what was expected.
number=0

# section "[title] NAME=VALUE...": what holds from here on.  mtu, offload (on, off), mss; netem for what
# the guest sends, netem-in for what it hears (commas for spaces), where each segment of the host is a
# packet of its own; stack=lwip: libiwarp's end is on lwIP, at a tap behind a router, without the kernel's
# TCP; all other names are parameters of siw.
section()
{
    title=${1#[}
    title=${title%%]*}
    environment=${1#*]}
    announced=0
}

guest_parameters="peer_to_peer=0 mpa_version=2 mpa_crc_required=0 mpa_crc_strict=0 try_gso=0 \
look_again=1 zcopy_tx=1"
applied=none

# Brings the guest into the state that the section asks for, from defaults.
environment_apply()
{
    local word mtu=1500 offload=on netem= netem_in= mss= script='cd /sys/module/siw/parameters || exit 1; '
    # Between two siw the path is the guest's loopback, both ways of it.
    local dev=eth0 route="10.77.0.0/24 dev eth0"
    [ "$environment" != "$applied" ] || return 0
    for word in $guest_parameters $environment; do
        case $word in
        mtu=*) mtu=${word#*=} ;;
        offload=*) offload=${word#*=} ;;
        netem=*) netem=${word#*=} ;;
        netem-in=*) netem_in=${word#*=} ;;
        mss=*) mss=${word#*=} ;;
        stack=*) ;;
        *) script+="echo ${word#*=} >${word%%=*} || exit 1; " ;;
        esac
    done
    if [ $mode = reference ]; then
        dev=lo route="local $guest_address dev eth0 table local proto kernel scope host src $guest_address"
        netem=${netem:-$netem_in} netem_in=
    fi
    script+="tc qdisc del dev $dev root 2>/dev/null; tc qdisc del dev $dev ingress 2>/dev/null; "
    script+="ip link set $dev mtu $mtu; ethtool -K $dev tso $offload gso $offload gro $offload; "
    script+="ip route flush cache; ip route replace $route ${mss:+advmss $mss}; "
    [ -z "$netem" ] || script+="tc qdisc add dev $dev root netem ${netem//,/ } || exit 1; "
    # What comes in has no queue of its own: it goes out through another device first.
    [ -z "$netem_in" ] || script+="ip link add ifb9 type ifb 2>/dev/null; ip link set ifb9 up || exit 1
        tc qdisc replace dev ifb9 root netem ${netem_in//,/ } limit 10000 || exit 1
        tc qdisc add dev $dev ingress || exit 1
        tc filter add dev $dev ingress matchall action mirred egress redirect dev ifb9 || exit 1; "
    ip link set tap0 mtu "$mtu" gso_max_segs "$([ -z "$netem_in" ] && echo 65535 || echo 1)"
    ip route replace 10.77.0.0/24 dev tap0 src $host_address ${mss:+advmss $mss}
    guest_does 20 "$script" >"$work/environment.log" 2>&1 || { cat "$work/environment.log"; return 1; }
    applied=$environment
}

# line_run "name | direction | words | we | siw | wire | between": runs its cells.  The last four say
# what is expected and may be left out; so may the end of the line.
line_run()
{
    local name direction words we siw wire between star=0 sizes size way cell one
    IFS='|' read -r name direction words we siw wire between _ <<<"$1||||||"
    name=$(trim "$name") direction=$(trim "$direction") words=$(trim "$words")
    we=$(trim "$we") siw=$(trim "$siw") wire=$(trim "$wire") between=$(trim "$between")
    [ "${direction%\*}" = "$direction" ] || star=1
    direction=${direction%\*}
    sizes=$(sed -n 's/.*\bsize=\([0-9,]*,[0-9,]*\).*/\1/p' <<<"$words")
    for size in ${sizes:+${sizes//,/ }} ${sizes:-one}; do
        [ "$size" != "$sizes" ] || continue
        for way in we siw; do
            case $direction:$way in
            both:* | we:we | siw:siw) ;;
            *) continue ;;
            esac
            cell=$name${sizes:+-$size}-$way
            chosen_cell "$cell" "$name" $star "$size" || continue
            one=$words
            [ -z "$sizes" ] || one=${words/size=$sizes/size=$size}
            if [ $mode = reference ]; then
                reference_cell "$cell" $way "$one" "$we" "$siw" "$between"
            else
                cell_judge "$cell" $way "$one" "$we" "$siw" "$wire"
            fi
        done
    done
}

trim()
{
    sed 's/^ *//; s/ *$//' <<<"$1"
}

# The short form has of each starred line with sizes the first, 1444 and 65536.
chosen_cell()
{
    local c
    for c in "${chosen[@]}"; do
        [ "$c" != "$1" ] && [ "$c" != "$2" ] || return 0
    done
    [ ${#chosen[@]} = 0 ] || return 1
    [ $short = 1 ] || return 0
    [ "$3" = 1 ] || return 1
    case $4 in
    one | 0 | 1444 | 65536) return 0 ;;
    *) return 1 ;;
    esac
}

value()
{
    local v
    v=$(sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" <<<"$2")
    echo "${v:-${3-}}"
}

# What a cell that goes well puts on the wire.
wire_expected()
{
    local way=$1 words=$2 op count both qps conns number op_name p2p who other
    local -A n=()
    op=$(value op "$words" none) count=$(value count "$words" 3) both=$(value both "$words" 0)
    qps=$(value qps "$words" 1) conns=$(value conns "$words" 1)
    number=$((qps * conns))
    [ "$op" != none ] || count=0
    for who in c s; do
        [ "$op" != read ] || count=$(value count "$words" 3)
        other=$([ $who = c ] && echo s || echo c)
        [ $who = c ] || [ "$both" = 1 ] || continue
        case $op in
        send) op_name=Send ;;
        send-se) op_name=SendSE ;;
        send-inv) op_name=SendInv ;;
        send-se-inv) op_name=SendSEInv ;;
        write) op_name=Write ;;
        # One Request for each SGE; siw has one.
        read) op_name=ReadReq
            case $who:$way in c:we | s:siw) count=$((count * $(value pieces "$words" 1))) ;; esac
            n[$other.ReadResp]=$((number * count)) ;;
        rping) op_name=Send; n[s.Send]=$((2 * count)) n[s.ReadReq]=$count n[c.ReadResp]=$count
            n[s.Write]=$count count=$((2 * count)) ;;
        none) op_name=Send ;;
        esac
        n[$who.$op_name]=$((${n[$who.$op_name]-0} + number * count))
        [ "$op" = rping ] || n[$who.Send]=$((${n[$who.Send]-0} + number)) # that was all
    done
    [ "$op" = rping ] || n[s.Send]=$((${n[s.Send]-0} + number)) # the judgement
    # Ready to receive: our Request offers RDMA Read, that of siw both kinds.
    if [ "$(value rev "$words" 2)" = 2 ] && [ "$(value mpa_version "$environment" 2)" = 2 ]; then
        p2p=$([ "$way" = we ] && value p2p "$words" 1 || value peer_to_peer "$environment" 0)
        if [ "$p2p" = 1 ] && [ "$way:$(value rtr "$words" 0)" != we:2 ]; then
            n[c.ReadReq]=$((${n[c.ReadReq]-0} + number))
            n[s.ReadResp]=$((${n[s.ReadResp]-0} + number))
        elif [ "$p2p" = 1 ]; then
            n[c.Write]=$((${n[c.Write]-0} + number))
        fi
    fi
    echo -n "connections=$number"
    for who in "${!n[@]}"; do
        [ "${n[$who]}" = 0 ] || echo -n " $who=${n[$who]}"
    done | tr ' ' '\n' | sort | tr '\n' ' '
}

# mismatch EXPECTED SEEN: the words that were expected and are not there; !WORD must not be there, and
# of A/ /B, which is written A~B, one is enough.
mismatch()
{
    local word one found
    for word in $1; do
        found=0
        case $word in
        '!'*) case " $2 " in *" ${word#!} "*) ;; *) found=1 ;; esac ;;
        *)
            for one in ${word//\~/ }; do
                case " $2 " in *" $one "*) found=1 ;; esac
            done
            ;;
        esac
        [ $found = 1 ] || echo -n "$word "
    done
}

# Messages that were not expected at all.
surplus()
{
    local word
    for word in $2; do
        case $word in
        [cs].*=* | connections=* | undecoded=*) case " $1 " in *" $word "*) ;; *) echo -n "!$word " ;; esac ;;
        esac
    done
}

# cell_run NAME WAY WORDS: sets we_says, siw_says, wire_says
cell_run()
{
    local name=$1 way=$2 words=$3 we siw from to port seconds log command op header
    local host_address=$host_address IWARP_TRANSPORT=tcp
    export IWARP_TRANSPORT
    case " $environment " in
    *' stack=lwip '*)
        host_address=$lwip_address
        IWARP_TRANSPORT=lwip:tap=tap1,addr=$lwip_address/24,gw=$lwip_router
        ;;
    esac
    op=$(value op "$words" -)
    # we:WORD and siw:WORD are for one of the programs.
    we=$(sed 's/siw:[^ ]*//g; s/\bwe://g' <<<"$words") siw=$(sed 's/\bwe:[^ ]*//g; s/siw://g' <<<"$words")
    number=$((number + 1))
    port=$((28100 + number))
    # Wireshark looks for NVMe over RDMA there alone.
    [ $op != nvmf ] || port=4420
    seconds=$(($(value time "$words" 15) * 2 + 10))
    log=$work/captures/$name.log
    from=$(stat -c %s "$dump")
    : >"$log"
    command="siw-peer port=$port $siw"
    if [ $op = program ]; then
        program_run $way "$words" $port $seconds "$log"
    elif [ $op = iser ]; then
        iser_run "$words" $port $seconds "$log"
    elif [ $op = nvmf ]; then
        nvmf_run "$words" $port $seconds "$log"
    elif [ $way = we ]; then
        command+=" role=server"
        [ $op != rping ] || command=$(rping_server "$port" "$words")
        guest_begin $seconds "$command"
        eventually grep -q listening "$guest_log" || echo "the guest does not listen" >&2
        timeout -k 2 $seconds "$BUILD/interop/iwarp-peer" role=client addr=$guest_address port=$port \
            $we >"$log" 2>&1 </dev/null &
        host_pid=$!
        wait $host_pid
    else
        timeout -k 2 $seconds "$BUILD/interop/iwarp-peer" role=server addr=$host_address port=$port \
            $we >"$log" 2>&1 </dev/null &
        host_pid=$!
        eventually grep -q listening "$log"
        case $op in
        rping) command="rping -c -V -a $host_address -p $port $(rping_words "$words")" ;;
        nvme) command=$(nvme_host "$port") ;;
        nfs) command=$(nfs_client "$port") ;;
        *) command+=" role=client addr=$host_address" ;;
        esac
        guest_begin $seconds "$command"
        wait $host_pid
    fi
    host_pid=
    guest_end
    siw_status=$?
    case $op in program | iser | nvmf) ;; *) we_says=$(sed -n 's/^outcome //p' "$log" | head -n 1) ;; esac
    case $op in
    rping) siw_says="status=$siw_status $(program_said "$guest_log")" ;;
    nvme | nfs | iser | nvmf) siw_says="status=$siw_status $(tail -n 1 "$guest_log")" ;;
    program) siw_says="status=$siw_status $(program_said "$guest_log")" ;;
    *) siw_says=$(sed -n 's/^outcome //p' "$guest_log" | head -n 1) ;;
    esac
    { echo "--- the guest"; cat "$guest_log"; } >>"$log"
    to=$(stat -c %s "$dump")
    { head -c 24 "$dump"; tail -c +$((from + 1)) "$dump" | head -c $((to - from)); } \
        >"$work/cell.pcap" 2>/dev/null
    header=$(dump_header)
    wire_says=$(tests/interop/count "$work/cell.pcap" $port "$header")
    case $op in program | iser | nvmf) wire_says+=$(program_messages) ;; esac
    echo "--- the wire: $wire_says" >>"$log"
    editcap -F pcapng -C "$header" -L "$work/cell.pcap" "$work/captures/$name.pcapng"
    rm -f "$work/cell.pcap"
}

rping_words()
{
    echo "-C $(value count "$1" 3) -S $(value size "$1" 64)"
}

rping_server()
{
    echo "rping -s -p $1 $(rping_words "$2") & pid=\$!
        for i in \$(seq 50); do rdma res show cm_id | grep -q ':$1 ' && break; sleep 0.1; done
        echo listening; wait \$pid"
}

# The kernel as a user: its host of NVMe over RDMA, by the file that nvme-cli would write to.  A name of
# the host without an id of its own is refused by Linux 6.12.
nvme_host()
{
    echo "modprobe nvme_rdma; echo transport=rdma,traddr=$host_address,trsvcid=$1,nr_io_queues=1,\
nqn=nqn.2014-08.org.example:interop,hostnqn=nqn.2014-08.org.example:host,\
hostid=6b2f6c0e-7c1d-4f43-9d53-0a4e8f1c2d77 >/dev/nvme-fabrics"
}

# Its client of NFS over RDMA; the options are those that mount.nfs would give to the kernel.
nfs_client()
{
    echo "modprobe -a rpcrdma nfsv4; mkdir -p /mnt; mount -i -t nfs4 -o vers=4.1,proto=rdma,port=$1,soft,\
retrans=1,timeo=100,addr=$host_address,clientaddr=$guest_address $host_address:/ /mnt"
}

# A guest that is emulated beside other work can take its time.
eventually()
{
    local until=$((SECONDS + 90))
    until "$@"; do
        [ $SECONDS -le $until ] || return 1
        sleep 0.05
    done
}

# cell_judge NAME WAY WORDS WE SIW WIRE: runs it, once more if it does not go as expected
cell_judge()
{
    local name=$1 way=$2 words=$3 we=$4 siw=$5 wire=$6 try wrong first= verdict=FAIL start kind
    if [ "$announced" = 0 ]; then
        row ""
        row "[$title]$environment"
        announced=1
    fi
    : "${we:=ok end=orderly}"
    if [ "$(value op "$words" -)" = rping ]; then
        : "${siw:=status=0~late}"
    fi
    : "${siw:=ok end=disconnected}"
    case $wire in
    '' | +*) wire="exactly $(wire_expected $way "$words")${wire#+}" ;;
    esac
    # we. and siw. become c. for the end that connects, s. for the other.
    [ $way = we ] && wire=${wire//we./c.} || wire=${wire//we./s.}
    [ $way = we ] && wire=${wire//siw./s.} || wire=${wire//siw./c.}
    start=${EPOCHREALTIME/./}
    for try in 1 2; do
        if [ $SECONDS -gt $limit ]; then
            wrong="not run: $limit s are over"
            break
        fi
        if ! guest_lives && ! { applied=none; guest_start >>"$work/start.log"; }; then
            wrong="there is no guest"
            break
        fi
        environment_apply || { wrong="the guest cannot be set up"; continue; }
        cell_run "$name" $way "$words"
        wrong=$(mismatch "$we" "$we_says" | sed 's/^/we: /')
        wrong+=$(mismatch "$siw" "$siw_says" | sed 's/^/siw: /')
        wrong+=$(mismatch "${wire#exactly }" "$wire_says" | sed 's/^/wire: /')
        [ "${wire#exactly }" = "$wire" ] || wrong+=$(surplus "$wire" "$wire_says" | sed 's/^/wire: /')
        if guest_crashed; then
            wrong+="the guest's kernel crashed: $(grep -m 1 -oE 'kernel BUG.*|Oops.*|Kernel panic.*' \
                "$work/console.log") "
            cp "$work/console.log" "$work/captures/$name.console"
            guest_stop
        fi
        [ -n "$wrong" ] || { verdict=pass; break; }
        if [ $try = 1 ]; then
            again=$((again + 1)) first="the first time: $wrong"
            for kind in log pcapng; do
                cp "$work/captures/$name.$kind" "$work/captures/$name.first.$kind"
            done
        fi
    done
    if [ $verdict = pass ]; then
        passed=$((passed + 1))
        [ $try = 1 ] || verdict="pass, 2nd"
    else
        failed=$((failed + 1))
    fi
    row "$(printf '%-9s %-26s %4d.%d s  %s' "$verdict" "$name" \
        $(((${EPOCHREALTIME/./} - start) / 1000000)) $(((${EPOCHREALTIME/./} - start) / 100000 % 10)) \
        "we: $we | siw: $siw | wire: $wire")"
    if [ "$verdict" != pass ]; then
        row "    not as expected: ${wrong:-$first}"
        row "    seen: we: $we_says | siw: $siw_says | wire: $wire_says"
    fi
}
