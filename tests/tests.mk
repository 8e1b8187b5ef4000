# The programs that tests need, and the words that run them. The Makefile of the top folder includes this.

check: all $(BUILD)/unit $(BUILD)/conformance ## the tests that take seconds
	@BUILD=$(BUILD) scripts/test lint unit conformance sessions

unit: $(BUILD)/unit ## run the unit tests (ONLY=name-prefix)
	$(BUILD)/unit $(ONLY)

one: ## run one test, wherever it is: T=map (unit), T=error-shape (a session), T=attach (bats)
	@BUILD=$(BUILD) scripts/one $(T)

# Tests are compiled once and run for a moment: -Og takes a third of the time of -O2. Not those that compute much.
$(foreach d,conformance faults fuzz truth unit,$(BUILD)/tests/$(d)/%.o) $(BUILD)/tests/dist/record%.o: \
    ALL_CFLAGS += $(if $(filter -O2 -O3,$(OPT)),-Og)

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
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

# The walk over paths of rules.
unit_paths := $(if $(findstring /test_whole,$(UNIT)),$(call obj,src/optimizers/paths.c))
# Unit tests of the plugin's messages, which need no ranks.
unit_dist := $(call obj,$(addprefix src/distributed/,$(if $(findstring /test_place,$(UNIT)), \
    asks.c environment.c link_record.c $(if $(findstring /test_states,$(UNIT)),checkpoint_writer.c rank_residuals.c states.c))))
$(BUILD)/unit: $(call obj,tests/unit/run.c $(UNIT)) $(unit_tool) $(unit_dist) $(unit_paths) $(BUILD)/libkvstore.a
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
# Most of what these compute is loops over elements.
$(BUILD)/tests/dist/check.o: ALL_CFLAGS += $(loops)
$(BUILD)/tests/dist/link.o: ALL_CFLAGS += $(mpi_cflags)
$(BUILD)/dist_link: $(call obj,tests/dist/link.c src/distributed/mpi.c src/distributed/link_record.c src/distributed/environment.c) $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB) $(mpi_libs)

STUBS := $(addprefix $(BUILD)/stub/,libcuda.so.1 libnvrtc.so.12 libnvrtc.so.13)
GPU_TESTS := $(if $(have_cxx),$(BUILD)/device/kvstore_cuda.so) $(BUILD)/gpu_works $(BUILD)/gpu_order $(BUILD)/gpu_conformance \
             $(BUILD)/gpu_rules $(BUILD)/gpu_cache $(BUILD)/gpu_keys $(BUILD)/gpu_bench \
             $(if $(have_cuda),$(BUILD)/gpu_compile $(BUILD)/gpu_nccl_library $(BUILD)/gpu_driver $(STUBS))

