/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs on the drop-in libraries that run out of descriptors or of address space, at every
 * number of them: each call that fails says why by errno and a line in the log, no event that was
 * promised stays out, nothing crashes and nothing hangs. The other side is a process without a
 * limit.
 */
#include "ends.h"

#include "../support/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#define PROCESS_LIMIT 30                             /* seconds, then SIGALRM ends it */
#define STEP          (CHILD_SANITIZED == 2 ? 8 : 1) /* of descriptors; it is slow */
#define STEP_KIB      1024                           /* of address space, up to more than enough */

/* How long a peer waits for one that may not be able to take part. */
static int give_up_ms;

enum { WENT_WELL = 0, FAILED_CLEANLY = 10, GAVE_UP = 11, WRONG = 12 };

/* What this process says, with its limit in force. */
static int log_fd = -1;

static off_t said(void)
{
    return lseek(log_fd, 0, SEEK_END);
}

static void show_log(void)
{
    char text[4096];
    ssize_t n = pread(2, text, sizeof text - 1, 0);

    if (n > 0) {
        text[n] = '\0';
        printf("%s", text);
    }
    fflush(stdout);
}

static void wrong(const char *what, int line)
{
    fprintf(stderr, "test: line %d: %s: errno %d\n", line, what, errno);
    show_log();
    _exit(WRONG);
}

/* A call that fails has set errno and written a line. */
#define try(condition)                                                                             \
    do {                                                                                           \
        off_t before = said();                                                                     \
        errno = 0;                                                                                 \
        if (!(condition)) {                                                                        \
            if (errno == 0 || said() == before) {                                                  \
                wrong(#condition, __LINE__);                                                       \
            }                                                                                      \
            return FAILED_CLEANLY;                                                                 \
        }                                                                                          \
    } while (0)

/* The next event: NULL if none comes in time. */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int ms)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&p, 1, ms) != 1) {
        return NULL;
    }
    return rdma_get_cm_event(channel, &event) == 0 ? event : NULL;
}

/* 0, what the event says otherwise; one that does not come is wrong. */
static int wait_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int line)
{
    struct rdma_cm_event *event = next_event(channel, 20000);

    if (!event) {
        wrong("no event", line);
    }
    int result = event->event == type ? WENT_WELL : FAILED_CLEANLY;
    if (result == FAILED_CLEANLY && event->status == 0) {
        wrong(rdma_event_str(event->event), line);
    }
    rdma_ack_cm_event(event);
    return result;
}

/* --- programs -------------------------------------------------------------------------------- */

static int use_connection(struct rdma_cm_id *id, bool sends)
{
    static uint8_t memory[64];
    struct ibv_mr *mr;
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

    try(mr = rdma_reg_msgs(id, memory, sizeof memory));
    if (sends) {
        try(rdma_post_send(id, NULL, memory, sizeof memory, mr, IBV_SEND_SIGNALED) == 0);
        try(rdma_get_send_comp(id, &wc) == 1);
    } else {
        try(rdma_post_recv(id, NULL, memory, sizeof memory, mr) == 0);
        try(rdma_get_recv_comp(id, &wc) == 1);
    }
    rdma_dereg_mr(mr);
    if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR) {
        wrong(ibv_wc_status_str(wc.status), __LINE__);
    }
    return WENT_WELL;
}

