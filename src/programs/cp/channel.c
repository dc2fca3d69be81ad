/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting and waiting. A failed post means that the queues were too small or the arguments wrong,
 * which the protocol excludes: callers treat it as a broken connection.
 */
#include "channel.h"

#include "clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Work request ids: what it was above, which buffer or slot below. */
enum { WORK_RECEIVE = 1, WORK_SEND, WORK_READ, WORK_WRITE, WORK_PULSE };
#define WORK_SHIFT 32

static uint64_t work_id(unsigned kind, unsigned index)
{
    return (uint64_t)kind << WORK_SHIFT | index;
}

/* The octets of the pulses: that of this end, and what was read of the peer's. */
enum { PULSE, PEER_PULSE, PULSES };

static size_t messages_len(const struct cp_channel *channel)
{
    return 2 * (size_t)channel->buffers * CP_MESSAGE_MAX;
}

static uint8_t *pulses(const struct cp_channel *channel)
{
    return channel->messages + messages_len(channel);
}

static void *map_memory(size_t len)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static enum iwarp_status create_queues(struct cp_channel *channel)
{
    struct iwarp_qp_options options;
    enum iwarp_status status = iwarp_pd_create(channel->device, &channel->pd);

    if (status == IWARP_OK) {
        status = iwarp_cq_create(channel->device, 4 * channel->buffers, NULL, &channel->cq);
    }
    if (status != IWARP_OK) {
        return status;
    }
    iwarp_qp_options_init(&options);
    options.send_cq = channel->cq;
    options.recv_cq = channel->cq;
    options.max_send_wr = 3 * channel->buffers; /* per slot: Write and Send, or Send and Read */
    options.max_recv_wr = channel->buffers;
    options.max_send_sge = 1;
    options.max_recv_sge = 1;
    return iwarp_qp_create(channel->pd, &options, &channel->qp);
}

enum iwarp_status cp_channel_open(struct cp_channel *channel, struct iwarp_device *device,
                                  unsigned slots, size_t slot_size)
{
    memset(channel, 0, sizeof *channel);
    channel->device = device;
    channel->slots = slots;
    channel->slot_size = slot_size;
    channel->buffers = slots + CP_SPARE_BUFFERS;
    channel->wake_fd = -1;
    channel->messages = map_memory(messages_len(channel) + PULSES);
    if (!channel->messages) {
        return IWARP_NO_MEMORY;
    }
    pulses(channel)[PULSE] = 1;
    enum iwarp_status status = create_queues(channel);
    if (status == IWARP_OK && iwarp_cq_fd(channel->cq) < 0) {
        status = IWARP_LIMIT; /* waiting for messages needs it: better to fail now than to hang */
    }
    if (status == IWARP_OK) {
        status = iwarp_mr_register(channel->pd, channel->messages, messages_len(channel),
                                   IWARP_ACCESS_LOCAL_WRITE, &channel->message_mr);
    }
    if (status == IWARP_OK) {
        status = iwarp_mr_register(channel->pd, pulses(channel), PULSES,
                                   IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_READ,
                                   &channel->pulse_mr);
    }
    for (unsigned i = 0; status == IWARP_OK && i < CP_SPARE_BUFFERS; i++) {
        status = cp_channel_release(channel, i) ? IWARP_OK : IWARP_LIMIT;
    }
    return status;
}

bool cp_channel_use_slots(struct cp_channel *channel, unsigned slots)
{
    channel->slots = slots;
    for (unsigned i = 0; i < slots; i++) {
        if (!cp_channel_release(channel, CP_SPARE_BUFFERS + i)) {
            return false;
        }
    }
    return true;
}

enum iwarp_status cp_channel_add_slots(struct cp_channel *channel, unsigned access)
{
    size_t len = channel->slots * channel->slot_size;

    channel->slot_memory = map_memory(len);
    if (!channel->slot_memory) {
        return IWARP_NO_MEMORY;
    }
    return iwarp_mr_register(channel->pd, channel->slot_memory, len, access, &channel->slot_mr);
}

uint8_t *cp_channel_slot(const struct cp_channel *channel, unsigned slot)
{
    return channel->slot_memory + slot * channel->slot_size;
}

static uint8_t *receive_buffer(const struct cp_channel *channel, unsigned index)
{
    return channel->messages + (size_t)index * CP_MESSAGE_MAX;
}

uint8_t *cp_channel_message(const struct cp_channel *channel, unsigned index)
{
    return receive_buffer(channel, channel->buffers + index);
}

int cp_channel_free_message(const struct cp_channel *channel)
{
    for (unsigned i = 0; i < channel->buffers; i++) {
        if (!channel->send_busy[i]) {
            return (int)i;
        }
    }
    return -1;
}

