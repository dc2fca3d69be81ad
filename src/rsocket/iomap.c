/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * riomap: a program gives the peer a part of its memory, by an offset; riowrite writes into what
 * the peer has given, without a message.
 */
#include "rsocket/rs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

size_t rs_shared_len(const struct rs *s)
{
    return sizeof *s->shared + s->map_size * sizeof(struct rs_map_entry);
}

void rs_tell_mappings(struct rs *s)
{
    for (struct rs_mapping *m = s->mappings; m; m = m->next) {
        struct rs_entry to = s->peer_map;
        if (m->told) {
            continue;
        }
        if (s->state != RS_CONNECTED || s->write_over || s->sends_free == 0 ||
            rs_credits(s) <= s->spare) {
            return;
        }
        to.addr += (uint64_t)m->index * RS_MAP_LEN;
        if (rs_post(s, rs_wr_id(RS_OF_DATA, 0), &m->entry, RS_MAP_LEN, &to, true,
                    rs_message(RS_MAP, m->index)) != 0) {
            return;
        }
        m->told = true;
        s->sends_free--;
        s->sent++;
    }
}

/* This end's map, which the peer writes, lies behind its target entries. */
void rs_hear_mapping(struct rs *s, uint32_t index)
{
    s->map[index] = ((const struct rs_map_entry *)(s->shared + 1))[index];
}

static void free_mapping(struct rs_mapping *m)
{
    if (m->mr) {
        iwarp_mr_deregister(m->mr);
    }
    free(m);
}

void rs_free_mappings(struct rs *s)
{
    struct rs_mapping *next;

    for (struct rs_mapping *m = s->mappings; m; m = next) {
        next = m->next;
        free_mapping(m);
    }
    s->mappings = NULL;
}

/* The first entry of the peer's map that no mapping has. */
static uint32_t free_index(const struct rs *s)
{
    uint32_t index = 0;

    for (const struct rs_mapping *m = s->mappings; m;) {
        m = m->index == index ? (index++, s->mappings) : m->next;
    }
    return index;
}

static void add_mapping(struct rs *s, struct rs_mapping *m)
{
    struct rs_mapping **end = &s->mappings;

    while (*end) {
        end = &(*end)->next;
    }
    *end = m;
}

/* Memory to write from needs nothing, and is in the list for riounmap alone. */
static int map_to_write_from(struct rs *s, void *buf, size_t len)
{
    struct rs_mapping *m = calloc(1, sizeof *m);

    if (!m) {
        return rs_fail(ENOMEM);
    }
    m->index = UINT32_MAX;
    m->told = true;
    m->entry.to = (struct rs_entry){(uint64_t)(uintptr_t)buf, 0, (uint32_t)len};
    add_mapping(s, m);
    return 0;
}

static int map(struct rs *s, void *buf, size_t len, uint64_t offset)
{
    struct rs_mapping *m = calloc(1, sizeof *m);
    enum iwarp_status status;

    if (!m) {
        return rs_fail(ENOMEM);
    }
    m->index = free_index(s);
    if (m->index >= s->peer_map.len) {
        free(m);
        return rs_fail(ENOMEM); /* the peer's map is full, or it has none */
    }
    status = iwarp_mr_register(s->pd, buf, len,
                               IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &m->mr);
    if (status != IWARP_OK) {
        free(m);
        (void)iwarp_compat_failed("rsocket", status, "riomap");
        return -1;
    }
    m->entry = (struct rs_map_entry){
        offset, {(uint64_t)(uintptr_t)buf, iwarp_mr_stag(m->mr), (uint32_t)len}};
    add_mapping(s, m);
    rs_tell_mappings(s);
    return 0;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
    struct rs *s = rs_take(socket);
    off_t result = -1;

    (void)flags;
    if (!s) {
        return -1;
    }
    offset = offset == -1 ? (off_t)(uintptr_t)buf : offset;
    if ((prot & ~PROT_WRITE) || !s->pd || len == 0 || len > UINT32_MAX) {
        errno = EINVAL;
    } else if (s->state != RS_CONNECTED) {
        errno = ENOTCONN;
    } else if ((prot & PROT_WRITE ? map(s, buf, len, (uint64_t)offset)
                                  : map_to_write_from(s, buf, len)) == 0) {
        result = offset;
    }
    rs_give_back(s);
    return result;
}

/* The peer learns of it by nothing: its writes fail from now on, and end the connection. */
int riounmap(int socket, void *buf, size_t len)
{
    struct rs *s = rs_take(socket);
    struct rs_mapping **at, *m = NULL;

    if (!s) {
        return -1;
    }
    for (at = &s->mappings;
         *at && ((*at)->entry.to.addr != (uintptr_t)buf || (*at)->entry.to.len != len);
         at = &(*at)->next) {
    }
    m = *at;
    if (m) {
        *at = m->next;
        free_mapping(m);
    } else {
        errno = EINVAL;
    }
    rs_give_back(s);
    return m ? 0 : -1;
}

/* The peer's part that has the offset, as far as it goes from there. */
static bool find(const struct rs *s, uint64_t offset, struct rs_entry *to)
{
    for (uint32_t i = 0; i < s->map_size; i++) {
        const struct rs_map_entry *e = &s->map[i];
        if (offset >= e->offset && offset - e->offset < e->to.len) {
            *to = (struct rs_entry){e->to.addr + (offset - e->offset), e->to.stag,
                                    e->to.len - (uint32_t)(offset - e->offset)};
            return true;
        }
    }
    return false;
}

static int write_piece(struct rs *s, const uint8_t *from, uint32_t octets,
                       const struct rs_entry *to)
{
    struct iwarp_sge sge = {s->send + s->send_at, octets, iwarp_mr_stag(s->send_mr)};
    struct iwarp_send_wr wr = {.wr_id = rs_wr_id(RS_OF_DATA, octets),
                               .opcode = IWARP_WR_WRITE,
                               .flags = IWARP_WR_SIGNALED,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = to->stag,
                               .remote_to = to->addr};

    memcpy(sge.addr, from, octets);
    if (iwarp_post_send(s->qp, &wr, NULL) != IWARP_OK) {
        return rs_fail(ENOMEM);
    }
    rs_take_room(s, octets);
    s->sends_free--;
    return 0;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
    struct rs *s = rs_take(socket);
    size_t done = 0;
    uint64_t until;

    if (!s) {
        return (size_t)-1;
    }
    until = rs_call_until(s, SO_SNDTIMEO, flags);
    while (done < count && rs_wait(s, rs_may_write, until) == 0) {
        struct rs_entry to;
        uint32_t octets;
        if (s->state != RS_CONNECTED || s->write_over) {
            if (s->write_over || !rs_take_error(s)) {
                errno = s->state == RS_OPEN ? ENOTCONN : s->write_over ? EPIPE : ECONNRESET;
            }
            break;
        }
        if (!find(s, (uint64_t)offset + done, &to)) {
            errno = EINVAL; /* the peer has nothing there */
            break;
        }
        (void)rs_room(s, &octets);
        octets = rs_least(octets, to.len);
        octets = count - done < octets ? (uint32_t)(count - done) : octets;
        if (write_piece(s, (const uint8_t *)buf + done, octets, &to) != 0) {
            break;
        }
        done += octets;
    }
    rs_give_back(s);
    return done > 0 || count == 0 ? done : (size_t)-1;
}
