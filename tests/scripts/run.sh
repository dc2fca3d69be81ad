#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
# shellcheck disable=SC2016,SC2317 # for the shell that is started; called by check
#
# iwarp-run as people use it: which libraries a program gets, whatever its own path says; that
# arguments, settings and exit status pass through; what --check says; one clear line for what
# cannot be.  The libraries here are made up and only say whose they are, so nothing of RDMA counts.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"

unset LD_LIBRARY_PATH LD_PRELOAD
top=$PWD
cd "$TMPDIR" || exit 1
mkdir -p tree/bin tree/lib/compat system programs
run=$TMPDIR/tree/bin/iwarp-run
cp "$BUILD/bin/iwarp-run" "$run"
version=$(sed -n 's/.*IWARP_VERSION "\(.*\)"/\1/p' "$top/include/iwarp/version.h")

. "$top"/tests/support/check.bash

# prints TEXT COMMAND...: exactly that, and succeeds
prints()
{
    local out text=$1
    shift
    out=$("$@" 2>&1) || { echo "status $?: $out"; return 1; }
    [ "$out" = "$text" ] || { printf 'not "%s": %s\n' "$text" "$out"; return 1; }
}

# ends STATUS TEXT COMMAND...: one line with the text
ends()
{
    local out want=$1 text=$2 status
    shift 2
    out=$("$@" 2>&1)
    status=$?
    [ "$status" = "$want" ] || { echo "status $status: $out"; return 1; }
    [[ $out == *"$text"* && $out != *$'\n'* ]] || { printf 'not "%s": %s\n' "$text" "$out"; return 1; }
}

# says_nothing STATUS COMMAND...
says_nothing()
{
    local out want=$1 status
    shift
    out=$("$@" 2>&1)
    status=$?
    [ "$status" = "$want" ] && [ -z "$out" ] || { echo "status $status: $out"; return 1; }
}

# shows STATUS TEXT... -- COMMAND...: all of the texts
shows()
{
    local out want=$1 status
    local -a texts=()
    shift
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    out=$("$@" 2>&1)
    status=$?
    [ "$status" = "$want" ] || { echo "status $status: $out"; return 1; }
    for text in "${texts[@]}"; do
        [[ $out == *"$text"* ]] || { printf 'not "%s": %s\n' "$text" "$out"; return 1; }
    done
}

# library FILE SONAME FUNCTION TEXT
library()
{
    echo "const char *$3(void); const char *$3(void) { return \"$4\"; }" >library.c
    gcc -shared -fPIC -Wl,-soname,"$2" -o "$1" library.c
}

for place in tree/lib/compat:ours system:system; do
    library "${place%:*}/libibverbs.so.1" libibverbs.so.1 verbs "${place#*:}" || exit 1
    library "${place%:*}/librdmacm.so.1" librdmacm.so.1 cm "${place#*:}" || exit 1
    ln -s libibverbs.so.1 "${place%:*}/libibverbs.so"
    ln -s librdmacm.so.1 "${place%:*}/librdmacm.so"
done
cat >who.c <<'END'
#include <stdio.h>
const char *verbs(void);
const char *cm(void);
int main(void)
{
    printf("%s %s\n", verbs(), cm());
    return 0;
}
END
cat >later.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const char *(*verbs)(void) = lib ? (const char *(*)(void))dlsym(lib, "verbs") : NULL;
    puts(verbs ? verbs() : "none");
    return 0;
}
END
gcc -o programs/plain who.c -Lsystem -libverbs -lrdmacm || exit 1
gcc -o programs/rpath who.c -Lsystem -libverbs -lrdmacm -Wl,--disable-new-dtags,-rpath,"$TMPDIR/system" || exit 1
gcc -o programs/runpath who.c -Lsystem -libverbs -lrdmacm -Wl,--enable-new-dtags,-rpath,"$TMPDIR/system" || exit 1
gcc -o programs/later later.c -ldl || exit 1
printf '#!/bin/sh\nexec "%s/programs/plain"\n' "$TMPDIR" >programs/script
chmod 755 programs/script

