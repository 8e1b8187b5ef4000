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
STRIP    ?= strip
INSTALL  ?= install
PREFIX   ?= /usr/local
# Shells other than bash leave the ~ of PREFIX=~/.local as it is.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
V      ?= 0
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

# auto: used when it is there; 0: left out; 1: wanted, or the build stops.
READLINE ?= auto
MPI      ?= auto
CUDA     ?= auto
PYTHON   ?= auto

OPT      ?= -O2 -g
LOOPS    ?= -O3
loops     = $(LOOPS)
WARN     := -Wall -Wextra -Werror=implicit-function-declaration -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?=
CPPFLAGS ?=
# -ffp-contract=off: every written operation is one rounding, on every machine. -fsigned-char: arm64 has it the other way.
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-common -fsigned-char -ffp-contract=off -fPIC -pthread \
              -ffile-prefix-map=$(CURDIR)=. -Ilib -Ilib/base -Ilib/array -Isrc -Icli $(CPPFLAGS) $(CFLAGS)
ifdef WERROR
ALL_CFLAGS += -Werror
endif
LDLIBS_LIB := -lcsv -lcjson -lm -ldl -pthread
LDLIBS_CLI :=

# What ends a process where a mistake of ours would be a way in. It is left out without optimisation and with
# sanitizers, which see more, and by HARDEN=0.
HARDEN ?= auto
HARDENED := $(if $(filter 0,$(HARDEN))$(findstring -fsanitize,$(OPT) $(CFLAGS)),,$(filter -O1 -O2 -O3 -Os,$(OPT)))

# The folders of the library and of the tool.
PARTS ?= lib/base lib/engine lib/array lib/cpu lib/lang lib/vm lib/io lib/checkpoint lib/tensors lib/merge lib/patch src src/core src/local
TOOL  ?= cli $(addprefix cli/,session syntax options eval functions files out run cmd checkpoints complete launch attach tools term)
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
choices := CC CXX CFLAGS CPPFLAGS HARDENED PYTHON3 READLINE MPI CUDA PYTHON
ifneq ($(shell $(foreach c,$(choices),$(c)='$($(c))') scripts/probe $(BUILD)/probes.mk || echo failed),)
$(error scripts/probe failed)
endif
include $(BUILD)/probes.mk
ifeq ($(CUDA)$(have_cuda),1)
$(error CUDA=1: there is no nvcc, which the CUDA Toolkit has (Debian: nvidia-cuda-toolkit))
endif

ifneq ($(HARDENED),)
# No exception passes through C, and a debugger reads the frames from the debug information: tables to unwind by would
# be a twelfth of kvctl.
ALL_CFLAGS := $(HARD_CFLAGS) -fno-asynchronous-unwind-tables $(ALL_CFLAGS)
loops := $(LOOPS) $(HARD_LOOPS)
override LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)
PIE := -pie
endif

LDLIBS_CLI += $(if $(have_readline),-ldl)
# libcrypto and libpcre2 are loaded when they are first needed: a process that is linked with them starts 1.5 and
# 0.07 ms later.
LDLIBS_LIB += -lz -lxxhash -lzstd
endif

# ---- Building -------------------------------------------------------------------------------------

all: $(BUILD)/libkvstore.a $(BUILD)/libkvstore.so $(BUILD)/kvctl $(if $(have_mpi),$(BUILD)/kvstore_mpi.so) $(if $(have_cuda),$(BUILD)/kvstore_cuda.so) $(if $(have_python),python) ## build the libraries and kvctl (the default)

# Nothing is compiled without the libraries that all of it needs.
libraries:
ifneq ($(missing),)
	@echo 'missing: the headers of $(missing). "make setup" installs them.' >&2; exit 1
endif

# Changes when the flags do, and then everything is compiled again: a line for the compiler, one for its options, one
# for the libraries and the hardening.
options := $(strip $(OPT) $(CPPFLAGS) $(CFLAGS))
found   := $(strip readline=$(have_readline) $(HARD_CFLAGS) $(loops) $(SMALL_LOOPS))
ifneq ($(strip $(CC)) $(options) $(found),$(shell cat $(BUILD)/flags 2>/dev/null))
$(BUILD)/flags: force
endif
$(BUILD)/flags:
	@mkdir -p $(@D)
	@echo '  readline: $(readline_is); MPI: $(mpi_is); CUDA: $(cuda_is); Python: $(python_is)'
	@printf '%s\n' '$(strip $(CC))' '$(options)' '$(found)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags | libraries
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The name that plugins ask for, and the folder of Debian's libraries below /usr/lib.
$(BUILD)/src/plugin.o: ALL_CFLAGS += -DLIBRARY='"$(SONAME)"' -DMULTIARCH='"$(multiarch)"'

