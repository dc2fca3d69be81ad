/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Terminate encode and decode. RFC 5040 4.8, figures 7 to 10. See rdmap_term.h.
 */
#include "rdmap/rdmap_term.h"

#include "base/bytes.h"

/* RFC 5040 figure 10: errors tied to a segment carry its DDP header, Read Requests their own too.
 */
/* [RDMAX-8.1-01] */
static uint8_t headers_owed(const struct iwarp_fault_row *row, const struct iwarp_term_cause *cause)
{
    bool ddp = row->layer == IWARP_TERM_DDP ||
               (row->layer == IWARP_TERM_RDMAP && row->etype != IWARP_TERM_RDMAP_LOCAL);

    if (!ddp || cause->ddp_header_len == 0) {
        return 0;
    }
    if (row->layer == IWARP_TERM_RDMAP && row->etype == IWARP_TERM_RDMAP_PROTECTION &&
        cause->read_request) {
        return IWARP_TERM_HDRCT_M | IWARP_TERM_HDRCT_D | IWARP_TERM_HDRCT_R;
    }
    return IWARP_TERM_HDRCT_M | IWARP_TERM_HDRCT_D;
}

/* [DDP-7.2-01] [RDMAP-4.8-03] [RDMAP-4.8-01] [RDMAP-4.8-02] [RDMAP-4.8-08] [RDMAP-4.8-09] */
/* [RDMAP-4.8-10] [RDMAP-4.8-11] [RDMAP-4.8-07] */
uint32_t iwarp_rdmap_term_put(const struct iwarp_fault *fault, const struct iwarp_term_cause *cause,
                              uint8_t *out)
{
    const struct iwarp_fault_row *row = iwarp_fault_row(fault->code);
    uint32_t len = IWARP_TERM_CTRL_LEN;

    if (row->layer < 0) {
        return 0;
    }
    uint8_t hdrct = headers_owed(row, cause);
    out[0] = (uint8_t)((unsigned)row->layer << 4 | row->etype);
    out[1] = (uint8_t)row->code;
    out[2] = hdrct;
    out[3] = 0;
    if (hdrct & IWARP_TERM_HDRCT_D) {
        uint32_t copy = cause->ddp_header_len;
        if (hdrct & IWARP_TERM_HDRCT_R) {
            copy += IWARP_RDMAP_READ_REQUEST_LEN;
        }
        iwarp_put_be16(out + len, cause->segment_len);
        memcpy(out + len + 2, cause->header, copy);
        len += 2 + copy;
    }
    return len;
}

void iwarp_rdmap_term_quote(const uint8_t *p, uint32_t len, const struct iwarp_term_info *info,
                            struct iwarp_quote *quote)
{
    const uint8_t *ddp = p + IWARP_TERM_CTRL_LEN + 2;
    uint32_t have = len < IWARP_TERM_CTRL_LEN + 2 ? 0 : len - IWARP_TERM_CTRL_LEN - 2;

    *quote = (struct iwarp_quote){.kind = IWARP_QUOTE_NONE, .siw_bit_order = info->siw_bit_order};
    if (!(info->hdrct & IWARP_TERM_HDRCT_D) || have < IWARP_DDP_TAGGED_HDR_LEN) {
        return;
    }
    quote->opcode = ddp[1] & IWARP_RDMAP_OPCODE_MASK;
    if (ddp[0] & IWARP_DDP_TAGGED) {
        quote->kind = IWARP_QUOTE_TAGGED;
        quote->stag = iwarp_get_be32(ddp + 2);
        quote->to = iwarp_get_be64(ddp + 6);
        return;
    }
    if (have < IWARP_DDP_UNTAGGED_HDR_LEN) {
        return;
    }
    quote->kind = IWARP_QUOTE_UNTAGGED;
    quote->qn = iwarp_get_be32(ddp + 6);
    quote->msn = iwarp_get_be32(ddp + 10);
    if (quote->opcode == IWARP_OP_READ_REQUEST && (info->hdrct & IWARP_TERM_HDRCT_R) &&
        have >= IWARP_DDP_UNTAGGED_HDR_LEN + IWARP_RDMAP_READ_REQUEST_LEN) {
        const uint8_t *request = ddp + IWARP_DDP_UNTAGGED_HDR_LEN;
        quote->kind = IWARP_QUOTE_READ;
        quote->len = iwarp_get_be32(request + 12);
        quote->stag = iwarp_get_be32(request + 16);
        quote->to = iwarp_get_be64(request + 20);
    }
}

/* [RDMAP-4.8-07] */
void iwarp_rdmap_term_get(const uint8_t *p, const struct iwarp_peers_term *when,
                          struct iwarp_term_info *info)
{
    uint8_t high = p[0] >> 4, low = p[0] & 0x0f;

    info->siw_bit_order = iwarp_peers_term_is_siws(when, p);
    info->layer = info->siw_bit_order ? low : high;
    info->etype =
        iwarp_peers_term_etype(when->strict, info->layer, info->siw_bit_order ? high : low);
    info->code = p[1];
    info->hdrct = info->siw_bit_order ? iwarp_peers_hdrct_of_siw(p[2]) : p[2] & 0xe0;
}