bool cp_channel_send(struct cp_channel *channel, unsigned index, size_t len, unsigned slot,
                     size_t write_len, struct cp_target target)
{
    struct iwarp_sge message = {cp_channel_message(channel, index), (uint32_t)len,
                                iwarp_mr_stag(channel->message_mr)};
    struct iwarp_send_wr send = {
        .wr_id = work_id(WORK_SEND, index),
        .opcode = IWARP_WR_SEND,
        .flags = IWARP_WR_SIGNALED,
        .sg_list = &message,
        .num_sge = 1,
    };
    struct iwarp_sge data = {NULL, (uint32_t)write_len, 0};
    struct iwarp_send_wr write = {
        .next = &send,
        .wr_id = work_id(WORK_WRITE, slot),
        .opcode = IWARP_WR_WRITE,
        .sg_list = &data,
        .num_sge = 1,
        .remote_to = target.to,
        .remote_stag = target.stag,
    };

    if (write_len > 0) {
        data.addr = cp_channel_slot(channel, slot);
        data.lkey = iwarp_mr_stag(channel->slot_mr);
        channel->counts.writes++;
        channel->counts.write_bytes += write_len;
    }
    channel->send_busy[index] = true;
    channel->counts.sends++;
    return iwarp_post_send(channel->qp, write_len > 0 ? &write : &send, NULL) == IWARP_OK;
}

bool cp_channel_read(struct cp_channel *channel, unsigned slot, size_t len, struct cp_target target)
{
    struct iwarp_sge data = {cp_channel_slot(channel, slot), (uint32_t)len,
                             iwarp_mr_stag(channel->slot_mr)};
    struct iwarp_send_wr read = {
        .wr_id = work_id(WORK_READ, slot),
        .opcode = IWARP_WR_READ,
        .flags = IWARP_WR_SIGNALED,
        .sg_list = &data,
        .num_sge = 1,
        .remote_to = target.to,
        .remote_stag = target.stag,
    };

    channel->counts.reads++;
    channel->counts.read_bytes += len;
    return iwarp_post_send(channel->qp, &read, NULL) == IWARP_OK;
}

struct cp_target cp_channel_pulse(const struct cp_channel *channel)
{
    return (struct cp_target){iwarp_mr_stag(channel->pulse_mr),
                              (uint64_t)(uintptr_t)(pulses(channel) + PULSE)};
}

/* Unless it is being read already. A post that fails is no harm: it remains without an answer. */
static void read_pulse(struct cp_channel *channel)
{
    struct iwarp_sge octet = {pulses(channel) + PEER_PULSE, 1, iwarp_mr_stag(channel->pulse_mr)};
    struct iwarp_send_wr read = {
        .wr_id = work_id(WORK_PULSE, 0),
        .opcode = IWARP_WR_READ,
        .flags = IWARP_WR_SIGNALED,
        .sg_list = &octet,
        .num_sge = 1,
        .remote_to = channel->peer_pulse.to,
        .remote_stag = channel->peer_pulse.stag,
    };

    if (channel->peer_pulse.stag != 0 && !channel->asked) {
        channel->asked = true;
        (void)iwarp_post_send(channel->qp, &read, NULL);
    }
}

bool cp_channel_release(struct cp_channel *channel, unsigned index)
{
    struct iwarp_sge buffer = {receive_buffer(channel, index), CP_MESSAGE_MAX,
                               iwarp_mr_stag(channel->message_mr)};
    struct iwarp_recv_wr receive = {
        .wr_id = work_id(WORK_RECEIVE, index), .sg_list = &buffer, .num_sge = 1};

    return iwarp_post_recv(channel->qp, &receive, NULL) == IWARP_OK;
}

/* As iwarp_cq_poll. */
static int poll_queue(struct cp_channel *channel)
{
    int n = iwarp_cq_poll(channel->cq, channel->done,
                          (int)(sizeof channel->done / sizeof channel->done[0]));

    channel->done_next = 0;
    channel->done_count = n > 0 ? n : 0;
    return n;
}

/* Sleep until the queue tells of something. */
static enum cp_event_type sleep_on_queue(struct cp_channel *channel, int64_t deadline)
{
    struct pollfd fds[2] = {{.fd = iwarp_cq_fd(channel->cq), .events = POLLIN},
                            {.fd = channel->wake_fd, .events = POLLIN}};
    int64_t left = deadline - cp_clock_ms();

    if (left <= 0) {
        return CP_EVENT_TIMEOUT;
    }
    (void)poll(fds, 2, left > 60000 ? 60000 : (int)left);
    if (fds[0].revents) {
        iwarp_cq_drain(channel->cq);
    }
    return channel->wake_fd >= 0 && fds[1].revents ? CP_EVENT_WAKE : CP_EVENT_MESSAGE;
}

static void explain(struct cp_channel *channel, const struct iwarp_wc *wc, struct cp_event *event)
{
    event->index = (unsigned)(wc->wr_id & 0xffffffff);
    event->fault = NULL;
    if (wc->status != IWARP_WC_SUCCESS) {
        event->type = CP_EVENT_BROKEN;
        event->fault = wc->fault;
        return;
    }
    switch (wc->wr_id >> WORK_SHIFT) {
    case WORK_RECEIVE:
        event->type = CP_EVENT_MESSAGE;
        event->data = receive_buffer(channel, event->index);
        event->len = wc->byte_len;
        channel->counts.receives++;
        break;
    case WORK_SEND:
        event->type = CP_EVENT_SENT;
        channel->send_busy[event->index] = false;
        break;
    default:
        event->type = CP_EVENT_READ;
        break;
    }
}

