/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Segments that TCP keeps for itself. What comes out of order, or looks as if it came again, it
 * hands to nobody, by default; and an FPDU whose segments changed places it never puts together.
 * So this looks at each frame of a known connection when all others are done with it: octets that
 * were not handed over are kept, and what has become whole by them is shown in this frame.
 *
 * Only from places where an FPDU is known to begin: nothing is searched here. Kept octets are
 * bounded, the oldest are given up.
 *
 * A segment that comes after others behind it is handed over by the TCP of Wireshark 4.6 on the
 * first pass, if it completes an FPDU, and on later passes it is not: by then it counts as one that
 * came again. So what such a frame was handed is kept, too, and later passes show it if TCP
 * does not.
 */
#include "state.h"

#include "../wire.h"

#include <epan/dissectors/packet-tcp.h>
#include <epan/prefs-int.h>
#include <epan/prefs.h>

enum { SPANS = 32, RUNS = 32, HEADERS_WITHIN = 400 };
enum { HANDED }; /* key of what belongs to one dissection of a frame */
#define LARGEST_KEPT (UINT32_C(4) << 20)
#define OLDEST_SPAN  (UINT32_C(1) << 30)

struct span {
    uint32_t from, to;
};

/* Octets without a hole. */
struct run {
    uint32_t seq;
    uint8_t *p;
    size_t n, room;
};

struct iwarp_late {
    struct span handed[SPANS];
    unsigned n_handed;
    struct run runs[RUNS];
    unsigned n_runs;
    size_t kept;
    bool waits; /* an FPDU at `start` is whole once octet `end` is behind us */
    uint32_t start, end;
    bool has_highest;
    uint32_t highest; /* end of what was captured */
};

/* What a frame shows beside what TCP hands over, or in its place. */
struct late_record {
    struct late_record *next;
    struct iwarp_record *record;
    uint8_t *p;
    size_t n;
    bool handed; /* TCP handed it over on the first pass */
};

/* What TCP handed over, and this pass has shown, of the frame that is being dissected. */
struct handed {
    struct handed *next;
    struct iwarp_record *record;
    tvbuff_t *tvb;
};

struct payload {
    const uint8_t *p;
    size_t n;
    uint32_t seq;
};

static bool is_in(uint32_t seq, uint32_t from, uint32_t to)
{
    return seq - from < to - from;
}

static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static void add_span(struct iwarp_late *l, struct span s)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < l->n_handed; i++) {
        const struct span *o = &l->handed[i];
        if (is_before(s.to, o->from) || is_before(o->to, s.from)) {
            l->handed[kept++] = *o;
            continue;
        }
        s.from = is_before(o->from, s.from) ? o->from : s.from;
        s.to = is_before(s.to, o->to) ? o->to : s.to;
    }
    if (kept == SPANS) {
        memmove(l->handed, l->handed + 1, (SPANS - 1) * sizeof *l->handed);
        kept--;
    }
    /* Sequence numbers wrap: what is long ago would be mistaken for what is to come. */
    s.from = s.to - s.from > OLDEST_SPAN ? s.to - OLDEST_SPAN : s.from;
    l->handed[kept++] = s;
    l->n_handed = kept;
}

static void remove_run(struct iwarp_late *l, unsigned i)
{
    l->kept -= l->runs[i].n;
    wmem_free(wmem_file_scope(), l->runs[i].p);
    memmove(l->runs + i, l->runs + i + 1, (l->n_runs - i - 1) * sizeof *l->runs);
    l->n_runs--;
}

static void append(struct iwarp_late *l, struct run *r, const uint8_t *p, size_t n)
{
    if (r->n + n > r->room) {
        r->room = r->room ? r->room : 2048;
        while (r->room < r->n + n) {
            r->room *= 2;
        }
        r->p = (uint8_t *)wmem_realloc(wmem_file_scope(), r->p, r->room);
    }
    memcpy(r->p + r->n, p, n);
    r->n += n;
    l->kept += n;
}

