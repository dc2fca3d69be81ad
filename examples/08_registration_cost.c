/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What it costs to give a peer access to memory, and to take it back, by size: registering, and
 * the work requests REG_MR and LOCAL_INV. Prints a table; with a file name it also draws a plot. An
 * RNIC pins and translates each page: half a second for 1 GiB is a usual figure.
 * Usage: 08_registration_cost [PLOT.svg]
 */
#include "side.h"

#include <math.h>
#include <sys/mman.h>
#include <time.h>

#define SMALLEST 12 /* 2^12 octets: a page */
#define LARGEST  30
#define SIZES    (LARGEST - SMALLEST + 1)
#define TURNS    300 /* at each size; the median counts */

#define RNIC_US_PER_GIB 500000.0

struct cost {
    double register_us, deregister_us, fast_us; /* fast: REG_MR and LOCAL_INV, both */
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, TURNS, sizeof *values, compare);
    return values[TURNS / 2];
}

/* --- measuring ------------------------------------------------------------------------------- */

static void measure_verbs(struct side *s, void *memory, size_t len, struct cost *c)
{
    static double on[TURNS], off[TURNS];
    struct iwarp_mr *mr;

    for (unsigned i = 0; i < TURNS; i++) {
        double begin = now_us();
        must(iwarp_mr_register(s->pd, memory, len,
                               IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &mr),
             "register");
        double middle = now_us();
        must(iwarp_mr_deregister(mr), "deregister");
        on[i] = middle - begin;
        off[i] = now_us() - middle;
    }
    c->register_us = median(on);
    c->deregister_us = median(off);
}

/* The library's table of STags grows page by page, which some thousand registrations pay for. */
static void warm_up(struct side *s, void *memory)
{
    struct iwarp_mr *mr;

    for (unsigned i = 0; i < 20000; i++) {
        must(iwarp_mr_register(s->pd, memory, 1, 0, &mr), "register");
        must(iwarp_mr_deregister(mr), "deregister");
    }
}

/* Both requests in one chain, and the completion of the second. */
static void measure_requests(struct side *s, void *memory, size_t len, struct cost *c)
{
    static double both[TURNS];
    struct iwarp_mr *mr;
    struct iwarp_wc wc;

    must(iwarp_mr_alloc(s->pd, &mr), "allocate an STag");
    for (unsigned i = 0; i < TURNS; i++) {
        struct iwarp_bind bind = {.mr = mr,
                                  .addr = memory,
                                  .len = len,
                                  .to_base = (uint64_t)(uintptr_t)memory,
                                  .access = IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE,
                                  .key = (uint8_t)i};
        struct iwarp_send_wr end = {.opcode = IWARP_WR_LOCAL_INV,
                                    .invalidate_stag =
                                        iwarp_stag_with_key(iwarp_mr_stag(mr), bind.key)};
        struct iwarp_send_wr begin = {.next = &end, .opcode = IWARP_WR_REG_MR, .bind = &bind};
        double before = now_us();
        must(iwarp_post_send(s->qp, &begin, NULL), "post");
        if (!side_wait(s, IWARP_WC_LOCAL_INV, &wc)) {
            exit(1);
        }
        both[i] = now_us() - before;
    }
    must(iwarp_mr_deregister(mr), "give the STag back");
    c->fast_us = median(both);
}

/* --- the plot -------------------------------------------------------------------------------- */

#define WIDTH  640
#define HEIGHT 400
#define LEFT   70
#define RIGHT  20
#define TOP    40
#define BOTTOM 50

static double x_of(unsigned size)
{
    return LEFT + (double)(WIDTH - LEFT - RIGHT) * (size - SMALLEST) / (LARGEST - SMALLEST);
}

/* 0.01 us to 1 s, logarithmic */
static double y_of(double us)
{
    double part = (log10(us > 0.01 ? us : 0.01) + 2) / 8;

    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part;
}

static double rnic_us(unsigned size)
{
    return ldexp(RNIC_US_PER_GIB, (int)size - 30);
}