/* The next completion, if it is that of the peer's pulse: has the peer work? */
static bool take_pulse(struct cp_channel *channel, bool *works)
{
    const struct iwarp_wc *wc = &channel->done[channel->done_next];

    if (wc->status != IWARP_WC_SUCCESS || wc->wr_id >> WORK_SHIFT != WORK_PULSE) {
        return false;
    }
    channel->done_next++;
    channel->asked = false;
    *works = pulses(channel)[PEER_PULSE] != 0;
    return true;
}

bool cp_channel_has_event(struct cp_channel *channel)
{
    bool works = false;

    for (;;) {
        int n = channel->done_count - channel->done_next;
        n = n > 0 ? n : poll_queue(channel);
        if (n <= 0 || !take_pulse(channel, &works)) {
            return n != 0;
        }
    }
}

/* Wait for a completion. MESSAGE: there is one. */
static enum cp_event_type await(struct cp_channel *channel, int64_t deadline)
{
    enum cp_event_type type = CP_EVENT_MESSAGE;

    while (channel->done_next == channel->done_count && type == CP_EVENT_MESSAGE) {
        int n = poll_queue(channel);
        /* Armed before the last look, so that nothing slips in between. */
        if (n == 0 && iwarp_cq_arm(channel->cq, false) == IWARP_OK) {
            n = poll_queue(channel);
        }
        type = n < 0   ? CP_EVENT_BROKEN
               : n > 0 ? CP_EVENT_MESSAGE
                       : sleep_on_queue(channel, deadline);
    }
    return type;
}

uint64_t cp_channel_octets(struct iwarp_qp *qp, uint64_t before)
{
    struct iwarp_qp_stats stats = {.size = sizeof stats};

    return iwarp_qp_stats(qp, &stats) == IWARP_OK ? stats.sent.octets + stats.received.octets
                                                  : before;
}

/*
 * Half of the time passes before anything is looked at. In each half after that the peer must work,
 * or data must move: a slot may take long on its way. As little is enough as keeps the place of a
 * client at a server, see limits.h.
 */
static void wait_for_event(struct cp_channel *channel, struct cp_event *event, int timeout_ms)
{
    const int half_ms = timeout_ms / 2;
    bool is_first = true, works = false;
    uint64_t octets = 0;
    int64_t deadline = cp_clock_ms() + half_ms;

    memset(event, 0, sizeof *event);
    for (;;) {
        event->type = await(channel, deadline);
        if (event->type == CP_EVENT_TIMEOUT) {
            uint64_t before = octets;
            octets = cp_channel_octets(channel->qp, before);
            if (!is_first && octets - before < (uint64_t)half_ms * CP_PACE) {
                return;
            }
            is_first = false;
            read_pulse(channel);
            deadline = cp_clock_ms() + half_ms;
        } else if (event->type != CP_EVENT_MESSAGE) {
            return;
        } else if (!take_pulse(channel, &works)) {
            explain(channel, &channel->done[channel->done_next++], event);
            return;
        } else if (works) {
            event->type = CP_EVENT_ALIVE;
            return;
        }
    }
}

void cp_channel_wait(struct cp_channel *channel, struct cp_event *event, int timeout_ms)
{
    uint8_t *pulse = &pulses(channel)[PULSE];

    __atomic_store_n(pulse, 0, __ATOMIC_RELAXED);
    wait_for_event(channel, event, timeout_ms);
    __atomic_store_n(pulse, 1, __ATOMIC_RELAXED);
}

void cp_channel_finish(struct cp_channel *channel, int timeout_ms)
{
    if (channel->conn && iwarp_disconnect(channel->conn) == IWARP_OK) {
        (void)iwarp_conn_wait_end(channel->conn, timeout_ms);
    }
}

void cp_channel_close(struct cp_channel *channel)
{
    if (channel->conn) {
        (void)iwarp_conn_destroy(channel->conn);
    }
    if (channel->qp) {
        (void)iwarp_qp_destroy(channel->qp);
    }
    if (channel->cq) {
        (void)iwarp_cq_destroy(channel->cq);
    }
    if (channel->slot_mr) {
        (void)iwarp_mr_deregister(channel->slot_mr);
    }
    if (channel->pulse_mr) {
        (void)iwarp_mr_deregister(channel->pulse_mr);
    }
    if (channel->message_mr) {
        (void)iwarp_mr_deregister(channel->message_mr);
    }
    if (channel->pd) {
        (void)iwarp_pd_destroy(channel->pd);
    }
    if (channel->slot_memory) {
        munmap(channel->slot_memory, channel->slots * channel->slot_size);
    }
    if (channel->messages) {
        munmap(channel->messages, messages_len(channel) + PULSES);
    }
    memset(channel, 0, sizeof *channel);
}