/* The run that goes on where this one ends, or has its last octets too, becomes a part of it. */
static void join(struct iwarp_late *l, unsigned i)
{
    for (unsigned k = 0; k < l->n_runs; k++) {
        struct run *a = &l->runs[i];
        const struct run *b = &l->runs[k];
        const uint32_t end = a->seq + (uint32_t)a->n;
        if (k == i || is_before(end, b->seq) || is_before(b->seq, a->seq)) {
            continue;
        }
        if (is_before(end, b->seq + (uint32_t)b->n)) {
            append(l, a, b->p + (end - b->seq), b->n - (end - b->seq));
        }
        remove_run(l, k);
        i -= k < i;
        k = UINT_MAX; /* from the start: there may be more */
    }
}

static void keep(struct iwarp_late *l, uint32_t seq, const uint8_t *p, size_t n)
{
    struct run *r = NULL;
    unsigned i;

    for (i = 0; i < l->n_runs && !r; i++) {
        r = seq - l->runs[i].seq <= l->runs[i].n ? &l->runs[i] : NULL;
    }
    if (r) {
        const size_t known = r->n - (seq - r->seq);
        if (known < n) {
            append(l, r, p + known, n - known);
        }
        join(l, i - 1);
    } else {
        while (l->n_runs == RUNS || (l->n_runs > 0 && l->kept + n > LARGEST_KEPT)) {
            remove_run(l, 0);
        }
        r = &l->runs[l->n_runs++];
        *r = (struct run){.seq = seq};
        append(l, r, p, n);
        join(l, l->n_runs - 1);
    }
}

/* Kept octets that are not needed any more. */
static void drop(struct iwarp_late *l, uint32_t from, uint32_t to)
{
    for (unsigned i = l->n_runs; i-- > 0;) {
        struct run *r = &l->runs[i];
        const uint32_t end = r->seq + (uint32_t)r->n;
        if (!is_before(r->seq, to) || !is_before(from, end)) {
            continue;
        }
        if (!is_before(r->seq, from) && is_before(to, end)) {
            memmove(r->p, r->p + (to - r->seq), end - to);
            l->kept -= to - r->seq;
            r->seq = to;
            r->n = end - to;
        } else if (is_before(r->seq, from)) {
            l->kept -= end - from;
            r->n = from - r->seq;
        } else {
            remove_run(l, i);
        }
    }
}

static struct iwarp_late *late_of(struct iwarp_conn *c, unsigned side)
{
    if (!c->late[side]) {
        c->late[side] = wmem_new0(wmem_file_scope(), struct iwarp_late);
    }
    return c->late[side];
}

/* TCP handed over this; what waits, or was skipped, may be wanted when other octets come. */
void iwarp_late_handed(struct iwarp_conn *c, unsigned side, const struct dissect_octets *o,
                       const struct iwarp_record *r)
{
    struct iwarp_late *l = late_of(c, side);
    const uint32_t n = r->waits ? r->wait_at : (uint32_t)o->reported;

    add_span(l, (struct span){o->seq, o->seq + n});
    if (l->n_runs > 0) {
        drop(l, o->seq, o->seq + n);
    }
    if (o->captured < o->reported) {
        return;
    }
    for (unsigned i = 0; i < r->count; i++) {
        const struct dissect_item *item = r->pieces[i].item;
        if (item->kind == DISSECT_ITEM_SKIPPED && !item->bad_length) {
            keep(l, o->seq + (uint32_t)item->at, o->p + item->at,
                 MIN(item->size, o->captured - item->at));
        }
    }
    if (r->waits) {
        keep(l, o->seq + n, o->p + n, o->captured - n);
        l->waits = r->wait_for != DESEGMENT_ONE_MORE_SEGMENT;
        l->start = o->seq + n;
        l->end = o->seq + (uint32_t)o->captured + r->wait_for;
    }
}

