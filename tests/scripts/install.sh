#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# `make install` into an empty prefix gives a tree that works by itself: the exported symbols are
# those of tests/abi/symbols.txt, an example builds against it as C11, as C++17 and statically,
# programs run and have their manual page, the provider loads; `make uninstall` takes all away. So
# it is with a prefix of characters that the shell, sed and pkg-config must be told of with care;
# those that cannot be told of are refused before anything is written.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"

prefix=$TMPDIR/prefix
version=$(sed -n 's/.*IWARP_VERSION "\(.*\)"/\1/p' include/iwarp/version.h)
soversion=${version%%.*}
example=examples/01_hello.c
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

. tests/support/check.bash

installs()
{
    make -s install PREFIX="$prefix"
}

has_files()
{
    local bad=0 f
    for f in include/iwarp/version.h lib/libiwarp.a lib/libiwarp.so lib/libiwarp.so."$soversion" \
        lib/libiwarp.so."$version" lib/pkgconfig/libiwarp.pc lib/libiwarp/ossl-modules/iwarp.so \
        share/doc/libiwarp/LICENSE share/man/man7/iwarp.7 share/man/man7/iwarp_env.7; do
        [ -e "$prefix/$f" ] || { echo "not there: $f"; bad=1; }
    done
    return $bad
}

soname_is_right()
{
    readelf -d "$prefix/lib/libiwarp.so" | grep -F "soname: [libiwarp.so.$soversion]"
}

exports_the_list()
{
    diff -u tests/abi/symbols.txt <(tools/list-symbols "$prefix/lib/libiwarp.so") ||
        { echo "if this is intended: make symbols"; return 1; }
}

# The package for Debian would give a program that uses another one too weak a dependency.
debian_lists_them()
{
    diff <(sed -n 's/^ \(iwarp_[a-z0-9_]*\)@.*/\1/p' debian/libiwarp0.symbols) tests/abi/symbols.txt
}

# Two programs linked into one must not meet in a name: also the hidden ones are ours.
# _.stapsdt.base is how sys/sdt.h marks where probes are: one of that name for all libraries that have some.
static_names_are_ours()
{
    ! nm -A --defined-only --extern-only "$prefix/lib/libiwarp.a" 2>/dev/null |
        grep -v -e ' [A-Za-z] iwarp_' -e ' W _\.stapsdt\.base$'
}

provider_exports_its_entry_only()
{
    diff <(echo OSSL_provider_init) <(tools/list-symbols "$prefix/lib/libiwarp/ossl-modules/iwarp.so")
}

pkg_config_knows()
{
    [ "$(pkg-config --modversion libiwarp)" = "$version" ] &&
        [ "$(pkg-config --variable=libdir libiwarp)" = "$prefix/lib" ] &&
        pkg-config --cflags --libs libiwarp
}

# A program that links with the shared library needs none of the libraries inside it.
pkg_config_needs_no_other()
{
    [ "$(PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig pkg-config --cflags --libs libiwarp | sed 's/ *$//')" = \
        "-I$prefix/include -L$prefix/lib -liwarp" ]
}

# builds_and_runs LANGUAGE LIBRARIES COMPILER...
builds_and_runs()
{
    local language=$1 libraries=$2
    shift 2
    # shellcheck disable=SC2046,SC2086 # words
    "$@" -x "$language" -pedantic-errors -Wall -Wextra -Werror $(pkg-config --cflags libiwarp) \
        "$example" -x none -o "$TMPDIR/hello" $libraries || return 1
    LD_LIBRARY_PATH=$prefix/lib timeout 120 "$TMPDIR/hello"
}

# Ours alone is linked statically.
static_libraries()
{
    pkg-config --static --libs libiwarp | sed 's/-liwarp/-l:libiwarp.a/'
}

static_needs_no_so()
{
    ! readelf -d "$TMPDIR/hello" | grep libiwarp
}

provider_digests()
{
    local value
    value=$(printf 123456789 | openssl dgst -provider-path "$prefix/lib/libiwarp/ossl-modules" \
        -provider iwarp -CRC32C) && echo "$value" && [[ $value == *e3069283 ]]
}

# says PROGRAM OPTION TEXT: prints it and succeeds, to standard output, without the build tree
says()
{
    local out
    out=$(cd / && timeout 120 "$1" "$2") && grep -qF -- "$3" <<<"$out"
}