$(BUILD)/cli/term/line.o: ALL_CFLAGS += $(if $(have_readline),-DHAVE_READLINE)

# The loops over elements are written for the vectoriser, which works from -O3 on and may assume that
# nobody looks at the floating-point exception flags.
$(BUILD)/lib/cpu/%.o $(BUILD)/lib/checkpoint/tensor_codec.o $(BUILD)/lib/tensors/tensor_check.o: ALL_CFLAGS += $(loops) -fno-trapping-math
$(foreach f,reduce dot scan sort pick,$(BUILD)/lib/array/$(f).o): ALL_CFLAGS += $(loops) -fno-trapping-math
$(BUILD)/lib/tensors/number_loops.o: ALL_CFLAGS += $(loops) -fno-trapping-math
$(foreach f,make pack,$(BUILD)/lib/patch/patch_$(f).o): ALL_CFLAGS += $(loops)
# The same for the loops of programs; sqrt without errno is one instruction.
$(BUILD)/lib/merge/%.o $(foreach f,kernel_fold kernel_avx2 kernel_avx512 plan_work,$(BUILD)/lib/vm/$(f).o): ALL_CFLAGS += $(loops) -fno-trapping-math -fno-math-errno

# The optimizers of the library: each text once for every name behind `updater`. The folder is newer
# when one was removed.
rules := $(wildcard src/optimizers/*.kvu)
merges := $(wildcard src/merges/*.kvu)
# The merges whose programs have loops of their own: those that most people use.
looped := $(rules) $(addprefix src/merges/,dare_ties.kvu linear.kvu slerp.kvu ties.kvu)
$(BUILD)/builtin_texts.c: $(rules) src/optimizers scripts/embed
	@mkdir -p $(@D)
	@scripts/embed $(rules) > $@

# A loop for each program of theirs, written by a program of this build. HOSTCC is the compiler of this machine where CC
# compiles for another one.
loops_src := $(filter-out lib/base/xxh64.c,$(foreach d,base engine array cpu lang vm,$(wildcard lib/$(d)/*.c))) src/optimizers/loops.c src/optimizers/paths.c
$(BUILD)/no_loops.c:
	@mkdir -p $(@D)
	@printf '%s\n' '#include "vm/kernel.h"' 'const rule_loop rule_loops[] = {{0}};' 'const int rule_nloops = 0;' > $@
ifeq ($(HOSTCC),)
$(BUILD)/loops: $(call obj,$(loops_src)) $(BUILD)/num_powers.o $(BUILD)/no_loops.o
	$(link) -lm -ldl -pthread
else
$(BUILD)/loops: $(loops_src) force
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/host CC='$(HOSTCC)' HOSTCC= $(BUILD)/host/loops && cp -u $(BUILD)/host/loops $@
endif
$(BUILD)/rule_loops.c: $(BUILD)/loops $(looped) src/optimizers
	@$< $(looped) $@
$(BUILD)/rule_loops.o $(BUILD)/lib/vm/kernel.o: private ALL_CFLAGS += $(loops) $(SMALL_LOOPS) -fno-trapping-math -fno-math-errno

# The merges of the tool, in the same way.
$(BUILD)/merge_texts.c: $(merges) src/merges scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --merges $(merges) > $@

# The powers of ten that numbers are read and printed with.
$(BUILD)/num_powers.c: scripts/powers
	@mkdir -p $(@D)
	@scripts/powers > $@

# Pages that the tool shows too: on the language, on rules, on checkpoints, and on the environment.
pages := $(foreach page,language rules checkpoints environment lecture python,$(BUILD)/$(page)_text.o)
$(BUILD)/%_text.c: cli/%.md scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text $*_text cmd/help.h $< > $@

# The completion scripts of the shells.
completions := $(foreach shell,bash zsh fish,$(BUILD)/completion_$(shell).o)
$(BUILD)/completion_%.c: cli/completions/kvctl.% scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text completion_$* options/shell_option.h $< > $@

# Helps, hints, functions in the language itself, and what jobs of queues and Kubernetes are made of.
texts := $(patsubst %.txt,$(BUILD)/text_%.o,$(notdir $(wildcard cli/*/texts/*.txt))) $(BUILD)/text_prelude.o
$(BUILD)/text_prelude.c: cli/syntax/prelude.kv scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --prelude $< > $@
$(BUILD)/text_%.c: cli/cmd/texts/%.txt scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text text_$* cmd/help.h $< > $@
$(BUILD)/text_%.c: cli/syntax/texts/%.txt scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text text_$* syntax/hints.h $< > $@
$(BUILD)/text_%.c: cli/options/texts/%.txt scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text text_$* options/options.h $< > $@
$(BUILD)/text_%.c: cli/launch/texts/%.txt scripts/embed
	@mkdir -p $(@D)
	@scripts/embed --text text_$* launch/launch_options.h $< > $@

# Sources that were made above.
$(BUILD)/%.o: $(BUILD)/%.c
	$(call say,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

tool_obj := $(call obj,$(tool_src)) $(pages) $(completions) $(texts)

lib_obj := $(call obj,$(lib_src)) $(BUILD)/builtin_texts.o $(BUILD)/merge_texts.o $(BUILD)/num_powers.o $(BUILD)/rule_loops.o

# The commands of the linker. Programs that load plugins link the shared library, so that a plugin uses the
# same one; others have the static one among their prerequisites.
link        = $(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^)
link_shared = $(link) -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN'
link_plugin = $(link) -shared -Wl,-soname,$(@F) -L$(BUILD) -lkvstore

$(BUILD)/libkvstore.a: $(lib_obj)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

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
archives  = $(foreach l,csv z xxhash zstd,$(archive_$(l)))
link_tool = $(CC) $(ALL_CFLAGS) $(PIE) $(LDFLAGS) $(relative) -rdynamic -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL -Wl,--as-needed -o $@ \
            $(filter %.o,$^) $(1) $(LDLIBS_CLI) $(LDLIBS_LIB)
$(BUILD)/kvctl: $(tool_obj) $(lib_obj)
	$(call say,LD)$(call link_tool,$(archives))

$(BUILD)/packaged/kvctl: $(tool_obj) $(lib_obj)
	@mkdir -p $(@D)
	$(call say,LD)$(call link_tool)

# The plugin of several machines. Only one of its files names MPI.
$(BUILD)/src/distributed/mpi.o: ALL_CFLAGS += $(mpi_cflags)

dist_src := $(wildcard src/distributed/*.c)
$(BUILD)/kvstore_mpi.so: $(call obj,$(dist_src)) $(BUILD)/libkvstore.so
	$(link_plugin) $(mpi_libs)

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

# The same for a wheel, where the library lies in the module's folder. kvctl finds the small libraries there: pip puts it
# into bin, and the module into the folder of the Python that is used, or, with --target, beside bin.
$(BUILD)/wheel/kvctl: $(tool_obj) $(lib_obj)
	$(call say,LD)$(call link_tool,$(archives) -Wl$(comma)-rpath$(comma)'$$ORIGIN/../kvstore$(foreach v,11 12 13 14 15 16 17 18 19,:$$ORIGIN/../lib/python3.$v/site-packages/kvstore)')

# One that was made before is removed when a part of it changes: pip would install the old module.
old_wheels := $(wildcard $(BUILD)/kvstore-*.whl)
all: $(old_wheels)
$(old_wheels): $(addprefix $(BUILD)/,libkvstore.so kvctl $(if $(have_mpi),kvstore_mpi.so) $(if $(have_cuda),kvstore_cuda.so)) \
    $(if $(have_python),$(PY)/_kvstore.abi3.so) $(python_src)
	@rm -f $@

WHEEL := $(BUILD)/wheel/kvstore
wheel: all ## build a wheel of the module for Python with kvctl, the library and its plugins, $(BUILD)/kvstore-VERSION-....whl
ifdef have_python
	@rm -rf $(WHEEL) $(BUILD)/kvstore-*.whl && mkdir -p $(WHEEL)
	@cp $(python_src) $(WHEEL)
	$(call link_python,$(WHEEL)/_kvstore.abi3.so,$$ORIGIN)
	$(call say,LD)$(call link_library,$(WHEEL)/libkvstore.so.0) -Wl,-rpath,'$$ORIGIN'
	@$(MAKE) --no-print-directory $(BUILD)/wheel/kvctl
	@cp $(addprefix $(BUILD)/,$(plugins)) $(WHEEL)
	@$(STRIP) --strip-unneeded $(WHEEL)/*.so* && $(STRIP) $(BUILD)/wheel/kvctl
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

# ---- Installing -----------------------------------------------------------------------------------

# The manual pages come from the help of kvctl and the comments of the headers.
manual: $(BUILD)/kvctl.1 $(BUILD)/kvstore.3 $(BUILD)/kvctl-language.7 ## write the manual pages

$(BUILD)/kvctl.1: $(BUILD)/kvctl scripts/manual cli/term/terminal.h
	@scripts/manual kvctl $< > $@.new && mv $@.new $@

$(BUILD)/kvstore.3: $(PUBLIC) scripts/manual
	@scripts/manual kvstore $(PUBLIC) > $@.new && mv $@.new $@

$(BUILD)/kvctl-language.7: cli/language.md scripts/manual
	@scripts/manual language $< > $@.new && mv $@.new $@

prefix       = $(PREFIX)
bindir       = $(prefix)/bin
includedir   = $(prefix)/include
libdir       = $(prefix)/lib
datarootdir  = $(prefix)/share
mandir       = $(datarootdir)/man
pkgconfigdir = $(libdir)/pkgconfig
bashdir      = $(datarootdir)/bash-completion/completions
zshdir       = $(datarootdir)/zsh/site-functions
fishdir      = $(datarootdir)/fish/vendor_completions.d
docdir       = $(datarootdir)/doc/kvctl
# Where that Python looks, below the prefix.
PYTHONDIR ?= $(if $(PYTHON3),$(shell $(PYTHON3) scripts/wheel --folder '$(prefix)' 2>/dev/null))
# man kv_push shows the page that it is on.
calls   = $(shell scripts/manual calls $(PUBLIC))
plugins = $(if $(have_mpi),kvstore_mpi.so) $(if $(have_cuda),kvstore_cuda.so)

install: all manual ## install into $(DESTDIR)$(prefix)
	$(INSTALL) -d $(addprefix $(DESTDIR),$(bindir) $(includedir)/kvstore $(pkgconfigdir) $(addprefix $(mandir)/man,1 3 7) \
	    $(bashdir) $(zshdir) $(fishdir) $(docdir)/examples/data)
	$(INSTALL) -m 644 $(foreach x,c kv md out py sh svg txt,$(wildcard examples/*.$x)) $(DESTDIR)$(docdir)/examples
	$(INSTALL) -m 644 $(wildcard examples/data/*) $(DESTDIR)$(docdir)/examples/data
	$(INSTALL) -m 644 $(PUBLIC) $(DESTDIR)$(includedir)/kvstore
	$(INSTALL) -m 644 $(addprefix $(BUILD)/,libkvstore.a $(SONAME) $(plugins)) $(DESTDIR)$(libdir)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libkvstore.so
	$(INSTALL) -m 755 $(BUILD)/kvctl $(DESTDIR)$(bindir)
	$(if $(have_python),$(INSTALL) -d $(DESTDIR)$(PYTHONDIR)/kvstore)
	$(if $(have_python),$(INSTALL) -m 644 $(python_src) $(DESTDIR)$(PYTHONDIR)/kvstore)
	$(if $(have_python),$(call link_python,$(DESTDIR)$(PYTHONDIR)/kvstore/_kvstore.abi3.so,$(filter-out /usr/lib%,$(libdir))))
	# What is installed has no debug information; the build folder keeps it.
	$(STRIP) $(DESTDIR)$(bindir)/kvctl
	$(STRIP) --strip-unneeded $(addprefix $(DESTDIR)$(libdir)/,$(SONAME) $(plugins)) $(if $(have_python),$(DESTDIR)$(PYTHONDIR)/kvstore/_kvstore.abi3.so)
	$(STRIP) --strip-debug $(DESTDIR)$(libdir)/libkvstore.a
	printf '%s\n' 'prefix=$(prefix)' 'includedir=$(patsubst $(prefix)/%,$${prefix}/%,$(includedir))' \
	    'libdir=$(patsubst $(prefix)/%,$${prefix}/%,$(libdir))' '' 'Name: kvstore' \
	    'Description: key-value store of arrays' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}/kvstore' 'Libs: -L$${libdir} -lkvstore' \
	    'Libs.private: $(LDLIBS_LIB)' > $(DESTDIR)$(pkgconfigdir)/kvstore.pc
	$(INSTALL) -m 644 $(BUILD)/kvctl.1 $(DESTDIR)$(mandir)/man1
	$(INSTALL) -m 644 $(BUILD)/kvstore.3 $(DESTDIR)$(mandir)/man3
	$(INSTALL) -m 644 $(BUILD)/kvctl-language.7 $(DESTDIR)$(mandir)/man7
	@for call in $(calls); do echo '.so man3/kvstore.3' > $(DESTDIR)$(mandir)/man3/$$call.3; done
	$(INSTALL) -m 644 cli/completions/kvctl.bash $(DESTDIR)$(bashdir)/kvctl
	$(INSTALL) -m 644 cli/completions/kvctl.zsh $(DESTDIR)$(zshdir)/_kvctl
	$(INSTALL) -m 644 cli/completions/kvctl.fish $(DESTDIR)$(fishdir)
	$(if $(have_python),@$(PYTHON3) -c 'import sys; sys.exit(sys.argv[1] in sys.path)' '$(PYTHONDIR)' && \
	    echo '  Python does not look there by itself: export PYTHONPATH=$(PYTHONDIR)' || :)

uninstall: ## remove what install put there
	rm -rf $(DESTDIR)$(includedir)/kvstore $(if $(PYTHONDIR),$(DESTDIR)$(PYTHONDIR)/kvstore) $(DESTDIR)$(docdir)/examples
	rm -f $(DESTDIR)$(bindir)/kvctl $(DESTDIR)$(pkgconfigdir)/kvstore.pc \
	    $(addprefix $(DESTDIR)$(libdir)/,libkvstore.a $(SONAME) libkvstore.so kvstore_mpi.so kvstore_cuda.so) \
	    $(addprefix $(DESTDIR)$(mandir)/,man1/kvctl.1 man7/kvctl-language.7 $(addprefix man3/,$(addsuffix .3,kvstore $(calls)))) \
	    $(DESTDIR)$(bashdir)/kvctl $(DESTDIR)$(zshdir)/_kvctl $(DESTDIR)$(fishdir)/kvctl.fish

deb: all manual ## build a Debian package of kvctl and the library, $(BUILD)/kvctl_VERSION_ARCH.deb
	@MAKE='$(MAKE)' BUILD='$(BUILD)' VERSION='$(VERSION)' HAVE_MPI='$(have_mpi)' scripts/deb

clean: ## remove everything that was built
	rm -rf build

help: ## list these words
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1 \2/p' Makefile tests/tests.mk tests/bench/bench.mk | \
	    while read -r word text; do printf '  %-16s %s\n' "$$word" "$$text"; done
	@echo '  options: BUILD= CC= HOSTCC= AR= OPT= CFLAGS= CPPFLAGS= LDFLAGS= WERROR=1 V=1 ONLY= HARDEN= PREFIX= DESTDIR= prefix= bindir= includedir= libdir= mandir= INSTALL= STRIP= READLINE= MPI= CUDA= PYTHON= SETUP=0'

# Tests and benchmarks have makefiles of their own, which are read when something else is asked for than these.
here := all python wheel examples demo test setup manual install uninstall deb clean help
ifneq ($(filter-out $(here),$(or $(MAKECMDGOALS),all)),)
-include tests/tests.mk tests/bench/bench.mk
endif

# Goals with absolute paths, for the same reason.
absolute := $(filter $(CURDIR)/%,$(MAKECMDGOALS))
$(absolute): $(CURDIR)/%: % ;

-include $(patsubst %.o,%.d,$(call obj,$(lib_src) src/optimizers/loops.c src/optimizers/paths.c $(tool_src) $(dist_src) $(gpu_src) $(wildcard src/python/*.c) examples/sum.c examples/average.c)) $(BUILD)/rule_loops.d
.PHONY: $(here) libraries force
.SECONDARY:
