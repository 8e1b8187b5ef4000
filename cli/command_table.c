/* The command table: each command is described here, and nowhere else. */
#include "checkpoints/checkpoints.h"
#include "cmd/commands.h"
#include "files/files.h"
#include "language.h"
#include "run/run.h"
#include "session/session.h"

/* Options of several commands: FLAG has no value; OUTPUT is of those that write a checkpoint. */
#define FLAG(name) {name, OPTION_FLAG, NULL}
#define PRIORITY   {"priority", OPTION_INT, "N"}
#define EXCLUDE    {"exclude", OPTION_RAWS, "GLOB"}
#define DTYPE      {"dtype", OPTION_RAWS, "[GLOB=]T"}
#define OUTPUT                                                                                     \
    {"shard-size", OPTION_RAW, "5G"}, {"metadata", OPTION_RAWS, "K=V"}, FLAG("drop-metadata"),     \
        FLAG("strict"), FLAG("raw"), FLAG("weights-only"), FLAG("force")

/* Legend. What a command does not have is left out; what stands behind goes on in this order.
 *   args      how each argument is read and how usage lines call it; true: may be left out
 *   options   name, how the value is read, how usage lines call the value
 *   flags     COMMAND_*: what a redirect can take; whether --PARAM VALUE is allowed; whether attach
 *             runs it
 *   examples  one a line, "command  # what it does"; the tests run every one of them, in order, in
 *             a session that begins with:
 *             init 3 zeros(2,3); init 5,7,9 [zeros(2,3)]*3; a = ones(2,3)
 */