has_manual()
{
    local page=$prefix/share/man/man1/$1.1
    head -n 5 "$page" | grep -i "^\.\(TH\|Dt\) \"\?$1\"\? "
}

stages_into_destdir()
{
    make -s install DESTDIR="$TMPDIR/stage" PREFIX=/opt/x LIBDIR=/opt/x/lib64 || return 1
    [ "$(ls "$TMPDIR/stage")" = opt ] || { ls "$TMPDIR/stage"; return 1; }
    grep -qx 'libdir=/opt/x/lib64' "$TMPDIR/stage/opt/x/lib64/pkgconfig/libiwarp.pc" || return 1
    ! grep -rIl "$TMPDIR" "$TMPDIR/stage"
}

# However careful the user is that installs it
is_for_everybody()
{
    local closed
    (umask 077 && make -s install PREFIX="$TMPDIR/closed") || return 1
    closed=$(find "$TMPDIR/closed" -mindepth 1 ! -type l ! -perm -o=r)
    [ -z "$closed" ] || { echo "$closed"; return 1; }
}

# A program that uses both, and says which device there is
cat >"$TMPDIR/dropin.c" <<'END'
#include <rdma/rdma_cma.h>
#include <stdio.h>
int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    printf("%s\n", list && *list && channel ? ibv_get_device_name(*list) : "none");
    return 0;
}
END

# finds_device PROGRAM...: ours, without iwarp-run
finds_device()
{
    local out
    out=$(cd / && IWARP_CONFIG='' timeout 120 "$@" 2>&1)
    [ "$out" = iwarp0 ] || { echo "$out"; return 1; }
}

# Linked with ours: they are found, by the program and by each other, with nothing in the environment.
drop_in_is_linked()
{
    local words path=${1-$prefix/lib/libiwarp/compat}
    words=$(pkg-config --cflags --libs iwarp-verbs) || return 1
    eval "gcc -o \"$TMPDIR/dropin\" \"$TMPDIR/dropin.c\" $words" || { echo "$words"; return 1; }
    ldd "$TMPDIR/dropin"
    [ "$(pkg-config --variable=libdir iwarp-verbs)" = "$path" ] &&
        ldd "$TMPDIR/dropin" | grep -qF "librdmacm.so.1 => $path/librdmacm.so.1" &&
        ldd "$TMPDIR/dropin" | grep -qF "libibverbs.so.1 => $path/libibverbs.so.1" &&
        finds_device "$TMPDIR/dropin"
}

# Linked with the distribution's, of its own accord, and told at its start: of any tree.
drop_in_by_path()
{
    gcc -o "$TMPDIR/plain" "$TMPDIR/dropin.c" -lrdmacm -libverbs || return 1
    finds_device env LD_LIBRARY_PATH="${1-$prefix/lib/libiwarp/compat}" "$TMPDIR/plain"
}

drop_in_of_build_tree()
{
    local PKG_CONFIG_PATH=$BUILD/lib/compat
    drop_in_is_linked "$BUILD/lib/compat" && drop_in_by_path "$BUILD/lib/compat"
}

drop_in_by_iwarp_run()
{
    local path=$prefix/lib/libiwarp/compat
    finds_device "$prefix/bin/iwarp-run" "$TMPDIR/plain" &&
        "$prefix/bin/iwarp-run" --check "$TMPDIR/plain" &&
        (cd / && "$prefix/bin/iwarp-run" sh -c 'printf "%s\n" "$LD_LIBRARY_PATH"') | grep -qxF "$path"
}

# A page that names another, or an example, names one that is installed, and so do its links.
documents_find_each_other()
{
    python3 - "$prefix/share/doc/libiwarp" <<'END'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
pages = sorted(top.rglob('*.md'))
assert top / 'README.md' in pages and len(pages) > 50, pages
missing = [f'{page}: {name}' for page in pages for text in [page.read_text()]
           for place, name in
           [(top, name) for name in re.findall(r'`((?:docs|examples|share)/[\w./-]*|[A-Z]+\.md)`', text)] +
           [(page.parent, name) for name in re.findall(r'\]\(([^)#:]+)[^):]*\)', text)]
           if not (place / name).exists()]
print(*missing, sep='\n')
sys.exit(bool(missing))
END
}

