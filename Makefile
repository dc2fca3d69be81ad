# SPDX-License-Identifier: BSD-2-Clause
#
# libiwarp: the whole build.  `make help` lists what it does.  Sources are found by folder, so
# a new file needs no line here.  Everything goes to build/; a variant (SAN=..., COV=1) has its
# own tree, build/<variant>, of the same shape.

VERSION := $(shell sed -n 's/.*IWARP_VERSION "\(.*\)"/\1/p' include/iwarp/version.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/libiwarp
PKG_CONFIG ?= pkg-config
CLANG ?= clang
# Of one release everywhere: others would format in other ways.
CLANG_FORMAT ?= clang-format-19
CFLAGS ?= -O2 -g

# All cores unless -j says otherwise; a make called by this one shares its jobs.
MAKEFLAGS += --no-builtin-rules --no-print-directory
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
.DELETE_ON_ERROR:
.SECONDARY:

# One short line per step; V=1 shows the commands instead, make -s nothing.
silent = $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(filter 1,$(V)),,@$(if $(silent),,printf '  %-7s %s\n' $(1) $@;))

# ---- variant ----

comma := ,
VARIANT ?= $(subst $(comma),-,$(if $(SAN),san-$(SAN))$(if $(COV),coverage)$(if $(LWIP_SRC),own-lwip))
OUT := build$(if $(VARIANT),/$(VARIANT))
OBJ := $(OUT)/obj
VARIANT_FLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
    $(if $(COV),--coverage -O0)

# ThreadSanitizer of this age cannot place its shadow where the kernel randomises too much.
NO_ASLR := $(if $(findstring thread,$(SAN)),$(shell setarch -R true 2>/dev/null && echo setarch -R))

# ---- what is there ----

probe = $(shell $(PKG_CONFIG) --modversion $(1) 2>/dev/null)
pkg = $(if $(and $($(1)_VERSION),$($(1)_PKG)),$(shell $(PKG_CONFIG) $(2) $($(1)_PKG)))
UV_PKG := libuv
CRYPTO_PKG := libcrypto
SSL_PKG := libssl
ISAL_PKG := libisal
LWIP_PKG := lwip
URING_PKG := liburing
YAML_PKG := yaml-0.1
XDP_PKG := libxdp libbpf
CMOCKA_PKG := cmocka
IBVERBS_PKG := librdmacm libibverbs
FABRIC_PKG := libfabric
UCX_PKG := ucx
PROBES := UV CRYPTO SSL ISAL LWIP URING YAML XDP CMOCKA IBVERBS FABRIC UCX
$(foreach p,$(PROBES),$(eval $(p)_VERSION := $(call probe,$($(p)_PKG))))
# libibverbs has addresses of 64 bits where the native interface has pointers: not for 32 bits.  The
# library for programs of sockets is for both.
RSOCKET_VERSION := $(IBVERBS_VERSION)
IBVERBS_VERSION := $(if $(shell $(CC) -dM -E -x c /dev/null | grep -w __LP64__),$(IBVERBS_VERSION))
# With LWIP_SRC lwIP is compiled from that folder into the library, as src/transport/lwip/own wants it.
ifneq ($(LWIP_SRC),)
LWIP_PKG :=
LWIP_VERSION := $(or $(shell sed -n 's/^.define LWIP_VERSION_M[AI][JN]OR *//p' \
    '$(LWIP_SRC)/src/include/lwip/init.h' | paste -s -d .),$(error there is no lwIP in $(LWIP_SRC)))
LWIP_FLAGS := -DIWARP_OWN_LWIP -Isrc/transport/lwip/own -isystem $(LWIP_SRC)/src/include
LWIP_LEFT_OUT := core/altcp% core/dns.c core/raw.c core/udp.c core/stats.c core/sys.c core/ipv4/autoip.c core/ipv4/acd.c \
    core/ipv4/dhcp.c core/ipv4/igmp.c core/ipv6/dhcp6.c
