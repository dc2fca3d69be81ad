/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices and protection domains: what everything else hangs on.
 */
#include "verbs/device.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/settings.h"
#include "capture/capture.h"
#include "loop/loop.h"
#include "mpa/crc32c.h"
#include "verbs/async.h"
#include "verbs/conn.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_setup.h"
#include "verbs/crowd.h"
#include "verbs/inject.h"
#include "verbs/metrics.h"
#include "verbs/mr.h"
#include "verbs/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RNR_BYTES  262144u             /* of messages of one connection that wait for receives */
#define PCAP_BYTES ((uint64_t)1 << 30) /* that a capture may have */

/* IWARP_WORKERS in the environment; 1 if it is not set. */
static unsigned workers_wished(void)
{
    return iwarp_setting_number("IWARP_WORKERS", 1, IWARP_MAX_WORKERS, 1);
}

/* In ms; the last number means the device's own, in options of connections. */
static unsigned rnr_wished(void)
{
    return iwarp_setting_number("IWARP_RNR_TIMEOUT", 0, IWARP_RNR_OF_DEVICE - 1, 0);
}

static unsigned rnr_bytes_wished(void)
{
    return iwarp_setting_number("IWARP_RNR_BYTES", 1, UINT32_MAX, RNR_BYTES);
}

/*
 * Settings of the environment are defaults only: an application that sets a member has the last
 * word.
 */
void iwarp_device_options_init(struct iwarp_device_options *options)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options = (struct iwarp_device_options){.size = sizeof *options,
                                             .workers = workers_wished(),
                                             .max_connections = 65536,
                                             .max_half_open = 1024,
                                             .max_regions = 1048576,
                                             .max_buffer_bytes = (size_t)1 << 30,
                                             .look = iwarp_setting_on("IWARP_LOOK", true),
                                             .rnr_timeout_ms = rnr_wished(),
                                             .rnr_bytes = rnr_bytes_wished()};
}

/*
 * DEFAULT is replaced by what the environment says, so that programs need no change; a word that is
 * not understood is an error, since the application would run with the wrong setting.
 */
static enum iwarp_status rfc7306_check(struct iwarp_device_options *o)
{
    const char *wish = iwarp_setting("IWARP_RFC7306");

    if (o->rfc7306 == IWARP_RFC7306_DEFAULT) {
        bool off = wish && strcmp(wish, "off") == 0;
        if (wish && !off && strcmp(wish, "on") != 0) {
            return iwarp_fail(IWARP_MISUSE,
                              "IWARP_RFC7306 in the environment is \"%s\", expected on or off",
                              wish);
        }
        o->rfc7306 = off ? IWARP_RFC7306_OFF : IWARP_RFC7306_ON;
    }
    if (o->rfc7306 > IWARP_RFC7306_OFF) {
        return iwarp_fail(IWARP_MISUSE, "device options: rfc7306 is %d, allowed are 0 to %d",
                          (int)o->rfc7306, (int)IWARP_RFC7306_OFF);
    }
    return IWARP_OK;
}

/* Programs for libibverbs have no other way to ask for it than the environment. AGREED is a matter
 * of two applications, and so of a connection. */
static enum iwarp_status send_imm_check(struct iwarp_device_options *o)
{
    static const char *const words[] = {"off", "on", "0", "1", NULL};

    if (o->send_imm == IWARP_SEND_IMM_DEFAULT) {
        o->send_imm = iwarp_setting_word("IWARP_SEND_IMM", words, 0) % 2 ? IWARP_SEND_IMM_ASK
                                                                         : IWARP_SEND_IMM_OFF;
    }
    if (o->send_imm > IWARP_SEND_IMM_ASK) {
        return iwarp_fail(IWARP_MISUSE, "device options: send_imm is %d, allowed are 0 to %d",
                          (int)o->send_imm, (int)IWARP_SEND_IMM_ASK);
    }
    return IWARP_OK;
}

/*
 * The same for the kind of progress. Embedded progress is never chosen by the environment: the
 * application has to pass its loop.
 */
static enum iwarp_status progress_check(struct iwarp_device_options *o)
{
    const char *wish = iwarp_setting("IWARP_PROGRESS");

