/* SPDX-License-Identifier: BSD-2-Clause */
/* See iwarp/sim.h and sim.h: events, chance, and the calls of the application. */
#include "sim/sim.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/process.h"
#include "verbs/device.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CLOSE_EVERY 256 /* events after which libuv closes handles that were given back */
#define LONGEST_NS  (INT64_MAX / 2) /* of a wait, and of all runs together: 146 years */

static struct iwarp_sim *sim_of(struct iwarp_virtual *v)
{
    return (struct iwarp_sim *)(void *)v;
}

/* --- chance ---------------------------------------------------------------------------------- */

/* Splitmix64: any seed gives the full period. */
static uint64_t next_random(struct iwarp_virtual *v)
{
    uint64_t z = sim_of(v)->chance += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t iwarp_sim_draw(struct iwarp_sim *sim, uint64_t n)
{
    return next_random(&sim->v) % n;
}

/* Nothing is drawn for what never happens. */
bool iwarp_sim_one_in(struct iwarp_sim *sim, uint32_t n)
{
    return n > 0 && iwarp_sim_draw(sim, n) == 0;
}

/* The magnitude is drawn first, so that the shortest times are as likely as the longest. */
uint64_t iwarp_sim_between(struct iwarp_sim *sim, uint64_t least, uint64_t most)
{
    uint64_t span = most > least ? most - least : 0;
    unsigned bits = 0;

    while (bits < 63 && span >> bits) {
        bits++;
    }
    uint64_t width = (uint64_t)1 << iwarp_sim_draw(sim, bits + 1u);
    return least + iwarp_sim_draw(sim, width < span ? width : span + 1);
}

int64_t iwarp_sim_delay(struct iwarp_sim *sim)
{
    return (int64_t)iwarp_sim_between(sim, sim->options.delay_min_ns, sim->options.delay_max_ns);
}

int64_t iwarp_sim_reaction(struct iwarp_sim *sim)
{
    return (int64_t)iwarp_sim_between(sim, 1, sim->options.react_max_ns);
}

void iwarp_sim_say(struct iwarp_sim *sim, const char *format, ...)
{
    char line[200];
    va_list args;

    if (!sim->options.trace) {
        return;
    }
    int n = snprintf(line, sizeof line, "%lld ", (long long)sim->v.now_ns);
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    sim->options.trace(sim->options.trace_arg, line);
}

/* --- events: a heap, the next one first ------------------------------------------------------ */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void sift_up(struct sim_event *heap, size_t i)
{
    for (size_t up; i > 0 && is_before(&heap[i], &heap[up = (i - 1) / 2]); i = up) {
        struct sim_event e = heap[i];
        heap[i] = heap[up];
        heap[up] = e;
    }
}

static void sift_down(struct sim_event *heap, size_t n, size_t i)
{
    for (;;) {
        size_t next = 2 * i + 1;
        next += next + 1 < n && is_before(&heap[next + 1], &heap[next]);
        if (next >= n || !is_before(&heap[next], &heap[i])) {
            return;
        }
        struct sim_event e = heap[i];
        heap[i] = heap[next];
        heap[next] = e;
        i = next;
    }
}

static void take_out(struct iwarp_sim *sim, size_t i)
{
    sim->heap[i] = sim->heap[--sim->events];
    if (i < sim->events) {
        sift_up(sim->heap, i);
        sift_down(sim->heap, sim->events, i);
    }
}

void iwarp_sim_at(struct iwarp_sim *sim, int64_t ns, const void *key, struct sim_node *node,
                  void (*fn)(void *arg), void *arg)
{
    if (sim->events == sim->room) {
        size_t room = sim->room ? 2 * sim->room : 64;
        struct sim_event *heap = realloc(sim->heap, room * sizeof *heap);
        if (!heap) {
            iwarp_log(IWARP_LOG_ERROR, "sim", "no memory for an event");
            abort();
        }
        sim->heap = heap;
        sim->room = room;
    }
    sim->heap[sim->events] =
        (struct sim_event){sim->v.now_ns + ns, sim->order++, key, node, fn, arg};
    sift_up(sim->heap, sim->events++);
}

/* All of them: an object that goes away leaves nothing behind. */
void iwarp_sim_cancel(struct iwarp_sim *sim, const void *key)
{
    for (size_t i = sim->events; i > 0; i--) {
        if (i <= sim->events && sim->heap[i - 1].key == key) {
            take_out(sim, i - 1);
            i = sim->events + 1; /* what was moved may be before it */
        }
    }
}

/* --- what the library asks for: base/virtual.h ----------------------------------------------- */

static struct sim_node *node_of(struct iwarp_sim *sim, const void *loop)
{
    struct sim_node *n = sim->nodes;

    while (n && n->loop != loop) {
        n = n->next;
    }
    return n;
}

static bool is_due(const struct iwarp_sim *sim, const void *key)
{
    for (size_t i = 0; i < sim->events; i++) {
        if (sim->heap[i].key == key) {
            return true;
        }
    }
    return false;
}

/* A wake-up (ns 0) that is on its way is not put off by another. */
static void start(struct iwarp_virtual *v, const void *loop, int64_t ns, void (*fn)(void *arg),
                  void *arg)
{
    struct iwarp_sim *sim = sim_of(v);

    if (ns == 0 && is_due(sim, arg)) {
        return;
    }
    iwarp_sim_cancel(sim, arg);
    iwarp_sim_at(sim, ns + iwarp_sim_reaction(sim), arg, node_of(sim, loop), fn, arg);
}

static void stop(struct iwarp_virtual *v, const void *arg)
{
    iwarp_sim_cancel(sim_of(v), arg);
}

static bool step(struct iwarp_virtual *v, int64_t until)
{
    struct iwarp_sim *sim = sim_of(v);

    if (sim->events == 0 || (until >= 0 && sim->heap[0].due > until)) {
        v->now_ns = until >= 0 ? until : v->now_ns;
        return until >= 0;
    }
    struct sim_event e = sim->heap[0];
    take_out(sim, 0);
    v->now_ns = e.due;
    e.fn(e.arg);
    if (e.node) {
        iwarp_sim_tell(e.node);
    }
    if (sim->order % CLOSE_EVERY == 0) {
        uv_run(&sim->uv, UV_RUN_NOWAIT);
    }
    return true;
}

static void tell(struct iwarp_virtual *v, const void *loop)
{
    struct sim_node *node = node_of(sim_of(v), loop);

    if (node) {
        iwarp_sim_tell(node);
    }
}

static bool refuses(struct iwarp_virtual *v)
{
    struct iwarp_sim *sim = sim_of(v);
    bool refused = iwarp_sim_one_in(sim, sim->options.refuse_one_in);

    if (refused) {
        iwarp_sim_say(sim, "an allocation fails");
    }
    return refused;
}

/* --- the application's calls ----------------------------------------------------------------- */

void iwarp_sim_options_init(struct iwarp_sim_options *options, uint64_t seed)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options = (struct iwarp_sim_options){.size = sizeof *options,
                                          .seed = seed,
                                          .delay_min_ns = 1000,
                                          .delay_max_ns = 200000,
                                          .piece_max = 65536,
                                          .react_max_ns = 20000,
                                          .notice_max_ns = 10000000,
                                          .late_one_in = 2};
}

