# SPDX-License-Identifier: BSD-2-Clause
#
# The iSER target tgtd with libiscsi's programs and one of ours that checks its data.

# Not installed, since that would start it: only unpacked.
tgt=$work/tgt
fetch_tgt()
{
    apt-get -q -o Acquire::Retries=3 download tgt
}

# The package lists may be missing, or name a version that has gone.
unpack_tgt()
{
    mkdir -p "$tgt" "$work/debs" && chmod 777 "$work/debs" &&
        (cd "$work/debs" && { fetch_tgt || { apt-get -q update && fetch_tgt; }; }) &&
        dpkg-deb -x "$work"/debs/tgt_*.deb "$tgt"
}

# Its socket is in the directory of the case.
admin()
{
    TGT_IPC_SOCKET=$PWD/control "${user[@]}" timeout -k 5 20 "$tgt/usr/sbin/tgtadm" --lld iser "$@"
}

answers()
{
    admin --mode sys --op show >/dev/null 2>&1 || ended "$pid"
}

# On the way of iSER it wants both the address and the name of an initiator to be let in.
iser()
{
    local name=iqn.2026-01.example:disk initiator=iqn.2026-01.example:initiator iscsi_port=$port url
    [ -x "$tgt/usr/sbin/tgtd" ] || unpack_tgt || return 1
    free_port
    truncate -s 64M disk && chmod 666 disk || return 1
    gcc -O2 -o blocks "$top/tests/programs/blocks.c" -liscsi || return 1
    export TGT_IPC_SOCKET=$PWD/control
    start tgtd "$tgt/usr/sbin/tgtd" -f -C 0 --iscsi "portal=127.0.0.1:$iscsi_port" --iser port="$port"
    eventually answers && ready tgtd "$port" &&
        admin --mode target --op new --tid 1 --targetname $name &&
        admin --mode logicalunit --op new --tid 1 --lun 1 --backing-store "$PWD/disk" &&
        admin --mode target --op bind --tid 1 --initiator-address ALL &&
        admin --mode target --op bind --tid 1 --initiator-name $initiator || return 1
    url=iser://127.0.0.1:$port/$name/1
    r iscsi-inq -i $initiator "$url" >inq.out && says 'Vendor:IET' inq.out &&
        r iscsi-readcapacity16 -i $initiator "$url" >capacity.out &&
        says 'Total size:67108864' capacity.out &&
        RUN='--pcap=x.pcapng' r ./blocks "$url" && cmp disk blocks.expected &&
        "$work/count" x.pcapng >count.out && says '^bad 0' count.out
}

try "tgtd and libiscsi over iser:, data checked" iser
