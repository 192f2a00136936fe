# relaxc: the compiler (build/relaxc) and its runtime library (build/librelaxrt.{a,so}).
#
#   make             builds both; needs no network and no root
#   make check       installs what is missing (as root), builds, runs all tests
#   make asan check  the same with AddressSanitizer and UBSan, in build-asan/
#   make bench       installs other compilers and libraries, times them and ours (tests/bench)
#   make counts      compares instruction counts with the stored ones (counts-bless: stores them)
#   make demo        compiles a trained network, links it into a C program, runs it
#   make fuzz        random programs and mutated scripts, for SECONDS from SEED
#   make peers       parser and printer against TVM's wheel; peers-values: values
#   make layers headers tidy format format-check    checks of the sources
#   make install     to PREFIX (/usr/local), below DESTDIR
#
# Every *.c below ir/ frontend/ passes/ codegen/ is part of the compiler, every *.c directly in
# runtime/ of the runtime library; nothing needs to be listed here.

.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# Debian packages: what a build needs, what only the tests need, what only `make bench` needs.
BUILD_DEPS := gcc libc6-dev binutils make bison re2c llvm-22-dev lld-22 libstdc++-12-dev \
              zlib1g-dev libzstd-dev libcjson-dev libzip-dev libpthreadpool-dev libffi-dev
TEST_DEPS  := g++ llvm-22-tools libcmocka-dev libdlpack-dev python3 python3-numpy python3-psutil qemu-user \
              valgrind
BENCH_DEPS := libopenblas-dev libdnnl-dev python3-venv python3-numpy
DEPS       := $(BUILD_DEPS) $(TEST_DEPS)

VERSION    := 0.1.0
CC         ?= gcc
ifeq ($(origin CC),default)
CC         := gcc
endif
AR         := ar
RE2C       ?= re2c
BISON      ?= bison
LLVM_CONFIG ?= $(firstword $(wildcard /usr/lib/llvm-22/bin/llvm-config) llvm-config-22)
CLANG_FORMAT ?= $(firstword $(wildcard /usr/lib/llvm-22/bin/clang-format) clang-format)
CLANG_TIDY ?= $(firstword $(wildcard /usr/lib/llvm-22/bin/clang-tidy) clang-tidy)
PYTHON     ?= /usr/bin/python3
DESTDIR    ?=
PREFIX     ?= /usr/local

ifneq ($(filter asan,$(MAKECMDGOALS)),)
SAN        := 1
BUILD      := build-asan
endif
BUILD      ?= build
SAN        ?=

comma      := ,
WARN       := -Wall -Wextra -Werror
OPT        := $(if $(SAN),-O1 -fno-omit-frame-pointer,-O2)
SANFLAGS   := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined)
INCLUDES   := -I. -I$(BUILD)/gen
CFLAGS     ?=
ALL_CFLAGS  = -std=gnu11 $(OPT) -g $(WARN) -ffunction-sections -fdata-sections $(INCLUDES) \
              $(LLVM_CFLAGS) -DRELAXC_VERSION='"$(VERSION)"' $(CFLAGS)

# LLVM is linked statically and without position independence: no relocation of 100 MB of library at
# each start (3 ms of CPU per start instead of 11 ms). lld links it in half a second.
LLVM_PARTS := x86 aarch64 orcjit passes ipo linker bitreader bitwriter irreader
LLD        := $(wildcard /usr/lib/llvm-22/bin/ld.lld)
LINKER     := $(if $(LLD),-B$(dir $(LLD)) -fuse-ld=lld)
LDFLAGS    ?=
LINK        = $(CC) $(SANFLAGS) -no-pie $(LINKER) -Wl,--gc-sections,--as-needed $(LDFLAGS)
CXX_LIBS   := $(if $(SAN),-lstdc++,-Wl$(comma)-Bstatic -lstdc++ -Wl$(comma)-Bdynamic -static-libgcc)
LIBS        = $(LLVM_LIBS) -lffi -lzip -lcjson -lpthreadpool -lpthread -ldl -lm $(CXX_LIBS)

