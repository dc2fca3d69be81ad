#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 900
#
# The part of `make test-programs` that is quick: ibv_devices, ibv_devinfo, ibv_asyncwatch, rping.
set -u
bad=0
tests/programs/run 1-devices || bad=1
ONLY=rping tests/programs/run 2-rdmacm || bad=1
exit $bad
