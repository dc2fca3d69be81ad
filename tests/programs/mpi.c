/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MPI program that checks what it gets: messages of many sizes around a ring, collectives, and
 * one-sided Put, Get and Accumulate. Prints "N ranks, all right" on rank 0; the status is not 0 as
 * soon as anything is not what it has to be.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 20, WORDS = 4096 };

static int rank, ranks;

static void check(int right, const char *what, long at)
{
    if (!right) {
        fprintf(stderr, "rank %d: %s is wrong at %ld\n", rank, what, at);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char octet(int from, int size, int i)
{
    return (unsigned char)(from * 31 + size * 7 + i);
}

static void ring(unsigned char *out, unsigned char *in)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

    for (int size = 1; size <= LARGEST; size = size * 3 + 1) {
        for (int i = 0; i < size; i++) {
            out[i] = octet(rank, size, i);
            in[i] = 0;
        }
        MPI_Sendrecv(out, size, MPI_BYTE, next, size & 1, in, size, MPI_BYTE, before, size & 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++) {
            check(in[i] == octet(before, size, i), "a message of the ring", i);
        }
    }
}

static void collectives(void)
{
    static long mine[WORDS], all[WORDS * 64];
    long sum = 0;

    for (int i = 0; i < WORDS; i++) {
        mine[i] = (long)rank * i + 1;
    }
    MPI_Allreduce(mine, all, WORDS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < WORDS; i++) {
        check(all[i] == (long)ranks * (ranks - 1) / 2 * i + ranks, "Allreduce", i);
    }
    MPI_Allgather(mine, WORDS, MPI_LONG, all, WORDS, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < WORDS * ranks; i++) {
        check(all[i] == (long)(i / WORDS) * (i % WORDS) + 1, "Allgather", i);
    }
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < WORDS; i++) {
            all[i] = rank == root ? root + i : -1;
        }
        MPI_Bcast(all, WORDS, MPI_LONG, root, MPI_COMM_WORLD);
        for (int i = 0; i < WORDS; i++) {
            check(all[i] == root + i, "Bcast", i);
        }
        long one = rank + 1;
        MPI_Reduce(&one, &sum, 1, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
        check(rank != root || sum == (long)ranks * (ranks + 1) / 2, "Reduce", root);
    }
    for (int i = 0; i < ranks; i++) {
        mine[i] = rank * 100 + i;
    }
    MPI_Alltoall(mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        check(all[i] == i * 100 + rank, "Alltoall", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_sided(void)
{
    long *window, got[WORDS], put[WORDS];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Win win;

    /* Whole pages: with others MPICH 4.0.2 puts to other places than the peer's window, over TCP as
     * well. */
    MPI_Win_allocate(sizeof(long) * 3 * WORDS, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window,
                     &win);
    for (int i = 0; i < WORDS; i++) {
        window[i] = rank * 1000000L + i;
        window[WORDS + i] = -1;
        put[i] = rank * 2000000L + i;
        got[i] = 0;
    }
    window[2 * WORDS] = 0;
    MPI_Win_fence(0, win);
    MPI_Put(put, WORDS, MPI_LONG, next, WORDS, WORDS, MPI_LONG, win);
    MPI_Get(got, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, win);
    long one = rank + 1;
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 2 * WORDS, 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++) {
        check(got[i] == next * 1000000L + i, "Get", i);
        check(window[WORDS + i] == before * 2000000L + i, "Put", i);
    }
    check(rank != 0 || window[2 * WORDS] == (long)ranks * (ranks + 1) / 2, "Accumulate", 0);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    unsigned char *buffer = malloc((size_t)2 * LARGEST);
    check(buffer && ranks <= 64, "memory", 0);
    ring(buffer, buffer + LARGEST);
    collectives();
    one_sided();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks, all right\n", ranks);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
