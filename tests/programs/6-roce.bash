# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that ask for RoCE by name: UCX, with MPICH and Open MPI on it, as they see a device with
# --persona=roce; and for NCCL, which needs a GPU, nccl_order.c, which makes its calls in its order.
# Of UCX's ways to a peer only those of verbs are chosen, so that none is TCP or shared memory.

# over_verbs: Debian sid had a UCX that was built without such transports.
over_verbs()
{
    local folder
    folder=$(ldd "$(command -v ucx_info)" | sed -n 's|.* => \(.*\)/libuct\.so.*|\1|p')
    [ -e "$folder/ucx/libuct_ib.so.0" ] || { echo "this UCX has no transport over verbs"; return 77; }
}

# Its lines of a transport, from the name to the next one.
rc_verbs()
{
    sed -n '/Transport: rc_verbs/,/Transport: ud_verbs/p' "$1"
}

info()
{
    over_verbs || return
    RUN=--persona=roce r ucx_info -d >ucx.out 2>ucx.err && rc_verbs ucx.out >rc.out && says 'Device: iwarp0:1' rc.out &&
        says 'put_zcopy: ' rc.out && says 'am_bcopy: ' rc.out && says 'atomic_cswap: 64 bit' rc.out
}

info_without()
{
    r ucx_info -d >plain.out 2>/dev/null && says 'Transport: tcp' plain.out && ! grep -q iwarp plain.out
}