    if (o->progress == IWARP_PROGRESS_DEFAULT) {
        bool polled = wish && strcmp(wish, "polled") == 0;
        if (wish && !polled && strcmp(wish, "threaded") != 0) {
            return iwarp_fail(IWARP_MISUSE,
                              "IWARP_PROGRESS in the environment is \"%s\", expected threaded or "
                              "polled",
                              wish);
        }
        o->progress = polled ? IWARP_PROGRESS_POLLED : IWARP_PROGRESS_THREADED;
    }
    if (o->progress > IWARP_PROGRESS_EMBEDDED) {
        return iwarp_fail(IWARP_MISUSE, "device options: progress is %d, allowed are 0 to %d",
                          (int)o->progress, (int)IWARP_PROGRESS_EMBEDDED);
    }
    if ((o->progress == IWARP_PROGRESS_EMBEDDED) != (o->loop != NULL)) {
        return iwarp_fail(IWARP_MISUSE, "device options: %s",
                          o->loop ? "a loop is for embedded progress only"
                                  : "embedded progress needs the application's loop");
    }
    if (o->loop && o->workers == workers_wished()) {
        o->workers = 1; /* IWARP_WORKERS is meant for threads; here it is no error */
    }
    if (o->loop && o->workers != 1) {
        return iwarp_fail(IWARP_MISUSE,
                          "device options: workers is %u, embedded progress has 1 (the loop)",
                          o->workers);
    }
    return IWARP_OK;
}

/*
 * A struct of another size comes from a program that was built with another version, or that did
 * not call init: neither can be read.
 */
static enum iwarp_status options_check(const struct iwarp_device_options *in,
                                       struct iwarp_device_options *out)
{
    iwarp_device_options_init(out);
    if (in && in->size != sizeof *in) {
        return iwarp_fail(IWARP_MISUSE,
                          "device options: size is %zu, expected %zu; call "
                          "iwarp_device_options_init first",
                          in->size, sizeof *in);
    }
    if (in) {
        *out = *in;
    }
    if (out->workers < 1 || out->workers > IWARP_MAX_WORKERS) {
        return iwarp_fail(IWARP_MISUSE, "device options: workers is %u, allowed are 1 to %d",
                          out->workers, IWARP_MAX_WORKERS);
    }
    if (out->max_connections < 1 || out->max_half_open < 1) {
        return iwarp_fail(IWARP_MISUSE,
                          "device options: max_connections %u, max_half_open %u, at least 1",
                          out->max_connections, out->max_half_open);
    }
    if (out->max_buffer_bytes < 1) {
        return iwarp_fail(IWARP_MISUSE, "device options: max_buffer_bytes is 0, expected at "
                                        "least 1");
    }
    if (out->rnr_bytes < 1) {
        return iwarp_fail(IWARP_MISUSE, "device options: rnr_bytes is 0, expected at least 1");
    }
    if (out->max_regions < 1 || out->max_regions > IWARP_MAX_REGIONS) {
        return iwarp_fail(IWARP_MISUSE, "device options: max_regions is %u, allowed are 1 to %u",
                          out->max_regions, IWARP_MAX_REGIONS);
    }
    if (out->pcap_max_bytes > 0 && out->pcap_max_bytes < IWARP_CAPTURE_LEAST) {
        return iwarp_fail(IWARP_MISUSE,
                          "device options: pcap_max_bytes is %llu, expected at least %d, or 0",
                          (unsigned long long)out->pcap_max_bytes, IWARP_CAPTURE_LEAST);
    }
    if (!out->transport) {
        out->transport = iwarp_setting("IWARP_TRANSPORT");
    }
    enum iwarp_status status = rfc7306_check(out);
    status = status != IWARP_OK ? status : send_imm_check(out);
    return status != IWARP_OK ? status : progress_check(out);
}

/*
 * The size limit of captures from the environment. A mistake there gets a warning and the default:
 * it is no reason to refuse the device.
 */
static uint64_t pcap_bound(void)
{
    const char *wish = iwarp_setting("IWARP_PCAP_MAX");
    uint64_t most = 0;
    char *end;

    if (wish) {
        errno = 0;
        most = strtoull(wish, &end, 10);
        if (wish[0] < '0' || wish[0] > '9' || *end || errno || most < IWARP_CAPTURE_LEAST) {
            iwarp_log(IWARP_LOG_WARN, "capture",
                      "IWARP_PCAP_MAX in the environment is \"%s\", expected octets, at least %d: "
                      "taking the default",
                      wish, IWARP_CAPTURE_LEAST);
            most = 0;
        }
    }
    return most ? most : PCAP_BYTES;
}

