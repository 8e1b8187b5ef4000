# kvctl and libkvstore. `make help` lists the words; V=1 shows the commands; local choices go into
# config.mk, which git ignores.
#
# One pattern rule compiles everything below the folders of PARTS and TOOL; which files there are is
# what the folders hold. The words that end in a verdict call scripts, so that each can be run alone.
-include config.mk

BUILD  ?= build
# One name for one folder: the files that say what depends on a header name the objects as they were made.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
CC     ?= cc
CXX    ?= c++
PREFIX ?= /usr/local
# Shells other than bash leave the ~ of PREFIX=~/.local as it is.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
LIBDIR ?= $(PREFIX)/lib
V      ?= 0
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

# auto: used when it is there; 0: left out; 1: wanted, or the build stops.
READLINE ?= auto
MPI      ?= auto
CUDA     ?= auto
PYTHON   ?= auto
ZLIB     ?= auto
XXHASH   ?= auto
CRYPTO   ?= auto
ZSTD     ?= auto

OPT      ?= -O2 -g
LOOPS    ?= -O3
loops     = $(LOOPS)
WARN     := -Wall -Wextra -Werror=implicit-function-declaration -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?=
# -ffp-contract=off: every written operation is one rounding, on every machine.
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-common -ffp-contract=off -fPIC -pthread \
              -Ilib -Ilib/base -Ilib/array -Isrc -Icli $(CFLAGS)
ifdef WERROR
ALL_CFLAGS += -Werror
endif
LDLIBS_LIB := -lcsv -lcjson -lm -ldl -pthread
LDLIBS_CLI :=

# What ends a process where a mistake of ours would be a way in. It is left out without optimisation and with
# sanitizers, which see more, and by HARDEN=0.
HARDEN ?= auto
hardened := $(if $(filter 0,$(HARDEN))$(findstring -fsanitize,$(OPT) $(CFLAGS)),,$(filter -O1 -O2 -O3 -Os,$(OPT)))

# The folders of the library and of the tool.
PARTS ?= lib/base lib/engine lib/array lib/cpu lib/lang lib/vm lib/io lib/checkpoint lib/tensors lib/merge lib/patch src src/core src/local
TOOL  ?= cli $(addprefix cli/,session syntax options eval functions files out run cmd checkpoints complete bench launch attach tools term)
UNIT  ?= $(wildcard tests/unit/test_*.c)