/* As rping does it: an event channel, events one after the other. */
static int events_client(uint16_t port)
{
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct sockaddr_storage to;
    int result;

    address(&to, AF_INET, port);
    try(channel = rdma_create_event_channel());
    try(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    try(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
    if ((result = wait_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, __LINE__))) {
        return result;
    }
    try(rdma_resolve_route(id, 1000) == 0);
    if ((result = wait_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, __LINE__))) {
        return result;
    }
    try(rdma_create_qp(id, NULL, &attr) == 0);
    try(rdma_connect(id, &param) == 0);
    if ((result = wait_event(channel, RDMA_CM_EVENT_ESTABLISHED, __LINE__))) {
        return result;
    }
    result = use_connection(id, false);
    if (result == WENT_WELL) {
        try(rdma_disconnect(id) == 0);
        result = wait_event(channel, RDMA_CM_EVENT_DISCONNECTED, __LINE__);
    }
    rdma_destroy_qp(id);
    try(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(channel);
    return result;
}

static int endpoint_client(uint16_t port)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = qp_attr();
    struct sockaddr_storage to;
    struct rdma_cm_id *id;
    int result;

    address(&to, AF_INET, port);
    hints.ai_dst_addr = (struct sockaddr *)&to;
    hints.ai_dst_len = sizeof(struct sockaddr_in);
    if (rdma_getaddrinfo(NULL, NULL, &hints, &info) != 0) {
        return FAILED_CLEANLY; /* which says why by its value */
    }
    try(rdma_create_ep(&id, info, NULL, &attr) == 0);
    errno = 0;
    if (rdma_connect(id, NULL) != 0) {
        result = FAILED_CLEANLY; /* what the event says */
        if (errno == 0) {
            wrong("rdma_connect", __LINE__);
        }
    } else {
        result = use_connection(id, false);
    }
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(info);
    return result;
}