/*
 * The option comes before the environment. A capture that cannot be opened is logged and left out:
 * a tool for diagnosis must not stop the program.
 */
static void open_capture(struct iwarp_device *d)
{
    const char *name = d->options.pcap ? d->options.pcap : iwarp_setting("IWARP_PCAP");
    uint64_t most = d->options.pcap_max_bytes;

    d->options.pcap = NULL; /* the caller's */
    if (name && name[0]) {
        d->capture = iwarp_capture_open(name, most ? most : pcap_bound());
    }
}

/* The option comes before the environment. */
static enum iwarp_status open_tls(struct iwarp_device *d)
{
    const char *text = d->options.tls ? d->options.tls : iwarp_setting("IWARP_TLS");

    d->options.tls = NULL; /* the caller's */
    return text ? iwarp_tls_store_find(&d->tls_store, text, &d->tls) : IWARP_OK;
}

/*
 * After a fork the child has the memory but not the threads, and any lock may be held by one of
 * those. No lock may be taken to find that out.
 */
bool iwarp_device_is_ours(const struct iwarp_device *device)
{
    if (!IWARP_GIVEN(device)) {
        return false;
    }
    if (device->generation != iwarp_process_generation()) {
        iwarp_fail(IWARP_MISUSE, "this belongs to the process that forked this one, and is of no "
                                 "use here; open another device");
        return false;
    }
    return true;
}

/* `thread` is constant once the device is open, so it is compared without a lock. */
bool iwarp_device_usable(const struct iwarp_device *device)
{
    if (!iwarp_device_is_ours(device)) {
        return false;
    }
    if (!device->embedded || pthread_equal(device->worker[0].loop.thread, pthread_self())) {
        return true;
    }
    iwarp_fail(IWARP_MISUSE, "embedded progress: every call has to come from the thread that "
                             "opened the device and runs the loop; from others use "
                             "iwarp_device_call");
    return false;
}

/* d->workers counts those that run, so that device_free stops exactly these after a failure. */
static enum iwarp_status start_workers(struct iwarp_device *d)
{
    for (; d->workers < d->options.workers; d->workers++) {
        enum iwarp_status status = iwarp_worker_start(&d->worker[d->workers], d);
        if (status != IWARP_OK) {
            return status;
        }
    }
    return IWARP_OK;
}

/*
 * Workers first: after them no other thread uses the device, and no lock is needed. Also for a
 * device that was opened in part.
 */
static void device_free(struct iwarp_device *d)
{
    for (unsigned i = 0; i < d->workers; i++) {
        if (d->embedded) {
            iwarp_worker_fini(&d->worker[i]);
        } else {
            iwarp_worker_stop(&d->worker[i]);
        }
    }
    if (d->stack) {
        d->stack->ops->close(d->stack);
    }
    iwarp_tls_store_fini(&d->tls_store);
    iwarp_capture_close(d->capture);
    free(d->injector);
    iwarp_stag_free_pool(d);
    iwarp_region_table_fini(&d->regions);
    iwarp_async_fini(&d->async);
    iwarp_crowd_fini(&d->startups);
    iwarp_mutex_fini(&d->lock);
    free(d);
}

/*
 * Inbound start-ups may use half of the connections and of the descriptors at most, so that peers
 * that never finish theirs cannot use up what accepted connections need.
 */
static unsigned most_startups(const struct iwarp_device_options *o)
{
    unsigned most = o->max_half_open, descriptors = iwarp_descriptors();

    most = o->max_connections / 2 < most ? o->max_connections / 2 : most;
    most = descriptors / 2 < most ? descriptors / 2 : most;
    return most > 0 ? most : 1;
}

/*
 * A thread remembers devices by serial number (progress.c): an address may come back after a close.
 */
static _Atomic uint64_t serials = 1;

/*
 * Every failure frees what was made so far (device_free). The capture is opened last: it cannot
 * fail the call. stack NULL: the one that the options name.
 */
static enum iwarp_status open_device(const struct iwarp_device_options *options,
                                     struct iwarp_stack *stack, struct iwarp_device **device)
{
    struct iwarp_device_options o = *options;
    enum iwarp_status status;

