#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# Who waits uses no processor time: a server without clients, a server and a client that wait for each
# other, a client whose server is stopped.  Measured by the ticks in /proc/PID/stat, which a loaded
# machine does not make more.
set -u
. tests/support/cp.bash

mkdir export
truncate -s 300000000 large
hertz=$(getconf CLK_TCK)

# ticks PID: user and system time so far
ticks()
{
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# idles PID: at most 1 % of 2 seconds, and at least one tick, which may be a rounding
idles()
{
    local before after
    before=$(ticks "$1")
    sleep 2
    after=$(ticks "$1")
    echo "$((after - before)) ticks of $hertz a second"
    [ $((after - before)) -le $((2 * hertz / 100 + 1)) ]
}

# The measure itself: somebody who is busy is found out.
is_busy()
{
    local pid status
    bash -c 'while :; do :; done' &
    pid=$!
    children+=("$pid")
    ! eventually busy_now $pid
    status=$?
    kill -KILL $pid
    return $((!status))
}
busy_now()
{
    ! idles "$1"
}

check "a busy process is seen" is_busy
serve --idle 600 export
sleep 1
check "a server without clients" idles "$server"

"$cp" put --timeout 600 --depth 1 --block 4096 large "iwarp://$address/x" >client.out 2>client.err &
client=$!
children+=("$client")
check "in the middle of a transfer" eventually receives "$server"
kill -STOP "$server"
sleep 1
check "a client whose server is stopped" idles $client
check "is still there" kill -0 $client
kill -STOP $client
kill -CONT "$server"
sleep 1
check "a server whose client is stopped" idles "$server"
check "is still there, too" kill -0 "$server"
kill -KILL $client
gone()
{
    ! receives "$server"
}
check "the server lets go of a client that was killed" eventually gone
sleep 1
check "a server after its clients" idles "$server"

# without descriptors for another connection
# Only the soft limit, which anybody may raise again.
prlimit --nofile="$(find "/proc/$server/fd" -type l | wc -l):" --pid "$server"
"$cp" ls --timeout 5 "iwarp://$address/" >client.out 2>client.err &
client=$!
children+=("$client")
sleep 1
check "a server that cannot take another connection" idles "$server"
wait_for $client
prlimit --nofile=512: --pid "$server"
check "takes the next one when it can" eventually "$cp" ls "iwarp://$address/"
check "the server ends in order" stop
finish
