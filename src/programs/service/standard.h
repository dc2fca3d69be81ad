/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SERVICE_STANDARD_H
#define SERVICE_STANDARD_H

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/*
 * Closed standard descriptors would be given to the next file or socket, which would then get the
 * messages of this program. Those in their place can be neither read nor written usefully.
 */
static inline bool fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

#endif