/* Behind an IPv6 header, where TCP begins; 0 if there is none. */
static size_t skip_extensions(const uint8_t *p, size_t n)
{
    uint8_t next = p[6];
    size_t at = 40;

    while (next == 0 || next == 43 || next == 44 || next == 60) {
        if (at + 8 > n) {
            return 0;
        }
        const size_t size = next == 44 ? 8 : 8 * ((size_t)p[at + 1] + 1);
        next = p[at];
        at += size;
    }
    return next == 6 ? at : 0;
}

/* IP with the addresses of this frame, and TCP with its ports, at p? */
static bool take_ip(const uint8_t *p, size_t n, packet_info *pinfo, struct payload *found)
{
    const bool v6 = pinfo->net_src.len == 16;
    const size_t at = v6 ? 8 : 12, size = (size_t)pinfo->net_src.len;
    size_t tcp, end, offset;

    if (n < 40 || p[0] >> 4 != (v6 ? 6 : 4) || memcmp(p + at, pinfo->net_src.data, size) != 0 ||
        memcmp(p + at + size, pinfo->net_dst.data, size) != 0) {
        return false;
    }
    tcp = v6 ? skip_extensions(p, n) : p[9] == 6 ? (size_t)(p[0] & 15) * 4 : 0;
    end = v6 ? wire_u16(p + 4) + (size_t)40 : wire_u16(p + 2);
    end = end == (v6 ? 40u : 0u) ? n : end; /* left to the network card */
    if (tcp < 20 || end > n || tcp + 20 > end || wire_u16(p + tcp) != pinfo->srcport ||
        wire_u16(p + tcp + 2) != pinfo->destport) {
        return false;
    }
    offset = tcp + (size_t)(p[tcp + 12] >> 4) * 4;
    if (offset > end) {
        return false;
    }
    *found = (struct payload){.p = p + offset, .n = end - offset, .seq = wire_u32(p + tcp + 4)};
    return true;
}

/* The innermost TCP payload of a frame, if all of it was captured. */
static bool find_payload(tvbuff_t *tvb, packet_info *pinfo, struct payload *found)
{
    const size_t n = tvb_captured_length(tvb);
    const uint8_t *p = tvb_get_ptr(tvb, 0, (int)n);
    bool any = false;

    if (pinfo->net_src.len != pinfo->net_dst.len ||
        (pinfo->net_src.len != 4 && pinfo->net_src.len != 16) || n < tvb_reported_length(tvb)) {
        return false;
    }
    for (size_t at = 0; at < n && at < HEADERS_WITHIN; at++) {
        if (p[at] >> 4 == 4 || p[at] >> 4 == 6) {
            any = take_ip(p + at, n - at, pinfo, found) || any;
        }
    }
    return any && found->n > 0;
}

static bool is_set(const char *name)
{
    module_t *tcp = prefs_find_module("tcp");
    pref_t *pref = tcp ? prefs_find_preference(tcp, name) : NULL;

    return pref && prefs_get_bool_value(pref, pref_current);
}

/* What sequence numbers begin at, as TCP gives them to us. */
uint32_t iwarp_late_origin(conversation_t *conversation, packet_info *pinfo)
{
    if (!is_set("relative_sequence_numbers") || !is_set("analyze_sequence_numbers")) {
        return 0;
    }
    return get_tcp_conversation_data(conversation, pinfo)->fwd->base_seq;
}

/* Keeps what was not handed over, which may lie on both sides of what was. */
static void keep_rest(struct iwarp_late *l, struct payload new)
{
    const uint32_t end = new.seq + (uint32_t)new.n;

    for (unsigned i = 0; i < l->n_handed; i++) {
        const struct span *s = &l->handed[i];
        if (!is_before(s->from, end) || !is_before(new.seq, s->to)) {
            continue;
        }
        if (is_before(new.seq, s->from)) {
            keep_rest(l, (struct payload){new.p, s->from - new.seq, new.seq});
        }
        if (is_before(s->to, end)) {
            keep_rest(l, (struct payload){new.p + (s->to - new.seq), end - s->to, s->to});
        }
        return;
    }
    keep(l, new.seq, new.p, new.n);
}

