/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything in which the plugin interface of Wireshark 4.0, 4.2, 4.4 and 4.6 differs, as far as it
 * is used here. Included before any other header.
 */
#ifndef PLUGIN_VERSION_H
#define PLUGIN_VERSION_H

#define WS_BUILD_DLL
#include <wireshark.h>
#include <ws_version.h>

#define WSVER (WIRESHARK_VERSION_MAJOR * 100 + WIRESHARK_VERSION_MINOR)

/* The boolean of its signatures; preferences are written through pointers to it. */
#if WSVER < 404
typedef gboolean ws_bool;
#else
typedef bool ws_bool;
#endif

#include <epan/packet.h>

#include <epan/conversation.h>
#include <epan/expert.h>
#include <epan/proto_data.h>

#if WSVER < 404
#define UNITS(u)      (&(u))
#define tvb_get_uint8 tvb_get_guint8
#else
#include <epan/unit_strings.h>
#define UNITS(u) UNS(&(u))
#endif

#endif
