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
      {"row", OPTION_VALUE, "N"}, \
      {"min-fraction", OPTION_VALUE, "X"}, \
      {"format", OPTION_WORD, "table|csv"}, \
      {"quick", OPTION_FLAG, NULL}, \
      {"ctx", OPTION_VALUE, "DEVS"}, \
      {"type", OPTION_WORD, "local|device"}, \
      {"link", OPTION_FLAG, NULL}}, \
     COMMAND_PRINTS, \
     cmd_bench, \
     .check = cmd_bench_check}

#include "command_table.c"