check "the made-up system: an RPATH leads there" prints 'system system' programs/rpath
check "a program without a path" prints 'ours ours' "$run" programs/plain
check "RUNPATH" prints 'ours ours' "$run" programs/runpath
check "RPATH" prints 'ours ours' "$run" programs/rpath
check "a script" prints 'ours ours' "$run" programs/script
if echo 'int main(void) { return 7; }' >static.c && gcc -static -o programs/static static.c 2>/dev/null; then
    check "a static program" says_nothing 7 "$run" programs/static
fi
check "loaded later, by name" prints ours "$run" programs/later libibverbs.so
check "loaded later, by version" prints ours "$run" programs/later libibverbs.so.1
check "--preload" prints 'ours ours' "$run" --preload programs/plain
check "--preload, for children" prints 'ours ours' "$run" --preload sh -c programs/rpath
check "what was there stays behind" prints "$TMPDIR/tree/lib/compat:/a:/b" \
    env LD_LIBRARY_PATH=/a:/b "$run" sh -c 'echo "$LD_LIBRARY_PATH"'
check "no empty part" prints "$TMPDIR/tree/lib/compat" "$run" sh -c 'echo "$LD_LIBRARY_PATH"'
check "arguments" prints '<a b><><*><--pcap=x>' "$run" printf '<%s>' 'a b' '' '*' --pcap=x
check "-V" prints "iwarp-run (libiwarp) $version" "$run" -V
check "--version to a full disk" ends 125 '' sh -c '"$1" --version >/dev/full' - "$run"
check "--help to a full disk" ends 125 '' sh -c '"$1" --help >/dev/full' - "$run"
check "after --" prints '--help' "$run" -- printf %s --help
check "settings" prints 'x y=1 off' "$run" --pcap='x y=1' --mpa-rev=1 --crc=off \
    sh -c 'echo "$IWARP_PCAP $IWARP_CRC"'
check "a setting with -" prints 1 "$run" --mpa-rev=1 sh -c 'echo "$IWARP_MPA_REV"'
check "status" ends 42 '' "$run" sh -c 'exit 42'
check "a signal" ends 143 '' "$run" sh -c 'kill -TERM $$'
check "from elsewhere, by a link, in PATH" prints 'ours ours' sh -c \
    "mkdir links && ln -s '$run' links/irun && cd / && PATH=$TMPDIR/links:\$PATH irun '$TMPDIR/programs/plain'"
check "in PATH, the program too" prints 'ours ours' env PATH="$TMPDIR/programs:$PATH" "$run" plain
if command -v dash >/dev/null; then
    check "dash" prints 'ours ours' dash "$run" programs/rpath
fi

# Each program that it starts costs a millisecond, and so does each library that one of them loads: in
# PATH there is nothing but a getcap that notes what it was started with.
mkdir noted
printf '#!/bin/sh\necho "$LD_PRELOAD:$LD_LIBRARY_PATH" >>"%s/noted/log"\n[ -z "$CAPABLE" ] || echo "$CAPABLE"\n' \
    "$TMPDIR" >noted/getcap
chmod 755 noted/getcap
# starts_little ARGUMENT...
starts_little()
{
    : >noted/log
    prints 'ours ours' env PATH="$TMPDIR/noted" "$run" "$@" && [ "$(cat noted/log)" = : ] || { cat noted/log; return 1; }
}
library tree/lib/compat/librspreload.so librspreload.so sockets ours || exit 1
check "it starts no program but getcap" starts_little programs/plain
check "it starts no program but getcap: --preload" starts_little --preload programs/rpath
check "it starts no program but getcap: --sockets" starts_little --sockets programs/plain

