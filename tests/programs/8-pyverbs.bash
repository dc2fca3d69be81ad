# SPDX-License-Identifier: BSD-2-Clause
#
# The test-suite of Debian's python3-pyverbs, a case for each of its modules.  What does not pass is
# in tests/programs/pyverbs.txt with the reason, and must go on not to pass in the same way; all
# else passes.

pyverbs=$work/pyverbs

# The suite is installed as documentation, which small systems leave out: then from the package.
unpack_pyverbs()
{
    local doc=/usr/share/doc/rdma-core/tests
    mkdir -p "$pyverbs"
    if ! [ -e $doc/run_tests.py ]; then
        mkdir -m 777 "$work/debs" &&
            (cd "$work/debs" && apt-get -q -o Acquire::Retries=3 download python3-pyverbs) &&
            dpkg-deb -x "$work"/debs/python3-pyverbs_*.deb "$work/debs/tree" || return 1
        doc=$work/debs/tree$doc
    fi
    cp -rL "$doc" "$pyverbs/new" && cp tests/programs/suite.py "$pyverbs" || return 1
    gunzip -f "$pyverbs"/new/*.gz 2>/dev/null
    # Later suites ask iproute2's rdma for the interface.  It fails where the kernel has no RDMA, and
    # knows nothing of our device where it has; then they look below /sys/class.
    mkdir "$pyverbs/bin" && printf '#!/bin/sh\necho "[]"\n' >"$pyverbs/bin/rdma" &&
        chmod 755 "$pyverbs/bin/rdma" || return 1
    chmod -R a+rX "$pyverbs" && mv "$pyverbs/new" "$pyverbs/tests"
}

# judged RESULTS MODULE...: against the list; says what differs
judged()
{
    local results=$1
    shift
    awk -F '\t' -v modules="$*" '
        BEGIN { n = split(modules, m, " "); for (i = 1; i <= n; i++) { of_case[m[i]] = 1 } }
        FNR == NR {
            if (!/^#/ && NF != 3 || !/^#/ && $1 in listed) { print "list, line " FNR ": " $0; bad = 1 }
            split($1, part, ".")
            if (!/^#/ && part[1] in of_case) { listed[$1] = $2 }
            next
        }
        $1 == "run" { ended = 1; complete = $2 == tests; next }
        {
            tests++
            pass += $2 == "ok"
            wanted = $1 in listed ? listed[$1] : "ok"
            if (index("/" wanted "/", "/" $2 "/") == 0) { print $1 ": " $2 " (" $3 "), expected: " wanted; bad = 1 }
            seen[$1] = 1
        }
        END {
            for (name in listed) if (!(name in seen) && listed[name] !~ /\/-$/) { print name ": on the list, but not run"; bad = 1 }
            if (!ended || !complete || tests == 0) { print "the tests did not run to the end"; bad = 1 }
            print pass + 0 " of " tests + 0 " pass"
            exit bad
        }' "$top/tests/programs/pyverbs.txt" "$results"
}

suite()
{
    [ -d "$pyverbs/tests" ] || (cd "$top" && unpack_pyverbs) || return 1
    export PYTHONDONTWRITEBYTECODE=1 PATH=$pyverbs/bin:$PATH
    if [ "$1" = others ]; then
        set -- "$pyverbs"/tests/test_{cuda,efa,mlx5}*.py
        set -- "${@##*/}"
        set -- "${@%.py}"
    fi
    if ! [ -e "$pyverbs/tests/$1.py" ]; then
        echo "this suite has no $1"
        return 77
    fi
    local fake=--fake-sys
    if ! "${user[@]}" "$run" --fake-sys true 2>/dev/null; then
        # It looks for the interface's address there.
        [ "$1" != test_rdmacm ] || { echo "no namespaces for --fake-sys"; return 77; }
        fake=
    fi
    RUN=$fake r /usr/bin/python3 "$pyverbs/suite.py" "$pyverbs" results "$@" >suite.out 2>&1
    judged results "$@" || { cat suite.out; judged results "$@"; }
}

for module in addr atomic cq cq_events cqex device flow fork mr odp parent_domain pd qp qpex rdmacm \
    relaxed_ordering rss_traffic shared_pd srq tag_matching; do
    try "pyverbs test_$module" suite test_$module
done
try "pyverbs of other devices: mlx5, efa, cuda" suite others

# The example for Python.
hello_in_python()
{
    bring examples/python/hello.py || return 1
    start hello /usr/bin/python3 hello.py server
    ready hello 7473 && r /usr/bin/python3 hello.py client 127.0.0.1 >client.out &&
        says '^hello from the server$' client.out && finishes "$pid" hello && says '^hello from the client$' hello.out
}
try "examples/python/hello.py" hello_in_python
