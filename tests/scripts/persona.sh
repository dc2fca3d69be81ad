#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a program finds that iwarp-run starts with the persona of a RoCE adapter: a device file and the
# files of /sys/class/infiniband, by each function that programs use, without root and without a
# namespace; and nothing of it without the persona.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
[ -e "$BUILD/lib/compat/libibverbs.so.1" ] || { echo "the headers of libibverbs are not installed"; exit 77; }

. tests/support/check.bash
run=$BUILD/bin/iwarp-run
export IWARP_CONFIG=
umask 022
unset IWARP_PERSONA LD_PRELOAD LD_LIBRARY_PATH
cd "$TMPDIR" || exit 1

cat >look.c <<'END'
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* look HOW PATH: what the function gives */
int main(int argc, char **argv)
{
    const char *how = argv[1], *path = argv[2];
    char text[64] = "";
    struct stat st;
    int fd = -1;

    if (!strcmp(how, "stat") || !strcmp(how, "lstat")) {
        if ((how[0] == 's' ? stat(path, &st) : lstat(path, &st)) != 0) {
            return puts(strerror(errno)), 1;
        }
        printf("%s %ld\n", S_ISCHR(st.st_mode) ? "device" : S_ISDIR(st.st_mode) ? "folder" : "file",
               S_ISREG(st.st_mode) ? (long)st.st_size : 0);
        return 0;
    }
    if (!strcmp(how, "access")) {
        printf("%d %d %d\n", access(path, F_OK), access(path, R_OK | W_OK), access(path, X_OK));
        return 0;
    }
    if (!strcmp(how, "fopen")) {
        FILE *f = fopen(path, "re");
        return f && fgets(text, sizeof text, f) ? (fputs(text, stdout), 0) : (puts(strerror(errno)), 1);
    }
    if (!strcmp(how, "create")) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0640);
        int known = fd >= 0 && fstat(fd, &st) == 0;
        printf("%d %o\n", known, (unsigned)st.st_mode & 0777);
        return unlink(path);
    }
    fd = !strcmp(how, "open") ? open(path, O_RDONLY) : !strcmp(how, "openat")
       ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : open(path, O_RDWR);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) {
        return puts(strerror(errno)), 1;
    }
    fputs(text, stdout);
    return argc != 3;
}
END
gcc -O2 -D_FORTIFY_SOURCE=2 -o look look.c || exit 1
gcc -O2 -D_FILE_OFFSET_BITS=64 -o look64 look.c || exit 1

prints()
{
    local expected=$1 out
    shift
    out=$("$@" 2>&1)
    [ "$out" = "$expected" ] || { echo "$* printed: $out"; return 1; }
}

class=/sys/class/infiniband/iwarp0
for look in ./look ./look64; do
    as_roce=("$run" --persona=roce $look)
    for how in open openat fopen; do
        check "$look, $how" prints 'RoCE v2' "${as_roce[@]}" $how $class/ports/1/gid_attrs/types/0
        check "$look, $how, of the system" prints Linux "${as_roce[@]}" $how /proc/sys/kernel/ostype
    done
    for how in stat lstat; do
        check "$look, $how of the device file" prints 'device 0' "${as_roce[@]}" $how /dev/infiniband/uverbs0
        check "$look, $how of a file" prints 'file 8' "${as_roce[@]}" $how $class/ports/1/gid_attrs/types/0
        check "$look, $how of a folder" prints 'folder 0' "${as_roce[@]}" $how $class
        for folder in /sys/class/infiniband /sys/class/infiniband_verbs /dev/infiniband/; do
            check "$look, $how of $folder" prints 'folder 0' "${as_roce[@]}" $how $folder
        done
    done
    check "$look, access of the device file" prints '0 0 -1' "${as_roce[@]}" access /dev/infiniband/uverbs0
    check "$look, access of a file" prints '0 -1 -1' "${as_roce[@]}" access $class/node_type
    check "$look, a new file has the rights that are asked for" prints '1 640' "${as_roce[@]}" create ./new
    check "$look, writing" prints 'Permission denied' "${as_roce[@]}" write $class/node_type
    check "$look, a file that is not there" prints 'No such file or directory' "${as_roce[@]}" open $class/nosuch
    check "$look, without the persona" prints 'No such file or directory' "$run" $look stat /dev/infiniband/uverbs0
done
check "by the environment" prints 'device 0' env IWARP_PERSONA=roce "$run" ./look stat /dev/infiniband/uverbs0
echo 'IWARP_PERSONA = roce' >conf
check "by a file of settings" prints 'device 0' env IWARP_CONFIG="$PWD/conf" "$run" ./look stat /dev/infiniband/uverbs0
check "another persona" prints 'No such file or directory' "$run" --persona=iwarp ./look stat /dev/infiniband/uverbs0

echo "1..$number"
exit $failed
