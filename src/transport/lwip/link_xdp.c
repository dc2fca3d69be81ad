/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link over AF_XDP: queue 0 of a network interface, whose frames come to this process and not to
 * the kernel's stack.  Frames lie in one piece of memory that the kernel shares (the UMEM): half of
 * its slots are for what comes, half for what goes.  One system call tells the kernel of all frames
 * of a batch (`flush`), and none is needed to receive while frames are there.
 *
 * libxdp attaches its program, which hands over whatever comes, and takes it off with the socket.
 * Built when the library is there.
 */
#include "base/fault.h"
#include "base/guard.h"
#include "base/process.h"
#include "transport/lwip/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef IWARP_HAVE_XDP

#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>

#define SLOTS       2048u /* in each direction; a power of two */
#define SLOT_OCTETS 2048u
#define FRAME_MOST  (SLOT_OCTETS - 256u) /* the kernel leaves headroom for its programs */
#define UMEM_OCTETS ((size_t)2 * SLOTS * SLOT_OCTETS)
#define BUSY_TRIES  60
#define BUSY_NS     50000000

struct xdp {
    struct iwarp_link link;
    struct xsk_umem *umem;
    struct xsk_socket *socket;
    struct xsk_ring_prod fill, tx;
    struct xsk_ring_cons rx, done;
    uint8_t *memory;
    uint64_t free[SLOTS]; /* addresses of slots for sending; the first `spare` are free */
    unsigned spare;
    bool rung; /* frames wait for the kernel to be told */
};

static struct xdp *xdp_of(struct iwarp_link *link)
{
    return (struct xdp *)(void *)link;
}

/* The slot goes back to the kernel, for another frame. */
static void give_slot(struct xdp *x, uint64_t addr)
{
    uint32_t at;

    if (xsk_ring_prod__reserve(&x->fill, 1, &at) == 1) {
        *xsk_ring_prod__fill_addr(&x->fill, at) = addr & ~(uint64_t)(SLOT_OCTETS - 1);
        xsk_ring_prod__submit(&x->fill, 1);
    }
}

