/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi SECONDS SIDE: an MPI program of two ranks for bench/programs.py. Prints a line of JSON:
 * latency of 8 octets to and fro (us one way), octets a second of a window of 64 messages of 64 KiB
 * and of 1 MiB, and solves a system of equations. Wrong octets or a wrong solution end it.
 *
 * The kernel: Poisson's equation on a square of SIDE x SIDE points, 5-point stencil, by conjugate
 * gradients; each rank has half of the lines, and exchanges its outermost line with the other in
 * each iteration, beside two sums over all. The right side is made from a solution that is known.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LARGEST = 1 << 20 };

static int rank;

static void fail(const char *what)
{
    fprintf(stderr, "mpi: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *memory(size_t octets)
{
    void *area = calloc(1, octets);

    if (!area) {
        fail("no memory");
    }
    return area;
}

/* --- to and fro ------------------------------------------------------------------------------ */

static void bounce(unsigned char *buffer, int octets, unsigned char mark)
{
    MPI_Status status;

    buffer[0] = mark;
    if (rank == 0) {
        MPI_Send(buffer, octets, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        buffer[0] = 0;
    }
    MPI_Recv(buffer, octets, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &status);
    if (buffer[0] != mark) {
        fail("a wrong octet came");
    }
    if (rank == 1) {
        MPI_Send(buffer, octets, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static void bounces(int n)
{
    unsigned char buffer[8] = {0};

    for (int i = 0; i < n; i++) {
        bounce(buffer, sizeof buffer, (unsigned char)(i + 1));
    }
}

/*
 * Rounds of 200 until the time is over: rank 0 says whether one more is played. The first messages
 * do not count: with them the ranks connect, and libraries make their pools of buffers, which takes
 * 0.3 s where page faults are dear.
 */
static double latency(double seconds)
{
    bounces(200);
    double begin = MPI_Wtime();
    long n = 0;

    for (int more = 1; more; n += 200) {
        bounces(200);
        more = MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - begin) / (double)n / 2 * 1e6;
}

/* --- bandwidth ------------------------------------------------------------------------------- */

static void pass_window(unsigned char *area, int octets)
{
    static MPI_Request request[WINDOW];
    unsigned char answer = 0;

    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(area, octets, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request[i]);
        } else {
            MPI_Irecv(area, octets, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request[i]);
        }
    }
    MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Recv(&answer, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&answer, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
}

/* The first window does not count, for the same reason. */
static double bandwidth(double seconds, int octets)
{
    unsigned char *area = memory((size_t)LARGEST);
    long windows = 0;

    memset(area, rank == 0 ? 7 : 0, LARGEST);
    pass_window(area, octets);
    double begin = MPI_Wtime();
    for (int more = 1; more; windows++) {
        pass_window(area, octets);
        more = MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    double rate = (double)windows * WINDOW * octets / (MPI_Wtime() - begin);
    for (int i = 0; i < octets; i++) {
        if (area[i] != 7) {
            fail("a wrong octet came");
        }
    }
    free(area);
    return rate;
}

/* --- conjugate gradients --------------------------------------------------------------------- */

struct grid {
    long side, lines;                  /* points of a line; lines of this rank */
    double *x, *r, *p, *q, *b, *known; /* each with a line above and one below */
};

static double dot(const struct grid *grid, const double *a, const double *b)
{
    double sum = 0, all;

    for (long i = grid->side; i < (grid->lines + 1) * grid->side; i++) {
        sum += a[i] * b[i];
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* q = A p: beside each other are 4 of the own point less its neighbours; outside is 0. */
static void apply(const struct grid *grid, double *p, double *q)
{
    long side = grid->side, last = grid->lines;
    double *mine = rank == 0 ? p + last * side : p + side;
    double *theirs = rank == 0 ? p + (last + 1) * side : p;

    MPI_Sendrecv(mine, (int)side, MPI_DOUBLE, 1 - rank, 4, theirs, (int)side, MPI_DOUBLE, 1 - rank,
                 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long line = 1; line <= last; line++) {
        const double *here = p + line * side;
        for (long i = 0; i < side; i++) {
            q[line * side + i] = 4 * here[i] - here[i - side] - here[i + side] -
                                 (i > 0 ? here[i - 1] : 0) - (i < side - 1 ? here[i + 1] : 0);
        }
    }
}

/* Seconds until the residual is a millionth of a millionth of what it was. */
static double solve(struct grid *grid, long *iterations)
{
    long first = grid->side, end = (grid->lines + 1) * grid->side;
    double begin, rr, least;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    memcpy(grid->r, grid->b, (size_t)(end + grid->side) * sizeof(double));
    memcpy(grid->p, grid->b, (size_t)(end + grid->side) * sizeof(double));
    rr = dot(grid, grid->r, grid->r);
    least = rr * 1e-24;
    for (*iterations = 0; rr > least; ++*iterations) {
        apply(grid, grid->p, grid->q);
        double alpha = rr / dot(grid, grid->p, grid->q), before = rr;
        for (long i = first; i < end; i++) {
            grid->x[i] += alpha * grid->p[i];
            grid->r[i] -= alpha * grid->q[i];
        }
        rr = dot(grid, grid->r, grid->r);
        if (*iterations > 20 * grid->side) {
            fail("the gradients do not lead to a solution");
        }
        for (long i = first; i < end; i++) {
            grid->p[i] = grid->r[i] + rr / before * grid->p[i];
        }
    }
    return MPI_Wtime() - begin;
}

static double gradients(long side, long *iterations)
{
    struct grid grid = {.side = side, .lines = side / 2};
    double **area[] = {&grid.x, &grid.r, &grid.p, &grid.q, &grid.b, &grid.known};

    for (size_t i = 0; i < sizeof area / sizeof area[0]; i++) {
        *area[i] = memory((size_t)((grid.lines + 2) * side) * sizeof(double));
    }
    for (long line = 1; line <= grid.lines; line++) {
        long row = line - 1 + (rank == 0 ? 0 : grid.lines);
        for (long i = 0; i < side; i++) {
            grid.known[line * side + i] = sin(0.1 * (double)row) + (double)(i % 7);
        }
    }
    apply(&grid, grid.known, grid.b);
    double seconds = solve(&grid, iterations);
    for (long i = side; i < (grid.lines + 1) * side; i++) {
        if (fabs(grid.x[i] - grid.known[i]) > 1e-6) {
            fail("a wrong solution");
        }
    }
    for (size_t i = 0; i < sizeof area / sizeof area[0]; i++) {
        free(*area[i]);
    }
    return seconds;
}

int main(int argc, char **argv)
{
    int ranks;
    long iterations;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 || ranks != 2 || atol(argv[2]) < 8 || atol(argv[2]) % 2 != 0) {
        fail("two ranks and two arguments: seconds, and the even side of a square");
    }
    double seconds = atof(argv[1]), one_way = latency(seconds);
    double medium = bandwidth(seconds, 65536), large = bandwidth(seconds, LARGEST);
    double solved = gradients(atol(argv[2]), &iterations);
    if (rank == 0) {
        printf("{\"latency_us\": %.4g, \"octets_64k\": %.6g, \"octets_1m\": %.6g, \"cg_seconds\": "
               "%.6g, \"cg_iterations\": %ld}\n",
               one_way, medium, large, solved, iterations);
    }
    MPI_Finalize();
    return 0;
}
