/* SPDX-License-Identifier: BSD-2-Clause */
#include "board.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct board *board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED
                     : mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    return p;
}

void board_add(struct board *b, enum board_number which, int64_t n)
{
    atomic_fetch_add_explicit(&b->number[which], n, memory_order_relaxed);
}

void board_say(struct board_lane *lane, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(lane->doing, sizeof lane->doing, format, args);
    va_end(args);
    atomic_fetch_add(&lane->beats, 1);
}

void board_rest(struct board_lane *lane, bool rests)
{
    board_say(lane, rests ? "rests" : "begins");
    atomic_store(&lane->resting, rests);
}

bool board_all_rest(const struct board *b)
{
    for (uint64_t i = 0; i < atomic_load(&b->lanes); i++) {
        if (!atomic_load(&b->lane[i].resting)) {
            return false;
        }
    }
    return true;
}
