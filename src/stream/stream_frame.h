/* SPDX-License-Identifier: BSD-2-Clause */
/* Framing one FPDU into the send block; for stream_tx.c. */
#ifndef IWARP_STREAM_FRAME_H
#define IWARP_STREAM_FRAME_H

#include "stream/stream_block.h"

/*
 * Frame one FPDU: DDP header *h, behind it the more_len octets of an RDMAP header at `more`, then
 * the payload pieces. False: s->fault says why (memory that is gone), and nothing was framed.
 */
bool iwarp_stream_frame(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                        const uint8_t *more, uint32_t more_len,
                        const struct iwarp_ddp_target *pieces, uint32_t payload_len);

#endif
