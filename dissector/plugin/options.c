/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration of the preferences. See options.h.
 */
#include "options.h"

struct iwarp_options iwarp_options = {
    .midstream = TRUE,
    .check_crc = TRUE,
    .check_markers = TRUE,
    .reassemble = TRUE,
    .reassemble_tagged = TRUE,
    .track_stags = TRUE,
    .builtin_fields = TRUE,
    .summary_in_tree = TRUE,
    .max_reassembly = 4096,
    .ulp = ULP_AUTO,
    .ulp_ports = "",
};

static void register_switches(module_t *m)
{
    static const struct {
        const char *name, *title, *text;
        ws_bool *variable;
    } switches[] = {
        {"midstream", "Recognise connections without MPA start-up frames",
         "By headers that break no rule and a right CRC, or a chain of them where CRCs are off",
         &iwarp_options.midstream},
        {"midstream_strict", "Ask for a right CRC where the start of an FPDU is searched",
         "Connections without CRCs are then recognised by their start-up frames only",
         &iwarp_options.strict},
        {"check_crc", "Check CRCs", "Tell the CRC status of each FPDU", &iwarp_options.check_crc},
        {"check_markers", "Check markers", "Tell markers that point to no start of an FPDU",
         &iwarp_options.check_markers},
        {"reassemble_messages", "Reassemble Sends", "By queue, message number and offset",
         &iwarp_options.reassemble},
        {"reassemble_tagged", "Reassemble RDMA Writes and Read Responses",
         "By STag and tagged offset", &iwarp_options.reassemble_tagged},
        {"track_stags", "Follow STags", "Where each was seen first, and by what invalidated",
         &iwarp_options.track_stags},
        {"compat_fields", "Fill the fields of the built-in dissectors too",
         "So that filters and scripts for iwarp_mpa, iwarp_ddp and iwarp_rdma go on working",
         &iwarp_options.builtin_fields},
        {"summary_in_tree", "Show a summary in the protocol tree",
         "Opcode and place of each FPDU in the line of the protocol",
         &iwarp_options.summary_in_tree},
    };

    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        prefs_register_bool_preference(m, switches[i].name, switches[i].title, switches[i].text,
                                       switches[i].variable);
    }
}

static const enum_val_t ulps[] = {{"auto", "By private data, port and content", ULP_AUTO},
                                  {"none", "None", ULP_NONE},
                                  {"nfs", "NFS and other RPC", ULP_RPC},
                                  {"smb", "SMB Direct", ULP_SMB},
                                  {"iser", "iSER", ULP_ISER},
                                  {"nvme", "NVMe over Fabrics", ULP_NVME},
                                  {NULL, NULL, 0}};

static const char *name_of(enum iwarp_ulp ulp)
{
    const enum_val_t *v = ulps;

    while (v->name && v->value != (int)ulp) {
        v++;
    }
    return v->name;
}

/* `nfs=20049,20050;smb=5445`. Asked once for a connection: not worth keeping in another form. */
static bool is_in_list(const char *list, const char *name, uint32_t port)
{
    char **words = g_strsplit(list, ";", 0);
    const size_t n = strlen(name);
    bool found = false;

    for (char **w = words; *w && !found; w++) {
        const char *word = g_strstrip(*w);
        range_t *range = NULL;
        if (strncmp(word, name, n) == 0 && word[n] == '=' &&
            range_convert_str(NULL, &range, word + n + 1, 65535) == CVT_NO_ERROR) {
            found = value_is_in_range(range, port);
        }
        wmem_free(NULL, range);
    }
    g_strfreev(words);
    return found;
}

bool iwarp_options_has_port(enum iwarp_ulp ulp, uint32_t port)
{
    range_t *const by_ulp[] = {[ULP_RPC] = iwarp_options.ports_rpc,
                               [ULP_SMB] = iwarp_options.ports_smb,
                               [ULP_ISER] = iwarp_options.ports_iser,
                               [ULP_NVME] = iwarp_options.ports_nvme};

    return value_is_in_range(by_ulp[ulp], port) ||
           is_in_list(iwarp_options.ulp_ports, name_of(ulp), port);
}

static void register_ports(module_t *m)
{
    static const struct {
        const char *name, *title, *ports;
        range_t **variable;
    } ports[] = {
        {"ulp_ports.nfs", "Ports of NFS and other RPC", "20049", &iwarp_options.ports_rpc},
        {"ulp_ports.smb", "Ports of SMB Direct", "5445,445", &iwarp_options.ports_smb},
        {"ulp_ports.iser", "Ports of iSER", "3260,860", &iwarp_options.ports_iser},
        {"ulp_ports.nvme", "Ports of NVMe over Fabrics", "4420", &iwarp_options.ports_nvme},
        {"shared_ports", "Ports shared with other protocols", "4420,8009,5445,445,3260,860,111",
         &iwarp_options.shared_ports},
    };

    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        range_convert_str(wmem_epan_scope(), ports[i].variable, ports[i].ports, 65535);
        prefs_register_range_preference(m, ports[i].name, ports[i].title,
                                        "TCP ports of the responder, as numbers and ranges",
                                        ports[i].variable, 65535);
    }
}

void iwarp_options_register(int proto, void (*changed)(void))
{
    module_t *m = prefs_register_protocol(proto, changed);

    register_switches(m);
    prefs_register_uint_preference(m, "max_reassembly", "Longest message to reassemble (KiB)",
                                   "Longer ones are shown segment by segment", 10,
                                   &iwarp_options.max_reassembly);
    prefs_register_enum_preference(m, "ulp", "Upper layer", "What payload is given to",
                                   &iwarp_options.ulp, ulps, FALSE);
    prefs_register_string_preference(m, "ulp_ports", "More ports of upper layers",
                                     "As nfs=20050,20052;smb=9000-9010;iser=3261;nvme=4421",
                                     &iwarp_options.ulp_ports);
    register_ports(m);
}