# --- sources -----------------------------------------------------------------------------------
find        = $(sort $(wildcard $(1)/*.$(2) $(1)/*/*.$(2) $(1)/*/*/*.$(2) $(1)/*/*/*/*.$(2)))
LAYERS     := ir frontend passes codegen
SRCS       := $(foreach d,$(LAYERS),$(call find,$(d),c))
RE_SRCS    := $(foreach d,$(LAYERS),$(call find,$(d),re))
Y_SRCS     := $(foreach d,$(LAYERS),$(call find,$(d),y))
GEN_SRCS   := $(RE_SRCS:%.re=$(BUILD)/gen/%.c) $(Y_SRCS:%.y=$(BUILD)/gen/%.c)
GEN_HDRS   := $(Y_SRCS:%.y=$(BUILD)/gen/%.h)
RT_SRCS    := $(sort $(wildcard runtime/*.c))
HEADERS    := $(foreach d,$(LAYERS) runtime,$(call find,$(d),h))
UNIT_SRCS  := $(sort $(wildcard tests/unit/test_*.c))

OBJS       := $(SRCS:%.c=$(BUILD)/obj/%.o) $(GEN_SRCS:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o)
MAIN_OBJ   := $(BUILD)/obj/frontend/main.o
LIB_OBJS   := $(filter-out $(MAIN_OBJ),$(OBJS))
RT_OBJS    := $(RT_SRCS:%.c=$(BUILD)/obj/pic/%.o)
UNIT_OBJS  := $(UNIT_SRCS:%.c=$(BUILD)/obj/%.o)
UNIT_BINS  := $(UNIT_SRCS:tests/unit/%.c=$(BUILD)/unit/%)
RT_LIBS    := $(BUILD)/librelaxrt.a $(BUILD)/librelaxrt.so
# The sanitizer build also has the runtime with the sanitizers in it, for relaxc and the C tests.
RT_LINK    := $(if $(SAN),$(BUILD)/san/librelaxrt.a,$(BUILD)/librelaxrt.a)
SAN_RT_OBJS := $(if $(SAN),$(RT_SRCS:%.c=$(BUILD)/obj/san/%.o))

.PHONY: all help asan deps bench-deps check run-tests units demo bench counts counts-bless peers \
        peers-values layers headers tidy format format-check clean install install-files fuzz readme
all: $(if $(wildcard frontend/main.c),$(BUILD)/relaxc) $(RT_LIBS) $(RT_LINK)
help:
	@sed -n 's/^#   //p' Makefile
asan: $(if $(filter check demo fuzz,$(MAKECMDGOALS)),,all)

# --- configuration: llvm-config is asked once ----------------------------------------------------
# Goals that build through a second make, once the packages are there, must not ask for it.
INDIRECT := help deps bench-deps clean check demo bench counts counts-bless fuzz format format-check \
            layers run-tests install-files $(if $(filter check demo fuzz,$(MAKECMDGOALS)),asan)
ifneq ($(filter-out $(INDIRECT),$(or $(MAKECMDGOALS),all)),)
include $(BUILD)/config.mk
endif
$(BUILD)/config.mk: Makefile
	@mkdir -p $(@D)
	@command -v $(LLVM_CONFIG) >/dev/null || { echo "error: $(LLVM_CONFIG) not found; run 'make deps' as root"; exit 1; }
	@echo "LLVM_CFLAGS := -isystem $$($(LLVM_CONFIG) --includedir)" >$@.tmp
	@echo "LLVM_LIBS := $$($(LLVM_CONFIG) --ldflags --link-static --libs $(LLVM_PARTS) | tr '\n' ' ') $$($(LLVM_CONFIG) --link-static --system-libs)" >>$@.tmp
	@mv $@.tmp $@

# --- the compiler ---------------------------------------------------------------------------------
$(BUILD)/relaxc: $(MAIN_OBJ) $(BUILD)/librelaxc.a $(RT_LINK)
	$(LINK) -o $@.new $^ $(LIBS)
	@mv $@.new $@

# The archive and the compiler are replaced whole, so that a test never meets half of one.
$(BUILD)/librelaxc.a: $(LIB_OBJS)
	@rm -f $@.new
	$(AR) rcsT $@.new $^
	@mv $@.new $@

$(BUILD)/obj/%.o: %.c $(BUILD)/config.mk | $(GEN_HDRS)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SANFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/config.mk | $(GEN_HDRS)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SANFLAGS) -I$(dir $*) -I$(BUILD)/gen/$(dir $*) -MMD -MP -c -o $@ $<

$(BUILD)/gen/%.c: %.re
	@mkdir -p $(@D)
	$(RE2C) -W -Werror -i -o $@ $<

# One rule with two outputs, for every version of make: the header comes with the source.
$(BUILD)/gen/%.c $(BUILD)/gen/%.h: %.y
	@mkdir -p $(@D)
	$(BISON) -Wall -Werror --defines=$(BUILD)/gen/$*.h -o $(BUILD)/gen/$*.c $<

# --- the runtime library --------------------------------------------------------------------------
RT_CFLAGS = -std=gnu11 $(OPT) -g $(WARN) -fPIC -I. $(CFLAGS)
$(BUILD)/obj/pic/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(RT_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/san/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(RT_CFLAGS) $(SANFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/librelaxrt.a: $(RT_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/librelaxrt.so: $(RT_OBJS)
	$(CC) -shared -Wl,-soname,librelaxrt.so -Wl,-z,defs -Wl,--version-script=runtime/relaxrt.map \
	  $(LDFLAGS) -o $@ $^ -lpthreadpool -lpthread -lm

$(BUILD)/san/librelaxrt.a: $(SAN_RT_OBJS)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

# --- tests ----------------------------------------------------------------------------------------
units: $(UNIT_BINS)
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/librelaxc.a $(RT_LINK)
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -lcmocka $(LIBS)

MISSING = $(shell dpkg-query -W -f '$${Package} $${db:Status-Status}\n' $(1) 2>/dev/null | \
            awk '$$2 == "installed" { have[$$1] = 1 } END { n = split("$(1)", want, " "); \
            for (i = 1; i <= n; i++) if (!have[want[i]]) print want[i] }')

# Installs the packages that are missing; a machine that is not Debian is left alone. With a second
# argument it is no failure that they can't be.
define install_packages
	@missing="$(strip $(call MISSING,$(1)))"; \
	if [ -n "$$missing" ] && ! command -v apt-get >/dev/null; then \
	  echo "not a Debian system: please install what corresponds to: $$missing"; \
	elif [ -n "$$missing" ] && [ "$$(id -u)" != 0 ]; then \
	  echo "missing packages; as root: apt-get install $$missing"; $(if $(2),,exit 1;) \
	elif [ -n "$$missing" ]; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq </dev/null && \
	  apt-get install -y -qq --no-install-recommends $$missing </dev/null; \
	fi
endef

deps:
	$(call install_packages,$(DEPS))

bench-deps:
	$(call install_packages,$(BUILD_DEPS))
	$(call install_packages,$(BENCH_DEPS),optional)

# lit tests and cmocka units; T=path limits the lit tests. Ends with "N passed, N failed".
check: deps
	@$(MAKE) --no-print-directory BUILD=$(BUILD) SAN=$(SAN) all units
	@$(MAKE) --no-print-directory BUILD=$(BUILD) SAN=$(SAN) run-tests T="$(T)"

run-tests:
	@$(PYTHON) tests/check.py --build $(BUILD) $(if $(SAN),--san) $(T)

# The real run: a trained network from script to accuracy (see samples/digits).
demo: deps
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD) SAN=$(SAN) all
	@$(MAKE) --no-print-directory -s -C samples/digits RELAXC=$(abspath $(BUILD)/relaxc) \
	  RT=$(abspath $(BUILD)) OUT=$(abspath $(BUILD))/samples/digits demo

# Beside ONNX Runtime, OpenVINO, oneDNN, OpenBLAS, IREE and TVM; T: rows, OPTIONS: see tests/bench/README.md.
bench: bench-deps
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD) all
	@$(BENCH_MAKE) bench

# Instruction counts of kernels and of the compiler against the stored ones.
counts counts-bless: deps
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD) all
	@$(BENCH_MAKE) $@
BENCH_MAKE = $(MAKE) --no-print-directory -s -C tests/bench RELAXC=$(abspath $(BUILD)/relaxc) \
             OUT=$(abspath $(BUILD))/bench PYTHON=$(PYTHON) LLVM_CONFIG=$(LLVM_CONFIG)

# Against TVM's wheel from PyPI, over the scripts of tests and samples or in T; no part of check.
peers: all
	$(call install_packages,python3-venv)
	@test -x $(BUILD)/peers/bin/python || $(PYTHON) -m venv $(BUILD)/peers
	@$(BUILD)/peers/bin/python -c 'import tvm' 2>/dev/null || \
	  $(BUILD)/peers/bin/python -m pip install -q apache-tvm numpy
	@$(BUILD)/peers/bin/python tests/peers/tvm/run.py --relaxc $(BUILD)/relaxc $(or $(T),tests samples)
	@echo "with the types of bindings left to inference:"
	@$(BUILD)/peers/bin/python tests/peers/tvm/run.py --infer --relaxc $(BUILD)/relaxc $(or $(T),tests/peers/tvm/modules)

# The table of operators in README.md, from the operator table.
readme: all
	@$(PYTHON) tests/ops/readme.py $(BUILD)/relaxc README.md --write

# The same for values: the specimens of tests/ops, in the dtypes T.
peers-values: all
	@$(BUILD)/peers/bin/python tests/peers/tvm/values.py --relaxc $(BUILD)/relaxc $(if $(T),--dtypes $(T))

# Random programs and mutated scripts, for SECONDS from SEED; failing ones are left in $(BUILD)/fuzz.
SECONDS ?= 60
SEED    ?= 1
fuzz: deps
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD) SAN=$(SAN) all
	$(PYTHON) tests/fuzz/mutate.py $(BUILD)/relaxc --seed $(SEED) --count $(SECONDS) \
	  --keep $(BUILD)/fuzz samples/*/*.rx tests/parse/*.rx
	$(PYTHON) tests/fuzz/comments.py $(BUILD)/relaxc tests $(SEED) $(SECONDS)
	$(PYTHON) tests/fuzz/programs.py $(BUILD)/relaxc --seed $(SEED) --seconds $(SECONDS) \
	  --keep $(BUILD)/fuzz

# --- checks of the sources --------------------------------------------------------------------------
layers:
	@$(PYTHON) tests/layers.py $(LAYERS) runtime
	@$(PYTHON) tests/order.py codegen/llvm

headers: $(HEADERS:%=$(BUILD)/headers/%.ok)
$(BUILD)/headers/%.ok: % $(BUILD)/config.mk | $(GEN_HDRS)
	@mkdir -p $(@D)
	@printf '#include "%s"\ntypedef int not_empty;\n' '$<' | \
	  $(CC) $(ALL_CFLAGS) -fsyntax-only -x c -
	@touch $@

tidy: $(GEN_HDRS)
	$(CLANG_TIDY) --quiet --warnings-as-errors='*' \
	  --checks='-*,bugprone-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions,-bugprone-reserved-identifier,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling' \
	  $(SRCS) -- $(ALL_CFLAGS)

FORMATTED = $(SRCS) $(HEADERS) $(RT_SRCS) $(UNIT_SRCS) $(wildcard tests/bench/runner/*.[ch])
format:
	$(CLANG_FORMAT) -i $(FORMATTED)
format-check:
	$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)

clean:
	rm -rf build build-asan

# --- installation ------------------------------------------------------------------------------------
install: all
	@$(MAKE) --no-print-directory BUILD=$(BUILD) install-files
install-files:
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin lib/pkgconfig include share/man/man1 \
	  share/bash-completion/completions)
	install -m 755 $(BUILD)/relaxc $(DESTDIR)$(PREFIX)/bin/relaxc
	install -m 644 $(BUILD)/librelaxrt.a $(DESTDIR)$(PREFIX)/lib/librelaxrt.a
	install -m 755 $(BUILD)/librelaxrt.so $(DESTDIR)$(PREFIX)/lib/librelaxrt.so
	install -m 644 runtime/relaxrt.h $(DESTDIR)$(PREFIX)/include/relaxrt.h
	install -d $(DESTDIR)$(PREFIX)/lib/cmake/relaxrt
	install -m 644 runtime/relaxrt-config.cmake $(DESTDIR)$(PREFIX)/lib/cmake/relaxrt/relaxrt-config.cmake
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BUILD)/relaxc --help-man >$(DESTDIR)$(PREFIX)/share/man/man1/relaxc.1
	$(BUILD)/relaxc --help-completion >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/relaxc
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' runtime/relaxrt.pc.in \
	  >$(DESTDIR)$(PREFIX)/lib/pkgconfig/relaxrt.pc
	$(BUILD)/relaxc --help-man >$(DESTDIR)$(PREFIX)/share/man/man1/relaxc.1
	$(BUILD)/relaxc --help-completion >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/relaxc

-include $(OBJS:.o=.d) $(RT_OBJS:.o=.d) $(SAN_RT_OBJS:.o=.d) $(UNIT_OBJS:.o=.d)