lib_src  := $(foreach d,$(PARTS),$(wildcard $(d)/*.c))
tool_src := $(foreach d,$(TOOL),$(wildcard $(d)/*.c))
obj       = $(patsubst %.c,$(BUILD)/%.o,$(1))

VERSION := $(shell sed -n 's/^.define KV_VERSION "\(.*\)"/\1/p' src/kvstore.h)
SONAME  := libkvstore.so.0
PUBLIC  := src/kvstore.h lib/array/kv_array.h lib/base/kv_dtype.h lib/base/kv_err.h

comma := ,

ifeq ($(V),0)
say = @printf '  %-5s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$@)';
endif

.DEFAULT_GOAL := all

PYTHON3 ?= $(or $(wildcard /usr/bin/python3),$(shell command -v python3))

# ---- What this machine has ------------------------------------------------------------------------
# Only words that compile look; the others must work on a bare machine.

ifneq ($(filter-out setup help clean uninstall lint analyze format size,$(or $(MAKECMDGOALS),all)),)

# Flags, if the compiler takes them without a warning.
takes = $(shell echo | $(CC) -O2 -Werror $(1) -include stdio.h -x c -c -o /dev/null - >/dev/null 2>&1 && echo ' $(1)')
ifneq ($(hardened),)
fortify = $(call takes,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1))
HARD_CFLAGS := $(or $(call fortify,3),$(call fortify,2)) \
               $(foreach f,protector-strong clash-protection,$(call takes,-fstack-$(f)))$(call takes,-fcf-protection)
ALL_CFLAGS := $(HARD_CFLAGS) $(ALL_CFLAGS)
# Level 3 would have loops over elements call a function for each copy of a few bytes.
loops := $(LOOPS)$(call fortify,2)
override LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)
PIE := -pie
endif

# 1 if the compiler finds the header, else empty. GNU Make before 4.3 and since do not agree on how to
# write a number sign there. pcre2.h asks for the width.
hash := \#
has_header = $(shell echo '$(hash)include <$(1)>' | $(CC) $(CFLAGS) -DPCRE2_CODE_UNIT_WIDTH=8 -E -x c - >/dev/null 2>&1 && echo 1)

missing := $(if $(call has_header,csv.h),,libcsv) $(if $(call has_header,cjson/cJSON.h),,cJSON)

ifeq ($(READLINE),0)
readline_is := left out
else ifneq ($(call has_header,readline/readline.h),)
have_readline := 1
readline_is := used
LDLIBS_CLI += -ldl
else ifeq ($(READLINE),1)
missing += readline
else
readline_is := not found, the prompt has no line editing
endif

# What only some files and commands need: $(call optional,VARIABLE,header,what,library).
optional = $(if $(filter 0,$($(1))),,$(if $(call has_header,$(2)),$(4),$(if $(filter 1,$($(1))),$(eval missing += $(3)))))
zlib   := $(call optional,ZLIB,zlib.h,zlib,z)
xxhash := $(call optional,XXHASH,xxhash.h,libxxhash,xxhash)
crypto := $(call optional,CRYPTO,openssl/evp.h,libcrypto,crypto)
zstd   := $(call optional,ZSTD,zstd.h,libzstd,zstd)
pcre2  := $(call optional,PCRE2,pcre2.h,libpcre2,pcre2-8)
# libcrypto and libpcre2 are loaded when they are first needed: a process that is linked with them starts 1.5 and
# 0.07 ms later.
LDLIBS_LIB += $(addprefix -l,$(zlib) $(xxhash) $(zstd))
left_out := $(strip $(if $(zlib),,zlib) $(if $(xxhash),,libxxhash) $(if $(crypto),,libcrypto) $(if $(zstd),,libzstd) $(if $(pcre2),,libpcre2))

ifeq ($(MPI),0)
mpi_is := left out
else ifneq ($(shell command -v mpicc),)
have_mpi := 1
mpi_is := used
else ifeq ($(MPI),1)
missing += Open MPI
else
mpi_is := not found, the types of several machines are left out
endif

# The module for Python is built for that of the system, whose packages are Debian's, and later ones load it too.
# A Python without headers, or before 3.11, gets none.
ifeq ($(PYTHON),0)
python_is := left out
else
python_include := $(if $(PYTHON3),$(shell $(PYTHON3) -c 'import sys, sysconfig; print(sysconfig.get_path("include") if sys.version_info >= (3, 11) else "")' 2>/dev/null))
ifneq ($(wildcard $(python_include)/Python.h),)
have_python := 1
python_is := used
else ifeq ($(PYTHON),1)
missing += Python 3.11
else
python_is := not found, the module for Python is left out
endif
endif

# Only the driver over host memory, which tests/device runs, is C++.
have_cxx := $(shell command -v $(firstword $(CXX)))

# The toolkit: its compiler, and beside that its headers, which packages put where all headers are.
nvcc := $(shell command -v nvcc)
cuda_include := $(addprefix -isystem ,$(wildcard $(dir $(nvcc))../include))
ifeq ($(CUDA),0)
cuda_is := left out
else ifneq ($(nvcc),)
have_cuda := 1
cuda_is := used
else ifeq ($(CUDA),1)
$(error CUDA=1: there is no nvcc, which the CUDA Toolkit has (Debian: nvidia-cuda-toolkit))
else
cuda_is := not found, GPUs are left out
endif
endif

# ---- Building -------------------------------------------------------------------------------------

all: chosen $(BUILD)/libkvstore.a $(BUILD)/libkvstore.so $(BUILD)/kvctl $(if $(have_mpi),$(BUILD)/kvstore_mpi.so) $(if $(have_cuda),$(BUILD)/kvstore_cuda.so) $(if $(have_python),python) ## build the libraries and kvctl (the default)

chosen: libraries
	@echo '  readline: $(readline_is); MPI: $(mpi_is); CUDA: $(cuda_is); Python: $(python_is)$(if $(left_out),; without $(left_out))'

libraries:
ifneq ($(strip $(missing)),)
	@echo 'missing: the headers of $(strip $(missing)). "make setup" installs them.' >&2; exit 1
endif

# Changes when the flags do, and then everything is compiled again.
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(CC) $(OPT) $(CFLAGS) readline=$(have_readline) $(zlib) $(xxhash) $(crypto) $(zstd) $(pcre2)$(HARD_CFLAGS) $(loops)' | cmp -s - $@ || \
	    echo '$(CC) $(OPT) $(CFLAGS) readline=$(have_readline) $(zlib) $(xxhash) $(crypto) $(zstd) $(pcre2)$(HARD_CFLAGS) $(loops)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags | libraries
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Libraries that one file each reaches.
$(BUILD)/lib/checkpoint/inflate.o: ALL_CFLAGS += $(if $(zlib),-DHAVE_ZLIB)
$(BUILD)/lib/checkpoint/digest.o: ALL_CFLAGS += $(if $(xxhash),-DHAVE_XXHASH) $(if $(crypto),-DHAVE_CRYPTO)
$(BUILD)/lib/base/regexp.o: ALL_CFLAGS += $(if $(pcre2),-DHAVE_PCRE2)
$(BUILD)/lib/patch/patch_zstd.o: ALL_CFLAGS += $(if $(zstd),-DHAVE_ZSTD)

# The name that plugins ask for, and the folder of Debian's libraries below /usr/lib.
$(BUILD)/src/plugin.o: ALL_CFLAGS += -DLIBRARY='"$(SONAME)"' -DMULTIARCH='"$(shell $(CC) -print-multiarch 2>/dev/null)"'

$(BUILD)/cli/term/line.o: ALL_CFLAGS += $(if $(have_readline),-DHAVE_READLINE)

# The loops over elements are written for the vectoriser, which works from -O3 on and may assume that
# nobody looks at the floating-point exception flags.
$(BUILD)/lib/cpu/%.o $(BUILD)/lib/checkpoint/tensor_integer.o $(BUILD)/lib/checkpoint/tensor_codec.o $(BUILD)/lib/tensors/tensor_check.o: ALL_CFLAGS += $(loops) -fno-trapping-math
$(foreach f,reduce dot_kernel scan sort_item pick,$(BUILD)/lib/array/$(f).o): ALL_CFLAGS += $(loops) -fno-trapping-math
$(foreach f,stat_loops diff_loops,$(BUILD)/lib/tensors/$(f).o): ALL_CFLAGS += $(loops) -fno-trapping-math
$(foreach f,find pack,$(BUILD)/lib/patch/patch_$(f).o): ALL_CFLAGS += $(loops)
$(BUILD)/lib/merge/%.o: ALL_CFLAGS += $(loops) -fno-trapping-math
# The same for the loops of programs; sqrt without errno is one instruction.
$(BUILD)/lib/vm/kernel%.o: ALL_CFLAGS += $(loops) -fno-trapping-math -fno-math-errno

# The loops that the benchmark measures against.
$(BUILD)/cli/bench/bench_stream.o: ALL_CFLAGS += $(loops)

# The optimizers of the library: each text once for every name behind `updater`. The folder is newer
# when one was removed.
rules := $(wildcard src/optimizers/*.kvu)
$(BUILD)/builtin_texts.c: $(rules) src/optimizers scripts/embed
	@mkdir -p $(@D)
	@scripts/embed $(rules) > $@

# The merges of the tool, in the same way.
merges := $(wildcard src/merges/*.kvu)
$(BUILD)/merge_texts.c: $(merges) src/merges scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --merges $(merges) > $@

# The powers of ten that numbers are read and printed with.
$(BUILD)/num_powers.c: scripts/powers
	@mkdir -p $(@D)
	@scripts/powers > $@

# Pages that the tool shows too: on the language, on rules, on checkpoints, and on the environment.
pages := $(foreach page,language rules checkpoints environment,$(BUILD)/$(page)_text.o)
$(BUILD)/%_text.c: cli/%.md scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text $*_text cmd/help.h $< > $@

# The completion scripts of the shells.
completions := $(foreach shell,bash zsh fish,$(BUILD)/completion_$(shell).o)
$(BUILD)/completion_%.c: cli/completions/kvctl.% scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text completion_$* options/completion_script.h $< > $@

# Sources that were made above.
$(BUILD)/%.o: $(BUILD)/%.c
	$(call say,CC)$(CC) $(ALL_CFLAGS) -c -o $@ $<

tool_obj := $(call obj,$(tool_src)) $(pages) $(completions)

lib_obj := $(call obj,$(lib_src)) $(BUILD)/builtin_texts.o $(BUILD)/merge_texts.o $(BUILD)/num_powers.o

# The commands of the linker. Programs that load plugins link the shared library, so that a plugin uses the
# same one; others have the static one among their prerequisites.
link        = $(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^)
link_shared = $(link) -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN'
link_plugin = $(link) -shared -Wl,-soname,$(@F) -L$(BUILD) -lkvstore

$(BUILD)/libkvstore.a: $(lib_obj)
	$(call say,AR)rm -f $@ && ar rcs $@ $^

# The library calls itself straight: nothing of it is looked up by name when a process begins.
link_library = $(CC) $(ALL_CFLAGS) $(LDFLAGS) -Wl,-Bsymbolic-functions -shared -Wl,-soname,$(SONAME) -o $(1) $(lib_obj) $(LDLIBS_LIB)
$(BUILD)/$(SONAME): $(lib_obj)
	$(call say,LD)$(call link_library,$@)

$(BUILD)/libkvstore.so: $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $@

# kvctl holds the library and has its name, so that a plugin which asks for the library gets this one: when kvctl
# starts, no function is looked up between the two. A package takes the libraries that have archives from other
# packages, which may be updated alone.
$(tool_obj): ALL_CFLAGS += -fvisibility=hidden
archives  = $(foreach l,csv $(zlib) $(xxhash) $(zstd),$(or $(filter /%,$(shell $(CC) -print-file-name=lib$(l).a)),-l$(l)))
# Fewer bytes for what the linker adds the program's address to, where the C library knows that form.
relative  = $(if $(shell grep -qs GLIBC_ABI_DT_RELR "$$($(CC) -print-file-name=libc.so.6)" && echo 1),-Wl$(comma)-z$(comma)pack-relative-relocs)
link_tool = $(CC) $(ALL_CFLAGS) $(PIE) $(LDFLAGS) $(relative) -rdynamic -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL -Wl,--as-needed -o $@ \
            $(filter %.o,$^) $(1) $(LDLIBS_CLI) $(LDLIBS_LIB)
$(BUILD)/kvctl: $(tool_obj) $(lib_obj)
	$(call say,LD)$(call link_tool,$(archives))

$(BUILD)/packaged/kvctl: $(tool_obj) $(lib_obj)
	@mkdir -p $(@D)
	$(call say,LD)$(call link_tool)

# The plugin of several machines. Only one of its files names MPI.
$(BUILD)/src/distributed/mpi.o: ALL_CFLAGS += $(shell mpicc --showme:compile 2>/dev/null)

dist_src := $(wildcard src/distributed/*.c)
$(BUILD)/kvstore_mpi.so: $(call obj,$(dist_src)) $(BUILD)/libkvstore.so
	$(link_plugin) $(shell mpicc --showme:link 2>/dev/null)

# The plugin of GPUs. It links nothing of the toolkit: the driver and the compiler of rules are opened
# when they are needed. Kernels are compiled for two families of devices, and as text for later ones.
CUDA_CODE ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]

$(BUILD)/cuda/%.o: ALL_CFLAGS += -I. -DIMAGES='"$(KERNELS)"'
$(BUILD)/cuda/driver.o $(BUILD)/cuda/nccl_table.o: ALL_CFLAGS += $(cuda_include)

# They take minutes and depend on no option, so all build folders share them.
KERNELS := build/kernels
$(KERNELS)/%.fatbin: cuda/%.cu cuda/kernel_element.cuh cuda/job.h
	@mkdir -p $(@D)
	@echo '  NVCC  $(@F)'
	@nvcc -I. -std=c++17 --fmad=false -Werror all-warnings $(CUDA_CODE) -fatbin -o $@ $<

preludes := cuda/job.h cuda/kernel_element.cuh lib/base/philox_rounds.h lib/vm/arith.h lib/vm/curve.h \
            lib/vm/noise.h cuda/rule_element.cuh
$(BUILD)/prelude_%.c: scripts/embed $(preludes)
	@mkdir -p $(@D)
	@scripts/embed --text prelude_$* cuda/prelude.h $(filter %/$*.h %/$*.cuh,$(preludes)) > $@

$(BUILD)/prelude_%.o: $(BUILD)/prelude_%.c
	$(call say,CC)$(CC) $(ALL_CFLAGS) -I. -c -o $@ $<

prelude_obj := $(foreach f,$(basename $(notdir $(preludes))),$(BUILD)/prelude_$(f).o)
gpu_kernels := $(patsubst cuda/%.cu,%,$(wildcard cuda/*.cu))
gpu_src     := $(wildcard cuda/*.c)
gpu_shared  := $(call obj,$(filter-out cuda/driver.c cuda/images.c cuda/nccl_table.c,$(gpu_src))) \
               $(prelude_obj)

$(BUILD)/cuda/images.o: $(gpu_kernels:%=$(KERNELS)/%.fatbin)
$(BUILD)/kvstore_cuda.so: $(gpu_shared) $(call obj,cuda/driver.c cuda/nccl_table.c cuda/images.c) $(BUILD)/libkvstore.so
	$(link_plugin) -ldl

# The same plugin over a driver of host memory, with its kernels compiled for the CPU: what
# tests/device runs on machines without a GPU.
SHIM := -x c++ -std=c++17 -O2 -w -fPIC -fno-strict-aliasing -ffp-contract=off -I. -include tests/device/shim.hh

$(BUILD)/device/%.o: cuda/%.cu cuda/kernel_element.cuh cuda/job.h tests/device/shim.hh
	@mkdir -p $(@D)
	$(call say,CXX)$(CXX) $(SHIM) -c -o $@ $<

$(BUILD)/device/%.o: tests/device/%.cc tests/device/streams.hh cuda/driver.h cuda/nccl_table.h cuda/job.h \
                     lib/array/device.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX)$(CXX) -std=c++17 -D_GNU_SOURCE $(OPT) -Wall -Wextra -fPIC -pthread -Ilib -Ilib/base -Ilib/array -I. \
	    -DFAKE_SHIM='"$(abspath tests/device/shim.hh)"' -c -o $@ $<

$(BUILD)/device/kvstore_cuda.so: $(gpu_shared) $(BUILD)/device/fake_driver.o $(BUILD)/device/streams.o $(BUILD)/device/fake_nccl.o \
                                 $(gpu_kernels:%=$(BUILD)/device/%.o) $(BUILD)/libkvstore.so
	$(call say,LD)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $(filter %.o,$^) -L$(BUILD) -lkvstore -ldl

# An MPI that reads the memory of that driver's GPUs, for jobs of tests/device.
$(BUILD)/tests/device/aware.o: ALL_CFLAGS += $(shell mpicc --showme:compile 2>/dev/null)
$(BUILD)/device/aware.so: $(BUILD)/tests/device/aware.o
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ $(shell mpicc --showme:link 2>/dev/null)

# The module for Python: an extension on the limited API, and a copy of its Python beside it. It finds the library
# by $ORIGIN in the build folder and in a wheel, and where it is installed by its path.
python_obj := $(call obj,$(wildcard src/python/*.c))
python_src := $(wildcard src/python/kvstore/*.py src/python/kvstore/*.pyi) src/python/kvstore/py.typed
PY := $(BUILD)/python/kvstore
$(python_obj): ALL_CFLAGS += -isystem $(python_include)
link_python = $(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $(1) $(python_obj) -L$(BUILD) -lkvstore $(if $(2),-Wl$(comma)-rpath$(comma)'$(2)')

python: $(PY)/_kvstore.abi3.so $(python_src:src/python/%=$(BUILD)/python/%)

$(PY)/_kvstore.abi3.so: $(python_obj) $(BUILD)/libkvstore.so
	@mkdir -p $(@D)
	$(call link_python,$@,$$ORIGIN/../..)

$(PY)/%: src/python/kvstore/%
	@mkdir -p $(@D)
	@cp $< $@

# The same for a wheel, where the library lies in the module's folder.
WHEEL := $(BUILD)/wheel/kvstore
wheel: all ## build a wheel of the module for Python with the library, $(BUILD)/kvstore-VERSION-....whl
ifdef have_python
	@rm -rf $(WHEEL) && mkdir -p $(WHEEL)
	@cp $(python_src) $(WHEEL)
	$(call link_python,$(WHEEL)/_kvstore.abi3.so,$$ORIGIN)
	$(call say,LD)$(call link_library,$(WHEEL)/libkvstore.so.0) -Wl,-rpath,'$$ORIGIN'
	@strip --strip-unneeded $(WHEEL)/*.so*
	@$(PYTHON3) scripts/wheel $(BUILD)/wheel $(VERSION) $(BUILD)
else
	@echo 'make wheel: there is no Python 3.11 with headers: apt-get install python3-dev' >&2; exit 1
endif

# The C programs of examples/. A plugin is a shared object of its own; it links the shared library, which
# the program that loads it has too.
examples: $(BUILD)/examples/sum $(BUILD)/examples/average.so ## build the C examples, a program and a plugin

$(BUILD)/examples/sum: $(call obj,examples/sum.c) $(BUILD)/libkvstore.so
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN/..' $(LDLIBS_LIB)

$(BUILD)/examples/%.so: $(BUILD)/examples/%.o $(BUILD)/libkvstore.so
	$(link_plugin)

# ---- The two commands of the README ---------------------------------------------------------------
# Set-up can change what the probes above find, so the rest runs in a make of its own.

demo: setup ## set up what is missing, build, play the tour of examples/tour.md and show it
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@scripts/demo $(BUILD)/kvctl

test: setup ## set up what is missing, build, run every test
	@$(MAKE) --no-print-directory -j$(JOBS) tests
	@BUILD=$(BUILD) CC='$(CC)' CXX='$(CXX)' JOBS=$(JOBS) scripts/test $(SUITES)

setup: ## install the packages that are missing (SETUP=0: never install)
	@READLINE=$(READLINE) MPI=$(MPI) PYTHON=$(PYTHON) CXX='$(CXX)' scripts/setup

# ---- Tests ----------------------------------------------------------------------------------------

check: all $(BUILD)/unit $(BUILD)/conformance ## the tests that take seconds
	@BUILD=$(BUILD) scripts/test lint unit conformance sessions

unit: $(BUILD)/unit ## run the unit tests (ONLY=name-prefix)
	$(BUILD)/unit $(ONLY)

# The list of tests is what the files say: every line that begins with TEST(.
$(BUILD)/test_list.h: force
	@mkdir -p $(@D)
	@sed -n 's/^TEST(\([a-z0-9_]*\)).*/TEST_ENTRY(\1)/p' $(UNIT) /dev/null > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(BUILD)/tests/unit/run.o: $(BUILD)/test_list.h
$(BUILD)/tests/unit/%.o: ALL_CFLAGS += -Itests/unit -I$(BUILD)
# Tests named test_script_… are about parts of the tool and are linked with all of it but main.
unit_tool := $(if $(findstring /test_script_,$(UNIT)),$(BUILD)/tool.a)
$(BUILD)/tool.a: $(filter-out %/cli/main.o,$(tool_obj))
	$(call say,AR)rm -f $@ && ar rcs $@ $^

# Unit tests of the plugin's messages, which need no ranks.
unit_dist := $(call obj,$(addprefix src/distributed/,$(if $(findstring /test_place,$(UNIT)), \
    asks.c environment.c link_record.c place.c $(if $(findstring /test_states,$(UNIT)),array_reuse.c rank_residuals.c states.c))))
$(BUILD)/unit: $(call obj,tests/unit/run.c $(UNIT)) $(unit_tool) $(unit_dist) $(BUILD)/libkvstore.a
	$(link) $(if $(unit_tool),$(LDLIBS_CLI)) $(LDLIBS_LIB)

# Replays recorded runs of MXNet 1.9.1.
conformance_src := $(wildcard tests/conformance/*.c)
$(BUILD)/conformance: $(call obj,$(conformance_src)) $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

# Random programs whose output Python gave.
$(BUILD)/differential: $(BUILD)/tests/differential/main.o
	$(link)

# Random runs beside formulas and a plain interpreter.
TRUTH_TESTS := $(BUILD)/truth_optimizers
$(BUILD)/tests/truth/%.o: ALL_CFLAGS += -Itests/truth
$(BUILD)/truth_optimizers: $(call obj,$(addprefix tests/truth/,optimizers.c formulas.c bounded.c)) $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

# The types of several machines, for scripts/test dist. They link the shared library: so the plugin
# finds the one that they use.
DIST_TESTS := $(if $(have_mpi),$(BUILD)/dist_replay $(BUILD)/dist_check $(BUILD)/dist_stress $(BUILD)/dist_since $(BUILD)/dist_link)
$(BUILD)/dist_%: $(BUILD)/tests/dist/%.o $(call obj,$(filter-out %/main.c,$(conformance_src))) $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_LIB)
# The links alone.
$(BUILD)/dist_link: $(call obj,tests/dist/link.c src/distributed/mpi.c src/distributed/link_record.c src/distributed/environment.c) $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB) $(shell mpicc --showme:link 2>/dev/null)

GPU_TESTS := $(if $(have_cxx),$(BUILD)/device/kvstore_cuda.so) $(BUILD)/gpu_works $(BUILD)/gpu_order $(BUILD)/gpu_conformance \
             $(BUILD)/gpu_rules $(BUILD)/gpu_cache $(BUILD)/gpu_keys $(BUILD)/gpu_bench $(if $(have_mpi),$(BUILD)/device/aware.so) \
             $(if $(have_cuda),$(BUILD)/gpu_compile $(BUILD)/gpu_nccl_library)

# Calls that fail and crashes: the library that counts, records, fails and kills, without and with memory; the
# driver; a writer in place, the model of the disk, and the killer.
FAULT_TESTS := $(addprefix $(BUILD)/faults/,calls.so faults.so faults change states kill alone/kvstore_mpi.so)
fault_calls := $(call obj,$(addprefix tests/faults/,calls.c faults.c blocks.c server.c))
$(BUILD)/tests/faults/%.o: ALL_CFLAGS += -Itests/faults
$(BUILD)/faults/change: $(BUILD)/tests/faults/change.o $(BUILD)/libkvstore.so
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN/..' $(LDLIBS_LIB)
$(BUILD)/faults/faults.so: $(BUILD)/tests/faults/memory.o
# The plugin of several machines for a rank that is alone.
$(BUILD)/faults/alone/kvstore_mpi.so: $(call obj,$(filter-out %/mpi.c,$(dist_src)) tests/faults/link_alone.c tests/dist/link_plain.c) $(BUILD)/libkvstore.so
	@mkdir -p $(@D)
	$(link_plugin)
$(BUILD)/faults/%.so: $(fault_calls)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ -ldl
$(BUILD)/faults/faults: $(call obj,tests/faults/run.c tests/faults/tree.c)
	@mkdir -p $(@D)
	$(link)
$(BUILD)/faults/states: $(call obj,$(addprefix tests/faults/,states.c disk.c tree.c calls.c faults.c)) $(BUILD)/libkvstore.a
	@mkdir -p $(@D)
	$(link) $(LDLIBS_LIB)
$(BUILD)/faults/kill: $(BUILD)/tests/faults/kill.o
	@mkdir -p $(@D)
	$(link)

faults: all $(FAULT_TESTS) ## every call fails, once and for ever, in sessions of all commands, and every crash of them (ONLY=session)
	@$(BUILD)/faults/faults -j $(JOBS) -c 1000 $(BUILD)/kvctl $(BUILD)/faults tests/faults/sessions $(ONLY)

# The simulated cluster: not with sanitizers, which know nothing of its stacks. The static variables of the
# product's code are those of one process: they lie in sections of their own, which the simulation exchanges
# when another rank goes on; apart from some that are the same in all ranks, and large, and from gcc's counters
# of make coverage, where each variable has a section.
sim_rooms := lib/base lib/engine src src/core src/local src/distributed
sim_same  := src/distributed/mpi.c src/distributed/types.c lib/engine/trace.c
sim_rank  := $(call obj,$(filter-out $(sim_same),$(foreach d,$(sim_rooms),$(wildcard $(d)/*.c))))
sim_calls := pthread_create pthread_join pthread_detach pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock \
             pthread_cond_wait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast pthread_once pthread_atfork \
             clock_gettime time usleep nanosleep sched_yield getpid on_exit fsync rename
# Calls that are counted or take virtual time: they get other names in the product's code alone.
sim_counted := malloc calloc realloc free posix_memalign memcpy sum_elements plan_run plan_run_part
$(BUILD)/sim/rank.o: $(sim_rank)
	@mkdir -p $(@D)
	$(call say,LD)ld -r -o $@ $^ && objdump -h $@ | \
	    awk '$$2 ~ /^\.data/ && $$2 !~ /\.ro|gcov|LPBX/ { print "--rename-section", $$2 "=rank_data" } \
	         $$2 ~ /^\.bss/ && $$2 !~ /gcov/ { print "--rename-section", $$2 "=rank_bss" }' >$@.sections && \
	    objcopy @$@.sections $(foreach c,$(sim_counted),--redefine-sym $(c)=sim_$(c)) $@

SIM_TESTS := $(if $(findstring -fsanitize,$(OPT)),,$(BUILD)/kvsim $(BUILD)/kvscale)
# Its fibers jump to other stacks, which a check of longjmp takes for a mistake.
$(BUILD)/tests/sim/%.o: ALL_CFLAGS += -Itests/sim -U_FORTIFY_SOURCE
# Random faulty jobs, and jobs of many ranks.
# launch and its watchers, which ask the simulation for what they ask of the system elsewhere.
sim_launch := $(addprefix $(BUILD)/sim/launch_,job.o attempt.o children.o gone.o loss.o rank.o folder.o wire.o)
$(sim_launch): $(BUILD)/sim/%.o: cli/launch/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -U_FORTIFY_SOURCE -Itests/sim -include redirect.h -MMD -MP -c -o $@ $<
$(BUILD)/sim/launch_job.o: ALL_CFLAGS += -Dattempt_run=sim_attempt_run
$(BUILD)/kvsim: $(call obj,$(filter-out tests/sim/scale%.c,$(wildcard tests/sim/*.c))) $(sim_launch) $(BUILD)/tool.a
$(BUILD)/kvscale: $(call obj,$(addprefix tests/sim/,scale.c rank.c world.c calls.c sim_link.c))
$(BUILD)/kvsim $(BUILD)/kvscale: $(BUILD)/sim/rank.o $(call obj,src/distributed/types.c) $(BUILD)/libkvstore.a
	$(link) $(addprefix -Wl$(comma)--wrap=,$(sim_calls)) $(LDLIBS_LIB)

# Fuzzing by coverage: a program for each tests/fuzz/fuzz_NAME.c, of a build folder of its own by clang, and
# one program of all of them that runs the files of their corpora, by any compiler.
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_help := $(call obj,$(filter-out tests/fuzz/fuzz_%.c tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)) tests/dist/link_plain.c \
                        $(filter-out %/mpi.c %/net.c %/alive.c,$(wildcard src/distributed/*.c)))
$(BUILD)/fuzz_help.a: $(fuzz_help)
	$(call say,AR)rm -f $@ && ar rcs $@ $^
$(BUILD)/fuzz_list.h: force
	@mkdir -p $(@D)
	@printf 'FUZZ_TARGET(%s)\n' $(FUZZ) | cmp -s - $@ || printf 'FUZZ_TARGET(%s)\n' $(FUZZ) > $@
$(BUILD)/tests/fuzz/replay.o: $(BUILD)/fuzz_list.h
$(BUILD)/tests/fuzz/%.o: ALL_CFLAGS += -Itests/fuzz -I$(BUILD)
$(BUILD)/replay/fuzz_%.o: tests/fuzz/fuzz_%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -Itests/fuzz -DLLVMFuzzerTestOneInput=fuzz_$* -DLLVMFuzzerCustomMutator=mutate_$* \
	    -MMD -MP -c -o $@ $<
fuzz_libs := $(BUILD)/fuzz_help.a $(BUILD)/tool.a $(BUILD)/libkvstore.a
$(BUILD)/fuzz_replay: $(BUILD)/tests/fuzz/replay.o $(FUZZ:%=$(BUILD)/replay/fuzz_%.o) $(fuzz_libs)
	$(link) $(LDLIBS_CLI) $(LDLIBS_LIB)
$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(fuzz_libs)
	$(link) -fsanitize=fuzzer $(LDLIBS_CLI) $(LDLIBS_LIB)

# One rank alone: what a server answers to records, and what a worker sends, by the runner of the
# unit tests.
records_src := $(wildcard tests/dist/records*.c)
$(BUILD)/records/test_list.h: $(records_src)
	@mkdir -p $(@D)
	@sed -n 's/^TEST(\([a-z0-9_]*\)).*/TEST_ENTRY(\1)/p' $^ > $@
$(BUILD)/records/run.o: tests/unit/run.c tests/unit/test.h $(BUILD)/records/test_list.h $(BUILD)/flags
	$(call say,CC)$(CC) $(ALL_CFLAGS) -Itests/unit -I$(BUILD)/records -c -o $@ $<
$(call obj,$(records_src) tests/dist/server_alone.c): ALL_CFLAGS += -Itests
$(BUILD)/served.a: $(call obj,$(filter-out %/mpi.c %/net.c,$(dist_src)))
	$(call say,AR)rm -f $@ && ar rcs $@ $^
$(BUILD)/dist_records: $(BUILD)/records/run.o $(call obj,$(records_src) tests/dist/server_alone.c tests/dist/link_plain.c) $(BUILD)/served.a $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

fuzz: ## fuzz every reader, T=60 seconds each, with clang (ONLY=name, SEED=1)
	@scripts/setup fuzz || true
	@MAKE='$(MAKE)' JOBS='$(JOBS)' SEED='$(SEED)' tests/fuzz/run '$(or $(T),60)' $(ONLY)

# The programs that the suites run.
tests: all examples $(BUILD)/unit $(BUILD)/conformance $(BUILD)/differential $(TRUTH_TESTS) $(SIM_TESTS) $(BUILD)/dist_records $(FAULT_TESTS) $(BUILD)/fuzz_replay $(DIST_TESTS) $(GPU_TESTS)

test-gpu: all $(GPU_TESTS) ## the tests of GPUs on those of this machine
	@BUILD=$(BUILD) scripts/test gpu

$(BUILD)/gpu_conformance: $(call obj,$(conformance_src)) $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_LIB)

$(BUILD)/tests/device/%.o: ALL_CFLAGS += -I.
$(BUILD)/gpu_rules: $(prelude_obj)
$(BUILD)/gpu_cache: $(BUILD)/cuda/cache.o
$(BUILD)/gpu_compile: $(BUILD)/cuda/driver.o $(BUILD)/cuda/library.o
$(BUILD)/gpu_nccl_library: $(BUILD)/cuda/nccl_table.o $(BUILD)/cuda/library.o

gpu-dry: all $(BUILD)/device/kvstore_cuda.so ## registers, occupancy and accesses of all kernels of GPUs, from the compilers
	@BUILD=$(BUILD) tests/device/dry

bench-gpu: all $(BUILD)/gpu_bench ## the store on gpu(0) beside copies of the same device and PyTorch, with bars
	@BUILD=$(BUILD) tests/device/bars

# It is the benchmark of the tool with other rows.
$(BUILD)/gpu_bench: $(call obj,tests/device/bench.c) $(BUILD)/tool.a $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_CLI) $(LDLIBS_LIB)

# Programs that test GPUs, the machine's or the driver over host memory: they link the shared library,
# so that the plugin uses the same one.
$(BUILD)/gpu_%: $(BUILD)/tests/device/%.o $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_LIB)