LWIP_FILES := $(filter-out $(LWIP_LEFT_OUT),$(patsubst $(LWIP_SRC)/src/%,%,$(sort \
    $(foreach d,core core/ipv4 core/ipv6,$(wildcard $(LWIP_SRC)/src/$(d)/*.c))))) \
    api/tcpip.c api/err.c netif/ethernet.c
else
LWIP_FLAGS = $(subst -I,-isystem ,$(call pkg,LWIP,--cflags))
endif
# AF_XDP is a link of lwIP's.
XDP_VERSION := $(if $(LWIP_VERSION),$(XDP_VERSION))
MISSING := $(strip $(foreach p,UV CRYPTO SSL,$(if $($(p)_VERSION),,$($(p)_PKG))))
LIBS := $(strip $(foreach p,UV SSL CRYPTO ISAL LWIP XDP,$(call pkg,$(p),--libs)))

# ---- flags ----

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
    -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-align -Wcast-qual -Wpointer-arith \
    -Wundef -Wimplicit-fallthrough -Wswitch-enum $(if $(WERROR),-Werror)
COMPILE := $(CC) -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc $(if $(ISAL_VERSION),-DIWARP_HAVE_ISAL) \
    $(if $(URING_VERSION),-DIWARP_HAVE_URING $(subst -I,-isystem ,$(call pkg,URING,--cflags))) \
    $(if $(YAML_VERSION),-DIWARP_HAVE_YAML $(subst -I,-isystem ,$(call pkg,YAML,--cflags))) \
    $(foreach p,UV CRYPTO ISAL,$(call pkg,$(p),--cflags)) $(CPPFLAGS) \
    $(if $(LWIP_VERSION),-DIWARP_HAVE_LWIP $(LWIP_FLAGS)) $(if $(XDP_VERSION),-DIWARP_HAVE_XDP) \
    -pthread -fPIC -fvisibility=hidden $(WARNINGS) $(CFLAGS) $(VARIANT_FLAGS)
LINK := $(CC) -pthread -Wl,--as-needed $(CFLAGS) $(VARIANT_FLAGS) $(LDFLAGS)
# A sanitizer's own symbols are resolved by the program, not by the library.
NO_UNDEFINED := $(if $(SAN),,-Wl,-z,defs)

# ---- sources ----

# cmocka 2 warns of names that are the only ones in cmocka 1.
TEST_FLAGS = $(call pkg,CMOCKA,--cflags) -DCMOCKA_DISABLE_DEPRECATION_WARNINGS

objects = $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard $(1))))
LIB_DIRS := base capture provider mpa ddp rdmap stream transport tls $(if $(LWIP_VERSION),transport/lwip) \
    $(if $(LWIP_SRC),transport/lwip/own) loop verbs sim
# The entry point of the loadable provider is the one file that the library must not contain.
PROVIDER_OBJ := $(call objects,src/provider/module.c)
LWIP_OBJ := $(LWIP_FILES:%.c=$(OBJ)/lwip/%.o)
LIB_OBJ := $(filter-out $(PROVIDER_OBJ),$(call objects,$(LIB_DIRS:%=src/%/*.c))) $(LWIP_OBJ)
# Folders of src/programs that are no programs but parts of one.
PARTS_nvmf := nvmf-target nvmf-host nvmf-wire disks service
PROGRAM_NAMES := $(filter-out $(PARTS_nvmf),$(sort $(patsubst src/programs/%/,%,$(dir $(wildcard src/programs/*/*.c)))))
program_objects = $(call objects,$(foreach d,$(1) $(PARTS_$(1)),src/programs/$(d)/*.c))
PROGRAM_OBJ := $(call objects,src/programs/*/*.c)
# Scripts of src/programs/run with nothing but their version and place filled in.
SCRIPTS := $(OUT)/bin/iwarp-run
EXAMPLE_OBJ := $(call objects,examples/*.c)
SUPPORT_OBJ := $(call objects,tests/support/*.c)
TEST_OBJ := $(call objects,tests/unit/test_*.c tests/e2e/test_*.c)
FUZZ_OBJ := $(filter-out $(if $(LWIP_VERSION),,%/fuzz_frames.o),$(call objects,tests/fuzz/fuzz_*.c))
# The dissector's walk over octets needs nothing of Wireshark, nor of the library.
DISSECT_OBJ := $(call objects,dissector/*.c)
# The program of the guest needs another RDMA library; without it this file is left out.
IBVERBS_OBJ := $(call objects,tests/interop/side_verbs.c)
INTEROP_OBJ := $(filter-out $(if $(IBVERBS_VERSION),,$(IBVERBS_OBJ)),$(call objects,tests/interop/*.c))
# The drop-in libraries need the headers of those that they stand in for; without these there are none.
COMPAT_VERBS_OBJ := $(call objects,src/compat/verbs_*.c src/compat/num_*.c src/compat/ud_*.c)
COMPAT_CM_OBJ := $(call objects,src/compat/cm_*.c src/rsocket/*.c src/rspreload/*.c)
COMPAT_FILES_OBJ := $(call objects,src/compat/files.c)
SOCKETS_OBJ := $(call objects,src/preload/*.c)
# Where there is no pair, that library has inside what it would use of it.
INSIDE_OBJ := $(call objects,$(foreach f,async lead process refuse,src/compat/verbs_$(f).c) src/rsocket/*.c src/rspreload/*.c)
COMPAT_TEST_OBJ := $(call objects,tests/compat/test_*.c)
# What a script loads into a program to take something of the system away from it.
PRELOAD_OBJ := $(call objects,tests/preload/*.c)
COMPAT_OBJ := $(COMPAT_VERBS_OBJ) $(COMPAT_CM_OBJ) $(COMPAT_FILES_OBJ) $(SOCKETS_OBJ)
# Programs that measure: against callgrind, and through another library if that is there.
GUARD_OBJ := $(call objects,bench/guard.c)
FABRIC_OBJ := $(if $(FABRIC_VERSION),$(call objects,bench/fabric.c))
UCX_OBJ := $(if $(UCX_VERSION),$(call objects,bench/ucx.c))
TURN_OBJ := $(call objects,bench/turn.c)
TURNS_OBJ := $(call objects,bench/turns*.c bench/flow.c)
PARTS_OBJ := $(call objects,bench/parts.c)
RELAY_OBJ := $(call objects,bench/relay.c)
SOAK_OBJ := $(call objects,tests/soak/*.c)
ALL_OBJ := $(LIB_OBJ) $(PROVIDER_OBJ) $(PROGRAM_OBJ) $(EXAMPLE_OBJ) $(SUPPORT_OBJ) $(TEST_OBJ) \
    $(PRELOAD_OBJ) \
    $(if $(IBVERBS_VERSION),$(COMPAT_OBJ) $(COMPAT_TEST_OBJ),$(if $(RSOCKET_VERSION),$(SOCKETS_OBJ) $(INSIDE_OBJ))) \
    $(FUZZ_OBJ) $(DISSECT_OBJ) $(INTEROP_OBJ) $(GUARD_OBJ) \
    $(FABRIC_OBJ) $(UCX_OBJ) $(TURN_OBJ) $(TURNS_OBJ) $(PARTS_OBJ) $(RELAY_OBJ) $(SOAK_OBJ)

LIB_A := $(OUT)/lib/libiwarp.a
LIB_SO := $(OUT)/lib/libiwarp.so.$(VERSION)
LIB_LINKS := $(OUT)/lib/libiwarp.so.$(SOVERSION) $(OUT)/lib/libiwarp.so
PROVIDER := $(if $(PROVIDER_OBJ),$(OUT)/lib/ossl-modules/iwarp.so)
PROGRAMS := $(PROGRAM_NAMES:%=$(OUT)/bin/iwarp-%)
COMPAT_OUT := $(OUT)/lib/compat
COMPAT_VERBS := $(COMPAT_OUT)/libibverbs.so.1
COMPAT_CM := $(COMPAT_OUT)/librdmacm.so.1
COMPAT_FILES := $(COMPAT_OUT)/libiwarp-files.so
COMPAT_SOCKETS := $(COMPAT_OUT)/librspreload.so
SOCKETS_PAIR := $(if $(IBVERBS_VERSION),$(COMPAT_CM) $(COMPAT_VERBS),$(OBJ)/compat/inside.a $(LIB_A))
COMPAT_PC := $(COMPAT_OUT)/iwarp-verbs.pc
COMPAT := $(if $(IBVERBS_VERSION),$(COMPAT_VERBS) $(COMPAT_CM) $(COMPAT_VERBS:.1=) $(COMPAT_CM:.1=) $(COMPAT_FILES) $(COMPAT_SOCKETS) $(COMPAT_PC),$(if $(RSOCKET_VERSION),$(COMPAT_SOCKETS)))
EXAMPLES := $(EXAMPLE_OBJ:$(OBJ)/%.o=$(OUT)/%)
TESTS := $(TEST_OBJ:$(OBJ)/%.o=$(OUT)/%)
COMPAT_TESTS := $(if $(IBVERBS_VERSION),$(COMPAT_TEST_OBJ:$(OBJ)/%.o=$(OUT)/%))
TURNS := $(OUT)/bench/turns $(OUT)/bench/parts
SOAK_PEER := $(OUT)/soak/soak-peer
PRELOADS := $(PRELOAD_OBJ:$(OBJ)/%.o=$(OUT)/%.so)
FUZZERS := $(FUZZ_OBJ:$(OBJ)/%.o=$(OUT)/%)
INTEROP_ENDS := $(OUT)/interop/iwarp-peer $(OUT)/interop/siw-peer \
    $(OUT)/interop/iwarp-measure $(OUT)/interop/siw-measure $(OUT)/interop/tcp-measure $(OUT)/interop/replay
TEST_SCRIPTS := $(wildcard tests/scripts/*.sh tests/abi/*.sh)

# ---- what a person calls ----

.PHONY: all lib tests objects demo test test-san test-no-isal test-spin test-progress test-lent run-tests
.PHONY: sim test-long test-slow lint format symbols docs renew-docs
.PHONY: config help clean install uninstall optional have-cmocka FORCE

all: lib $(COMPAT) $(PROVIDER) $(PROGRAMS) $(SCRIPTS) $(EXAMPLES) optional ## build everything but the tests

lib: $(LIB_A) $(LIB_SO) $(LIB_LINKS)  ## build the library only

.PHONY: compat
compat:                     ## build the drop-in libibverbs.so.1 and librdmacm.so.1
	@tools/install-packages build
	@$(MAKE) compat-libraries
.PHONY: compat-libraries
compat-libraries: $(COMPAT)

demo:                       ## install what is missing, build, show a transfer
	@tools/install-packages build
	@$(MAKE) all
	@tools/demo $(OUT)

.PHONY: demo-nvmf
demo-nvmf:                  ## a guest's kernel mounts disks of iwarp-nvmf; SUITE=
	@tools/install-packages build test interop
	@$(MAKE) interop-ends
	@BUILD=$(abspath $(OUT)) SUITE=$(SUITE) tools/demo-nvmf

test:                       ## install what is missing, build, run all tests
	@tools/install-packages build test lint
	@$(MAKE) run-tests WITH="$(TEST_SCRIPTS) tools/lint"

test-san:                   ## unit and end-to-end tests under ASan+UBSan and under TSan
	@tools/install-packages build test
	@bad=0; for san in address,undefined thread; do \
	    echo "sanitizer $$san:"; $(MAKE) run-tests SAN=$$san || bad=1; done; exit $$bad

test-no-isal:               ## tests of what computes a CRC, in a library built without ISA-L
	@tools/install-packages build test
	@$(MAKE) run-tests VARIANT=no-isal ISAL_VERSION= NAMED='crc mpa stream capture provider pair_transfer framing markers'

# With SLOW=1 these do what takes minutes: all of iwarp-cp on other disks, a file above 4 GiB (9 GB
# of disk), a million messages through lwIP and a bad link.
SLOW_TESTS ?= cp-other-disks.sh cp-large.sh lwip.sh
test-slow:                  ## the scripts whose long form `make test` leaves out; SLOW_TESTS=
	@tools/install-packages build test
	@$(MAKE) all tests
	@SLOW=1 BUILD=$(abspath $(OUT)) tests/run \
	    $(addprefix tests/scripts/,$(SLOW_TESTS))

# The end-to-end suite with the other ways to make progress, see tests/support/progress.h.
test-progress:              ## end-to-end tests with polled and with embedded progress
	@tools/install-packages build test
	@$(MAKE) all tests
	@bad=0; for progress in polled embedded; do echo "progress $$progress:"; \
	    TEST_PROGRESS=$$progress BUILD=$(abspath $(OUT)) tests/run \
	    $(filter $(OUT)/tests/e2e/%,$(TESTS)) || bad=1; done; exit $$bad

# Connections in memory that lend small pieces and large ones, and release late; man iwarp_env, IWARP_FAULTS.
test-lent:                  ## tests of pairs, where memory is lent and referred to; SAN=
	@$(MAKE) all tests
	@bad=0; for pieces in 1-40 1000-9000; do echo "lend=$$pieces:"; \
	    IWARP_LOG=error IWARP_FAULTS=lend=$$pieces,seed=$${SEED-1} BUILD=$(abspath $(OUT)) tests/run \
	    $(filter $(OUT)/tests/e2e/test_pair_%,$(TESTS)) || bad=1; done; exit $$bad

# Of two streams in memory, see tests/unit/test_stream_pair.c.  SEED repeats, under any SAN.
SECONDS_TO_RUN ?= 60
sim: $(OUT)/tests/unit/test_stream_pair ## random conversations; SEED=n SECONDS_TO_RUN=n SAN=
	@SECONDS_TO_RUN=$(SECONDS_TO_RUN) $(NO_ASLR) timeout $$(($(SECONDS_TO_RUN) + 120)) $<

# Tests that a device of lwIP can pass: not those of kernel sockets, nor of buffers of the kernel's.
LWIP_TESTS := $(filter-out %/test_hostile_crowd %/test_pair_threads,$(filter $(addprefix $(OUT)/tests/e2e/test_,\
    hostile_% pair_% api_storm injected odd_markers peers teardown tcp_fallback tcp_spread tcp_vanish),$(TESTS)))
.PHONY: test-lwip lwip-src test-lwip-src
test-lwip:                  ## tests of lwIP: the suite at a tap, whose other side hostile peers have; SAN=
	@tools/install-packages build test lwip
	@$(MAKE) all tests
	@bad=0; export BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS=; \
	    TEST_WRAPPER=tests/support/on-a-tap $(if $(SAN),TEST_TIMEOUT=900) tests/run $(LWIP_TESTS) || bad=1; \
	    tests/run $(OUT)/tests/e2e/test_transport* $(OUT)/tests/e2e/test_lwip_* \
	    tests/scripts/lwip*.sh || bad=1; exit $$bad

# With our options, compiled from its sources; LWIP_SRC=DIR does that with any target.
LWIP_SOURCE := build/lwip-src$(if $(SUITE),-$(SUITE))
lwip-src:                   ## fetch the distribution's sources of lwIP into build/; SUITE=trixie
	@tools/install-packages lwip-src
	@tools/lwip-source $(LWIP_SOURCE) $(SUITE)
test-lwip-src: lwip-src     ## test-lwip with lwIP compiled from its sources, with our options; SUITE= SAN=
	@$(MAKE) test-lwip LWIP_SRC=$(LWIP_SOURCE)/lwip

# Several processes, see docs/soak.md.
SOAK = BUILD=$(abspath $(OUT)) $(NO_ASLR) tests/soak/run $(if $(SEED),--seed $(SEED)) $(if $(SAN),--sanitized) $(SOAK_OPTIONS)
.PHONY: soak soak-kills soak-programs
soak:                       ## everything at once, with faults and kills, HOURS=0.17; SEED=n SAN=
	@tools/install-packages build test
	@$(MAKE) soak-programs
	@$(SOAK) --hours $(or $(HOURS),0.17)
soak-kills:                 ## either of two processes is killed at random, KILLS=1000; SEED=n SAN=
	@tools/install-packages build test
	@$(MAKE) soak-programs
	@$(SOAK) --kills $(or $(KILLS),1000)
soak-programs: $(SOAK_PEER) $(OUT)/bin/iwarp-cp

test-spin: $(OUT)/tests/e2e/test_pair_spin ## spinning on memory, a million messages
	@SPIN_MESSAGES=$${SPIN_MESSAGES-1000000} $(NO_ASLR) timeout 900 $<

test-long: $(OUT)/tests/e2e/test_pair_long ## messages of 2^32-1 octets
	@LONG_OCTETS=4294967295 $(NO_ASLR) timeout 1800 $<

.PHONY: test-matrix
test-matrix: $(OUT)/tests/e2e/test_pair_matrix ## every combination of options, over TCP too; SAN=
	@MATRIX=full $(NO_ASLR) timeout 1800 $<

# Start-up, receive path and two streams, see tests/fuzz/README.md.  FUZZ=receive picks one.
FUZZ_SECONDS ?= 60
.PHONY: fuzz fuzzers
fuzz:                       ## libFuzzer, each target for FUZZ_SECONDS=60; FUZZ=name
	@tools/install-packages build test fuzz
	@$(MAKE) fuzzers VARIANT=fuzz SAN=fuzzer-no-link,address,undefined CC='$(CLANG)' CFLAGS='-O1 -g'
	@FUZZ_SECONDS=$(FUZZ_SECONDS) BUILD=build/fuzz tools/fuzz $(FUZZ)
fuzzers: $(FUZZERS)
.PHONY: coverage fuzz-coverage
fuzz-coverage:              ## lines of the core that the fuzzing targets reach; LINES=src/...
	@tools/install-packages build test fuzz
	@$(MAKE) fuzzers VARIANT=fuzz-coverage SAN=fuzzer-no-link CC='$(CLANG)' \
	    CFLAGS='-O1 -g -fprofile-instr-generate -fcoverage-mapping' LDFLAGS=-fprofile-instr-generate
	@BUILD=build/fuzz-coverage CLANG='$(CLANG)' LINES='$(LINES)' tools/fuzz-coverage
coverage:                   ## lines of the core that unit and end-to-end tests reach, at least 95 %
	@tools/install-packages build test coverage
	@$(MAKE) run-tests COV=1
	@cd build/coverage && gcovr -r ../.. --object-directory obj --gcov-ignore-parse-errors --fail-under-line 95 \
	    $(foreach d,mpa ddp rdmap stream,-f '../../src/$(d)/')

# Unchanged, on our libibverbs and librdmacm; see tests/programs/run.  ITEMS=name runs these alone.
.PHONY: test-programs
test-programs:              ## RDMA programs of the distribution, run on our stack; ITEMS=
	@tools/install-packages build test programs
	@$(MAKE) all
	@MAKEFLAGS=' -- $(call quote,$(MAKEOVERRIDES))' MAKELEVEL= BUILD=$(abspath $(OUT)) \
	    tests/programs/run $(ITEMS)

.PHONY: test-ceph
test-ceph:                  ## Ceph of the distribution on our stack: mon, mgr, two OSDs
	@tools/install-packages build test ceph
	@$(MAKE) all
	@MAKEFLAGS=' -- $(call quote,$(MAKEOVERRIDES))' MAKELEVEL= BUILD=$(abspath $(OUT)) \
	    tests/ceph/run

# See tests/systems/run, which needs root; STAGES="demo test" runs these alone, FRESH=1 anew.
.PHONY: test-systems
test-systems:               ## the README's commands on another Debian; SUITE=trixie|sid STAGES= FRESH=1
	@MAKEFLAGS= MAKELEVEL= STAGES='$(STAGES)' FRESH='$(FRESH)' ITEMS='$(ITEMS)' \
	    tests/systems/run $(or $(SUITE),trixie)

.PHONY: model
model:                      ## every order of events of the lock-free protocols; a minute
	@tools/install-packages model
	@MAKEFLAGS= MAKELEVEL= tests/model/run

.PHONY: test-big-endian
test-big-endian:            ## wire tests on an emulated big-endian processor
	@tools/install-packages build test cross
	@MAKEFLAGS= MAKELEVEL= tools/emulated big-endian

.PHONY: test-aarch64
test-aarch64:               ## unit and end-to-end tests on an emulated aarch64
	@tools/install-packages build test aarch64
	@MAKEFLAGS= MAKELEVEL= tools/emulated aarch64

.PHONY: test-armhf
test-armhf:                 ## wire tests on an emulated ARMv7: 32 bits
	@tools/install-packages build test armhf
	@MAKEFLAGS= MAKELEVEL= tools/emulated armhf

# Against the kernel's siw in an emulated guest, see tests/interop/run.  CELLS=name runs these alone, SUITE=trixie has
# a guest of that suite.
.PHONY: interop interop-reference interop-bench interop-tls interop-ends
interop:                    ## the matrix against the kernel's siw in a guest; SHORT=1 CELLS= SUITE=
	@tools/install-packages build test interop
	@$(MAKE) interop-ends
	@BUILD=$(abspath $(OUT)) SUITE=$(SUITE) tests/interop/run $(if $(SHORT),--short) $(CELLS)
interop-reference:          ## the same cells between two siw, in the guest
	@tools/install-packages build test interop
	@$(MAKE) interop-ends
	@BUILD=$(abspath $(OUT)) SUITE=$(SUITE) tests/interop/run --reference $(CELLS)
interop-bench:              ## libiwarp, siw and plain TCP in the guest, perftest too; half an hour
	@tools/install-packages build test interop
	@$(MAKE) interop-ends
	@BUILD=$(abspath $(OUT)) SUITE=$(SUITE) tests/interop/run --measure $(CELLS)
interop-tls:                ## kernel TLS in the guest, and siw behind stunnel; SUITE=
	@tools/install-packages build test interop
	@$(MAKE) interop-ends $(OUT)/tests/e2e/test_tls
	@BUILD=$(abspath $(OUT)) SUITE=$(SUITE) tests/interop/run --tls
interop-ends: $(INTEROP_ENDS) $(OUT)/bin/iwarp-nvmf $(SCRIPTS) $(COMPAT) $(PROVIDER)

.PHONY: bench bench-contenders bench-programs bench-guard bench-guard-program
bench:                      ## measure, in turn with peers, build/bench/report.md; QUICK=1 BENCH_ONLY="write read"
	@tools/install-packages build bench
	@$(MAKE) bench-contenders
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= bench/run $(if $(QUICK),--quick) $(BENCH_ONLY)
bench-programs:             ## the same programs on us and on TCP, in turn; QUICK=1 BENCH_ONLY="fio-4k" CEPH=1
	@tools/install-packages build programs bench $(if $(CEPH),ceph)
	@$(MAKE) all
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= bench/run --programs $(if $(QUICK),--quick) $(if $(CEPH),--ceph) $(BENCH_ONLY)
bench-contenders: $(OUT)/bin/iwarp-bench $(TURNS) $(OUT)/bench/relay compat-libraries $(SCRIPTS) \
    $(if $(FABRIC_VERSION),$(OUT)/bench/fabric-peer) $(if $(UCX_VERSION),$(OUT)/bench/ucx-peer)
# OLD is a checkout or a build folder with the libraries of another commit; ROWS="write small".
.PHONY: bench-pairs
bench-pairs: $(TURNS) lib compat-libraries $(SCRIPTS) ## this build against another, in turns; OLD=dir ROWS= PAIRS_OPTIONS=
	@[ -n "$(OLD)" ] || { echo >&2 'OLD=dir is missing: another checkout, built by make'; exit 2; }
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= bench/pairs $(PAIRS_OPTIONS) '$(call quote,$(OLD))' \
	    $(abspath $(OUT)) $(ROWS)
bench-guard:                ## instructions per operation against bench/baseline.tsv
	@tools/install-packages build guard
	@$(MAKE) bench-guard-program
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= tests/run bench/guard
bench-guard-program: $(OUT)/bench/guard

# NAMED: tests with one of these words in their names only.  WITH adds scripts.  A make that a script starts gets the variables of this one, not its jobs.
named = $(if $(NAMED),$(foreach t,$(1),$(if $(strip $(foreach n,$(NAMED),$(findstring $(n),$(notdir $(t))))),$(t))),$(1))
run-tests: all tests
	@MAKEFLAGS=' -- $(call quote,$(MAKEOVERRIDES))' MAKELEVEL= BUILD=$(abspath $(OUT)) \
	    $(if $(SAN),TEST_TIMEOUT=900) $(if $(findstring thread,$(SAN)),TEST_WRAPPER='$(NO_ASLR)') \
	    tests/run $(call named,$(TESTS) $(COMPAT_TESTS)) $(WITH)

tests: $(TESTS) $(COMPAT_TESTS) $(PRELOADS) $(TURNS) $(SOAK_PEER) ## build the tests
$(TEST_OBJ) $(COMPAT_TEST_OBJ): | have-cmocka
have-cmocka:
	@$(if $(CMOCKA_VERSION),:,echo >&2 \
	    'not found: cmocka; get it by: tools/install-packages test'; exit 1)

objects: $(ALL_OBJ)         # everything compiled, nothing linked

lint:                       ## formatting, include direction, licence lines, warnings
	@tools/lint

format:                     ## rewrite all C files with clang-format
	@tools/list-files c | xargs $(CLANG_FORMAT) -i

symbols: $(LIB_SO)          ## renew the checked-in list of exported symbols
	@tools/list-symbols $< >tests/abi/symbols.txt

docs:                       ## HTML of guide, manual pages and headers, in build/docs/html
	@tools/install-packages docs
	@$(MAKE) --no-print-directory renew-docs
	@VERSION=$(VERSION) PYTHONDONTWRITEBYTECODE=1 tools/gen-html build/docs
renew-docs:                 ## renew docs/errors.md from the fault table, man/man3 from the headers
	@tools/gen-errors
	@tools/gen-man

.PHONY: compliance
compliance:                 ## draw docs/compliance.md: each requirement, its code and its test
	@tools/compliance

config:                     ## what was found, and the flags
	@printf '%-10s %s\n' version '$(VERSION)' output '$(OUT)' prefix '$(call quote,$(PREFIX))' \
	    $(foreach p,$(PROBES),'$($(p)_PKG)' '$(or $($(p)_VERSION),no)') \
	    compile '$(call quote,$(COMPILE))' libs '$(LIBS)'

help:                       ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' Makefile | expand -t 15
	@echo 'Variables: V=1 CC= CFLAGS= LDFLAGS= SAN=address,undefined|thread COV=1'
	@echo '           PREFIX= LIBDIR= DESTDIR= NO_APT=1 (demo and test never call apt)'

clean:                      ## remove build/
	rm -rf build

optional:
	@$(if $(ISAL_VERSION),:,echo 'without libisal: CRC32c through OpenSSL, slower;' \
	    'tools/install-packages build brings it')
	@$(if $(LWIP_VERSION),:,echo 'without lwip: no TCP but the kernel'\''s;' \
	    'tools/install-packages build brings it')
	@$(if $(URING_VERSION),:,echo 'without liburing: iwarp-nvmf reads and writes by threads;' \
	    'tools/install-packages build brings it')
	@$(if $(YAML_VERSION),:,echo 'without libyaml: iwarp-nvmf has no --config;' \
	    'tools/install-packages build brings it')
	@$(if $(IBVERBS_VERSION),:,echo 'without the headers of libibverbs and librdmacm, or with 32 bits: no' \
	    'drop-in libraries (with 32 bits --sockets needs the headers, too); tools/install-packages build brings the headers')

# ---- compiling and linking ----

quote = $(subst ','\'',$(1))
STAMP = $(call quote,$(COMPILE) | $(LINK) | $(LIBS))

# Holds the flags, so that other flags compile everything anew; also the place where a build
# that cannot work ends, with one line.
$(OBJ)/flags: FORCE
	@$(if $(MISSING),command -v $(PKG_CONFIG) >/dev/null || echo >&2 'there is no $(PKG_CONFIG)'; \
	    echo >&2 'not found: $(MISSING); get them by: tools/install-packages build'; exit 1)
	@mkdir -p $(@D); echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' >$@

$(SUPPORT_OBJ) $(TEST_OBJ) $(FUZZ_OBJ): LOCAL_FLAGS := -Itests/support -Itests $(TEST_FLAGS)

$(filter $(OBJ)/tests/unit/test_dissect_% $(OBJ)/tests/fuzz/fuzz_dissect%,$(TEST_OBJ) $(FUZZ_OBJ)): \
    LOCAL_FLAGS += -I.

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) $(LOCAL_FLAGS) -MMD -MP -c -o $@ $<

# Not ours, so its warnings are none of ours; octets that it shifts into the sign are no fault here.
# Its headers are the system's to the compiler, and so is our lwipopts.h, which they include: -MD.
$(LWIP_OBJ): $(OBJ)/lwip/%.o: $(LWIP_SRC)/src/%.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -w $(if $(findstring undefined,$(SAN)),-fno-sanitize=shift) -MD -MP -c -o $@ $<

# A list of objects that changed, a source removed, makes the library anew too.
$(OBJ)/sources: FORCE
	@mkdir -p $(@D); echo '$(LIB_OBJ)' | cmp -s - $@ || echo '$(LIB_OBJ)' >$@

$(LIB_A): $(LIB_OBJ) $(OBJ)/sources
	@mkdir -p $(@D); rm -f $@
	$(call say,AR)$(AR) rcs $@ $(LIB_OBJ)

$(LIB_SO): $(LIB_OBJ) $(OBJ)/sources src/libiwarp.map
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared $(NO_UNDEFINED) -Wl,-z,nodelete -Wl,-soname,libiwarp.so.$(SOVERSION) \
	    -Wl,--version-script=src/libiwarp.map -o $@ $(LIB_OBJ) $(LIBS)

$(LIB_LINKS): $(LIB_SO)
	@ln -sf $(notdir $<) $@

# The drop-in pair: one has the whole library inside, the other finds it beside itself.  What they
# export is tests/abi/libibverbs.txt and librdmacm.txt; the maps and the functions of what is not
# offered are made from these.  Of all else in the objects nothing is visible.
$(COMPAT_OBJ): LOCAL_FLAGS := -fvisibility=default
$(COMPAT_TEST_OBJ): LOCAL_FLAGS := $(TEST_FLAGS)
$(OBJ)/compat-sources: FORCE
	@mkdir -p $(@D); echo '$(COMPAT_OBJ)' | cmp -s - $@ || echo '$(COMPAT_OBJ)' >$@
$(OBJ)/compat/libibverbs.map: $(COMPAT_VERBS_OBJ)
$(OBJ)/compat/librdmacm.map: $(COMPAT_CM_OBJ)
$(OBJ)/compat/%.map: tests/abi/%.txt tools/gen-compat $(OBJ)/compat-sources
	@mkdir -p $(@D)
	@tools/gen-compat $< $(@:.map=) $(filter %.o,$^)
$(OBJ)/compat/%.stub.o: $(OBJ)/compat/%.map $(OBJ)/flags
	$(call say,CC)$(COMPILE) -Wno-pedantic -c -o $@ $(<:.map=.c)

COMPAT_LINK = $(LINK) -shared $(NO_UNDEFINED) -Wl,-z,nodelete,-Bsymbolic,-soname,$(@F) \
    -Wl,--version-script=$(OBJ)/compat/$(@F:.so.1=.map) -o $@ $(filter %.o,$^)
$(COMPAT_VERBS): $(COMPAT_VERBS_OBJ) $(OBJ)/compat/libibverbs.stub.o $(LIB_OBJ) $(OBJ)/sources
	@mkdir -p $(@D)
	$(call say,LD)$(COMPAT_LINK) $(LIBS)
$(COMPAT_CM): $(COMPAT_CM_OBJ) $(OBJ)/compat/librdmacm.stub.o $(COMPAT_VERBS)
	@mkdir -p $(@D)
	$(call say,LD)$(COMPAT_LINK) -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' -Wl,--no-as-needed $(COMPAT_VERBS)
# Functions of the C library are all that it has to show.
$(COMPAT_FILES): $(COMPAT_FILES_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared $(NO_UNDEFINED) -Wl,-soname,$(@F) -o $@ $^
# The same; it finds the pair beside itself, or has of it what it needs, which nobody sees.
$(OBJ)/compat/inside.a: $(INSIDE_OBJ)
	@mkdir -p $(@D); rm -f $@
	$(call say,AR)$(AR) rcs $@ $^
# What a thread that is cancelled has to undo is found by unwinding: a handler that leaves by siglongjmp would leave
# a list of such things on the stack behind.
$(SOCKETS_OBJ): LOCAL_FLAGS := -fexceptions -Wno-pedantic -Wno-unknown-warning-option -Wno-maybe-uninitialized
$(COMPAT_SOCKETS): $(SOCKETS_OBJ) $(SOCKETS_PAIR)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared $(NO_UNDEFINED) -Wl,-z,nodelete,-Bsymbolic-functions,-soname,$(@F) \
	    -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' -Wl,--exclude-libs,ALL -o $@ $(SOCKETS_OBJ) -Wl,--no-as-needed $(SOCKETS_PAIR) $(if $(IBVERBS_VERSION),,$(LIBS)) -ldl
$(COMPAT_VERBS:.1=) $(COMPAT_CM:.1=): %: %.1
	@ln -sf $(notdir $<) $@

# For the build tree; that of an installed one knows its place.
$(COMPAT_PC): iwarp-verbs.pc.in include/iwarp/version.h
	@mkdir -p $(@D)
	@sed -e 's|@COMPATDIR@|$(call sed_text,$(abspath $(@D)))|' -e 's|@VERSION@|$(VERSION)|' $< >$@

$(COMPAT_TESTS): $(OUT)/%: $(OBJ)/%.o $(COMPAT)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -Wl,-rpath,'$$ORIGIN/../../lib/compat' -o $@ $< $(COMPAT_CM) \
	    $(COMPAT_VERBS) $(call pkg,CMOCKA,--libs)

# Only what the provider needs of the library goes into the module, and none of it is visible.
$(PROVIDER): $(PROVIDER_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared $(NO_UNDEFINED) -Wl,--exclude-libs,ALL -o $@ $^ $(LIBS)

# Programs carry the library inside, so that they run from any place.
define program_rule
$(OUT)/bin/iwarp-$(1): $(call program_objects,$(1)) $(LIB_A)
endef
$(foreach p,$(PROGRAM_NAMES),$(eval $(call program_rule,$(p))))
# Asynchronous files and a configuration file are iwarp-nvmf's alone.
NVMF_LIBS := $(strip $(foreach p,URING YAML,$(call pkg,$(p),--libs)))
$(OUT)/bin/iwarp-nvmf: PROGRAM_LIBS := $(NVMF_LIBS)
$(PROGRAMS):
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(LIBS) $(PROGRAM_LIBS)

# Beside the libraries that it is about, and at their place in an installed tree.
$(SCRIPTS): $(OUT)/bin/%: src/programs/run/%.sh include/iwarp/version.h
	@mkdir -p $(@D)
	$(call say,SED)sed 's|@VERSION@|$(VERSION)|' $< >$@ && chmod 755 $@

# Examples use the shared library as an application does.
$(EXAMPLES): $(OUT)/examples/%: $(OBJ)/examples/%.o | $(LIB_SO) $(LIB_LINKS)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -Wl,-rpath,'$$ORIGIN/../lib' -o $@ $< -L$(OUT)/lib -liwarp $(EXAMPLE_LIBS)
$(OUT)/examples/08_registration_cost: EXAMPLE_LIBS := -lm
$(OUT)/examples/09_event_loop: EXAMPLE_LIBS := $(call pkg,UV,--libs)

$(PRELOAD_OBJ): LOCAL_FLAGS := -fvisibility=default
$(PRELOADS): $(OUT)/%.so: $(OBJ)/%.o
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared -o $@ $<

# Tests see every internal function: the static library hides none. Allocations of the library and
# of the tests can be made to fail (tests/support/alloc_fault.h).
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
# This one replaces the copy into user memory by one that is known to be wrong.
$(OUT)/tests/e2e/test_pair_spin: WRAP += -Wl,--wrap=iwarp_guard_copy_to
$(TESTS): $(OUT)/%: $(OBJ)/%.o $(SUPPORT_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) $(WRAP) -o $@ $(filter %.o,$^) $(LIB_A) $(call pkg,CMOCKA,--libs) $(LIBS)

# Functions of the preload library that need nothing else of it.
$(filter $(OUT)/tests/unit/test_preload_first,$(TESTS)): $(OBJ)/src/preload/request.o $(OBJ)/src/preload/peers.o
$(filter $(OUT)/tests/unit/test_preload_threads,$(TESTS)): $(OBJ)/src/preload/threads.o
$(filter $(OUT)/tests/unit/test_preload_later,$(TESTS)): $(OBJ)/src/preload/later.o $(OBJ)/src/preload/threads.o

$(FUZZERS): $(OUT)/%: $(OBJ)/%.o $(SUPPORT_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -fsanitize=fuzzer $(WRAP) -o $@ $(filter %.o,$^) $(LIB_A) \
	    $(call pkg,CMOCKA,--libs) $(LIBS)

$(filter $(OUT)/tests/unit/test_dissect_% $(OUT)/tests/fuzz/fuzz_dissect%,$(TESTS) $(FUZZERS)): \
    $(DISSECT_OBJ)

# The two ends of an interoperability cell, tests/interop.
INTEROP_BOTH := $(filter-out %/side_iwarp.o %/side_verbs.o %/measure.o %/measure_tcp.o %/replay.o,$(INTEROP_OBJ))
INTEROP_MEASURE := $(filter-out %/main.o,$(INTEROP_BOTH)) $(OBJ)/tests/interop/measure.o
$(OUT)/interop/iwarp-peer: $(INTEROP_BOTH) $(OBJ)/tests/interop/side_iwarp.o $(LIB_A)
$(OUT)/interop/siw-peer: $(INTEROP_BOTH) $(IBVERBS_OBJ)
$(OUT)/interop/iwarp-measure: $(INTEROP_MEASURE) $(OBJ)/tests/interop/side_iwarp.o $(LIB_A)
$(OUT)/interop/siw-measure: $(INTEROP_MEASURE) $(IBVERBS_OBJ)
$(OUT)/interop/tcp-measure: $(OBJ)/tests/interop/measure_tcp.o $(OBJ)/tests/interop/settings.o
$(OUT)/interop/replay: $(OBJ)/tests/interop/replay.o
$(INTEROP_ENDS):
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(if $(findstring siw,$@),$(call pkg,IBVERBS,--libs),$(LIBS))

# The processes of `make soak`.
$(SOAK_PEER): $(SOAK_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(LIBS)

# What `make bench` and `make bench-guard` run beside iwarp-bench, with its objects.
BENCH_SHARED := $(filter-out %/main.o,$(call objects,src/programs/bench/*.c)) $(LIB_A)
$(OUT)/bench/guard: $(GUARD_OBJ) $(BENCH_SHARED)
$(OUT)/bench/fabric-peer: $(FABRIC_OBJ) $(TURN_OBJ) $(BENCH_SHARED)
$(OUT)/bench/ucx-peer: $(UCX_OBJ) $(TURN_OBJ) $(BENCH_SHARED)
$(OUT)/bench/parts: $(PARTS_OBJ) $(TURN_OBJ) $(BENCH_SHARED)
$(OUT)/bench/relay: $(RELAY_OBJ)
$(addprefix $(OUT)/bench/,guard fabric-peer ucx-peer parts relay):
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(LIBS) $(if $(findstring fabric,$@),$(call pkg,FABRIC,--libs)) \
	    $(if $(findstring ucx,$@),$(call pkg,UCX,--libs))

# With whichever libiwarp.so LD_LIBRARY_PATH names: bench/pairs runs it with that of either build.
$(OUT)/bench/turns: $(TURNS_OBJ) $(TURN_OBJ) $(filter-out $(LIB_A),$(BENCH_SHARED)) | $(LIB_SO) $(LIB_LINKS)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ -L$(OUT)/lib -liwarp $(call pkg,UV,--libs)

# Tests of a program, test_<program>_*, are linked with its objects too.
define program_test_rule
$(filter $(foreach p,$(1) $(PARTS_$(1)),$(OUT)/tests/unit/test_$(subst -,_,$(p))_%),$(TESTS)): \
    $(filter-out %/main.o,$(call program_objects,$(1)))
endef
$(foreach p,$(PROGRAM_NAMES),$(eval $(call program_test_rule,$(p))))
NVMF_TESTS := $(filter $(OUT)/tests/fuzz/fuzz_nvmf% \
    $(foreach p,nvmf $(PARTS_nvmf),$(OUT)/tests/unit/test_$(subst -,_,$(p))_%),$(TESTS) $(FUZZERS))
$(NVMF_TESTS): LIBS += $(NVMF_LIBS)
$(filter $(OUT)/tests/fuzz/fuzz_nvmf%,$(FUZZERS)): \
    $(filter-out %/main.o,$(call program_objects,nvmf))
$(filter $(OUT)/tests/fuzz/fuzz_cp,$(FUZZERS)): \
    $(filter-out %/main.o,$(call objects,src/programs/cp/*.c))

-include $(ALL_OBJ:.o=.d)

# ---- the Wireshark plugin ----

# Made for the version of Wireshark that pkg-config knows, and for no other.
WIRESHARK_SERIES = $(shell $(PKG_CONFIG) --modversion wireshark 2>/dev/null | cut -d. -f1,2)
DISSECTOR_DIR := $(OUT)/dissector
DISSECTOR = $(DISSECTOR_DIR)/$(WIRESHARK_SERIES)/epan/iwarp.so
PLUGIN_OBJ := $(call objects,dissector/plugin/*.c)
PLUGIN_CFLAGS = -std=gnu11 -DIWARP_PLUGIN_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden \
    $(WARNINGS) $(subst -I,-isystem ,$(shell $(PKG_CONFIG) --cflags wireshark)) $(CFLAGS) $(VARIANT_FLAGS)

.PHONY: dissector install-dissector uninstall-dissector need-wireshark
dissector:                  ## build the Wireshark plugin iwarp.so
	@tools/install-packages build dissector
	@$(MAKE) need-wireshark
	@$(MAKE) dissector-plugin
.PHONY: dissector-plugin
dissector-plugin: $(DISSECTOR)

need-wireshark:
	@[ -n "$(WIRESHARK_SERIES)" ] || { echo >&2 \
	    'not found: wireshark; get it by: tools/install-packages dissector'; exit 1; }

$(PLUGIN_OBJ): $(OBJ)/%.o: %.c $(OBJ)/flags | need-wireshark
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(PLUGIN_CFLAGS) -MMD -MP -c -o $@ $<
$(DISSECTOR): $(PLUGIN_OBJ) $(DISSECT_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared $(NO_UNDEFINED) -o $@ $^ $(shell $(PKG_CONFIG) --libs wireshark)
-include $(PLUGIN_OBJ:.o=.d)
# Compiled by lint where there is something to compile it against.
objects: $(if $(WIRESHARK_SERIES),$(PLUGIN_OBJ))

.PHONY: test-dissector
test-dissector:             ## the Wireshark plugin over made and recorded captures
	@tools/install-packages build dissector
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= tests/run tests/dissector/dissector.sh

.PHONY: dissector-screenshot
dissector-screenshot:       ## Wireshark with the plugin, as dissector/screenshot.png
	@tools/install-packages build dissector screenshot
	@$(MAKE) dissector-plugin
	BUILD=$(abspath $(OUT)) tests/dissector/screenshot.sh tests/dissector/captures/siw-nvme.pcap 10 \
	    dissector/screenshot.png

.PHONY: test-dissector-gui
test-dissector-gui:         ## Wireshark itself with the plugin: is loaded, ends when told to, warns of nothing
	@tools/install-packages build dissector screenshot
	@$(MAKE) dissector-plugin
	BUILD=$(abspath $(OUT)) tests/dissector/screenshot.sh tests/dissector/captures/siw-nvme.pcap 10 \
	    $(OUT)/dissector-gui.png

# For the user that calls it; SYSTEM=1 for all users of this machine.
WIRESHARK_PLUGINS = $(if $(SYSTEM),$(DESTDIR)$(shell $(PKG_CONFIG) --variable plugindir wireshark),$(HOME)/.local/lib/wireshark/plugins/$(WIRESHARK_SERIES))
WIRESHARK_PROFILES = $(if $(SYSTEM),$(DESTDIR)/usr/share/wireshark/profiles,$(or $(XDG_CONFIG_HOME),$(HOME)/.config)/wireshark/profiles)
install-dissector: dissector ## plugin and profile, for you; SYSTEM=1: for all users
	install -d '$(WIRESHARK_PLUGINS)/epan' '$(WIRESHARK_PROFILES)/iWARP'
	install -m 644 $(DISSECTOR) '$(WIRESHARK_PLUGINS)/epan/'
	install -m 644 $(wildcard dissector/profile/*) '$(WIRESHARK_PROFILES)/iWARP/'
	@[ -n '$(SYSTEM)' ] || [ "$$(id -u)" != 0 ] || \
	    echo 'note: Wireshark loads no personal plugins for root: make install-dissector SYSTEM=1'
uninstall-dissector:        ## remove both (SYSTEM=1 as for install-dissector)
	rm -f '$(WIRESHARK_PLUGINS)/epan/iwarp.so'
	rm -rf '$(WIRESHARK_PROFILES)/iWARP'

# ---- installing ----

HEADERS := $(wildcard include/iwarp/*.h include/iwarp/*.def)
MAN_PAGES := $(wildcard man/*.1)
MAN7_PAGES := $(wildcard man/*.7)
MAN3_PAGES := $(wildcard man/man3/*.3)
# A link for each function, named in the page's NAME.
man3_links = for page in $(notdir $(MAN3_PAGES)); do \
    for name in $$(sed -n '/^.SH NAME/{n;s/ .- .*//;s/,//g;p;q}' "man/man3/$$page"); do \
    [ "$$name.3" = "$$page" ] || $(1); done; done
# They keep their places, so that README.md and the pages find each other.
DOCS := LICENSE $(wildcard README.md NEWS.md CONTRIBUTING.md SECURITY.md docs/*.md docs/guide/*.md docs/notes/*.md \
    docs/plots/*.svg dissector/README.md dissector/COPYING dissector/*.png examples/*.[ch] examples/ci/* examples/python/*.py share/*.bt)
MODULE_DIR = $(LIBDIR)/libiwarp/ossl-modules
# Where systemd looks, with any usual PREFIX.
UNIT_DIR = $(PREFIX)/lib/systemd/system
COMPLETION_DIR = $(PREFIX)/share/bash-completion/completions
# Not where the loader looks by itself: these have the names of the system's libraries.
COMPAT_DIR = $(LIBDIR)/libiwarp/compat
PLACES := PREFIX BINDIR LIBDIR INCLUDEDIR MANDIR DOCDIR DESTDIR

# Any place will do of which the shell, make and pkg-config can all be told; others are refused
# before anything is written.  A reference to a variable, as in '$(PREFIX)/lib64', is welcome.
define newline


endef
hash := \#
empty :=
space := $(empty) $(empty)
paren := (
without_references = $(subst $${,,$(subst $$$(paren),,$(value $(1))))
no_good = $(strip \
    $(if $(findstring $(newline),$($(1))),a line feed) \
    $(foreach c,' " $(hash),$(if $(findstring $(c),$($(1))),$(c))) \
    $(if $(findstring $$,$($(1))$(without_references)),$$) \
    $(if $(findstring \|,$($(1))|)$(findstring $(space)|,$($(1))|),a space or \ at its end) \
    $(if $(filter DESTDIR,$(1)),,$(if $(filter /%,$(firstword $(subst $(space),_,$($(1))))$(if $($(1)),,/)),,no / in front)))
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(foreach p,$(PLACES),$(if $(call no_good,$(p)),\
    $(error $(p) cannot be used: it has $(call no_good,$(p)))))
endif

# For the right side of s|||.
sed_text = $(subst |,\|,$(subst &,\&,$(subst \,\\,$(1))))

# What is made in place is for everybody, too, also where root keeps new files to itself.
fill = umask 022 && sed
put = install -d '$(DESTDIR)$(2)' && install -m $(1) $(3) '$(DESTDIR)$(2)/'

install: all                ## DESTDIR, PREFIX, BINDIR, LIBDIR, INCLUDEDIR, MANDIR, DOCDIR
	$(call put,644,$(INCLUDEDIR)/iwarp,$(HEADERS))
	$(call put,644,$(LIBDIR),$(LIB_A))
	$(call put,755,$(LIBDIR),$(LIB_SO))
	ln -sf libiwarp.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/libiwarp.so.$(SOVERSION)'
	ln -sf libiwarp.so.$(SOVERSION) '$(DESTDIR)$(LIBDIR)/libiwarp.so'
	install -d '$(DESTDIR)$(LIBDIR)/pkgconfig'
	$(fill) -e 's|@PREFIX@|$(call sed_text,$(PREFIX))|' -e 's|@LIBDIR@|$(call sed_text,$(LIBDIR))|' \
	    -e 's|@INCLUDEDIR@|$(call sed_text,$(INCLUDEDIR))|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBS@|$(call sed_text,$(LIBS))|' libiwarp.pc.in \
	    >'$(DESTDIR)$(LIBDIR)/pkgconfig/libiwarp.pc'
	$(if $(COMPAT),$(call put,755,$(COMPAT_DIR),$(if $(IBVERBS_VERSION),$(COMPAT_VERBS) $(COMPAT_CM) $(COMPAT_FILES)) $(COMPAT_SOCKETS)))
	$(if $(IBVERBS_VERSION),for l in libibverbs librdmacm; do \
	    ln -sf $$l.so.1 '$(DESTDIR)$(COMPAT_DIR)/'$$l.so; done)
	$(if $(IBVERBS_VERSION),$(fill) -e 's|@COMPATDIR@|$(call sed_text,$(COMPAT_DIR))|' -e 's|@VERSION@|$(VERSION)|' \
	    iwarp-verbs.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/iwarp-verbs.pc')
	$(if $(PROVIDER),$(call put,755,$(MODULE_DIR),$(PROVIDER)))
	$(if $(PROGRAMS),$(call put,755,$(BINDIR),$(PROGRAMS)))
	$(call put,755,$(BINDIR),$(SCRIPTS))
	sed -i 's|@COMPATDIR@|$(call sed_text,$(COMPAT_DIR))|' $(foreach f,$(notdir $(SCRIPTS)),'$(DESTDIR)$(BINDIR)/$(f)')
	$(if $(filter %/iwarp-nvmf,$(PROGRAMS)),$(call put,644,$(UNIT_DIR),src/programs/nvmf/iwarp-nvmf.socket) && \
	    $(fill) 's|@BINDIR@|$(call sed_text,$(BINDIR))|' src/programs/nvmf/iwarp-nvmf.service.in \
	    >'$(DESTDIR)$(UNIT_DIR)/iwarp-nvmf.service')
	$(if $(MAN_PAGES),$(call put,644,$(MANDIR)/man1,$(MAN_PAGES)))
	$(if $(MAN7_PAGES),$(call put,644,$(MANDIR)/man7,$(MAN7_PAGES)))
	$(call put,644,$(MANDIR)/man3,$(MAN3_PAGES))
	@umask 022; $(call man3_links,echo ".so man3/$$page" >'$(DESTDIR)$(MANDIR)'/man3/"$$name.3")
	$(call put,644,$(COMPLETION_DIR),share/iwarp-completion.bash)
	cd '$(DESTDIR)$(COMPLETION_DIR)' && mv iwarp-completion.bash iwarp-run && \
	    for p in $(filter-out iwarp-run,$(notdir $(PROGRAMS))); do ln -sf iwarp-run "$$p"; done
	@for f in $(DOCS); do install -D -m 644 $$f '$(DESTDIR)$(DOCDIR)/'$$f || exit 1; done
	@$(if $(DESTDIR),:,[ "$$(id -u)" != 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig || :) # the loader's list is new

uninstall:                  ## remove what install put there (same variables)
	rm -rf '$(DESTDIR)$(INCLUDEDIR)/iwarp' '$(DESTDIR)$(LIBDIR)/libiwarp'
	rm -f $(foreach f,$(DOCS),'$(DESTDIR)$(DOCDIR)/$(f)')
	@(cd '$(DESTDIR)$(DOCDIR)' && rmdir -p --ignore-fail-on-non-empty $(sort $(dir $(DOCS)))) 2>/dev/null || :
	@rmdir --ignore-fail-on-non-empty '$(DESTDIR)$(DOCDIR)' 2>/dev/null || :
	rm -f '$(DESTDIR)$(UNIT_DIR)/iwarp-nvmf.socket' '$(DESTDIR)$(UNIT_DIR)/iwarp-nvmf.service'
	rm -f $(foreach f,libiwarp.a libiwarp.so libiwarp.so.$(SOVERSION) libiwarp.so.$(VERSION) \
	    pkgconfig/libiwarp.pc pkgconfig/iwarp-verbs.pc,'$(DESTDIR)$(LIBDIR)/$(f)')
	rm -f $(foreach f,$(notdir $(MAN3_PAGES)),'$(DESTDIR)$(MANDIR)/man3/$(f)')
	@$(call man3_links,rm -f '$(DESTDIR)$(MANDIR)'/man3/"$$name.3")
	rm -f $(foreach f,$(notdir $(PROGRAMS) $(SCRIPTS)),'$(DESTDIR)$(BINDIR)/$(f)' \
	    '$(DESTDIR)$(COMPLETION_DIR)/$(f)') \
	    $(foreach f,$(notdir $(MAN7_PAGES)),'$(DESTDIR)$(MANDIR)/man7/$(f)') \
	    $(foreach f,$(notdir $(MAN_PAGES)),'$(DESTDIR)$(MANDIR)/man1/$(f)')

# What clangd and other tools want to know of each file.
.PHONY: compile_commands.json
compile_commands.json:      ## how each file is compiled, for clangd
	@$(MAKE) -n -B V=1 all tests 2>/dev/null | awk -v dir='$(CURDIR)' '/ -c -o / { \
	    gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); \
	    printf "%s{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", n++ ? ",\n" : "[\n", dir, $$NF, $$0 } \
	    END { print "\n]" }' >$@

# The interface of the last release, as binaries see it: kept in tests/abi, compared by `make abi`.
.PHONY: abi abi-renew
abi: lib                    ## abidiff: has the binary interface changed since tests/abi/libiwarp.abi?
	@tools/install-packages abi
	@gzip -dc tests/abi/libiwarp.abi.gz >$(OUT)/libiwarp.abi
	tools/abi $(OUT)/libiwarp.abi $(OUT)/lib/libiwarp.so.$(VERSION)
abi-renew: lib              ## with a release: describe it anew
	@tools/install-packages abi
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file $(OUT)/libiwarp.abi $(OUT)/lib/libiwarp.so.$(VERSION)
	gzip -9nc $(OUT)/libiwarp.abi >tests/abi/libiwarp.abi.gz

# ---- packages ----

DIST := $(OUT)/libiwarp-$(VERSION).tar.gz
.PHONY: dist deb rpm test-deb
dist:                       ## what is committed as build/libiwarp-VERSION.tar.gz, the same octets each time
	@mkdir -p $(OUT)
	@git diff --quiet HEAD || echo 'what is not committed is not in it'
	git archive --format=tar --prefix=libiwarp-$(VERSION)/ HEAD | gzip -9n >$(DIST)
deb:                        ## Debian packages of what is committed, in build/deb
	@tools/install-packages build dissector deb
	@$(MAKE) dist
	@BUILD=$(abspath $(OUT)) MAKELEVEL= MAKEFLAGS= tools/deb $(DIST)
rpm:                        ## RPMs, in build/rpm
	@tools/install-packages build rpm
	@$(MAKE) dist
	@mkdir -p $(OUT)/rpm/SOURCES
	@cp $(DIST) $(OUT)/rpm/SOURCES
	@sed 's/@VERSION@/$(VERSION)/' packaging/libiwarp.spec >$(OUT)/rpm/libiwarp.spec
	MAKELEVEL= MAKEFLAGS= rpmbuild -bb --nodeps --define 'debug_package %{nil}' --define '_topdir $(abspath $(OUT))/rpm' $(OUT)/rpm/libiwarp.spec \
	    >$(OUT)/rpm/log 2>&1 || { tail -n 30 $(OUT)/rpm/log; exit 1; }
	@find $(OUT)/rpm/RPMS -name '*.rpm'
test-deb:                   ## build, install, use, upgrade and purge them in a bare root; SUITE=trixie (bookworm)
	@MAKELEVEL= MAKEFLAGS= STAGES=packages tests/systems/run $(or $(SUITE),bookworm)
