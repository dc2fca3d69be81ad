#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tools/compliance on a small tree of its own: what it draws, and that it turns red on everything
# it is there to find.
set -u
number=0 failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# A tree with which nothing is wrong: one row with all it needs, two exempt, one SHOULD.
make_tree()
{
    rm -rf "${dir:?}"/*
    mkdir -p "$dir"/{tools,docs,src/mpa,include/iwarp,tests/unit,tests/scripts,tests/compliance}
    cp tools/compliance "$dir/tools/"
    cat >"$dir/tests/compliance/requirements.tsv" <<'END'
id	rfc	section	level	layer	requirement	endpoint_test
MPA-1-01	5044	1	MUST	mpa	One a|b	TX
MPA-1-02	5044	1	MUST NOT	mpa	Two	TX
DDP-A.1-03	5041	A.1	REQUIRED	ddp	Three	TX
DDP-A.1-04	5041	A.1	SHOULD	ddp	Four	TX
MPA2-2-05	6581	2	MUST	mpa	Five	TX
END
    printf '# a comment\nMPA-1-02\tnot ours\nDDP-A.1-03\tcontradicted\n' \
        >"$dir/tests/compliance/exempt.tsv"
    cat >"$dir/src/mpa/a.c" <<'END'
static int before(int array[])
{
    return array[0]; /* [no-tag-1] */
}

/* What it does. [MPA-1-01] */
int first(int a,
          int b)
{
    return a + b; /* [MPA2-2-05 MPA-1-01] */
}
END
    cat >"$dir/tests/unit/test_a.c" <<'END'
/* [MPA-1-01] */
static void first__adds__sum(void **state)
{
}
END
    printf '# [MPA2-2-05]\n' >"$dir/tests/scripts/b.sh"
    "$dir/tools/compliance" >/dev/null 2>&1
}

result() # NAME: of the command before
{
    local status=$?
    number=$((number + 1))
    if [ $status = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$dir.out"
        failed=1
    fi
}

# complains NAME TEXT: the tool fails, and says TEXT
complains()
{
    ! "$dir/tools/compliance" --check >"$dir.out" 2>&1 && grep -qF -- "$2" "$dir.out"
    result "$1"
}

echo "1..15"
make_tree
"$dir/tools/compliance" --check >"$dir.out" 2>&1
result "nothing wrong"

cat >"$dir.want" <<'END'
| MPA-1-01 | MUST | One a\|b | `mpa/a.c` `first` | `unit/test_a.c` `first__adds__sum` |
| MPA-1-02 | MUST NOT | Two | exempt: not ours |  |
| DDP-A.1-03 | REQUIRED | Three | exempt: contradicted |  |
| MPA2-2-05 | MUST | Five | `mpa/a.c` `first` | `scripts/b.sh` |
END
grep '^| [A-Z0-9]*-' "$dir/docs/compliance.md" | diff "$dir.want" - >"$dir.out"
result "the page"
grep -qx '4 requirements: 2 in code and test, 2 exempt for .*\.' "$dir/docs/compliance.md"
result "the sum"

make_tree
sed -i 's/\[MPA-1-01\]//; s/ MPA-1-01\]/]/' "$dir/src/mpa/a.c"
complains "a gap in the code" "MPA-1-01 (MUST) has no tag in the code: One a|b"
make_tree
sed -i 's/\[MPA-1-01\]//' "$dir/tests/unit/test_a.c"
complains "a gap in the tests" "MPA-1-01 (MUST) has no tag in a test"
make_tree
: >"$dir/tests/compliance/exempt.tsv"
complains "a reason taken away" "MPA-1-02 (MUST NOT) has no tag in the code"
make_tree
: >"$dir/tests/compliance/exempt.tsv"
complains "a reason taken away, of a row that is REQUIRED" "DDP-A.1-03 (REQUIRED) has no tag in a test"
make_tree
echo '/* [MPA-1-011] */' >>"$dir/src/mpa/a.c"
complains "an unknown id in the code" "src/mpa/a.c: there is no requirement MPA-1-011"
make_tree
echo '/* [MPA-1-01 to MPA-1-02] */' >>"$dir/src/mpa/a.c"
complains "a range" "there is no requirement to"
make_tree
printf 'MPA-9-01\tabsent\n' >>"$dir/tests/compliance/exempt.tsv"
complains "an unknown id among the exempt" "there is no requirement MPA-9-01"
make_tree
echo '/* [MPA-1-02] */' >>"$dir/src/mpa/a.c"
complains "an exempt row that is tagged" "MPA-1-02 is exempt, and yet tagged"
make_tree
printf 'MPA-1-02\t\n' >"$dir/tests/compliance/exempt.tsv"
complains "an empty reason" "not an id, a tab and a reason"
make_tree
printf 'MPA-1-02\tagain\n' >>"$dir/tests/compliance/exempt.tsv"
complains "a row exempt twice" "MPA-1-02 was named before"

make_tree
sed -i 's/first__adds__sum/first__adds__total/' "$dir/tests/unit/test_a.c"
complains "an old page" "docs/compliance.md is not up to date"
! "$dir/tools/compliance" >"$dir.out" 2>&1 && "$dir/tools/compliance" >"$dir.out" 2>&1
result "an old page is drawn anew"

rm -f "$dir.out" "$dir.want"
exit $failed
