/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this process says on a descriptor, 1 or 2, for a while: kept as a text instead of shown.
 */
#ifndef TESTS_SAID_H
#define TESTS_SAID_H

#include <stdio.h>
#include <unistd.h>

struct said {
    int fd, real;
    FILE *kept;
    char text[4096]; /* after said_end */
};

static inline void said_begin(struct said *said, int fd)
{
    fflush(NULL);
    said->fd = fd;
    said->real = dup(fd);
    said->kept = tmpfile();
    dup2(fileno(said->kept), fd);
}

static inline const char *said_end(struct said *said)
{
    fflush(NULL);
    dup2(said->real, said->fd);
    close(said->real);
    rewind(said->kept);
    said->text[fread(said->text, 1, sizeof said->text - 1, said->kept)] = '\0';
    fclose(said->kept);
    return said->text;
}

#endif
