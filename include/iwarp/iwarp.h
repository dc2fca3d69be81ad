/* SPDX-License-Identifier: BSD-2-Clause */
/* Everything an application needs: verbs, connections, errors. */
#ifndef IWARP_H
#define IWARP_H

#include <iwarp/async.h>
#include <iwarp/conn.h>
#include <iwarp/device.h>
#include <iwarp/log.h>
#include <iwarp/memory.h>
#include <iwarp/qp.h>
#include <iwarp/srq.h>
#include <iwarp/stats.h>
#include <iwarp/status.h>
#include <iwarp/tls.h>
#include <iwarp/verbs.h>
#include <iwarp/version.h>

#endif