bench: all $(BUILD)/bench/pairs $(BUILD)/bench/peer ## speed and memory beside others, as ratios (STRICT=1: a missed bar fails)
	@BUILD=$(BUILD) scripts/bench $(if $(STRICT),--strict)

# The programs that kvctl is measured against get all optimisations of this machine's compiler.
$(BUILD)/bench/%: tests/bench/%.c $(BUILD)/flags | libraries
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O3 -march=native $(WARN) -o $@ $< -lcsv -lcjson

# Every optimizer beside the limit of the memory: ratios, no bars.
bench-optimizers: $(BUILD)/bench_optimizers ## each optimizer as a fraction of what the memory allows
	$<

bench-dot: $(BUILD)/bench_dot ## products of matrices beside OpenBLAS (libopenblas0), where it is installed
	$<

bench-rows: $(BUILD)/bench_rows ## row_sparse values, summed and in a store, beside plain loops
	$<

bench-checkpoints: all $(BUILD)/bench_checkpoints ## commands on checkpoints beside plain loops; IN=FOLDER, best in memory
	$(BUILD)/bench_checkpoints $(BUILD)/kvctl $(or $(IN),/dev/shm)
	$(BUILD)/bench_checkpoints $(BUILD)/kvctl $(or $(LARGE),/var/tmp) large