static enum iwarp_status check(const struct iwarp_sim_options *o)
{
    const uint64_t most = (uint64_t)1 << 50; /* 13 days */

    if (!o || o->size != sizeof *o) {
        return iwarp_fail(IWARP_MISUSE, "options of a simulation: %s",
                          o ? "call iwarp_sim_options_init first" : "there are none");
    }
    if (o->delay_min_ns > o->delay_max_ns || o->delay_max_ns > most || o->notice_max_ns > most ||
        o->react_max_ns < 1 || o->react_max_ns > most || o->piece_max < 1) {
        return iwarp_fail(IWARP_MISUSE,
                          "options of a simulation: a time is over 2^50 ns, delay_min_ns over "
                          "delay_max_ns, or react_max_ns or piece_max 0");
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_sim_open(const struct iwarp_sim_options *options, struct iwarp_sim **out)
{
    enum iwarp_status status = check(options);

    if (status != IWARP_OK) {
        return status;
    }
    if (!out || iwarp_virtual) {
        return iwarp_fail(IWARP_MISUSE, "a simulation: %s",
                          out ? "this thread has one already" : "the place for it is NULL");
    }
    struct iwarp_sim *sim = calloc(1, sizeof *sim);
    if (!sim) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a simulation");
    }
    iwarp_process_fill_standard();
    int rc = uv_loop_init(&sim->uv);
    if (rc != 0) {
        free(sim);
        return iwarp_fail(IWARP_LIMIT, "no loop for a simulation: %s", uv_strerror(rc));
    }
    sim->options = *options;
    sim->chance = options->seed;
    sim->v = (struct iwarp_virtual){.random = next_random,
                                    .start = start,
                                    .stop = stop,
                                    .step = step,
                                    .tell = tell,
                                    .refuses = refuses};
    iwarp_virtual = &sim->v;
    *out = sim;
    return IWARP_OK;
}

enum iwarp_status iwarp_sim_change(struct iwarp_sim *sim, const struct iwarp_sim_options *options)
{
    if (!sim) {
        return iwarp_fail(IWARP_MISUSE, "iwarp_sim_change: there is no simulation");
    }
    enum iwarp_status status = options ? check(options) : IWARP_OK;
    if (status == IWARP_OK && options) {
        struct iwarp_sim_options before = sim->options;
        sim->options = *options;
        sim->options.trace = before.trace;
        sim->options.trace_arg = before.trace_arg;
    }
    return status;
}

enum iwarp_status iwarp_sim_after(struct iwarp_sim *sim, uint64_t ns, void (*fn)(void *arg),
                                  void *arg)
{
    if (!sim || !fn || ns > LONGEST_NS) {
        return iwarp_fail(IWARP_MISUSE, "iwarp_sim_after: NULL, or too long a time");
    }
    iwarp_sim_at(sim, (int64_t)ns, NULL, NULL, fn, arg);
    return IWARP_OK;
}

bool iwarp_sim_step(struct iwarp_sim *sim)
{
    return sim && step(&sim->v, -1);
}

void iwarp_sim_run(struct iwarp_sim *sim, uint64_t ns)
{
    if (!sim) {
        return;
    }
    int64_t now = sim->v.now_ns;
    uint64_t left = now < LONGEST_NS ? (uint64_t)(LONGEST_NS - now) : 0;
    int64_t until = now + (int64_t)(ns < left ? ns : left);
    while (sim->events > 0 && sim->heap[0].due <= until) {
        (void)step(&sim->v, until);
    }
    sim->v.now_ns = sim->v.now_ns < until ? until : sim->v.now_ns; /* one of them may have waited */
}

uint64_t iwarp_sim_now(const struct iwarp_sim *sim)
{
    return sim ? (uint64_t)sim->v.now_ns : 0;
}

uint64_t iwarp_sim_random(struct iwarp_sim *sim, uint64_t n)
{
    return sim && n > 0 ? iwarp_sim_draw(sim, n) : 0;
}

/* --- devices --------------------------------------------------------------------------------- */

static bool read_address(const char *text, struct sim_addr *addr)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&addr->any;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&addr->any;

