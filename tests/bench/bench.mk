# The programs that measure, and the words that run them. The Makefile of the top folder includes this.

bench: all $(BUILD)/kvbench $(BUILD)/bench/pairs $(BUILD)/bench/peer ## speed and memory beside others, as ratios (STRICT=1: a missed bar fails)
	@BUILD=$(BUILD) scripts/bench $(if $(STRICT),--strict)

# The programs that kvctl is measured against get all optimisations of this machine's compiler.
$(BUILD)/bench/%: tests/bench/%.c $(BUILD)/flags | libraries
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O3 -march=native $(WARN) -o $@ $< -lcsv -lcjson

# Every optimizer beside the limit of the memory: ratios, no bars.
bench-optimizers: all $(BUILD)/kvbench ## each optimizer as a fraction of what the memory allows
	$(BUILD)/kvbench bench W5 --size 25557032 --op optimizers --values 1

bench-rows: $(BUILD)/bench_rows ## row_sparse values, summed and in a store, beside plain loops
	$<

bench-checkpoints: all $(BUILD)/bench_checkpoints ## commands on checkpoints beside plain loops; IN=FOLDER, best in memory
	$(BUILD)/bench_checkpoints $(BUILD)/kvctl $(or $(IN),/dev/shm)
	$(BUILD)/bench_checkpoints $(BUILD)/kvctl $(or $(LARGE),/var/tmp) large

# kvctl with a command more. The loops that it measures against get what the store's have.
kvbench := $(call obj,$(wildcard tests/bench/kvbench/*.c))
$(BUILD)/kvbench_commands.c: cli/cmd/texts/commands.txt tests/bench/commands.txt scripts/embed
	@cat $(filter %.txt,$^) | scripts/embed --text text_commands cmd/help.h /dev/stdin > $@
$(BUILD)/kvbench: $(filter-out %/command_table.o %/text_commands.o,$(tool_obj)) $(lib_obj) $(BUILD)/kvbench_commands.o $(BUILD)/tests/bench/kvbench.o $(kvbench)
	$(call say,LD)$(call link_tool,$(archives))
$(BUILD)/tests/bench/kvbench/bench_stream.o: ALL_CFLAGS += $(loops)

$(BUILD)/bench_%: $(BUILD)/tests/bench/%.o $(BUILD)/libkvstore.a
	$(link) $(LDLIBS_LIB)

bench-instructions: all ## instructions of a start, a line and a loop, under ceilings (valgrind)
	@BUILD=$(BUILD) tests/bench/instructions

bench-small: all $(BUILD)/bench_small ## single calls and tiny keys by the public header, beside loops, LMDB and redis
	@BUILD=$(BUILD) tests/bench/look-ups

# As a program of the user: the shared library, and of ours only the public headers.
$(BUILD)/bench_small: tests/bench/small.c $(BUILD)/libkvstore.so $(BUILD)/flags
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O3 -march=native $(WARN) -Isrc -Ilib/array -Ilib/base -Ilib -o $@ $< -L$(BUILD) -lkvstore -Wl,-rpath,'$$ORIGIN' -pthread

# Its limits are loops of its own, which get everything that the compiler can do on this machine.
$(BUILD)/tests/bench/rows.o: ALL_CFLAGS += -O3 -march=native -fno-math-errno

bench-dist: all $(BUILD)/bench_dist ## the types of several machines beside plain MPI loops
	mpirun --oversubscribe --bind-to none -n 2 $(BUILD)/bench_dist sums
	mpirun --oversubscribe --bind-to none -x KVSTORE_SERVERS=1 -n 2 $(BUILD)/bench_dist stored
	mpirun --oversubscribe --bind-to none -n 4 $(BUILD)/bench_dist crowd
	mpirun --oversubscribe --bind-to none -n 2 $(BUILD)/bench_dist changes
	KVCTL=$(abspath $(BUILD))/bench_dist tests/dist/hosts --rate 1gbit --ranks 2 --servers 1 link || [ $$? = 77 ]
	KVCTL=$(abspath $(BUILD))/bench_dist tests/dist/hosts --rate 1gbit --ranks 2 --servers 1 changes || [ $$? = 77 ]

# It brings up MPI itself and shares it with the plugin, so it needs the shared library.
$(BUILD)/tests/bench/dist.o: ALL_CFLAGS += $(mpi_cflags)
$(BUILD)/bench_dist: $(call obj,tests/bench/dist.c tests/bench/kvbench/bench_workload.c) $(BUILD)/libkvstore.so
	$(link_shared) $(mpi_libs)

bench-growth: all $(BUILD)/growth_mpi ## how time, memory and connections of a rank grow with ranks, keys and bytes
	@BUILD=$(BUILD) tests/bench/growth

# Nothing of ours, so that what MPI takes can be told apart.
$(BUILD)/growth_mpi: tests/bench/growth_mpi.c $(BUILD)/flags | libraries
	$(call say,LD)$(CC) -std=c17 -D_GNU_SOURCE -O2 $(WARN) $(mpi_cflags) -o $@ $< $(mpi_libs)

# Not part of any other word: it downloads what is not there yet.
peers: all $(BUILD)/kvbench $(BUILD)/bench_rows ## the store beside PyTorch, MXNet and NumPy, in turns
	@BUILD=$(BUILD) scripts/peers

bench-gpu: all $(BUILD)/gpu_bench ## the store on gpu(0) beside copies of the same device and PyTorch, with bars
	@BUILD=$(BUILD) tests/device/bars

# It is kvbench with other rows.
$(BUILD)/tests/device/bench.o: ALL_CFLAGS += -I.
$(BUILD)/gpu_bench: $(call obj,tests/device/bench.c) $(filter-out %/cmd_bench.o %/cmd_bench_link.o,$(kvbench)) $(BUILD)/tool.a $(BUILD)/libkvstore.so
	$(link_shared) $(LDLIBS_CLI) $(LDLIBS_LIB)

-include $(patsubst %.o,%.d,$(call obj,$(wildcard tests/bench/*.c tests/bench/kvbench/*.c)))
.PHONY: bench bench-optimizers bench-rows bench-checkpoints bench-instructions bench-small bench-dist bench-growth peers bench-gpu