    if (iwarp_crc32c_select(IWARP_CRC32C_AUTO) != 0) {
        return iwarp_fail(IWARP_LIMIT, "no usable CRC32c implementation (IWARP_CRC32C in the "
                                       "environment: avx512, avx2, x86, isal, arm, evp or auto)");
    }
    struct iwarp_device *d = calloc(1, sizeof *d + o.workers * sizeof d->worker[0]);
    if (!d) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a device");
    }
    d->options = o;
    d->options.transport = NULL; /* the caller's */
    d->serial = atomic_fetch_add(&serials, 1);
    iwarp_process_fill_standard();
    iwarp_process_watch();
    d->generation = iwarp_process_generation();
    d->embedded = o.progress == IWARP_PROGRESS_EMBEDDED;
    d->polled = o.progress == IWARP_PROGRESS_POLLED;
    d->rfc7306 = o.rfc7306 == IWARP_RFC7306_ON;
    d->copies = iwarp_setting_on("IWARP_COPY_PAYLOAD", false);
    d->simulated = stack != NULL;
    d->budget.limit = o.max_buffer_bytes;
    atomic_store(&d->next_qp_num, 1);
    iwarp_mutex_init(&d->lock, d->embedded);
    iwarp_tls_store_init(&d->tls_store);
    iwarp_crowd_init(&d->startups, IWARP_DROPS_OLDEST, most_startups(&o), d->embedded);
    if (!iwarp_async_init(&d->async, d->embedded)) {
        int error = errno;
        device_free(d);
        errno = error;
        return iwarp_fail(IWARP_LIMIT, "no eventfd for asynchronous events: %s", strerror(error));
    }
    if (!iwarp_region_table_init(&d->regions)) {
        int error = errno;
        device_free(d);
        return iwarp_fail(IWARP_NO_MEMORY, "cannot reserve address space for the STag table: %s",
                          strerror(error));
    }
    status = iwarp_injector_open(&d->injector);
    status = status == IWARP_OK ? open_tls(d) : status;
    if (status == IWARP_OK) {
        d->stack = stack;
        status = stack ? IWARP_OK : iwarp_stack_open(o.transport, &d->stack);
    }
    status = status == IWARP_OK ? start_workers(d) : status;
    if (status != IWARP_OK) {
        device_free(d);
        return status;
    }
    open_capture(d);
    iwarp_metrics_join(d);
    iwarp_log(IWARP_LOG_INFO, "device", "open: %u workers, CRC32c by %s", o.workers,
              iwarp_crc32c_name());
    *device = d;
    return IWARP_OK;
}

enum iwarp_status iwarp_device_open(const struct iwarp_device_options *options,
                                    struct iwarp_device **device)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(device)) {
        return IWARP_MISUSE;
    }
    struct iwarp_device_options o;
    iwarp_settings_complain();
    enum iwarp_status status = options_check(options, &o);

    return status == IWARP_OK ? open_device(&o, NULL, device) : status;
}

enum iwarp_status iwarp_device_open_on(const struct iwarp_device_options *options,
                                       struct iwarp_stack *stack, struct iwarp_device **device)
{
    struct iwarp_device_options o;
    enum iwarp_status status = options_check(options, &o);

    return status == IWARP_OK ? open_device(&o, stack, device) : status;
}

/* On the connection's worker, the only thread that closes endpoints. */
static void close_now(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    iwarp_conn_close_endpoint(conn, true);
    iwarp_mutex_unlock(&conn->lock);
}

/*
 * Connections whose handles are gone may still wait for the peer's FIN: end them now. One at a
 * time, since device.lock may not be held during iwarp_loop_call; `swept` marks those that had
 * their turn, so the walk starts anew each time and still ends.
 */
static void close_lingering(struct iwarp_device *d)
{
    struct iwarp_conn *conn;

    do {
        iwarp_mutex_lock(&d->lock);
        for (conn = d->conns; conn && (conn->swept || !iwarp_conn_get_living(conn));
             conn = conn->next) {
        }
        if (conn) {
            conn->swept = true;
        }
        iwarp_mutex_unlock(&d->lock);
        if (conn) {
            iwarp_loop_call(&conn->worker->loop, close_now, conn);
            iwarp_conn_put(conn);
        }
    } while (conn);
}

/*
 * Embedded: libuv closes a handle in a later turn of the loop and uses its memory until then. So
 * the handles are closed one after the other (wake, limit, timer, those of the seat), and the last
 * callback frees the device.
 */
static void on_seat_left(void *worker)
{
    struct iwarp_worker *w = worker;

    device_free(w->device);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct iwarp_worker *w = timer->data;

    w->seat->stack->ops->leave(w->seat, on_seat_left, w);
}

