# kvctl and libkvstore. `make help` lists the words; V=1 shows the commands; local choices go into
# config.mk, which git ignores.
-include config.mk

BUILD  ?= build
CC     ?= cc
PREFIX ?= /usr/local
V      ?= 0

OPT      ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?=
# -ffp-contract=off: every written operation is one rounding, on every machine.
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-common -ffp-contract=off -fPIC -pthread \
              -Ilib -Ilib/base -Ilib/array -Isrc -Icli $(CFLAGS)
ifdef WERROR
ALL_CFLAGS += -Werror
endif
LDLIBS_LIB := -lcsv -lcjson -lm -pthread
LDLIBS_CLI := -lreadline

# What the library and the tool are made of.
PARTS ?= lib/base lib/engine lib/array lib/cpu lib/lang lib/vm lib/io src src/core src/local
TOOL  ?= cli cli/script cli/term
UNIT  ?= $(wildcard tests/unit/test_*.c)

lib_src  := $(foreach d,$(PARTS),$(wildcard $(d)/*.c))
tool_src := $(foreach d,$(TOOL),$(wildcard $(d)/*.c))
obj       = $(patsubst %.c,$(BUILD)/%.o,$(1))

ifeq ($(V),0)
say = @printf '  %-5s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$@)';
endif

all: $(BUILD)/libkvstore.a $(BUILD)/libkvstore.so $(BUILD)/kvctl

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libkvstore.a: $(call obj,$(lib_src))
	$(call say,AR)rm -f $@ && ar rcs $@ $^

$(BUILD)/libkvstore.so: $(call obj,$(lib_src))
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libkvstore.so -o $@ $^ $(LDLIBS_LIB)

$(BUILD)/kvctl: $(call obj,$(tool_src)) $(BUILD)/libkvstore.so
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(call obj,$(tool_src)) -L$(BUILD) -lkvstore \
	    -Wl,-rpath,'$$ORIGIN' $(LDLIBS_CLI) $(LDLIBS_LIB)

unit: $(BUILD)/unit ## run the unit tests (ONLY=name-prefix)
	$(BUILD)/unit $(ONLY)

# The list of tests is what the files say: every line that begins with TEST(.
$(BUILD)/test_list.h: $(UNIT)
	@mkdir -p $(@D)
	@sed -n 's/^TEST(\([a-z0-9_]*\)).*/TEST_ENTRY(\1)/p' $(UNIT) > $@

$(BUILD)/tests/unit/run.o: $(BUILD)/test_list.h
$(BUILD)/tests/unit/%.o: ALL_CFLAGS += -Itests/unit -I$(BUILD)
$(BUILD)/unit: $(call obj,tests/unit/run.c $(UNIT)) $(BUILD)/libkvstore.a
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS_LIB)

clean: ## remove everything that was built
	rm -rf build

-include $(patsubst %.o,%.d,$(call obj,$(lib_src) $(tool_src) tests/unit/run.c $(UNIT)))
.PHONY: all unit clean
.SECONDARY:
