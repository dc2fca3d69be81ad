/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Wireshark calls when it loads the plugin, and the registration of the protocol.
 */
#include "state.h"

#ifndef IWARP_PLUGIN_VERSION
#error "the build says which version this is"
#endif

WS_DLL_PUBLIC_DEF const char plugin_version[] = IWARP_PLUGIN_VERSION;
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;

WS_DLL_PUBLIC void plugin_register(void);
WS_DLL_PUBLIC uint32_t plugin_describe(void);

static ws_bool dissect_heuristic(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    return iwarp_try(tvb, pinfo, tree, data, true);
}

static void register_protocol(void)
{
    proto_iwarp = proto_register_protocol("iWARP (MPA, DDP, RDMAP)", "iWARP", "iwarp");
    iwarp_fields_register(proto_iwarp);
    iwarp_options_register(proto_iwarp, iwarp_ports_apply);
    iwarp_stream_register();
    iwarp_taps_register();
    register_dissector("iwarp", iwarp_dissect, proto_iwarp);
}

static void hand_off(void)
{
    dissector_handle_t handle = find_dissector("iwarp");

    heur_dissector_add("tcp", dissect_heuristic, "iWARP over TCP", "iwarp_tcp", proto_iwarp,
                       HEURISTIC_ENABLE);
    dissector_add_for_decode_as_with_preference("tcp.port", handle);
    iwarp_builtin_register();
    iwarp_ulp_register();
    iwarp_ports_start(handle);
    iwarp_taps_handoff();
    iwarp_late_register();
    iwarp_tls_register();
}

void plugin_register(void)
{
    static proto_plugin plugin;

    plugin.register_protoinfo = register_protocol;
    plugin.register_handoff = hand_off;
    proto_register_plugin(&plugin);
}

/* 1: a dissector. Asked for since 4.4. */
uint32_t plugin_describe(void)
{
    return 1;
}