static void on_limit_closed(uv_handle_t *limit)
{
    struct iwarp_worker *w = limit->data;

    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

static void on_wake_closed(uv_handle_t *wake)
{
    struct iwarp_loop *l = wake->data;

    l->limit.data = l->options.arg;
    uv_close((uv_handle_t *)&l->limit, on_limit_closed);
}

/* Called whenever something that the loop still had to close is gone. */
void iwarp_device_maybe_free(struct iwarp_device *d)
{
    if (d->closing && d->conn_count == 0 && atomic_load(&d->dying) == 0 &&
        !uv_is_closing((uv_handle_t *)&d->worker[0].loop.wake)) {
        iwarp_loop_forget(&d->worker[0].loop);
        iwarp_loop_stop_timer(&d->worker[0].loop, &d->worker[0].timer);
        uv_close((uv_handle_t *)&d->worker[0].loop.wake, on_wake_closed);
    }
}

/*
 * Objects that the application still has a handle of make it MISUSE, and nothing changes. Their
 * counters are read without a lock: an application that creates objects while it closes the device
 * has a race of its own.
 */
enum iwarp_status iwarp_device_close(struct iwarp_device *d)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(d)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(d);
    if (d->embedded) {
        iwarp_loop_run_calls(&d->worker[0].loop); /* after the close nothing would run them */
    }
    iwarp_mutex_lock(&d->lock);
    unsigned conns = 0;
    for (const struct iwarp_conn *c = d->conns; c; c = c->next) {
        conns += !c->user_gone;
    }
    iwarp_mutex_unlock(&d->lock);
    unsigned pds = atomic_load(&d->pds), cqs = atomic_load(&d->cqs), eqs = atomic_load(&d->eqs),
             listeners = atomic_load(&d->listeners);
    if (conns || pds || cqs || eqs || listeners) {
        return iwarp_fail(IWARP_MISUSE,
                          "device still has %u PDs, %u CQs, %u event queues, %u listeners, %u "
                          "connections",
                          pds, cqs, eqs, listeners, conns);
    }
    iwarp_metrics_leave(d);
    close_lingering(d);
    iwarp_log(IWARP_LOG_INFO, "device", "close");
    if (d->embedded) {
        d->closing = true; /* memory of the loop's handles stays until it has closed them */
        iwarp_device_maybe_free(d);
    } else {
        device_free(d);
    }
    return IWARP_OK;
}

/*
 * Without a wish, workers take turns: connections are not moved later, and how much one will carry
 * is not known now.
 */
struct iwarp_worker *iwarp_device_pick_worker(struct iwarp_device *d, unsigned wanted)
{
    if (wanted > d->workers) {
        iwarp_fail(IWARP_MISUSE, "connection options: worker is %u, the device has %u", wanted,
                   d->workers);
        return NULL;
    }
    return &d->worker[wanted > 0 ? wanted - 1 : atomic_fetch_add(&d->next_worker, 1) % d->workers];
}

/* --- protection domains ---------------------------------------------------------------------- */

/*
 * A protection domain is a name: regions and queue pairs point to it, and equality is all that is
 * checked (ddp/ddp_place.c). It needs no lock.
 */
enum iwarp_status iwarp_pd_create(struct iwarp_device *device, struct iwarp_pd **pd)
{
    IWARP_UNCANCELLED;
    if (!iwarp_device_usable(device) || !IWARP_GIVEN(pd)) {
        return IWARP_MISUSE;
    }
    struct iwarp_pd *p = iwarp_calloc(1, sizeof *p);

    if (!p) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a protection domain");
    }
    p->device = device;
    atomic_fetch_add(&device->pds, 1);
    *pd = p;
    return IWARP_OK;
}

/* Each user holds one count from its creation to its end, so no object points to a freed domain. */
enum iwarp_status iwarp_pd_destroy(struct iwarp_pd *pd)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(pd) || !iwarp_device_usable(pd->device)) {
        return IWARP_MISUSE;
    }
    unsigned users = atomic_load(&pd->users);

    if (users) {
        return iwarp_fail(IWARP_MISUSE,
                          "protection domain still has %u regions, windows, queue pairs and SRQs",
                          users);
    }
    atomic_fetch_sub(&pd->device->pds, 1);
    free(pd);
    return IWARP_OK;
}