    *addr = (struct sim_addr){.len = sizeof *v4};
    if (text && inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        return true;
    }
    addr->len = sizeof *v6;
    v6->sin6_family = AF_INET6;
    return text && inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static bool is_taken(const struct iwarp_sim *sim, const struct sim_addr *addr)
{
    const struct sim_node *n = sim->nodes;

    while (n && !(n->device && !n->device->closing &&
                  memcmp(&n->addr.any, &addr->any, sizeof addr->any) == 0)) {
        n = n->next;
    }
    return n != NULL;
}

static struct sim_node *new_node(struct iwarp_sim *sim, const char *address,
                                 enum iwarp_status *status)
{
    struct sim_addr addr;

    if (!sim || !read_address(address, &addr) || is_taken(sim, &addr)) {
        *status = iwarp_fail(IWARP_MISUSE,
                             "\"%s\" is no address for a device of a simulation, or "
                             "another one has it",
                             address ? address : "NULL");
        return NULL;
    }
    struct sim_node *node = calloc(1, sizeof *node);
    if (!node) {
        *status = iwarp_fail(IWARP_NO_MEMORY, "no memory for a device of a simulation");
        return NULL;
    }
    node->base.ops = &iwarp_sim_stack_ops;
    node->sim = sim;
    node->addr = addr;
    node->last_port = 49151;
    return node;
}

/* The environment is not to make two runs differ by TLS, whose keys are drawn elsewhere. */
enum iwarp_status iwarp_sim_device_open(struct iwarp_sim *sim, const char *address,
                                        const struct iwarp_device_options *options,
                                        struct iwarp_device **device)
{
    enum iwarp_status status = IWARP_OK;
    struct iwarp_device_options o;