/* Tells its port, then serves one peer after the other, up to so many; 0: without an end. */
static int events_server(int port_to, unsigned peers)
{
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct sockaddr_storage at;

    address(&at, AF_INET, 0);
    try(channel = rdma_create_event_channel());
    try(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    try(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0);
    try(rdma_listen(listener, 8) == 0);
    uint16_t port = rdma_get_src_port(listener);
    if (write(port_to, &port, sizeof port) != sizeof port) {
        return WRONG;
    }
    for (unsigned ended = 0; peers == 0 || ended < peers;) {
        struct ibv_qp_init_attr attr = qp_attr();
        struct rdma_cm_event *event = next_event(channel, peers ? 2 * give_up_ms : -1);
        if (!event) {
            return GAVE_UP;
        }
        enum rdma_cm_event_type type = event->event;
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            try(rdma_create_qp(id, NULL, &attr) == 0);
            if (rdma_accept(id, &param) != 0) {
                rdma_destroy_ep(id);
                ended++;
            }
        } else if (type == RDMA_CM_EVENT_ESTABLISHED) {
            (void)use_connection(id, true);
        } else { /* DISCONNECTED, or it has failed */
            rdma_destroy_ep(id);
            ended++;
        }
    }
    try(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    return WENT_WELL;
}

/* --- processes ------------------------------------------------------------------------------- */

struct limits {
    int descriptors;  /* 0: none */
    rlim_t more_room; /* octets of address space, 0: none */
};

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* As a program that has just been started: the test itself uses nothing of the libraries. */
static pid_t start(const struct limits *limits)
{
    char name[] = "/tmp/iwarp-limits-XXXXXX";
    struct rlimit no_core = {0, 0};

    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    for (int i = 1; i < 32; i++) {
        (void)signal(i, SIG_DFL);
    }
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(PROCESS_LIMIT);
    setenv("IWARP_LOG", "warn", 1);
    log_fd = mkstemp(name);
    unlink(name);
    dup2(log_fd, 2); /* the log itself takes no descriptor then */
    close(log_fd);
    log_fd = 2;
    if (limits->descriptors) {
        struct rlimit n = {(rlim_t)limits->descriptors, (rlim_t)limits->descriptors};
        setrlimit(RLIMIT_NOFILE, &n);
    }
    if (limits->more_room) {
        struct rlimit n = {address_space() + limits->more_room, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &n);
    }
    return 0;
}

static int status_of(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t start_server(const struct limits *limits, unsigned peers, uint16_t *port)
{
    int pipe_fd[2];

    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = start(limits);
    if (pid == 0) {
        close(pipe_fd[0]);
        if (peers == 0) { /* it is there for as long as the test */
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(0);
        }
        _exit(events_server(pipe_fd[1], peers));
    }
    close(pipe_fd[1]);
    if (read(pipe_fd[0], port, sizeof *port) != sizeof *port) {
        *port = 0; /* it did not come so far */
    }
    close(pipe_fd[0]);
    return pid;
}

static const struct limits unlimited;
static int (*const clients[])(uint16_t) = {events_client, endpoint_client};

static int run_client(const struct limits *limits, unsigned which, uint16_t port)
{
    pid_t pid = start(limits);

    if (pid == 0) {
        _exit(clients[which](port));
    }
    return status_of(pid);
}

/* A peer of a server that may not answer. */
static int visit(uint16_t port)
{
    pid_t pid = start(&unlimited);

    if (pid == 0) {
        struct itimerval soon = {{0, 0}, {give_up_ms / 1000, give_up_ms % 1000 * 1000}};
        (void)setitimer(ITIMER_REAL, &soon, NULL);
        _exit(endpoint_client(port));
    }
    return status_of(pid);
}

static void check(int status, const char *who, const struct limits *limits, bool may_give_up)
{
    if (status != WENT_WELL && status != FAILED_CLEANLY && !(may_give_up && status == GAVE_UP)) {
        fail_msg("%s with %d descriptors, %lu KiB: status %d", who, limits->descriptors,
                 (unsigned long)limits->more_room / 1024, status);
    }
}

/* One of each kind under these limits; how many of them went well. */
static unsigned run_all(const struct limits *limits, uint16_t port)
{
    bool plenty = limits->descriptors >= 48 || limits->more_room >= (rlim_t)512 << 20;
    unsigned well = 0;
    uint16_t own = 0;

    give_up_ms = plenty ? PROCESS_LIMIT / 2 * 1000 - 1 : 1500;

    for (unsigned i = 0; i < 2; i++) {
        int status = run_client(limits, i, port);
        check(status, i ? "endpoint" : "client", limits, false);
        well += status == WENT_WELL;
    }
    pid_t pid = start_server(limits, 1, &own);
    int visitor = own ? visit(own) : FAILED_CLEANLY;
    check(visitor == 1000 + SIGALRM ? FAILED_CLEANLY : visitor, "visitor", limits, false);
    int status = status_of(pid);
    check(status, "server", limits, true);
    return well + (status == WENT_WELL && visitor == WENT_WELL);
}

static void programs__at_every_limit_of_descriptors__say_why_and_end(void **state)
{
    struct limits limits = unlimited;
    uint16_t port = 0;
    int first = 0;

    (void)state;
    pid_t server = start_server(&unlimited, 0, &port);
    assert_int_not_equal(port, 0);
    for (limits.descriptors = 3; limits.descriptors <= 64; limits.descriptors += STEP) {
        unsigned well = run_all(&limits, port);
        if (well == 3 && !first) {
            first = limits.descriptors;
        }
        assert_true(well == 3 || limits.descriptors < 48);
    }
    print_message("# enough: %d descriptors\n", first);
    assert_in_range(first, 10, 40);
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_int_equal(status_of(server), 1000 + SIGKILL);
}

static void programs__at_limits_of_memory__say_why_and_end(void **state)
{
    struct limits limits = unlimited;
    unsigned well = 0;
    uint16_t port = 0;

    (void)state;
    if (CHILD_SANITIZED) { /* they reserve terabytes */
        return;
    }
    pid_t server = start_server(&unlimited, 0, &port);
    assert_int_not_equal(port, 0);
    for (rlim_t kib = 64; kib < 1u << 20; kib += kib < 256 << 10 ? STEP_KIB : kib) {
        limits.more_room = kib << 10;
        well = run_all(&limits, port);
    }
    assert_int_equal(well, 3);
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_int_equal(status_of(server), 1000 + SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs__at_every_limit_of_descriptors__say_why_and_end),
        cmocka_unit_test(programs__at_limits_of_memory__say_why_and_end),
    };

    return cmocka_run_group_tests_name("test_cm_limits", tests, NULL, NULL);
}