$(BUILD)/bench_optimizers: $(BUILD)/tests/bench/hand.o $(BUILD)/tests/bench/optimizer_loops.o
$(BUILD)/tests/bench/optimizer_loops.o: ALL_CFLAGS += -O3 -march=native

# They share the loop, the clock and the table of optimizers of `kvctl bench`.
$(BUILD)/bench_%: $(BUILD)/tests/bench/%.o $(call obj,cli/bench/bench_stream.c cli/bench/bench_op.c) \
                  $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

bench-small: all $(BUILD)/bench_small ## single calls and tiny keys by the public header, beside loops, LMDB and redis
	@BUILD=$(BUILD) tests/bench/look-ups

# As a program of the user: the shared library, and of ours only the public headers.
$(BUILD)/bench_small: tests/bench/small.c $(BUILD)/libkvstore.so $(BUILD)/flags
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O3 -march=native $(WARN) -Isrc -Ilib/array -Ilib/base -Ilib -o $@ $< -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN' -pthread

bench-scale: all ## how the time of a push grows with bytes and with keys
	@BUILD=$(BUILD) tests/bench/scale

bench-quantise: $(BUILD)/bench_quantise ## compressing gradients as a fraction of what the memory allows
	$<

# Their limits are loops of their own, which get everything that the compiler can do on this machine.
$(BUILD)/tests/bench/quantise.o $(BUILD)/tests/bench/rows.o: ALL_CFLAGS += -O3 -march=native -fno-math-errno