const command command_table[] = {
    {"create",
     {{ARG_WORD, "TYPE", true}},
     {{"name", OPTION_NAME, "N"}, {"staleness", OPTION_VALUE, "N"}},
     COMMAND_CHANGES | COMMAND_CHOOSES,
     cmd_create,
     "make a store and use it; the default type is local, help types lists all",
     "create local                        # replaces the store in use\n"
     "create device --name b              # stands beside it, called b\n"
     "create dist_async --staleness 4     # no worker gets further ahead of the slowest",
     "use, type",
     .fails = "unsupported",
     .method = "create(name='local')",
     .check = check_type},
    {"use",
     {{ARG_NAME, "NAME", false}},
     .flags = COMMAND_CHOOSES,
     cmd_use,
     "change to another store",
     "create --name b; use kv             # the first store is called kv",
     "create",
     .fails = "name"},
    {"init",
     {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {PRIORITY},
     COMMAND_ONE_EACH | COMMAND_CHANGES | COMMAND_EXPLAINED,
     cmd_init,
     "put a first value under new keys: one a key, or one array that each gets a copy of",
     "init 10 -1                          # a number is an array of shape ()\n"
     "init [13, 14] [ones(2), zeros(3)]   # one value a key\n"
     "init 11,12 ones(2,3)                # one array for several keys: each gets a copy\n"
     "create --name t; init w ones(2,3)*2; use kv # text keys in a store of their own",
     "push, pull",
     .fails = "key",
     .method = "init(key, value)"},
    {"push",
     {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {PRIORITY},
     COMMAND_PRINTS | COMMAND_CHANGES | COMMAND_EXPLAINED,
     cmd_push,
     "sum VALUES for the updater of each key; without an updater the key then holds the sum",
     "push 3 ones(2,3)*8                  # one key, one value\n"
     "push 3 ones(2,3)@gpu(0..3)          # four devices, summed first\n"
     "push [5, 7, 9] [a, a, a]            # one value a key\n"
     "push 5,7 [[a, a], [a, a]]           # two values a key",
     "pull, set-updater",
     .fails = "key, shape, dtype",
     .method = "push(key, value, priority=0)"},
    {"pull",
     {{ARG_KEYS, "KEYS", false}},
     {{"out", OPTION_VALUE, "V"}, {"ctx", OPTION_VALUE, "DEVS"}, PRIORITY,
      {"ignore-sparse", OPTION_VALUE, "B"}, {"since", OPTION_VALUE, "ROUND"}},
     COMMAND_GIVES | COMMAND_EXPLAINED | COMMAND_READS,
     cmd_pull,
     "show the newest value of keys, or put it somewhere",
     "pull 3                              # show it\n"
     "pull 3 -> w                         # make a variable\n"
     "pull 3 --out a                      # fill a variable, keeping its devices and dtype\n"
     "pull 3 --ctx gpu(0..3) -> w         # a list of four\n"
     "pull [5, 7, 9] > w-{key}.csv        # a file a key: all are written, then replaced in turn\n"
     "pull * > all.safetensors            # one file, an array for each key\n"
     "r = row_sparse(a); pull 3 --out r --ignore-sparse false  # else r stays, with a warning\n"
     "pull 3 --out a --since none -> r    # all of it; r is its round, how often 3 was pushed\n"
     "push 3 a; pull 3 --out a --since r -> r   # from servers only elements with other bits\n"
     "moved_bytes(); moved_bytes(whole=True)    # of such pulls, and of whole ones",
     "push, row-sparse-pull, write, moved_bytes",
     .fails = "key, shape, value",
     .method = "pull(key, out=None, priority=0, ignore_sparse=True)"},
    {"row-sparse-pull",
     {{ARG_KEYS, "KEYS", false}},
     {{"row-ids", OPTION_NEEDED, "IDS"}, {"out", OPTION_VALUE, "V"}, {"ctx", OPTION_VALUE, "DEVS"},
      PRIORITY},
     COMMAND_GIVES,
     cmd_row_sparse_pull,
     "some rows of a row_sparse key: show them among zeros, or put them somewhere",
     "init 4,6 [row_sparse(ones(3,2))]*2\n"
     "row-sparse-pull 4 [2, 0, 2]                   # in any order, also several times; of a\n"
     "                                              # large matrix only the rows, with ids\n"
     "row-sparse-pull 4 --row-ids [1] -> r          # a row_sparse array of one row\n"
     "row-sparse-pull 4 --row-ids [0, 2] --out r    # fill a variable\n"
     "row-sparse-pull 4 --row-ids [[1, 0], [2]] --ctx gpu(0..1) -> w  # a list of ids for each\n"
     "row-sparse-pull 4,6 --row-ids [[1, 0], [2]]   # or one for each key",
     "pull, push",
     .fails = "key, value, index, dtype, shape",
     .method = "row_sparse_pull(key, out=None, priority=0, row_ids)"},
    {"pushpull",
     {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_VALUE, "V"}, PRIORITY},
     COMMAND_GIVES | COMMAND_CHANGES | COMMAND_EXPLAINED,
     cmd_pushpull,
     "push, then pull, in one call; an array, or a list of them, in a variable receives the result",
     "pushpull 3 ones(2,3)@gpu(0..3)      # show the sum, or what the updater made of it\n"
     "pushpull 3 [a, a] -> w              # make a variable\n"
     "v = [a, a]; pushpull 3 v            # in place: both arrays of v are 2\n"
     "v = [a, a, a]; pushpull [5, 7, 9] [a, a, a] --out v # fill arrays",
     "push, pull, broadcast",
     .fails = "key, shape, dtype",
     .method = "pushpull(key, value, out=None, priority=0)"},
    {"broadcast",
     {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_VALUE, "V"}, PRIORITY},
     COMMAND_GIVES | COMMAND_ONE_EACH | COMMAND_CHANGES | COMMAND_EXPLAINED,
     cmd_broadcast,
     "init, then pull, in one call: every worker gets the value of rank 0",
     "broadcast 20 ones(2,3)              # a new key; show its value\n"
     "broadcast 21 ones(2,3) -> w         # make a variable\n"
     "v = [a, a, a]; broadcast 22 ones(2,3)*2 --out v # fill three arrays\n"
     "broadcast 23,24 ones(2,3) -> w      # one value for several keys",
     "init, pull, pushpull",
     .fails = "key, shape",
     .method = "broadcast(key, value, out, priority=0)"},
    {"delete",
     {{ARG_KEYS, "KEYS", false}},
     .flags = COMMAND_CHANGES,
     cmd_delete,
     "take keys out of the store, with their counts and states: all of them, or none",
     "delete 3                            # init may make it again, with another shape\n"
     "delete 5,7                          # a list, a range, a pattern: delete layer.*",
     "rename, list, rollback",
     .fails = "key, unsupported"},
    {"rename",
     {{ARG_KEYS, "KEY", false}, {ARG_KEYS, "NEW", false}},
     .flags = COMMAND_CHANGES,
     cmd_rename,
     "give a key another name; its value, counts and states stay",
     "rename 3 30                         # 3 is free, and 30 holds what 3 held\n"
     "create --name t; init w a; rename w fc1.weight; use kv",
     "delete, list",
     .fails = "key, value, unsupported"},
    {"set-updater",
     {{ARG_RULE, "NAME | { RULE }", false}},
     {FLAG("fresh")},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_set_updater,
     "what a push does with the sum and the stored value",
     "set-updater { stored += input * 2 } # a rule without parameters\n"
     "updater scale(by = 2.0) { stored += input * by }\n"
     "set-updater scale --by 0.5          # a rule of the script\n"
     "rate = 0.5; set-updater { stored -= rate * input } # rate is read, and followed\n"
     "set-updater scale --fresh           # states of the file of -s begin anew, else they stay\n"
     "set-updater assign                  # the default: the sum replaces the stored value",
     "push, set-optimizer",
     .fails = "usage, value",
     .method = "_set_updater(updater)"},
    {"set-optimizer",
     {{ARG_RULE, "NAME", true}},
     {FLAG("update"), FLAG("fresh")},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_set_optimizer,
     "an optimizer with its states: sgd, adam, lamb, ... or a rule of the script",
     "set-optimizer sgd --learning-rate 0.1 --momentum 0.9\n"
     "set-optimizer adam learning_rate=0.1 wd=0.01  # the same as --NAME VALUE, in every command\n"
     "n = 4; set-optimizer sgd --learning-rate 0.1/n # numbers are computed, texts are words\n"
     "o = \"adam\"; set-optimizer $o        # the optimizer that a variable names\n"
     "set-optimizer adam --lr-scheduler factor(step=100, factor=0.5) --learning-rate none\n"
     "set-optimizer sgd --wd 0.01 --names 3=fc_weight,5=fc_bias --lr-mult 5=2\n"
     "set-optimizer --update --learning-rate 0.01 # another rate; states and counts stay\n"
     "set-optimizer sgd --fresh           # a store of -s or load keeps the states of the same\n"
     "                                    # optimizer, unless --fresh says that they begin anew\n"
     "help optimizer adam                 # what one does, and its parameters",
     "set-updater, push",
     .fails = "usage, value",
     .method = "set_optimizer(optimizer)",
     .check = check_params},
    {"save",
     {{ARG_FILE, "FILE", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, DTYPE, {"metadata", OPTION_RAWS, "K=V"}, {"shard-size", OPTION_RAW, "5G"},
      FLAG("force"), FLAG("strict"), {"patch-from", OPTION_PATH, "CKPT"}},
     COMMAND_WRITES,
     cmd_save,
     "write the store, or the values of its keys for other tools; FILE is complete or not there",
     "save s.kvs                          # values, updater, states and counts: kvctl -s s.kvs\n"
     "save m.safetensors                  # values alone, as other tools write them; also .npz\n"
     "save m/ --force                     # a folder of shards, in the place of the one there\n"
     "save some.safetensors 3 [57]        # the keys that match a pattern\n"
     "save m.safetensors --dtype bf16 --dtype 9=f32 --metadata format=pt\n"
     "for i in 1..3 { push 3 a; save f\"round-{i}.kvs\" }\n"
     "save old.safetensors; push 3 a; save p --patch-from old.safetensors # what changed",
     "commit, save-states, pull, write, ls, apply",
     .fails = "value, key, usage, unsupported, io, format"},
    {"save-states",
     {{ARG_FILE, "FILE", false}},
     {FLAG("dump-optimizer")},
     COMMAND_WRITES,
     cmd_save_states,
     "write what the optimizer keeps to a safetensors file; FILE is complete or not there",
     "set-optimizer adam; push 3 a\n"
     "save-states adam.safetensors        # states and counts; the keys' values stay in the store\n"
     "save-states all.safetensors --dump-optimizer  # with the rule and its parameters",
     "load-states, info, set-optimizer",
     .fails = "value, unsupported, io",
     .method = "save_optimizer_states(fname, dump_optimizer=False)"},
    {"load-states",
     {{ARG_FILE, "FILE", false}},
     .flags = COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_load_states,
     "take states from a file of save-states: training goes on as if it had not stopped",
     "set-optimizer adam; push 3 a; save-states adam.safetensors\n"
     "set-optimizer adam                  # its counts and states begin anew\n"
     "load-states adam.safetensors        # and now they are where they were\n"
     "info 3 --states",
     "save-states, info",
     .fails = "unsupported, io, format, value, key, shape, dtype",
     .method = "load_optimizer_states(fname)"},
    {"set-gradient-compression",
     {{ARG_WORD, "2bit|1bit|none", false}},
     {{"threshold", OPTION_VALUE, "T"}, FLAG("pull")},
     COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_set_gradient_compression,
     "push codes of 2 bits or 1 bit; what they leave out is pushed the next time",
     "create device --name d; init 3 zeros(2,3)\n"
     "set-gradient-compression 2bit       # a code is 0.5, 0 or -0.5\n"
     "push 3 a*0.4; pull 3                # 0: nothing reaches 0.5\n"
     "push 3 a*0.4; pull 3                # 0.5; 0.3 stays for the next push\n"
     "set-gradient-compression 2bit --threshold 0.1\n"
     "set-gradient-compression 2bit --pull # dist_sync: what the servers send back, too\n"
     "set-gradient-compression 1bit --threshold 0 # 1 above 0, else -1\n"
     "set-gradient-compression none       # whole gradients again",
     "push, info",
     .fails = "unsupported, value, dtype",
     .method = "set_gradient_compression(compression_params: type, threshold=0.5, pull=False)",
     .check = check_compression},
    {"list",
     {{ARG_GLOB, "GLOB", true}},
     .flags = COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS,
     cmd_list,
     "the keys of the store",
     "list                                # all keys, one a line\n"
     "list 1*                             # those that match a pattern",
     .see = "info"},
    {"info",
     {{ARG_KEYS, "KEYS", true}},
     {FLAG("states"), FLAG("cluster"), FLAG("metrics")},
     COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS,
     cmd_info,
     "a table of keys: dtype, shape, context, bytes, pushes; or of what the optimizer keeps",
     "info                                # the store and all its keys\n"
     "info 3,5                            # some keys\n"
     "set-optimizer adam; push 3 a\n"
     "info --states                       # the optimizer, and the states and count t of each key\n"
     "info > keys.csv                     # the table as CSV\n"
     "info --cluster                      # of several machines: a row for each rank;\n"
     "                                    # heard ms: since its last heartbeat; of servers:\n"
     "                                    # open, rounds that lack a worker; contributors,\n"
     "                                    # workers of the last round; stalest (dist_async),\n"
     "                                    # by how many pushes a pull led the slowest one\n"
     "info --metrics                      # all stores of the session, as Prometheus reads them;\n"
     "                                    # --cluster --metrics: of several machines, all ranks",
     "list, rounds, type, save-states",
     .fails = "key, value, unsupported"},
    {"rounds", .flags = COMMAND_GIVES | COMMAND_READS, cmd_rounds,
     "how often each key was pushed; of several machines who is ahead, and whom a round lacks",
     "rounds                              # ahead: rounds that some worker has pushed already",
     "info", .fails = "peer"},
    {"ls",
     {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, FLAG("fold"), FLAG("long"), FLAG("all")},
     COMMAND_GIVES,
     cmd_ls,
     "the keys of a checkpoint, a file of arrays of any tool: name, dtype, shape and bytes",
     "save m.safetensors; ls m.safetensors\n"
     "ls m.safetensors 3 [57]             # the keys that match a pattern\n"
     "save n.safetensors; ls m.safetensors n.safetensors 3 # each behind a line `FILE:`\n"
     "ls m.safetensors --exclude '[57]'  # the others\n"
     "ls m.safetensors --fold             # numbers in names as #: one line for all layers\n"
     "ls m.safetensors --long             # also the file of each, and where its data begin\n"
     "ls m.safetensors --all              # of a file of -s also what the store keeps about itself",
     "list, info, checkpoints",
     .fails = "io, format, key"},
    {"convert",
     {{ARG_PATHS, "CKPT... OUT [GLOB...]", false}},
     {EXCLUDE, DTYPE, {"rename", OPTION_RAWS, "s/RE/TO/"}, OUTPUT},
     COMMAND_GIVES, /* with --dry-run: old and new names */
     .run = cmd_convert,
     .summary = "one checkpoint of others: keys, names, dtypes, form; OUT is complete or not there",
     .examples = "save m.safetensors; convert m.safetensors half.safetensors --dtype bf16\n"
                 "convert m.safetensors parts/ --shard-size 5G --force # shards with their index\n"
                 "convert m.safetensors some.npz 3 [57] --rename s/^/layer./\n"
                 "convert m.safetensors w.npz 3 --rename s/^/a.b./ --rename s/\\./_/g # all: a_b_3",
     .see = "ls, save, checkpoints",
     .fails = "io, format, key, dtype, value"},
    {"merge",
     {{ARG_MERGE, "RULE", false}, {ARG_PATHS, "CKPT... [GLOB...]", false}},
     {{"out", OPTION_OUTPUT, "OUT"}, {"base", OPTION_PATH, "CKPT"},
      {"weights", OPTION_VALUES, "0.5,0.3,..."}, EXCLUDE, DTYPE, FLAG("keep-first"),
      OUTPUT},
     COMMAND_PARAMS,
     cmd_merge,
     "one checkpoint of several, by a readable rule: average, slerp, ties, lora, one of your own",
     "save a.safetensors; convert a.safetensors b.safetensors # two models of the same keys\n"
     "merge average a.safetensors b.safetensors --out soup.safetensors --weights 0.7,0.3\n"
     "merge ties a.safetensors b.safetensors --base soup.safetensors --density 0.5 --out t.npz\n"
     "merge { merged = max(models) } a.safetensors b.safetensors --out largest.safetensors\n"
     "merge slerp a.safetensors b.safetensors --out arc.safetensors\n"
     "help merge ties                     # what a rule does: it is a program of a few lines",
     "convert, diff, checkpoints, rules",
     .fails = "usage, io, format, key, shape, dtype, value",
     .check = cmd_merge_check},
    {"stat",
     {{ARG_PATH, "CKPT...", true}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, FLAG("raw")},
     COMMAND_GIVES | COMMAND_READS,
     cmd_stat,
     "the numbers in a checkpoint, a row a key: least, largest, mean, deviation, zeros, nan, inf",
     "save m.safetensors; stat m.safetensors\n"
     "stat m.safetensors --exclude 5       # all keys but 5\n"
     "stat                                 # without a file: the keys of the store",
     "ls, diff, checkpoints",
     .fails = "io, format, key, dtype"},
    {"check",
     {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {{"like", OPTION_PATH, "OTHER"}, EXCLUDE, FLAG("allow-zeros"), FLAG("all")},
     COMMAND_GIVES,
     cmd_check,
     "what is wrong with a checkpoint: faults of its files, NaN, Inf, keys that are all zero",
     "push [3, 5, 7, 9] [a]*4; save m.safetensors\n"
     "check m.safetensors --like m.safetensors # nothing: it is whole, and names and shapes agree\n"
     "init 11 zeros(2); save z.safetensors\n"
     "check m.safetensors z.safetensors 3 5    # of several files and of these keys\n"
     "expect-error assert { check z.safetensors } # a line a finding\n"
     "check z.safetensors --allow-zeros        # new biases, and lora_B, may be all zero",
     "ls, hash, stat, checkpoints",
     .fails = "assert, io, format"},
    {"diff",
     {{ARG_PATH, "A", false}, {ARG_PATH, "B", false}, {ARG_PATHS, "GLOB...", true}},
     {{"rtol", OPTION_VALUE, "R"}, {"atol", OPTION_VALUE, "A"}, {"ulps", OPTION_INT, "N"},
      {"rename", OPTION_RAWS, "s/RE/TO/"}, EXCLUDE, FLAG("brief"), {"top", OPTION_INT, "N"},
      {"sort", OPTION_WORD, "max_abs|rms|rel|ulps|equal|cosine|key"}, FLAG("fold"), FLAG("raw")},
     COMMAND_GIVES,
     cmd_diff,
     "the keys in which two checkpoints differ, the worst first: names, shapes, dtypes, numbers",
     "save m.safetensors; diff m.safetensors m.safetensors   # nothing: they are equal\n"
     "diff m.safetensors m.safetensors --rtol 1e-3           # |a - b| <= atol + rtol * |b|\n"
     "diff m.safetensors m.safetensors --sort rel --fold # by |a - b| / |b|; layers: the worst\n"
     "diff m.safetensors m.safetensors --atol 0        # kvctl --json: .entries[].key\n"
     "diff m.safetensors m.safetensors --rename s/^0*// --brief # the names alone",
     "stat, ls, checkpoints",
     .fails = "io, format, key, assert, value"},
    {"hash",
     {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, FLAG("sha256"), {"verify", OPTION_PATH, "FILE"}, FLAG("all")},
     COMMAND_GIVES,
     cmd_hash,
     "a hash of each key, of its dtype, shape and bytes: equal in every format, sharded or not",
     "save m.safetensors; hash m.safetensors       # XXH3 of 128 bits\n"
     "hash m.safetensors 3 --sha256                # where somebody may have meddled\n"
     "hash m.safetensors | tee m.hashes            # a line `HASH  NAME` a key\n"
     "hash m.safetensors --verify m.hashes         # names what differs",
     "ls, check, diff, checkpoints",
     .fails = "assert, key, io, format, unsupported"},
    {"patch",
     {{ARG_PATHS, "A B", false}},
     {{"out", OPTION_OUTPUT, "P"}, FLAG("chain")},
     COMMAND_GIVES,
     cmd_patch,
     "a small file that turns checkpoint A into B, bit by bit; with --chain one of several patches",
     "save a.safetensors; push 3 a; save b.safetensors; push 3 a*2; save c.safetensors\n"
     "patch a.safetensors b.safetensors --out 1.patch     # what changed, packed by zstd\n"
     "patch b.safetensors c.safetensors --out 2.patch\n"
     "patch --chain 1.patch 2.patch --out all.patch       # what turns a into c",
     "apply, diff, hash, checkpoints",
     .fails = "assert, io, format, unsupported"},
    {"apply",
     {{ARG_PATHS, "P... A", false}},
     {{"out", OPTION_PATH, "B"}, FLAG("in-place"), {"shard-size", OPTION_RAW, "5G"},
      FLAG("weights-only"), FLAG("force")},
     COMMAND_GIVES,
     cmd_apply,
     "patches over the checkpoint that they were made from, one after the other",
     "save a.safetensors; push 3 a; save b.safetensors\n"
     "patch a.safetensors b.safetensors --out 1.patch\n"
     "apply 1.patch a.safetensors --out c.safetensors; diff c.safetensors b.safetensors\n"
     "apply 1.patch a.safetensors --in-place # only what changed is written\n"
     "expect-error assert { apply 1.patch b.safetensors --out e.safetensors } # not made from b",
     "patch, diff, hash, checkpoints",
     .fails = "assert, io, format, unsupported"},
    {"type", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function, "the type of the store",
     "type  # local", "create", .method = "type"},
    {"rank", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function,
     "the rank of this worker; before `create` as mpirun or launch says it", "rank  # 0",
     "num-workers", .method = "rank"},
    {"num-workers", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function,
     "how many workers there are; before `create` as mpirun or launch says it", "num-workers  # 1",
     "rank", .method = "num_workers"},
    {"is-capable",
     {{ARG_WORD, "CAP", false}},
     .flags = COMMAND_GIVES | COMMAND_READS,
     cmd_is_capable,
     "whether stores of this type can do something: True or False",
     "is-capable optimizer                # True; Tab at the prompt lists all that can be asked\n"
     "is-capable gradient-compression     # kvctl -e turns the answer into the exit code",
     "type, create",
     .fails = "usage",
     .method = "is_capable(capability)",
     .check = check_capability},
    {"register",
     {{ARG_NAME, "NAME", false}},
     {{"base", OPTION_WORD, "TYPE"}, {"plugin", OPTION_FILE, "FILE.so"}},
     COMMAND_REGISTERS,
     cmd_register,
     "add a store type that `create NAME` makes: another name for one, or what a plugin brings",
     "register MyStore                    # another name for local, its base; create mystore\n"
     "register Mine --base device; create mine; type # Mine",
     "create, type",
     .fails = "name, value, unsupported, io, format"},
    {"barrier", .flags = COMMAND_EXPLAINED, cmd_barrier,
     "wait until every worker is here; one process goes on at once", "barrier", "wait",
     .method = "_barrier()"},
    {"done", .run = cmd_call_store,
     "push no more: rounds and barriers of the other workers are complete without this one", "done",
     "barrier, info", .on_store = kv_done},
    {"send-command",
     {{ARG_VALUE, "HEAD", false}, {ARG_WORD, "BODY", false}},
     .run = cmd_send_command,
     "hand a command, a number and a text, to the servers; one process has none",
     "send-command 9 \"any text\"          # returns when all servers have carried it out",
     "barrier",
     .fails = "dtype, value",
     .method = "_send_command_to_servers(head, body)"},
    {"begin", .run = cmd_call_store,
     "open a transaction of the store: commit keeps what follows, rollback takes it back",
     "begin; push 3 a; init 20 a; rollback  # values, new keys and the updater are as before\n"
     "begin; push 3 a; commit",
     "commit, rollback", .fails = "value, unsupported", .on_store = kv_begin},
    {"commit", .options = {FLAG("disk")}, .run = cmd_commit,
     "keep what happened since begin; with --disk in the file of -s, too, and without a begin",
     "begin; push 3 a; commit             # commit --disk: as kvctl -s does at the end",
     "begin, rollback, save", .fails = "value, key, busy, io"},
    {"rollback", .run = cmd_rollback, "take back all since begin, or since the opening of -s",
     "begin; push 3 a; rollback           # without begin: to what the file of -s holds,\n"
     "                                    # an undo of all that was done to the store",
     "begin, commit, quit", .fails = "value, io"},
    {"undo", .run = cmd_undo, "take back the only change since the opening of -s",
     "expect-error value { undo }         # without -s: begin and rollback", "rollback, quit",
     .fails = "value, io"},
    {"wait", .run = cmd_call_store, "until all work that was queued is done", "wait", "push, pull",
     .on_store = kv_wait},
    {"print",
     {{ARG_EXPRS, "EXPR[, EXPR]...", false}},
     .flags = COMMAND_PRINTS | COMMAND_SAVES | COMMAND_READS,
     cmd_print,
     "show values, with a blank between two",
     "print a                             # [[1. 1. 1.]\n"
     "print \"loss\", 1/4                   # loss 0.25\n"
     "print f\"loss {1/3:.3f}\"             # loss 0.333",
     .see = "write"},
    {"plot",
     {{ARG_VALUES, "EXPR...", false}},
     {FLAG("heat"), FLAG("hist"), FLAG("histogram"), FLAG("log"), {"title", OPTION_WORD, "T"},
      {"xlabel", OPTION_WORD, "T"}, {"ylabel", OPTION_WORD, "T"}, {"bins", OPTION_INT, "N"}},
     COMMAND_PRINTS | COMMAND_DRAWS | COMMAND_READS,
     cmd_plot,
     "draw lines, a heat map or a histogram, on the terminal or in a file, through gnuplot",
     "loss = 2 ** -(arange(20) / 4); plot loss\n"
     "plot loss, loss/2 --log --title 'two rates' # over 0, 1, ...; of two axes: the columns\n"
     "plot --heat reshape(arange(50), (5, 10)) # row 0 on top\n"
     "plot --hist normal(1000) --bins 20  # how many lie where; --log: the counts\n"
     "plot loss > loss.txt                # .svg and .png too, with gnuplot",
     "print, write",
     .fails = "dtype, shape, value, unsupported, io"},
    {"write",
     {{ARG_VALUE, "VALUE", false}, {ARG_FILE, "FILE", false}},
     .flags = COMMAND_WRITES,
     cmd_write,
     "save a value; FILE is complete or not there, also after a crash: set write.sync",
     "write a a.csv                       # by the ending: .csv .tsv .json .npy .safetensors .txt\n"
     "write [a, a*2] two.ndjson           # a list: an array a line\n"
     "write a*2 -                         # to stdout",
     "print, pull",
     .fails = "io, usage"},
    {"assert",
     {{ARG_EXPRS, "EXPR [, TEXT]", false}},
     .run = cmd_assert,
     "fail unless EXPR is true: of an array every element, of a list each comparison",
     "assert a == ones(2,3)\n"
     "assert sum(a) < 7, \"too large\"      # with a text for the message",
     "print",
     .fails = "assert"},
    {"expect",
     {{ARG_HEREDOC, "<<END", false}},
     .flags = COMMAND_EXPECTS,
     cmd_expect,
     "fail unless the statement before put out these lines; they end before a line END",
     "print 1 + 1\nexpect <<END\n2\nEND",
     "assert, expect-error",
     .fails = "expect"},
    {"expect-error",
     {{ARG_CODE, "CODE", false}, {ARG_BLOCK, "{ ... }", false}},
     .flags = COMMAND_RUNS | COMMAND_EXPECTS_ERROR,
     cmd_expect_error,
     "fail unless the block fails with this code",
     "expect-error key { pull 99 }        # says nothing: there is no key 99\n"
     "expect-error shape { push 3 ones(9) }",
     "assert, expect",
     .fails = "expect"},
    {"sleep",
     {{ARG_VALUE, "SECONDS", false}},
     .run = cmd_sleep,
     "wait so long, as a straggler does; Ctrl-C ends it",
     "sleep 0.01                          # if rank() == 2 { sleep 1 }",
     "time, wait",
     .fails = "value"},
    {"time",
     {{ARG_STATEMENT, "STATEMENT | { ... }", false}},
     {{"runs", OPTION_INT, "N"}, FLAG("no-wait")},
     COMMAND_RUNS,
     cmd_time,
     "how long it takes, on stderr: once, or min, median and p95 of N runs",
     "time push 3 a                       # until the store has done what was queued\n"
     "time --no-wait push 3 a             # until the command is queued\n"
     "time --runs 20 { push 3 a; pull 3 -> w }",
     .see = NULL},
    {"explain",
     {{ARG_EXPLAINED, "on|off|COMMAND", false}},
     .flags = COMMAND_RUNS | COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS,
     cmd_explain,
     "what the store does, step by step and with small numbers: of one command, or of all from now",
     "explain push 3 [a, a*2]             # what it would do; nothing is changed\n"
     "set-updater { stored += input * 2 }; explain kv.push(3, a)\n"
     "explain pull 3 --ctx gpu(0..1)      # of several machines: who waits for whom\n"
     "explain on; push 3 a; explain off   # what happens, on stderr",
     "push, pull, set-updater, echo",
     .fails = "value"},
    {"profile",
     {{ARG_FILE, "FILE|off", false}},
     .flags = COMMAND_WRITES | COMMAND_READS,
     cmd_profile,
     "record what the store does and when, for https://ui.perfetto.dev",
     "profile p.json; push 3 a; pull 3    # every operation, its waits, its parts\n"
     "profile off                         # writes the file, a million events at most; so does\n"
     "                                    # leaving kvctl. Of several machines each rank has a\n"
     "                                    # file; jq -s add p.rank*.json > p.json merges them",
     "time, wait",
     .fails = "value, usage, io"},
    {"echo",
     {{ARG_SWITCH, "on|off", false}},
     .run = cmd_echo,
     "print each command to stderr before it runs, as --trace does",
     "echo on; push 3 a; echo off"},
    {"set",
     {{ARG_WORD, "NAME", true}, {ARG_VALUE, "VALUE", true}},
     .flags = COMMAND_GIVES | COMMAND_SETS,
     cmd_set,
     "change a setting, or show settings",
     "set                                 # all settings\n"
     "set print.precision 4               # digits behind the point\n"
     "set write.sync off                  # many small files: each is still whole or not there,\n"
     "                                    # but after a power cut the last ones may be missing",
     "vars",
     .fails = "usage, value"},
    {"vars", .flags = COMMAND_GIVES, cmd_vars, "the variables and what they hold", "vars",
     .see = "set"},
    {"source",
     {{ARG_SOURCE, "FILE", false}},
     .flags = COMMAND_CHANGES | COMMAND_SOURCES,
     cmd_source,
     "run the statements of a file; a literal name is read before anything runs",
     "!echo 'b = 2' > two.kv\n"
     "f = \"two.kv\"; source $f            # a name that is computed is read when it is reached",
     NULL,
     .fails = "io, syntax"},
    {"help",
     {{ARG_WORD, "WORD", true}, {ARG_WORD, "NAME", true}},
     {FLAG("json")},
     COMMAND_GIVES | COMMAND_READS,
     cmd_help,
     "what a command or function does, or what there is",
     "help push                           # also: ?push, push --help\n"
     "help optimizer                      # the optimizers; help optimizer adam: one of them\n"
     "help merge ties                     # a merge of checkpoints; help merge: all of them\n"
     "help language                       # the page on the language; help for: one section\n"
     "help slices; help ->                # a subject, or a sign\n"
     "help rules                          # the language of updaters\n"
     "help checkpoints                    # files of models, and the commands on them\n"
     "help types                          # what stores there are; help local: one of them\n"
     "help environment                    # the variables that are read\n"
     "help --json > help.txt              # all commands and functions for a program\n"
     "help \"gradient\"                     # everything that mentions a word",
     NULL,
     .check = check_help},
    {"history",
     {{ARG_VALUE, "COUNT", true}},
     .flags = COMMAND_GIVES,
     cmd_history,
     "what was typed at the prompt, in this and in earlier sessions",
     "history\n"
     "history 20                          # the last 20 entries",
     NULL,
     .fails = "io"},
    {"doctor", .flags = COMMAND_PRINTS, cmd_doctor,
     "what this build has and what it finds on this machine, as kvctl --doctor", "doctor",
     "version",
     .fails = "assert"},
    {"version", .flags = COMMAND_GIVES | COMMAND_READS, cmd_version,
     "the version of kvctl and its library", "version"},
    {"quit",
     {{ARG_VALUE, "CODE", true}},
     {FLAG("discard")},
     .run = cmd_quit,
     "leave, with an exit code; the file of -s stays as it was if that is not 0",
     "quit                                # 0 unless something failed\n"
     "quit --discard                      # the file of -s stays as it was",
     .see = "exit, rollback"},
    {"exit",
     {{ARG_VALUE, "CODE", true}},
     {FLAG("discard")},
     .run = cmd_quit,
     "the same as quit",
     "exit()                              # as quit",
     .see = "quit"},
#ifdef COMMANDS_MORE /* of a program that includes this table */
    COMMANDS_MORE,
#endif
    {0},
};

void language_init(void)
{
    registry.commands = command_table;
    registry.functions = function_table;
    for (int c = 0, i = 0; c < 129; registry.first[c++] = i)
        while (i < function_count && function_table[i].name[0] < c)
            i++;
    registry.run_block = run_block;
    registry.define = run_def;
    registry.run_method_call = run_method_call;
    registry.load = load_eval;
}