# numbers SOFT HARD OPTION...: the soft limit of descriptors that a program has
numbers()
(
    ulimit -S -n "$1" && ulimit -H -n "$2" || exit
    shift 2
    "$run" "$@" sh -c 'ulimit -S -n'
)
check 'programs of sockets may open 8,192 descriptors' prints 8192 numbers 1024 9000 --sockets
check '... or as many as they may have at most' prints 2000 numbers 1024 2000 --sockets
check '... and what is more stays' prints 8500 numbers 8500 9000 --sockets
check 'other programs keep their limit' prints 1024 numbers 1024 9000
check "a file with capabilities" shows 0 'warning' 'programs/plain is a file with capabilities' 'ours ours' -- \
    env PATH="$TMPDIR/noted" CAPABLE=cap_net_raw=ep "$run" programs/plain

# A variable of the environment has its value in the program, whatever the script calls its own.
keeps_variables()
{
    local -a kept=()
    local name
    for name in value loaded tab newline user_file file lib name path files version settings mode self $(
        grep -oE '\<[a-z_]+=' "$run" | tr -d = | sort -u | grep -v '^run_'); do
        kept+=("$name=kept")
    done
    [ "$(env "${kept[@]}" "$run" programs/environment | grep -c '=kept$')" = \
        "$(printf '%s\n' "${kept[@]}" | sort -u | wc -l)" ]
}
cat >environment.c <<'END'
#include <stdio.h>
extern char **environ;
int main(void)
{
    for (char **at = environ; *at; at++) {
        puts(*at);
    }
    return 0;
}
END
gcc -o programs/environment environment.c || exit 1
check "variables of the environment stay as they are" keeps_variables
mkdir -p elsewhere/tree/bin elsewhere/tree/lib/compat
check "CDPATH" prints 'ours ours' env CDPATH="$TMPDIR/elsewhere" tree/bin/iwarp-run programs/plain

check "no program" ends 125 'which program' "$run"
check "a program that is not there" ends 127 'nosuch: no such program in PATH' "$run" nosuch
check "a path that is not there" ends 127 './nosuch: no such program' "$run" ./nosuch
check "a file that is no program" ends 126 'who.c: not a program' "$run" ./who.c
check "a directory" ends 126 '/: not a program' "$run" /
check "an unknown option" ends 125 '--nosuch: no such option' "$run" --nosuch true
check "an unknown setting" ends 125 '--nosuch=1: no such option' "$run" --nosuch=1 true

check "--check: linked" shows 0 "libibverbs.so.1 => $TMPDIR/tree/lib/compat/libibverbs.so.1" \
    "librdmacm.so.1 => $TMPDIR/tree" -- "$run" --check programs/plain
check "--check: RPATH" shows 0 "libibverbs.so.1 => $TMPDIR/system/libibverbs.so.1: its own path (RPATH)" \
    -- "$run" --check programs/rpath
check "--check: not linked" shows 0 "libibverbs.so.1: not linked" -- "$run" --check programs/later
check "--check: a script" shows 0 "a script, or linked statically" -- "$run" --check programs/script
cp programs/plain programs/setuid && chmod u+s programs/setuid
check "--check: set-uid" shows 1 'warning: set-uid' -- "$run" --check programs/setuid
rm tree/lib/compat/librdmacm.so
check "--check: a link is missing" shows 1 "warning: $TMPDIR/tree/lib/compat/librdmacm.so is missing" \
    -- "$run" --check programs/plain
ln -s librdmacm.so.1 tree/lib/compat/librdmacm.so

mkdir -p 'a b/lib/libiwarp'
cp -r tree/bin 'a b/bin'
cp -r tree/lib/compat 'a b/lib/libiwarp/compat'
check "an installed tree, with a blank" prints 'ours ours' 'a b/bin/iwarp-run' programs/plain
check "a blank, and preloading" ends 125 'a path with a blank cannot be in LD_PRELOAD' 'a b/bin/iwarp-run' programs/rpath
mkdir -p bare/bin
cp "$run" bare/bin/
check "no libraries" ends 125 "no libibverbs.so.1 and librdmacm.so.1 in $TMPDIR/bare/lib/compat; make builds them if" \
    bare/bin/iwarp-run true