bench-dist: all $(BUILD)/bench_dist ## the types of several machines beside plain MPI loops
	mpirun --oversubscribe --bind-to none -n 2 $(BUILD)/bench_dist sums
	mpirun --oversubscribe --bind-to none -x KVSTORE_SERVERS=1 -n 2 $(BUILD)/bench_dist stored
	mpirun --oversubscribe --bind-to none -n 4 $(BUILD)/bench_dist crowd
	mpirun --oversubscribe --bind-to none -n 2 $(BUILD)/bench_dist changes
	KVCTL=$(abspath $(BUILD))/bench_dist tests/dist/hosts --rate 1gbit --ranks 2 --servers 1 link || [ $$? = 77 ]
	KVCTL=$(abspath $(BUILD))/bench_dist tests/dist/hosts --rate 1gbit --ranks 2 --servers 1 changes || [ $$? = 77 ]

# It brings up MPI itself and shares it with the plugin, so it needs the shared library.
$(BUILD)/tests/bench/dist.o: ALL_CFLAGS += $(shell mpicc --showme:compile 2>/dev/null)
$(BUILD)/bench_dist: $(call obj,tests/bench/dist.c cli/bench/bench_workload.c) $(BUILD)/libkvstore.so
	$(link_shared) $(shell mpicc --showme:link 2>/dev/null)