static bool find_start(const struct iwarp_conn *c, unsigned side, const struct run *r,
                       uint32_t *start)
{
    const struct dissect_way *w = &c->walk.way[side];
    bool any = false;

    for (unsigned i = 0; i < w->n_ends; i++) {
        if (is_in(w->ends[i], r->seq, r->seq + (uint32_t)r->n) &&
            (!any || is_before(w->ends[i], *start))) {
            *start = w->ends[i];
            any = true;
        }
    }
    if (!any && !w->begun && c->walk.has_initiator) {
        *start = r->seq;
        any = dissect_setup_kind(r->p, r->n) != DISSECT_NO_SETUP;
    }
    return any;
}

static void add_record(struct iwarp_conn *c, packet_info *pinfo, struct iwarp_record *r,
                       const uint8_t *p, size_t n, bool handed)
{
    void *key = GUINT_TO_POINTER(pinfo->num);
    struct late_record *late = (struct late_record *)iwarp_keep(sizeof *late);
    struct late_record *first = (struct late_record *)wmem_map_lookup(c->late_records, key);

    *late = (struct late_record){.record = r, .n = n, .handed = handed};
    late->p = (uint8_t *)wmem_memdup(wmem_file_scope(), p, n);
    if (!first) {
        wmem_map_insert(c->late_records, key, late);
        return;
    }
    while (first->next) {
        first = first->next;
    }
    first->next = late;
}

void iwarp_late_shown(packet_info *pinfo, tvbuff_t *tvb, struct iwarp_record *r)
{
    struct handed *new = wmem_new0(pinfo->pool, struct handed);
    struct handed *last =
        (struct handed *)p_get_proto_data(pinfo->pool, pinfo, proto_iwarp, HANDED);

    *new = (struct handed){.record = r, .tvb = tvb};
    if (!last) {
        p_add_proto_data(pinfo->pool, pinfo, proto_iwarp, HANDED, new);
        return;
    }
    while (last->next) {
        last = last->next;
    }
    last->next = new;
}

static bool is_shown(packet_info *pinfo, const struct iwarp_record *r)
{
    const struct handed *h =
        (const struct handed *)p_get_proto_data(pinfo->pool, pinfo, proto_iwarp, HANDED);

    while (h && h->record != r) {
        h = h->next;
    }
    return h;
}

/* Octets in front were missing then: once they come, TCP counts them to a PDU that ends in here. */
static bool is_behind_hole(const struct iwarp_record *r)
{
    return r->count > 1 && r->pieces[0].item->kind == DISSECT_ITEM_SKIPPED;
}

/* Was something of this frame handed over in another way, and is shown behind it? */
bool iwarp_late_has(const struct iwarp_conn *c, packet_info *pinfo)
{
    const struct late_record *late =
        (const struct late_record *)wmem_map_lookup(c->late_records, GUINT_TO_POINTER(pinfo->num));

    while (late && !late->handed) {
        late = late->next;
    }
    return late;
}

/* It may be that TCP does not hand this over a second time, or divides it in another way. */
static void keep_handed(struct iwarp_conn *c, packet_info *pinfo, bool is_late)
{
    const struct handed *h =
        (const struct handed *)p_get_proto_data(pinfo->pool, pinfo, proto_iwarp, HANDED);

    for (; h; h = h->next) {
        const size_t n = tvb_captured_length(h->tvb);
        if (h->record->conn == c && h->record->count > 0 &&
            (is_late || is_behind_hole(h->record))) {
            add_record(c, pinfo, h->record, tvb_get_ptr(h->tvb, 0, (int)n), n, true);
        }
    }
}