check "no libraries: --version all the same" prints "iwarp-run (libiwarp) $version" bare/bin/iwarp-run --version

name="--fake-sys: the device is there, and everything else"
faked()
{
    local out before
    before=$(cd /sys/class && echo ./*)
    out=$("$run" --fake-sys sh -c 'cd /sys/class || exit
        cat infiniband/iwarp0/node_type infiniband/iwarp0/ports/1/link_layer
        set -- infiniband/iwarp0/device/net/*
        cat "$1/ifindex" >/dev/null && cat "net/${1##*/}/ifindex" >/dev/null && pwd && cd "$OLDPWD" && pwd
        exit 3')
    [ $? = 3 ] && [ "$out" = "4: RNIC
Ethernet
/sys/class
$PWD" ] && [ "$before" = "$(cd /sys/class && echo ./*)" ] || { echo "$out"; return 1; }
}
# One device per interface that is up, and of loopback if there is no other.
faked_each()
{
    local expected='' net
    for net in /sys/class/net/*; do
        [ "${net##*/}" = lo ] || [ "$(cat "$net/operstate" 2>/dev/null || echo down)" = down ] || expected+="iwarp_${net##*/}:${net##*/} "
    done
    [ "$("$@" --fake-sys sh -c 'cd /sys/class/infiniband || exit
        for d in *; do printf "%s:%s " "$d" "$(ls "$d/device/net")"; done')" = "${expected:-iwarp_lo:lo }" ]
}
# The same, when a file asks for it: the one that is named, else the user's; the environment goes before.
faked_each_by_file()
{
    mkdir -p conf && printf '%s\n' '# a file' ' IWARP_DEVICES = "per-interface" ' 'IWARP_DEVICES=one' >conf/iwarp.conf
    faked_each env IWARP_CONFIG=conf/iwarp.conf "$run" &&
        faked_each env -u IWARP_CONFIG XDG_CONFIG_HOME="$PWD/conf" "$run" &&
        [ "$(IWARP_CONFIG=conf/iwarp.conf "$run" --devices=one --fake-sys ls /sys/class/infiniband)" = iwarp0 ] &&
        [ "$(IWARP_CONFIG='' XDG_CONFIG_HOME=$PWD/conf "$run" --fake-sys ls /sys/class/infiniband)" = iwarp0 ]
}
if [ -d /sys/class/net ] && { unshare -m mount -t tmpfs iwarp /sys/class ||
    unshare -Urm mount -t tmpfs iwarp /sys/class; } 2>/dev/null; then
    check "$name" faked
    check "$name, one device per interface" faked_each "$run" --devices=per-interface
    check "$name, one device per interface by a file" faked_each_by_file
else
    number=$((number + 1))
    echo "ok $number - $name # SKIP no mount namespace can be had, or no /sys/class"
fi
# Each setting that the library knows is one of iwarp-run and has its place in iwarp_env(7).
all_settings()
{
    local name word bad=0 n=0
    for name in $(sed -n '/names\[\] = {/,/};/p' "$top"/src/base/settings.c | grep -o 'IWARP_[[:alnum:]_]*'); do
        n=$((n + 1))
        word=$(echo "${name#IWARP_}" | tr A-Z_ a-z-)
        "$run" --help | grep -qw -- "$word" || { echo "iwarp-run has no $word"; bad=1; }
        [ "$("$run" "--$word=" sh -c "echo \${$name-none}")" = '' ] || { echo "--$word does not set $name"; bad=1; }
        grep -q "$name" "$top"/man/iwarp_env.7 || { echo "iwarp_env(7) has no $name"; bad=1; }
    done
    [ $n -gt 20 ] && return $bad
}
check "every setting is an option, and in the manual" all_settings
echo "1..$number"
exit $failed