bench-growth: all $(BUILD)/growth_mpi ## how time, memory and connections of a rank grow with ranks, keys and bytes
	@BUILD=$(BUILD) tests/bench/growth

# Nothing of ours, so that what MPI takes can be told apart.
$(BUILD)/growth_mpi: tests/bench/growth_mpi.c $(BUILD)/flags | libraries
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O2 $(WARN) $(shell mpicc --showme:compile 2>/dev/null) -o $@ $< $(shell mpicc --showme:link 2>/dev/null)

# Not part of any other word: it downloads what is not there yet.
peers: all $(BUILD)/bench_rows ## the store beside PyTorch, MXNet and NumPy, in turns
	@BUILD=$(BUILD) scripts/peers

test-launch: ## the launchers, each through its own daemons on hosts of this machine (as root)
	@scripts/setup launch
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@BUILD=$(BUILD) scripts/test launch

golden: all ## rewrite the expected output of the sessions in tests/cli (ONLY=name); read the diff
	@BUILD=$(BUILD) tests/cli/run --update $(ONLY)

# The suites that run our own code, each sanitizer in a build folder of its own. Some tests ask for more
# memory than there is, which must fail as it does without a sanitizer.
sanitized = ASAN_OPTIONS=allocator_may_return_null=1:$$ASAN_OPTIONS \
            TSAN_OPTIONS=allocator_may_return_null=1:$$TSAN_OPTIONS TEST_SECONDS=600 $(MAKE) --no-print-directory BUILD=build/$(1) OPT='-O1 -g -fno-omit-frame-pointer -DKV_TEST $(2)' \
            SUITES='unit conformance sessions fuzz records few-dist bats' test