    if (!device) {
        return iwarp_fail(IWARP_MISUSE, "the place for a device is NULL");
    }
    struct sim_node *node = new_node(sim, address, &status);
    if (!node) {
        return status;
    }
    iwarp_device_options_init(&o);
    o = options ? *options : o;
    o.workers = 1;
    o.progress = IWARP_PROGRESS_EMBEDDED;
    o.loop = &sim->uv;
    o.transport = NULL;
    o.tls = "off";
    status = iwarp_device_open_on(&o, &node->base, device);
    if (status != IWARP_OK) {
        free(node);
        return status;
    }
    node->device = *device;
    node->loop = &(*device)->worker[0].loop;
    node->next = sim->nodes;
    sim->nodes = node;
    iwarp_sim_say(sim, "%s opens", address);
    return IWARP_OK;
}

static struct sim_node *node_of_device(struct iwarp_device *device)
{
    if (!device || !device->simulated) {
        iwarp_fail(IWARP_MISUSE, "the device is none of a simulation");
        return NULL;
    }
    return (struct sim_node *)(void *)device->stack;
}

enum iwarp_status iwarp_sim_watch(struct iwarp_device *device, void (*fn)(void *arg), void *arg)
{
    struct sim_node *node = node_of_device(device);

    if (!node) {
        return IWARP_MISUSE;
    }
    node->watch = fn;
    node->watch_arg = arg;
    iwarp_sim_tell(node);
    return IWARP_OK;
}

enum iwarp_status iwarp_sim_lose(struct iwarp_device *device)
{
    struct sim_node *node = node_of_device(device);

    if (!node) {
        return IWARP_MISUSE;
    }
    for (struct sim_link *l = node->sim->links; l; l = l->next) {
        if (l->end[0].node == node || l->end[1].node == node) {
            iwarp_sim_link_lose(l);
        }
    }
    return IWARP_OK;
}

/* --- memory ---------------------------------------------------------------------------------- */

struct sim_memory {
    struct sim_memory *next;
    void *at;
    size_t octets;
};

/* Nothing of the system is near there, on the processors with 47 bits of addresses or more. */
#define MEMORY_AT ((uintptr_t)((uint64_t)0x5100 << 32))
#define PAGE      ((size_t)65536)

void *iwarp_sim_memory(struct iwarp_sim *sim, size_t octets)
{
    struct sim_memory *m = sim && octets > 0 && octets < SIZE_MAX / 2 ? calloc(1, sizeof *m) : NULL;

    if (!m) {
        return NULL;
    }
    m->octets = (octets + PAGE - 1) / PAGE * PAGE;
    sim->next_memory = sim->next_memory ? sim->next_memory : MEMORY_AT;
    m->at = mmap((void *)sim->next_memory, m->octets, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->at == MAP_FAILED) {
        free(m);
        return NULL;
    }
    if ((uintptr_t)m->at != sim->next_memory) {
        iwarp_log(IWARP_LOG_WARN, "sim",
                  "memory of a simulation has not the address that it has "
                  "in other runs: their octets may differ");
    }
    sim->next_memory += m->octets + PAGE; /* what lies behind is not mapped */
    m->next = sim->memory;
    sim->memory = m;
    return m->at;
}

/* --- the end --------------------------------------------------------------------------------- */

static void free_all(struct iwarp_sim *sim)
{
    while (sim->memory) {
        struct sim_memory *m = sim->memory;
        sim->memory = m->next;
        munmap(m->at, m->octets);
        free(m);
    }
    while (sim->nodes) {
        struct sim_node *n = sim->nodes;
        sim->nodes = n->next;
        free(n);
    }
    free(sim->heap);
    free(sim);
}

static bool is_open(const struct iwarp_sim *sim, bool closing_too)
{
    const struct sim_node *n = sim->nodes;

    while (n && !(n->device && (closing_too || !n->device->closing))) {
        n = n->next;
    }
    return n != NULL;
}

/*
 * A device that was closed is gone when its connections have ended, which takes virtual time, and
 * libuv has closed its handles, one after the other.
 */
enum iwarp_status iwarp_sim_close(struct iwarp_sim *sim)
{
    if (!sim || iwarp_virtual != &sim->v) {
        return iwarp_fail(IWARP_MISUSE, "the simulation is NULL, or another thread's");
    }
    if (is_open(sim, false)) {
        return iwarp_fail(IWARP_MISUSE, "a device of the simulation is open");
    }
    while (is_open(sim, true) && (uv_run(&sim->uv, UV_RUN_NOWAIT) != 0 || step(&sim->v, -1))) {
        (void)step(&sim->v, -1);
    }
    while (uv_run(&sim->uv, UV_RUN_NOWAIT) != 0) {
    }
    int rc = uv_loop_close(&sim->uv);
    if (rc != 0) {
        return iwarp_fail(IWARP_MISUSE, "the simulation's loop is in use: %s", uv_strerror(rc));
    }
    iwarp_virtual = NULL;
    free_all(sim);
    return IWARP_OK;
}
