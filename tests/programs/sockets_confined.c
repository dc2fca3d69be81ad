/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs with little room: a small stack, calls that a filter refuses. The kernel's TCP passes as
 * well.
 *
 *   sockets_confined CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"
#include "sockets_peer.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

/* --- stacks ---------------------------------------------------------------------------------- */

static ucontext_t before, coroutine;

/* The first connection of the process, and its set. */
static void talk(void)
{
    struct epoll_event e = {.events = EPOLLIN};
    const int fd = peer(ECHO), set = epoll_create1(0);
    char octet = 'x';

    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
    for (int i = 0; i < 100; i++) {
        echoes(fd);
        CHECK(write(fd, &octet, 1) == 1 && epoll_wait(set, &e, 1, 5000) == 1);
        CHECK(read(fd, &octet, 1) == 1 && octet == 'x');
    }
    close(fd);
}

static void *run_coroutine(void *arg)
{
    CHECK(swapcontext(&before, &coroutine) == 0);
    return arg;
}

/* What is below its stack cannot be written. */
static void begin_coroutine(void)
{
    const size_t len = 16384, below = 65536;
    char *at = mmap(NULL, below + len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED && mprotect(at + below, len, PROT_READ | PROT_WRITE) == 0);
    start_peer();
    CHECK(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = at + below;
    coroutine.uc_stack.ss_size = len;
    coroutine.uc_link = &before;
    makecontext(&coroutine, talk, 0);
}

static void coroutine_of_the_first_thread(void)
{
    begin_coroutine();
    (void)run_coroutine(NULL);
}

static void coroutine_of_another_thread(void)
{
    pthread_t thread;

    begin_coroutine();
    CHECK(pthread_create(&thread, NULL, run_coroutine, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- filters --------------------------------------------------------------------------------- */

/* False: this kernel has no filters. */
static bool refuse(unsigned call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof code[0], code};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* Gives back what one client writes. A client may have given a connection up, and come again. */
static void serve_one(int listener)
{
    struct epoll_event e = {.events = EPOLLIN};
    ssize_t n;

    do {
        char octet;
        const int fd = accept(listener, NULL, NULL), set = epoll_create1(0);
        CHECK(fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
        CHECK(epoll_wait(set, &e, 1, 5000) == 1);
        n = read(fd, &octet, 1);
        CHECK(n == 1 || (n < 0 && errno == ECONNRESET));
        CHECK(n < 0 || write(fd, &octet, 1) == 1);
        CHECK(close(fd) == 0 && close(set) == 0);
    } while (n < 0);
}

static void be_client(bool confined)
{
    for (int i = 0; i < 3; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        echoes(fd);
        close(fd);
        CHECK(i > 0 || !confined || refuse(SYS_dup3));
    }
}

/* One end is refused dup3 once it has had a connection. */
static void without_dup3(bool client)
{
    const int listener = listen_somewhere(&address, 10);
    int status;

    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        be_client(client);
        exit(0);
    }
    alarm(20);
    for (int i = 0; i < 3; i++) {
        serve_one(listener);
        CHECK(i > 0 || client || refuse(SYS_dup3));
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void server_without_dup3(void)
{
    without_dup3(false);
}

static void client_without_dup3(void)
{
    without_dup3(true);
}

/* --------------------------------------------------------------------------------------------- */

static const struct one_case cases[] = {CASE(coroutine_of_the_first_thread),
                                        CASE(coroutine_of_another_thread),
                                        CASE(server_without_dup3), CASE(client_without_dup3)};

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], NULL);
}