asan: ## every test with the address sanitizer
	@$(call sanitized,asan,-fsanitize=address)

ubsan: ## every test with the undefined-behaviour sanitizer
	@$(call sanitized,ubsan,-fsanitize=undefined -fno-sanitize-recover=undefined)

tsan: ## every test with the thread sanitizer
	@$(call sanitized,tsan,-fsanitize=thread)

coverage: ## lines and branches that the tests reach, by room (SUITES=; ROOM=src/core: what is not reached there)
	@MAKE='$(MAKE)' JOBS=$(JOBS) scripts/coverage $(if $(ROOM),--room $(ROOM),$(SUITES))

# The unit tests take too long under it, and asan and ubsan see what they do.
valgrind := valgrind -q --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99
valgrind: all ## the golden sessions under valgrind
	@BUILD=$(BUILD) UNDER='$(valgrind)' scripts/test sessions

SEED ?= 1
truth: all $(BUILD)/unit $(BUILD)/differential $(TRUTH_TESTS) ## random optimizers, programs and rules beside their truth (N=100000 SEED=1)
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/truth/run $(or $(N),100000) $(SEED) $(ONLY)

sim: $(BUILD)/kvsim ## N=10000 random jobs of ranks that stall and die, in one process each (SEED=1)
	@$(BUILD)/kvsim $(or $(N),10000) $(SEED)

mutants: ## change one place of a room at a time and see whether its tests fail (ROOM=engine N=200)
	@tests/mutants/run $(or $(ROOM),engine) $(or $(N),200) $(SEED)

lint: ## who may include whom, and the other rules that a program can check
	@BUILD=$(BUILD) scripts/lint

analyze: ## gcc -fanalyzer, clang-tidy and cppcheck over lib, src, cli and cuda, those that are installed
	@JOBS=$(JOBS) scripts/analyze

format: ## bring lines of more than 100 columns back below
	@scripts/format

readme-check: all examples ## paste every block of README.md as it stands
	@BUILD=$(BUILD) scripts/readme-check

size: ## lines of code by room, and the trend of the last ten commits
	@scripts/size

headers: ## compile each header by itself, the public ones as C++ too
	@CC='$(CC)' CXX='$(CXX)' scripts/headers $(PUBLIC)

# ---- Installing -----------------------------------------------------------------------------------