# Calls that fail and crashes: the library that counts, records, fails and kills, without and with memory; the
# driver; a writer in place, the model of the disk, and the killer.
FAULT_TESTS := $(addprefix $(BUILD)/faults/,calls.so faults.so faults change states kill alone/kvstore_mpi.so alone/libmpi.so.40)
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
$(BUILD)/faults/alone/libmpi.so.40: $(BUILD)/tests/faults/mpi_alone.o
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $<
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
             clock_gettime time usleep nanosleep sched_yield getpid on_exit fsync rename \
             fopen link open
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
sim_launch := $(addprefix $(BUILD)/sim/launch_,job.o attempt.o output.o rank.o folder.o)
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
fuzz_replay := tests/fuzz/replay.c tests/fuzz/lies.c
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_help := $(call obj,$(filter-out tests/fuzz/fuzz_%.c $(fuzz_replay),$(wildcard tests/fuzz/*.c)) tests/dist/link_plain.c \
                        $(filter-out %/mpi.c %/net.c %/alive.c,$(wildcard src/distributed/*.c)))
$(BUILD)/fuzz_help.a: $(fuzz_help)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^
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
$(BUILD)/fuzz_replay: $(call obj,$(fuzz_replay)) $(FUZZ:%=$(BUILD)/replay/fuzz_%.o) $(fuzz_libs)
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
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/dist_records: $(BUILD)/records/run.o $(call obj,$(records_src) tests/dist/server_alone.c tests/dist/link_plain.c) $(BUILD)/served.a $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

fuzz: ## fuzz every reader, T=60 seconds each, with clang (ONLY=name, SEED=1)
	@scripts/setup fuzz || true
	@MAKE='$(MAKE)' JOBS='$(JOBS)' SEED='$(SEED)' tests/fuzz/run '$(or $(T),60)' $(ONLY)

# The programs that the suites run. With SUITES those of suites that have a line here, and all where one has none.
programs := examples $(BUILD)/kvbench $(BUILD)/unit $(BUILD)/conformance $(BUILD)/differential $(TRUTH_TESTS) $(SIM_TESTS) $(BUILD)/dist_records $(FAULT_TESTS) $(BUILD)/fuzz_replay $(DIST_TESTS) $(GPU_TESTS)
needs_unit    := $(BUILD)/unit
needs_sim     := $(SIM_TESTS)
needs_jobs    := all $(DIST_TESTS)
needs_device  := all $(GPU_TESTS)
needs_toolkit := all $(GPU_TESTS)
tests: all $(sort $(foreach s,$(or $(SUITES),every),$(or $(needs_$(s)),$(programs))))

test-gpu: all $(GPU_TESTS) ## the tests of GPUs on those of this machine
	@BUILD=$(BUILD) scripts/test gpu

$(BUILD)/gpu_conformance: $(call obj,$(conformance_src)) $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_LIB)

$(BUILD)/tests/device/%.o: ALL_CFLAGS += -I.
$(BUILD)/gpu_rules: $(prelude_obj)
$(BUILD)/gpu_cache: $(BUILD)/cuda/cache.o
$(BUILD)/gpu_compile: $(BUILD)/cuda/driver.o
$(BUILD)/tests/device/driver.o: ALL_CFLAGS += $(cuda_include)
$(BUILD)/gpu_driver: $(BUILD)/cuda/driver.o $(BUILD)/cuda/gpu_device.o $(BUILD)/cuda/cache.o
$(STUBS): tests/device/cuda_stub.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -w -std=gnu17 $(cuda_include) $(if $(findstring nvrtc,$@),-DNVRTC_MAJOR=$(subst .,,$(suffix $@))) -shared -fPIC -o $@ $<
$(BUILD)/gpu_nccl_library: $(BUILD)/cuda/nccl_table.o

gpu-dry: all $(BUILD)/device/kvstore_cuda.so ## registers, occupancy and accesses of all kernels of GPUs, from the compilers
	@BUILD=$(BUILD) tests/device/dry

# Programs that test GPUs, the machine's or the driver over host memory: they link the shared library,
# so that the plugin uses the same one.
$(BUILD)/gpu_%: $(BUILD)/tests/device/%.o $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_LIB)

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
truth_gpus := $(if $(have_cxx),$(addprefix $(BUILD)/,device/kvstore_cuda.so gpu_conformance gpu_order gpu_rules))
truth: all $(truth_gpus) $(if $(filter gpus,$(ONLY)),,$(BUILD)/unit $(BUILD)/fuzz_replay $(BUILD)/differential $(TRUTH_TESTS) $(if $(have_mpi),$(BUILD)/dist_stress)) ## random optimizers, programs and rules beside their truth (N=100000 SEED=1)
	@BUILD=$(BUILD) JOBS=$(JOBS) tests/truth/run $(or $(N),100000) $(SEED) $(ONLY)

sim: $(BUILD)/kvsim ## N=10000 random jobs of ranks that stall and die, in one process each (SEED=1)
	@$(BUILD)/kvsim $(or $(N),10000) $(SEED)
	@$(BUILD)/kvsim --each 145 2600 # each allocation of a job fails

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

# ---- GPUs over host memory ------------------------------------------------------------------------

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

-include $(patsubst %.o,%.d,$(call obj,tests/unit/run.c $(UNIT) $(conformance_src) tests/differential/main.c \
            $(foreach d,truth sim faults dist device fuzz,$(wildcard tests/$(d)/*.c)) $(sim_launch:$(BUILD)/%.o=%.c) $(FUZZ:%=replay/fuzz_%.c)))
.PHONY: check unit one faults fuzz tests test-gpu gpu-dry test-launch golden asan ubsan tsan coverage valgrind truth sim mutants lint analyze format readme-check size headers
