/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that begin other processes and programs. What the program takes for connected may become
 * plain TCP yet, and then it is the child's, too, and goes with its descriptor: which one it is has
 * to be known before. vfork, and the calls of exec with a list of arguments, do not wait for that.
 */
#include "preload/early.h"

#include <errno.h>

/* Not in a child of vfork, which has the parent's memory. */
static const struct real *settled(void)
{
    SIGNALS_HELD;
    const int error = errno;

    if (sock_mine()) {
        early_await_all();
    }
    errno = error;
    return real();
}

EXPORT pid_t fork(void)
{
    return settled()->fork();
}

EXPORT int daemon(int keep_directory, int keep_standard)
{
    return settled()->daemon(keep_directory, keep_standard);
}

EXPORT int posix_spawn(pid_t *restrict child, const char *restrict path,
                       const posix_spawn_file_actions_t *restrict actions,
                       const posix_spawnattr_t *restrict attributes,
                       char *const *restrict arguments, char *const *restrict environment)
{
    return settled()->posix_spawn(child, path, actions, attributes, arguments, environment);
}

EXPORT int posix_spawnp(pid_t *restrict child, const char *restrict file,
                        const posix_spawn_file_actions_t *restrict actions,
                        const posix_spawnattr_t *restrict attributes,
                        char *const *restrict arguments, char *const *restrict environment)
{
    return settled()->posix_spawnp(child, file, actions, attributes, arguments, environment);
}

EXPORT int execve(const char *path, char *const *arguments, char *const *environment)
{
    return settled()->execve(path, arguments, environment);
}

EXPORT int execv(const char *path, char *const *arguments)
{
    return settled()->execv(path, arguments);
}

EXPORT int execvp(const char *file, char *const *arguments)
{
    return settled()->execvp(file, arguments);
}

EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment)
{
    return settled()->execvpe(file, arguments, environment);
}

EXPORT int fexecve(int file, char *const *arguments, char *const *environment)
{
    return settled()->fexecve(file, arguments, environment);
}