# The manual pages come from the help of kvctl and the comments of the headers.
manual: $(BUILD)/kvctl.1 $(BUILD)/kvstore.3 $(BUILD)/kvctl-language.7 ## write the manual pages

$(BUILD)/kvctl.1: $(BUILD)/kvctl scripts/manual cli/term/exit_code.h
	@scripts/manual kvctl $< > $@.new && mv $@.new $@

$(BUILD)/kvstore.3: $(PUBLIC) scripts/manual
	@scripts/manual kvstore $(PUBLIC) > $@.new && mv $@.new $@

$(BUILD)/kvctl-language.7: cli/language.md scripts/manual
	@scripts/manual language $< > $@.new && mv $@.new $@

SHARE  := $(PREFIX)/share
MAN3   := $(SHARE)/man/man3
MAN7   := $(SHARE)/man/man7
# Where that Python looks, below the prefix.
PYTHONDIR ?= $(if $(PYTHON3),$(shell $(PYTHON3) scripts/wheel --folder '$(PREFIX)' 2>/dev/null))
# man kv_push shows the page that it is on.
calls   = $(shell scripts/manual calls $(PUBLIC))

install: all manual ## install into $(DESTDIR)$(PREFIX)
	install -d $(addprefix $(DESTDIR),$(PREFIX)/bin $(PREFIX)/include $(LIBDIR)/pkgconfig $(SHARE)/man/man1 $(MAN3) $(MAN7) \
	    $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d)
	install -m 644 $(PUBLIC) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/libkvstore.a $(BUILD)/$(SONAME) $(DESTDIR)$(LIBDIR)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libkvstore.so
	install -m 755 $(BUILD)/kvctl $(DESTDIR)$(PREFIX)/bin
	$(if $(have_mpi),install -m 644 $(BUILD)/kvstore_mpi.so $(DESTDIR)$(LIBDIR))
	$(if $(have_cuda),install -m 644 $(BUILD)/kvstore_cuda.so $(DESTDIR)$(LIBDIR))
	$(if $(have_python),install -d $(DESTDIR)$(PYTHONDIR)/kvstore && install -m 644 $(python_src) $(DESTDIR)$(PYTHONDIR)/kvstore && \
	    $(call link_python,$(DESTDIR)$(PYTHONDIR)/kvstore/_kvstore.abi3.so,$(filter-out /usr/lib%,$(LIBDIR))))
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' '' 'Name: kvstore' \
	    'Description: key-value store of arrays' 'Version: $(VERSION)' \
	    'Cflags: -I$${prefix}/include' 'Libs: -L$${libdir} -lkvstore' \
	    'Libs.private: $(LDLIBS_LIB)' > $(DESTDIR)$(LIBDIR)/pkgconfig/kvstore.pc
	install -m 644 $(BUILD)/kvctl.1 $(DESTDIR)$(SHARE)/man/man1
	install -m 644 $(BUILD)/kvstore.3 $(DESTDIR)$(MAN3)
	install -m 644 $(BUILD)/kvctl-language.7 $(DESTDIR)$(MAN7)
	@for call in $(calls); do echo '.so man3/kvstore.3' > $(DESTDIR)$(MAN3)/$$call.3; done
	install -m 644 cli/completions/kvctl.bash $(DESTDIR)$(SHARE)/bash-completion/completions/kvctl
	install -m 644 cli/completions/kvctl.zsh $(DESTDIR)$(SHARE)/zsh/site-functions/_kvctl
	install -m 644 cli/completions/kvctl.fish $(DESTDIR)$(SHARE)/fish/vendor_completions.d

uninstall: ## remove what install put there
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/include/,$(notdir $(PUBLIC))) \
	    $(addprefix $(DESTDIR)$(LIBDIR)/,libkvstore.a $(SONAME) libkvstore.so kvstore_mpi.so kvstore_cuda.so pkgconfig/kvstore.pc) \
	    $(addprefix $(DESTDIR)$(MAN3)/,$(addsuffix .3,kvstore $(calls))) \
	    $(addprefix $(DESTDIR)$(SHARE)/,man/man1/kvctl.1 man/man7/kvctl-language.7 bash-completion/completions/kvctl \
	        zsh/site-functions/_kvctl fish/vendor_completions.d/kvctl.fish) \
	    $(DESTDIR)$(PREFIX)/bin/kvctl
	$(if $(PYTHONDIR),rm -rf $(DESTDIR)$(PYTHONDIR)/kvstore)

deb: all manual ## build a Debian package of kvctl and the library, $(BUILD)/kvctl_VERSION_ARCH.deb
	@MAKE='$(MAKE)' BUILD='$(BUILD)' VERSION='$(VERSION)' HAVE_MPI='$(have_mpi)' scripts/deb

clean: ## remove everything that was built
	rm -rf build

help: ## list these words
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1 \2/p' Makefile | \
	    while read -r word text; do printf '  %-16s %s\n' "$$word" "$$text"; done
	@echo '  options: BUILD= CC= OPT= CFLAGS= WERROR=1 V=1 ONLY= HARDEN= PREFIX= DESTDIR= READLINE= MPI= CUDA= PYTHON= ZLIB= XXHASH= CRYPTO= ZSTD= SETUP=0'

# Goals with absolute paths, for the same reason.
absolute := $(filter $(CURDIR)/%,$(MAKECMDGOALS))
$(absolute): $(CURDIR)/%: % ;

-include $(patsubst %.o,%.d,$(call obj,$(lib_src) $(tool_src) $(dist_src) $(gpu_src) tests/unit/run.c $(UNIT) \
            $(conformance_src) tests/differential/main.c $(wildcard tests/truth/*.c) $(wildcard tests/sim/*.c) $(wildcard tests/faults/*.c) $(wildcard tests/bench/*.c) $(wildcard tests/dist/*.c) $(wildcard tests/device/*.c) \
            $(sim_launch:$(BUILD)/%.o=%.c) $(wildcard tests/fuzz/*.c) $(FUZZ:%=replay/fuzz_%.c) \
            $(wildcard src/python/*.c) examples/sum.c examples/average.c))
.PHONY: all chosen libraries python examples demo test tests faults fuzz test-gpu test-launch setup check unit golden coverage asan ubsan tsan valgrind lint analyze format headers readme-check size truth mutants sim \
        bench bench-checkpoints bench-dot bench-optimizers bench-quantise bench-rows bench-scale bench-small bench-dist bench-growth bench-gpu gpu-dry peers manual install uninstall deb wheel clean help force
.SECONDARY:
