/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Preferences of the plugin.
 */
#ifndef PLUGIN_OPTIONS_H
#define PLUGIN_OPTIONS_H

#include "version.h"

#include <epan/prefs.h>
#include <epan/range.h>

enum iwarp_ulp {
    ULP_AUTO,
    ULP_NONE,
    ULP_RPC, /* NFS and others over RPC-over-RDMA */
    ULP_SMB, /* SMB Direct */
    ULP_ISER,
    ULP_NVME,
    ULP_ANY /* whatever a heuristic claims */
};

struct iwarp_options {
    ws_bool midstream, strict, check_crc, check_markers;
    ws_bool reassemble, reassemble_tagged, track_stags;
    ws_bool builtin_fields, summary_in_tree;
    unsigned max_reassembly; /* KiB of one message */
    int ulp;
    const char *ulp_ports; /* all four ranges at once, or empty */
    range_t *ports_rpc, *ports_smb, *ports_iser, *ports_nvme;
    range_t *shared_ports;
};

extern struct iwarp_options iwarp_options;

/* Is this port one of that upper layer, by either preference? */
bool iwarp_options_has_port(enum iwarp_ulp ulp, uint32_t port);

void iwarp_options_register(int proto, void (*changed)(void));

#endif