/* Shows what begins at `start` and is whole by now. */
static void show(struct iwarp_conn *c, unsigned side, packet_info *pinfo, const struct run *run,
                 uint32_t start)
{
    struct iwarp_late *l = c->late[side];
    const uint32_t skipped = start - run->seq;
    const struct dissect_octets o = {.p = run->p + skipped,
                                     .captured = run->n - skipped,
                                     .reported = run->n - skipped,
                                     .seq = start,
                                     .may_wait = true};
    struct iwarp_record *r = iwarp_walk_over(pinfo, c, side, &o);
    size_t n;

    l->waits = false;
    if (r && r->waits && r->wait_for != DESEGMENT_ONE_MORE_SEGMENT) {
        l->waits = true;
        l->start = start + r->wait_at;
        l->end = start + (uint32_t)o.captured + r->wait_for;
    }
    if (!r || r->count == 0) {
        return;
    }
    n = r->waits ? r->wait_at : o.captured;
    add_record(c, pinfo, r, o.p, n, false);
    add_span(l, (struct span){start, start + (uint32_t)n});
    drop(l, start, start + (uint32_t)n);
}

static void look(tvbuff_t *tvb, packet_info *pinfo, conversation_t *conversation,
                 struct iwarp_conn *c)
{
    const unsigned side = iwarp_side_of(c, pinfo);
    struct iwarp_late *l = late_of(c, side);
    struct payload new = {0};
    uint32_t start = 0, behind;

    if (!find_payload(tvb, pinfo, &new)) {
        return;
    }
    new.seq -= iwarp_late_origin(conversation, pinfo);
    behind = new.seq + (uint32_t)new.n;
    keep_handed(c, pinfo, l->has_highest && is_before(new.seq, l->highest));
    if (!l->has_highest || is_before(l->highest, behind)) {
        l->has_highest = true;
        l->highest = behind;
    }
    keep_rest(l, new);
    /* What was handed over and skipped is kept too: that may have been the last piece. */
    for (unsigned i = 0; i < l->n_runs; i++) {
        const struct run *r = &l->runs[i];
        const uint32_t end = r->seq + (uint32_t)r->n;
        const unsigned before = l->n_runs;
        if (!is_before(r->seq, behind) || !is_before(new.seq, end) ||
            !find_start(c, side, r, &start)) {
            continue;
        }
        if (!l->waits || start != l->start || !is_before(end, l->end)) {
            show(c, side, pinfo, r, start);
            i -= before - l->n_runs;
        }
    }
}

static int dissect_late(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    conversation_t *conversation;
    struct iwarp_conn *c;
    const struct late_record *late;
    bool any = false;
    tvbuff_t *shown;

    (void)data;
    if (pinfo->ptype != PT_TCP) {
        return 0;
    }
    conversation = find_conversation_pinfo(pinfo, 0);
    c = conversation ? (struct iwarp_conn *)conversation_get_proto_data(conversation, proto_iwarp)
                     : NULL;
    if (!c || c->within_tls) {
        return 0;
    }
    if (!PINFO_FD_VISITED(pinfo)) {
        look(tvb, pinfo, conversation, c);
    }
    late =
        (const struct late_record *)wmem_map_lookup(c->late_records, GUINT_TO_POINTER(pinfo->num));
    for (; late; late = late->next) {
        if (late->handed && is_shown(pinfo, late->record)) {
            continue;
        }
        shown = tvb_new_child_real_data(tvb, late->p, (unsigned)late->n, (int)late->n);
        add_new_data_source(pinfo, shown, "Reassembled out of order");
        iwarp_paint(shown, pinfo, tree, late->record);
        any = true;
    }
    return any ? (int)tvb_captured_length(tvb) : 0;
}

void iwarp_late_register(void)
{
    register_postdissector(create_dissector_handle_with_name_and_description(
        dissect_late, proto_iwarp, "iwarp_late", "iWARP out of order"));
}