static ssize_t xdp_receive(struct iwarp_link *link, void *frame, size_t size)
{
    struct xdp *x = xdp_of(link);
    uint32_t at;

    if (xsk_ring_cons__peek(&x->rx, 1, &at) == 0) {
        if (xsk_ring_prod__needs_wakeup(&x->fill)) {
            recvfrom(link->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
        }
        return -EAGAIN;
    }
    const struct xdp_desc *d = xsk_ring_cons__rx_desc(&x->rx, at);
    size_t octets = d->len <= size ? d->len : 0; /* 0 is dropped by whoever looks at it */
    memcpy(frame, xsk_umem__get_data(x->memory, d->addr), octets);
    give_slot(x, d->addr);
    xsk_ring_cons__release(&x->rx, 1);
    return (ssize_t)octets;
}

/* Slots whose frames are sent are free again. */
static void collect(struct xdp *x)
{
    uint32_t at, n = xsk_ring_cons__peek(&x->done, SLOTS, &at);

    for (uint32_t i = 0; i < n; i++) {
        x->free[x->spare++] = *xsk_ring_cons__comp_addr(&x->done, at + i);
    }
    if (n > 0) {
        xsk_ring_cons__release(&x->done, n);
    }
}

static void xdp_flush(struct iwarp_link *link)
{
    struct xdp *x = xdp_of(link);

    if (x->rung) {
        x->rung = false;
        sendto(link->fd, NULL, 0, MSG_DONTWAIT, NULL, 0); /* what it leaves goes with the next */
    }
}

static int xdp_send(struct iwarp_link *link, const struct iovec *iov, int n)
{
    struct xdp *x = xdp_of(link);
    uint32_t at, octets = 0;

    if (x->spare == 0) {
        x->rung = true;
        xdp_flush(link);
        collect(x);
    }
    if (x->spare == 0) {
        return -EAGAIN;
    }
    uint64_t addr = x->free[x->spare - 1];
    uint8_t *to = x->memory + addr;
    for (int i = 0; i < n && iov[i].iov_len <= SLOT_OCTETS - octets; i++) {
        if (iwarp_guard_copy_from(to + octets, iov[i].iov_base, iov[i].iov_len) != 0) {
            return -EFAULT; /* the application's memory, which is referred to */
        }
        octets += (uint32_t)iov[i].iov_len;
    }
    if (xsk_ring_prod__reserve(&x->tx, 1, &at) == 0) {
        return -EAGAIN;
    }
    x->spare--;
    *xsk_ring_prod__tx_desc(&x->tx, at) = (struct xdp_desc){.addr = addr, .len = octets};
    xsk_ring_prod__submit(&x->tx, 1);
    x->rung = true;
    return 0;
}

static void release(struct xdp *x)
{
    if (x->socket) {
        xsk_socket__delete(x->socket);
    }
    if (x->umem) {
        xsk_umem__delete(x->umem);
    }
    if (x->memory) {
        munmap(x->memory, UMEM_OCTETS);
    }
}

static void xdp_close(struct iwarp_link *link)
{
    iwarp_process_remove_fd(link->fd);
    release(xdp_of(link));
    free(link);
}

static const struct iwarp_link_ops xdp_ops = {
    .receive = xdp_receive, .send = xdp_send, .flush = xdp_flush, .close = xdp_close};

/* 0 or -errno. */
static int open_socket(struct xdp *x, const char *name)
{
    const struct xsk_umem_config umem = {
        .fill_size = SLOTS, .comp_size = SLOTS, .frame_size = SLOT_OCTETS};
    const struct xsk_socket_config config = {
        .rx_size = SLOTS, .tx_size = SLOTS, .bind_flags = XDP_USE_NEED_WAKEUP};

    void *p = mmap(NULL, UMEM_OCTETS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return -errno;
    }
    x->memory = p;
    int rc = xsk_umem__create(&x->umem, p, UMEM_OCTETS, &x->fill, &x->done, &umem);
    if (rc == 0) { /* both libraries print on standard error what they try in vain */
        libbpf_print_fn_t bpf = libbpf_set_print(NULL);
        libxdp_print_fn_t xdp = libxdp_set_print(NULL);
        rc = xsk_socket__create(&x->socket, name, 0, x->umem, &x->rx, &x->tx, &config);
        libbpf_set_print(bpf);
        libxdp_set_print(xdp);
    }
    if (rc != 0) {
        return rc;
    }
    x->link.fd = xsk_socket__fd(x->socket);
    for (unsigned i = 0; i < SLOTS; i++) {
        give_slot(x, (uint64_t)i * SLOT_OCTETS);
        x->free[x->spare++] = (uint64_t)(SLOTS + i) * SLOT_OCTETS;
    }
    return 0;
}

/*
 * The kernel takes some time to let go of a queue whose process has ended, or whose socket is
 * closed: the next one waits for it, BUSY_TRIES times.
 */
static int open_patiently(struct xdp *x, const char *name)
{
    const struct timespec pause = {0, BUSY_NS};
    int rc = open_socket(x, name);

    for (int i = 0; i < BUSY_TRIES && rc == -EBUSY; i++) {
        x->socket = NULL; /* failed, so there is none */
        release(x);
        *x = (struct xdp){.link.ops = &xdp_ops};
        nanosleep(&pause, NULL);
        rc = open_socket(x, name);
    }
    return rc;
}

enum iwarp_status iwarp_link_xdp(const char *name, unsigned frame, struct iwarp_link **link)
{
    struct xdp *x = NULL;

    if (frame > FRAME_MOST) {
        return iwarp_fail(IWARP_MISUSE, "xdp=%s: frames of %u octets, at most %u: a smaller mtu",
                          name, frame, FRAME_MOST);
    }
    x = calloc(1, sizeof *x);

    if (!x) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a link");
    }
    x->link.ops = &xdp_ops;
    int rc = open_patiently(x, name);
    if (rc != 0) {
        x->socket = NULL;
        release(x);
        free(x);
        return iwarp_fail(IWARP_TRANSPORT, "no AF_XDP socket on queue 0 of %s: %s", name,
                          strerror(-rc));
    }
    iwarp_process_add_fd(x->link.fd);
    *link = &x->link;
    return IWARP_OK;
}

#else

enum iwarp_status iwarp_link_xdp(const char *name, unsigned frame, struct iwarp_link **link)
{
    (void)frame;
    (void)link;
    return iwarp_fail(IWARP_TRANSPORT,
                      "xdp=%s: built without AF_XDP: libxdp was not there (Debian: libxdp-dev)",
                      name);
}

#endif