static void draw_axes(FILE *f)
{
    static const char *const times[] = {"10 ns", "100 ns", "1 us",   "10 us", "100 us",
                                        "1 ms",  "10 ms",  "100 ms", "1 s"};
    static const char *const sizes[] = {"4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"};

    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", WIDTH,
            HEIGHT);
    fputs("font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
          f);
    for (int i = 0; i < 9; i++) {
        double y = y_of(pow(10, i - 2));
        fprintf(f, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>", LEFT, y, WIDTH - RIGHT);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 4,
                times[i]);
    }
    for (unsigned i = 0; i < 5; i++) {
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x_of(SMALLEST + 4 * i), HEIGHT - BOTTOM + 18, sizes[i]);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">memory</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    fprintf(f, "<text x=\"%d\" y=\"22\" font-size=\"15\">Time to give access to memory</text>\n",
            LEFT);
}

static void draw_line(FILE *f, const double *us, const char *color, double name_below,
                      const char *name)
{
    for (unsigned i = 0; i < SIZES; i++) {
        fprintf(f, i == 0 ? "<path d=\"M%.1f %.1f" : "L%.1f %.1f", x_of(SMALLEST + i), y_of(us[i]));
    }
    fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", color);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"end\">%s</text>\n",
            x_of(LARGEST - 2), y_of(us[SIZES - 3]) + name_below, color, name);
}

static void draw(const char *path, const struct cost *cost)
{
    double verbs[SIZES], requests[SIZES], rnic[SIZES];
    FILE *f = fopen(path, "w");

    if (!f) {
        perror(path);
        exit(1);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        verbs[i] = cost[i].register_us;
        requests[i] = cost[i].fast_us;
        rnic[i] = rnic_us(SMALLEST + i);
    }
    draw_axes(f);
    draw_line(f, rnic, "#b30", -12, "an RNIC, 0.5 s per GiB");
    draw_line(f, requests, "#080", -6, "REG_MR and LOCAL_INV");
    draw_line(f, verbs, "#04b", 16, "iwarp_mr_register");
    fputs("</svg>\n", f);
    if (fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    printf("the plot is in %s\n", path);
}

int main(int argc, char **argv)
{
    static struct side a, b;
    static struct cost cost[SIZES];

    /* Nothing looks at the octets, so nothing of this takes memory. */
    void *memory = mmap(NULL, (size_t)1 << LARGEST, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    side_open(&a, 0);
    struct iwarp_qp_options options;
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = a.cq;
    b = a;
    must(iwarp_qp_create(a.pd, &options, &b.qp), "create a queue pair");
    must(iwarp_connect_pair(a.qp, b.qp, NULL, NULL, &a.conn, &b.conn), "connect");
    must(iwarp_conn_wait(a.conn, 10000), "connect");

    warm_up(&a, memory);
    printf("%12s %12s %12s %22s %14s\n", "KiB", "register", "deregister", "REG_MR and LOCAL_INV",
           "an RNIC (us)");
    for (unsigned i = 0; i < SIZES; i++) {
        size_t len = (size_t)1 << (SMALLEST + i);
        measure_verbs(&a, memory, len, &cost[i]);
        measure_requests(&a, memory, len, &cost[i]);
        printf("%12zu %12.2f %12.2f %22.2f %14.0f\n", len / 1024, cost[i].register_us,
               cost[i].deregister_us, cost[i].fast_us, rnic_us(SMALLEST + i));
    }
    printf("1 GiB is registered in %.2f us; an RNIC needs half a second\n",
           cost[SIZES - 1].register_us);
    if (argc > 1) {
        draw(argv[1], cost);
    }
    must(iwarp_disconnect(a.conn), "disconnect");
    must(iwarp_conn_wait_end(b.conn, 10000), "wait for the end");
    iwarp_conn_destroy(b.conn);
    iwarp_qp_destroy(b.qp);
    side_close(&a);
    munmap(memory, (size_t)1 << LARGEST);
    return 0;
}
