# SPDX-License-Identifier: BSD-2-Clause
#
# The test programs of uDAPL, on its provider for librdmacm.

# One of loopback, in a registry of our own
registry()
{
    echo 'iwarp u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "lo 0" ""' >dat.conf
    export DAT_OVERRIDE=$PWD/dat.conf
}

# without_dapl: it is not there; Debian 13 and later have none
without_dapl()
{
    command -v dtest >/dev/null && return 1
    echo "there is no DAPL (package dapl2-utils)"
}

# dtest_both OPTION...: its port, by which both ends find each other over TCP first, is fixed
dtest_both()
{
    ! without_dapl || return 77
    registry
    start server dtest -P iwarp "$@"
    ready server 15828 && r dtest -P iwarp -h 127.0.0.1 "$@" >client.out 2>&1 &&
        says 'Test Complete. PASSED' client.out && ! grep FAIL client.out server.out &&
        finishes "$pid" server && says 'Test Complete. PASSED' server.out
}

# dapltest_both OPTION...: transactions, data checked; the server stays until it is told to go
dapltest_both()
{
    ! without_dapl || return 77
    registry
    start server dapltest -T S -D iwarp
    ready server 62000 && r dapltest -T T -s 127.0.0.1 -D iwarp -V "$@" >client.out 2>&1 &&
        says 'End of Work' client.out && says '^Total Send  *: .*[1-9]' client.out &&
        r dapltest -T Q -s 127.0.0.1 -D iwarp && finishes "$pid" server &&
        says 'Transaction Test Finished' server.out && ! grep -i 'fail\|error' client.out server.out
}

try "dtest -b 65536" dtest_both -b 65536
try "dtest -W -D, data checked" dtest_both -W -D -b 65536
try "dapltest, Sends, 2 threads, data checked" dapltest_both -i 20 -t 2 -w 2 client SR 1024 4 server SR 1024 4
try "dapltest, RDMA, data checked" dapltest_both -i 20 -t 1 -w 1 client SR 256 1 server RR 4096 4 \
    server RW 4096 2 client RR 4096 1 server SR 256 1
