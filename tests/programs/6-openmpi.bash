# SPDX-License-Identifier: BSD-2-Clause
#
# Open MPI on libfabric on verbs; tests/programs/mpi.c checks all its results.

# The other ways to the peer, shared memory and TCP, are not chosen: pml cm has only libfabric's.
mpi()
{
    export OMPI_MCA_plm=isolated OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi TMPDIR=$work/home
    export OMPI_MCA_mtl_ofi_provider_include='verbs;ofi_rxm' OMPI_MCA_rmaps_base_oversubscribe=1
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # what Open MPI 5 calls it
    mpicc -O2 -o mpi "$top/tests/programs/mpi.c" || return 1
    RUN='--pcap=x.%p.pcapng' r mpirun -np "$1" ./mpi >mpi.out && says "^$1 ranks, all right\$" mpi.out || return 1
    # It went over RDMA: each pair of ranks has a connection, with right CRCs.
    local -a files=(x.*.pcapng)
    [ ${#files[@]} = "$1" ] || { echo "captures: ${files[*]}"; return 1; }
    "$work/count" "${files[0]}" >count.out && says '^bad 0' count.out
}

try "Open MPI, 2 ranks" libfabric mpi 2
try "Open MPI, 4 ranks" libfabric mpi 4
