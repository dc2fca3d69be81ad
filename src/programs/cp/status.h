/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a file, a directory or a whole transfer failed: one row each, with a text for people and what
 * they can do about it. The number of a row travels between the ends, so rows are only ever added
 * at the end; no text travels.
 */
#ifndef CP_STATUS_H
#define CP_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ROW(name, text, what to do) */
#define CP_STATUS_TABLE(ROW)                                                                       \
    ROW(OK, "done", "nothing to do")                                                               \
    ROW(SYSTEM, "the system says no", "see the reason and repeat")                                 \
    ROW(NOT_FOUND, "no such file or directory",                                                    \
        "check the name (iwarp-cp ls shows what is there)")                                        \
    ROW(DENIED, "permission denied", "check owner and permissions")                                \
    ROW(NO_SPACE, "the disk is full", "free some space there and repeat")                          \
    ROW(QUOTA, "the disk quota is used up", "free some space there and repeat")                    \
    ROW(READ_ONLY, "the server is read-only", "start it without --read-only or use another one")   \
    ROW(READ_ONLY_DISK, "the file system is read-only", "choose another place")                    \
    ROW(IS_DIRECTORY, "it is a directory", "add -r to copy a tree, or use another name")           \
    ROW(NOT_DIRECTORY, "a part of the name is not a directory", "use another name")                \
    ROW(OUTSIDE, "the name leads out of the exported directory",                                   \
        "use a name below it, without .. and without links that leave it")                         \
    ROW(IS_LINK, "it is a symbolic link",                                                          \
        "symbolic links in trees are left out; name their target")                                 \
    ROW(IS_SPECIAL, "it is neither a file nor a directory", "leave it out")                        \
    ROW(BAD_NAME, "the name cannot be used", "rename the file")                                    \
    ROW(LONG_NAME, "the name is too long", "use a shorter name")                                   \
    ROW(CHANGED, "the file became shorter while it was being copied", "repeat the transfer")       \
    ROW(CHECKSUM, "source and copy have different SHA-256 sums", "repeat the transfer")            \
    ROW(TOO_DEEP, "directories are nested too deeply", "copy a part of the tree")                  \
    ROW(TOO_BIG, "the file is too large for the file system or a limit", "choose another place")   \
    ROW(IO, "input/output error", "check the disk")                                                \
    ROW(PARENT, "its directory could not be made", "see the error of the directory")               \
    ROW(BUSY, "the server has as many connections as it allows", "try again later")                \
    ROW(NOT_ALLOWED, "the server does not allow this address",                                     \
        "have it started with an --allow that covers this machine")                                \
    ROW(VERSION, "the other end speaks another version of the iwarp-cp protocol",                  \
        "use the same version of iwarp-cp at both ends")                                           \
    ROW(MALFORMED, "the other end broke the iwarp-cp protocol",                                    \
        "use the same version of iwarp-cp at both ends")                                           \
    ROW(IDLE, "the server waited too long for the next request", "repeat the transfer")            \
    ROW(SHUTDOWN, "the server is being shut down", "repeat when it is back")                       \
    ROW(NO_MEMORY, "not enough memory", "try a smaller --block or --depth")                        \
    ROW(STOPPED, "given up because of an earlier error", "see the earlier error")                  \
    ROW(IS_FIFO, "it is a FIFO, neither a file nor a directory", "leave it out")                   \
    ROW(IS_SOCKET, "it is a socket, neither a file nor a directory", "leave it out")               \
    ROW(IS_DEVICE, "it is a device, neither a file nor a directory", "leave it out")               \
    ROW(RESERVED, "names that begin with .iwarp-cp. are kept for unfinished copies",               \
        "use another name")                                                                        \
    ROW(NOTHING_SENT, "the server ended the transfer without the file",                            \
        "use the same version of iwarp-cp at both ends")                                           \
    ROW(HAS_DIRECTORY, "a directory has that name", "use another name or remove it")               \
    ROW(KEPT_FREE, "the server keeps the rest of its disk free",                                   \
        "free some space there, or start it with a smaller --keep-free")                           \
    ROW(DISPLACED, "the server gave the place of this idle connection to another client",          \
        "repeat the transfer")                                                                     \
    ROW(MODIFIED, "the file changed while it was being copied", "repeat the transfer")             \
    ROW(WRONG_SIZE, "its content is not as long as its size says",                                 \
        "files such as those of /proc and /sys: copy it with cat first, and then that")

enum cp_status {
#define ROW(name, text, hint) CP_##name,
    CP_STATUS_TABLE(ROW)
#undef ROW
        CP_STATUS_COUNT
};

/* A status and the errno behind it (0 if none), the pair that travels. */
struct cp_result {
    enum cp_status status;
    uint16_t system_errno;
};

/* The row that fits a value of errno. */
struct cp_result cp_result_from_errno(int error);

/* A result without an errno. */
struct cp_result cp_result_of(enum cp_status status);

/* What is neither a file nor a directory: what it is. mode is st_mode. */
struct cp_result cp_result_of_special(mode_t mode);

/* It has no room: so it will be with what comes after. */
bool cp_result_is_full(struct cp_result result);

/* Links, special files and reserved names inside trees are left out, and that is no failure. */
bool cp_result_is_left_out(struct cp_result result);

/* A sentence without full stop; never NULL, static or per thread. */
const char *cp_result_text(struct cp_result result);

/* What to do, here or (at_server) there; never NULL. */
const char *cp_result_hint(struct cp_result result, bool at_server);

#endif
