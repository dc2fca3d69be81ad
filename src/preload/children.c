/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that begin other processes and programs. What the program takes for connected may become
 * plain TCP yet, and then it is the child's, too, and goes with its descriptor: which one it is has
 * to be known before. And what is kept goes out before a program ends. vfork, popen, system, and
 * the calls of exec with a list of arguments, do not wait for that.
 */
#include "preload/early.h"
#include "preload/start.h"

#include <errno.h>
#include <pty.h>

/* None of these calls is a cancellation point, but handlers of fork make calls that are. Not in a
 * child of vfork, which has the parent's memory. ends: this program does, or this process. */
static const struct real *settled(bool ends)
{
    SIGNALS_HELD;
    const int error = errno;

    if (sock_mine()) {
        early_await_all(start_reply_ms() + 1000);
        if (ends) {
            early_wait();
            iwarp_rs_await_kept();
        }
    }
    errno = error;
    return real();
}

EXPORT pid_t fork(void)
{
    UNCANCELLED;
    return settled(false)->fork();
}

EXPORT int forkpty(int *terminal, char *name, const struct termios *modes,
                   const struct winsize *size)
{
    UNCANCELLED;
    return settled(false)->forkpty(terminal, name, modes, size);
}

EXPORT int daemon(int keep_directory, int keep_standard)
{
    UNCANCELLED;
    return settled(true)->daemon(keep_directory, keep_standard);
}

EXPORT int posix_spawn(pid_t *restrict child, const char *restrict path,
                       const posix_spawn_file_actions_t *restrict actions,
                       const posix_spawnattr_t *restrict attributes,
                       char *const *restrict arguments, char *const *restrict environment)
{
    UNCANCELLED;
    return settled(false)->posix_spawn(child, path, actions, attributes, arguments, environment);
}

EXPORT int posix_spawnp(pid_t *restrict child, const char *restrict file,
                        const posix_spawn_file_actions_t *restrict actions,
                        const posix_spawnattr_t *restrict attributes,
                        char *const *restrict arguments, char *const *restrict environment)
{
    UNCANCELLED;
    return settled(false)->posix_spawnp(child, file, actions, attributes, arguments, environment);
}

EXPORT int execve(const char *path, char *const *arguments, char *const *environment)
{
    return settled(true)->execve(path, arguments, environment);
}

EXPORT int execv(const char *path, char *const *arguments)
{
    return settled(true)->execv(path, arguments);
}

EXPORT int execvp(const char *file, char *const *arguments)
{
    return settled(true)->execvp(file, arguments);
}

EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment)
{
    return settled(true)->execvpe(file, arguments, environment);
}

EXPORT int fexecve(int file, char *const *arguments, char *const *environment)
{
    return settled(true)->fexecve(file, arguments, environment);
}
