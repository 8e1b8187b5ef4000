/* kvctl with one command more, bench: it measures the store in scripts, in jobs and on GPUs as a
 * user runs them. The folder kvbench has its pieces; kvbench/bench.h says what is measured. */
#include "kvbench/cmd_bench.h"

#define COMMANDS_MORE \
    {"bench", \
     {{ARG_PATHS, "WORKLOAD...", true}}, \
     {{"op", OPTION_RAW, "LIST"}, \
      {"values", OPTION_RAW, "LIST"}, \
      {"runs", OPTION_INT, "N"}, \
      {"size", OPTION_VALUE, "N"}, \
      {"min-fraction", OPTION_VALUE, "X"}, \
      {"format", OPTION_WORD, "table|csv"}, \
      {"quick", OPTION_FLAG, NULL}, \
      {"ctx", OPTION_VALUE, "DEVS"}, \
      {"type", OPTION_WORD, "local|device"}, \
      {"link", OPTION_FLAG, NULL}}, \
     COMMAND_PRINTS, \
     cmd_bench, \
     "time the store by loops that move the same bytes: W1 to W5, W7, W8, all; on CPU or GPUs", \
     "bench --quick                       # W1, the arrays of ResNet-50; small ones for a test\n" \
     "bench W2,W3 --quick --op pull  # ResNet-200, VGG-16; limit: s streaming stores, p plain\n" \
     "bench W1 --quick --op push,adam,push+adam+pull --values 2 --runs 3\n" \
     "bench W4 --quick --runs 3           # many small keys\n" \
     "bench W5 --size 1000000 --runs 3    # one array of so many floats\n" \
     "bench W7,W8 --quick --runs 3        # float16 and bfloat16; 2bit and 1bit\n" \
     "bench W1 --quick --op push --min-fraction 0.001 # fails below; 0.92 is what to expect\n" \
     "bench W1 --quick --op pull --format csv > pull.txt\n" \
     "bench W1 --quick --op push --ctx gpu(0)   # beside a copy within it; with --type local\n" \
     "                                    # keys stay on the CPU; gpu(0..3) are four, in turn\n" \
     "bench --link                        # of several machines, L, o and G of a LogGP model of\n" \
     "                                    # links, and what a key's push, another thread on\n" \
     "                                    # a processor and waking one on an idle one take:\n" \
     "                                    # kvbench launch -n 1 -s 1 -c 'bench --link'", \
     "time, doctor", \
     .fails = "usage, value, unsupported, memory, assert", \
     .check = cmd_bench_check}

#include "command_table.c"
