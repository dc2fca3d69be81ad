/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IWARP_LOG=trace: requests and completions field by field, and no overrun by long lists.
 */
#include "verbs_pair.h"

#include "base/log.h"
#include "verbs/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int real_stderr, log_file;
static char text[65536];

static void begin_trace(void)
{
    log_file = memfd_create("log", MFD_CLOEXEC);
    assert_true(log_file >= 0);
    real_stderr = dup(STDERR_FILENO);
    dup2(log_file, STDERR_FILENO);
    iwarp_log_set("trace");
}

/* Before any assertion, so that its message is seen. */
static void end_trace(void)
{
    iwarp_log_set(NULL);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    ssize_t n = pread(log_file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(log_file);
}

static void expect(const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void trace__of_each_request__shows_its_fields(void **state)
{
    struct pair_options o;
    char part[200];
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    struct pair_side *a = &p.side[0];
    struct iwarp_sge sge = pair_sge(a, 0, 77);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND_INV, 0xabc, &sge);
    wr.flags |= IWARP_WR_SOLICITED | IWARP_WR_FENCE;
    wr.invalidate_stag = 0x1234abcd;
    wr.remote_stag = 0x55667788;
    wr.remote_to = 0xfeedface12345678;
    begin_trace();
    iwarp_trace_send(a->qp, &wr);
    wr.opcode = IWARP_WR_READ;
    wr.flags = 0;
    iwarp_trace_send(a->qp, &wr);
    wr.opcode = IWARP_WR_WRITE_IMM;
    wr.imm = 0xa1b2c3d4;
    iwarp_trace_send(a->qp, &wr);
    const struct iwarp_wc imm = {.wr_id = 0x8,
                                 .opcode = IWARP_WC_RECV,
                                 .flags = IWARP_WC_WITH_IMM,
                                 .imm = 0x0102030405060708,
                                 .qp = a->qp};
    iwarp_trace_wc(&imm);
    pair_recv(&p.side[1], 0xdef, 0, 99);
    pair_send(a, 0x77, 0, 8);
    pair_wc(p.side[1].recv_cq, 0xdef, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 0x77, IWARP_WC_SUCCESS);
    end_trace();
    snprintf(part, sizeof part,
             "qp %u post Send with Invalidate id 0xabc invalidate STag 0x1234abcd flags signaled "
             "solicited fence sges 1: %p+77/0x%08x",
             iwarp_qp_num(a->qp), (void *)a->p, iwarp_mr_stag(a->mr));
    expect(part);
    expect("post RDMA Read id 0xabc remote STag 0x55667788 TO 0xfeedface12345678 flags sges 1:");
    expect("post RDMA Write with Immediate Data id 0xabc remote STag 0x55667788 TO "
           "0xfeedface12345678 imm 0x00000000a1b2c3d4 flags");
    expect("completes Receive id 0x8 success, 0 octets, imm 0x0102030405060708");
    snprintf(part, sizeof part, "post Receive id 0xdef sges 1: %p+99/", (void *)p.side[1].p);
    expect(part);
    expect("completes Receive id 0xdef success, 8 octets");
    expect("completes Send id 0x77 success");
    pair_close(&p);
}

static void trace__of_a_failed_completion__tells_the_fault(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    pair_recv(&p.side[0], 0x5, 0, 8);
    begin_trace();
    must(iwarp_abort(p.side[0].conn));
    end_trace();
    expect("completes Receive id 0x5 flushed, 0 octets: the connection was aborted by this side");
    pair_close(&p);
}

static void trace__of_a_long_list__is_cut(void **state)
{
    struct iwarp_sge sge[32];
    struct iwarp_wc wc = {.wr_id = 0x9,
                          .opcode = (enum iwarp_wc_opcode)77,
                          .flags = IWARP_WC_SOLICITED | IWARP_WC_WITH_INVALIDATE};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    for (unsigned i = 0; i < 32; i++) {
        sge[i] = (struct iwarp_sge){(void *)UINTPTR_MAX, UINT32_MAX, UINT32_MAX};
    }
    struct iwarp_send_wr send = {.sg_list = sge, .num_sge = 32, .flags = IWARP_WR_INLINE};
    struct iwarp_recv_wr recv = {.sg_list = sge, .num_sge = 32};
    wc.qp = p.side[0].qp;
    begin_trace();
    iwarp_trace_send(p.side[0].qp, &send);
    iwarp_trace_recv(p.side[0].qp, &recv);
    iwarp_trace_wc(&wc);
    end_trace();
    expect("post Send id 0x0 flags inline sges 32: 0xffffffffffffffff+4294967295/0xffffffff");
    expect("post Receive id 0x0 sges 32:");
    expect("completes ? id 0x9 success, 0 octets, solicited, invalidated an STag");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace__of_each_request__shows_its_fields),
        cmocka_unit_test(trace__of_a_failed_completion__tells_the_fault),
        cmocka_unit_test(trace__of_a_long_list__is_cut),
    };

    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