# A capture for each process, as the test says how many; each has FPDUs, all with right CRCs.
captured()
{
    local -a files=(x.*.pcapng)
    [ ${#files[@]} = "$1" ] || { echo "captures: ${files[*]}"; return 1; }
    local file
    for file in "${files[@]}"; do
        counted 'bad 0' -- "$file" || return 1
    done
}

# octets LEAST KIND: so many octets of RDMAP messages of this kind, or '' of all, are in the first
# capture
octets()
{
    local -a files=(x.*.pcapng)
    "$work/count" "${files[0]}" >count.out
    awk -v least="$1" -v kind="$2" '
        /^[cs] / && (kind == "" || index($0, kind) == 3) { sum += $(NF - 1) * $NF }
        END { exit !(sum >= least) }' count.out && return
    echo "less than $1 octets of $2:"
    head -n 30 count.out
    return 1
}

# Debian 13's ucx_perftest has its two ends meet by MPI, unless its input is a terminal.
perf_meets_by_mpi()
{
    ldd "$(command -v ucx_perftest)" | grep -q libmpi
}

perf_by_mpi()
{
    export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_osc=^ucx TMPDIR=$work/home
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    r mpirun.openmpi -np 2 ucx_perftest -w 10 "$@" >client.out 2>&1 && says '^Final: ' client.out &&
        captured 2 && return
    tail -n 5 client.out
    return 1
}

# perf OPTION...: both ends of ucx_perftest; UCX_TLS is for tests of UCP
perf()
{
    export RUN='--persona=roce --pcap=x.%p.pcapng' UCX_WARN_UNUSED_ENV_VARS=n
    over_verbs || return
    if perf_meets_by_mpi; then
        perf_by_mpi "$@"
        return
    fi
    start server ucx_perftest -p "$port" -w 10 "$@"
    ready server "$port" && r ucx_perftest 127.0.0.1 -p "$port" -w 10 "$@" >client.out 2>&1 &&
        finishes "$pid" server && says '^Final: ' client.out && captured 2 && return
    tail -n 5 client.out
    return 1
}

# perf_moves OCTETS KIND OPTION...
perf_moves()
{
    local least=$1 kind=$2
    shift 2
    perf "$@" || return
    octets "$least" "$kind"
}

mpi_of()
{
    command -v "mpicc.$1" >/dev/null || { echo "there is no mpicc.$1"; return 77; }
    "mpicc.$1" -O2 -o mpi "$top/tests/programs/mpi.c"
}

# Each rank has a capture, and the largest message of the ring is in it.
mpi_result()
{
    says "^$1 ranks, all right\$" mpi.out && captured "$1" && octets 1000000 ''
}

mpich()
{
    mpi_of mpich && over_verbs || return
    mpichversion | grep -q 'ch4:ucx' || { echo "this MPICH is not on UCX"; return 77; }
    RUN='--persona=roce --pcap=x.%p.pcapng' UCX_TLS=rc_verbs,ud_verbs TMPDIR=$work/home \
        r mpiexec.hydra -n "$1" ./mpi >mpi.out || return 1
    mpi_result "$1"
}

openmpi_ucx()
{
    mpi_of openmpi && over_verbs || return
    ompi_info 2>/dev/null | grep -q 'MCA pml: ucx' || { echo "this Open MPI has no pml ucx"; return 77; }
    export OMPI_MCA_plm=isolated OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx TMPDIR=$work/home
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    # It takes UCX by itself only on drivers that it knows.
    export OMPI_MCA_pml_ucx_devices=any OMPI_MCA_pml_ucx_tls=any
    export OMPI_MCA_opal_common_ucx_devices=any OMPI_MCA_opal_common_ucx_tls=any
    RUN='--persona=roce --pcap=x.%p.pcapng' UCX_TLS=rc_verbs,ud_verbs \
        r mpirun.openmpi -np "$1" ./mpi >mpi.out || return 1
    mpi_result "$1"
}

nccl_build()
{
    gcc -O2 -pthread -o nccl_order "$top/tests/programs/nccl_order.c" -libverbs && chmod 755 nccl_order
}

nccl()
{
    nccl_build || return 1
    export RUN='--persona=roce --pcap=x.%p.pcapng'
    start server ./nccl_order "$port"
    ready server "$port" && r ./nccl_order "$port" 127.0.0.1 >client.out && finishes "$pid" server &&
        says '400 messages, all right' client.out && captured 2
}

nccl_without()
{
    nccl_build || return 1
    r ./nccl_order "$port" >plain.out
    [ $? = 3 ] && says 'no RoCE adapter: its transport' plain.out
}

rc='-d iwarp0:1 -x rc_verbs'
# shellcheck disable=SC2086 # options
{
    try "ucx_perftest am_lat" perf_moves 8000 Send $rc -t am_lat -n 1000
    try "ucx_perftest am_bw -D zcopy" perf_moves 4000000 Send $rc -t am_bw -D zcopy -s 4096 -n 1000
    try "ucx_perftest put_lat" perf_moves 8000 Write $rc -t put_lat -n 1000
    try "ucx_perftest put_bw -D zcopy" perf_moves 20000000 Write $rc -t put_bw -D zcopy -s 100000 -n 200
    try "ucx_perftest get -D bcopy" perf_moves 8000 'Read Response' $rc -t get -D bcopy -n 1000
    try "ucx_perftest get -D zcopy" perf_moves 20000000 'Read Response' $rc -t get -D zcopy -s 100000 -n 200
    try "ucx_perftest am_lat, datagrams" perf -d iwarp0:1 -x ud_verbs -t am_lat -n 500
    for test in add_mr fadd cswap; do
        try "ucx_perftest $test" perf $rc -t $test -n 500
    done
}
export UCX_TLS=rc_verbs,ud_verbs
for test in tag_lat tag_bw stream_lat stream_bw ucp_put_lat ucp_get ucp_fadd; do
    try "ucx_perftest $test" perf -t $test -n 500
done
try "ucx_info, as a RoCE adapter" info
try "ucx_info, no persona" info_without
try "ucx_perftest tag_bw of a megabyte" perf_moves 100000000 '' -t tag_bw -s 1000000 -n 100
UCX_TLS=ud_verbs try "ucx_perftest tag_bw, datagrams alone" perf_moves 500000 Send -t tag_bw -s 1000 -n 500
unset UCX_TLS
try "MPICH on UCX, 2 ranks" mpich 2
try "MPICH on UCX, 4 ranks" mpich 4
try "Open MPI on UCX, 2 ranks" openmpi_ucx 2
try "Open MPI on UCX, 4 ranks" openmpi_ucx 4
try "as NCCL, on a RoCE adapter" nccl
try "as NCCL, which finds none" nccl_without