# DOCDIR may be one that others have pages in.
uninstalls()
{
    local left
    : >"$prefix/share/doc/libiwarp/of-another"
    make -s uninstall PREFIX="$prefix" || return 1
    left=$(find "$prefix" ! -type d)
    [ "$left" = "$prefix/share/doc/libiwarp/of-another" ] || { echo "$left"; return 1; }
    rm "$left"
    make -s install uninstall -j1 PREFIX="$prefix" || return 1
    [ ! -e "$prefix/share/doc/libiwarp" ]
}

odd="$TMPDIR/a b & c|d\\e,f%h@PREFIX@/i"

# with_odd COMMAND...: in that prefix
with_odd()
{
    local prefix=$odd PKG_CONFIG_PATH=$odd/lib/pkgconfig
    "$@"
}

# As builds_and_runs, by a command line made of what pkg-config prints.
builds_by_eval()
{
    local language=$1 words
    shift
    words=$(pkg-config --cflags --libs libiwarp) || return 1
    eval "$* -pedantic-errors -Wall -Wextra -Werror -x $language $example -x none \
        -o \"$TMPDIR/hello\" $words" || { echo "$words"; return 1; }
    LD_LIBRARY_PATH=$prefix/lib timeout 120 "$TMPDIR/hello"
}

# Each is refused with one line, for each of the places.
refuses()
{
    local place bad target out before
    before=$(find "$TMPDIR")
    for place in PREFIX LIBDIR INCLUDEDIR BINDIR MANDIR DOCDIR DESTDIR; do
        for bad in "it's" 'a"b' 'a#b' 'a$b' 'a$$b' $'a\nb' 'a\' 'a '; do
            for target in install $([ $place != LIBDIR ] || echo uninstall); do
                if out=$(make -s $target DESTDIR="$TMPDIR/no" "$place=$TMPDIR/no/$bad" 2>&1); then
                    echo "taken: $target $place=$bad"
                    return 1
                fi
                [[ $out == *"$place cannot be used"* && $out != *$'\n'* ]] || { echo "$out"; return 1; }
            done
        done
        [ $place = DESTDIR ] || ! make -s install DESTDIR="$TMPDIR/no" "$place=some/where" || return 1
    done
    diff <(echo "$before") <(find "$TMPDIR")
}

command -v g++ >/dev/null || { echo "g++ is not installed"; exit 77; }
programs=("$BUILD"/bin/*)
[ -e "${programs[0]}" ] || programs=()
echo "1..$((31 + 3 * ${#programs[@]}))"
check install installs
check files has_files
check soname soname_is_right
check symbols exports_the_list
check "symbols of the package for Debian" debian_lists_them
check static-names static_names_are_ours
check provider-symbols provider_exports_its_entry_only
check pkg-config pkg_config_knows
check pkg-config-alone pkg_config_needs_no_other
check example-c11 builds_and_runs c "$(pkg-config --libs libiwarp)" gcc -std=c11
check example-c++17 builds_and_runs c++ "$(pkg-config --libs libiwarp)" g++ -std=c++17
check example-static builds_and_runs c "$(static_libraries)" gcc -std=c11
check example-static-needs-no-so static_needs_no_so
check provider provider_digests
for program in "${programs[@]##*/}"; do
    check "$program --version" says "$prefix/bin/$program" --version "$version"
    check "$program --help" says "$prefix/bin/$program" --help "$program"
    check "$program manual page" has_manual "$program"
done
check drop-in-linked drop_in_is_linked
check drop-in-by-path drop_in_by_path
check drop-in-iwarp-run drop_in_by_iwarp_run
check drop-in-of-the-build-tree drop_in_of_build_tree
check documents-find-each-other documents_find_each_other
check destdir stages_into_destdir
check umask is_for_everybody
check uninstall uninstalls
check odd-prefix-install with_odd installs
check odd-prefix-files with_odd has_files
check odd-prefix-pkg-config with_odd pkg_config_knows
check odd-prefix-c11 with_odd builds_by_eval c gcc -std=c11
check odd-prefix-c++17 with_odd builds_by_eval c++ g++ -std=c++17
check odd-prefix-drop-in-linked with_odd drop_in_is_linked
check odd-prefix-drop-in-by-path with_odd drop_in_by_path
check odd-prefix-drop-in-iwarp-run with_odd drop_in_by_iwarp_run
check odd-prefix-uninstall with_odd uninstalls
check impossible-places refuses
exit $failed
