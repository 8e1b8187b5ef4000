/* A checkpoint that a command writes: its keys (patterns, --exclude), the types that they get
 * (--dtype T, --dtype GLOB=T), its metadata (--metadata NAME=TEXT), how it comes into its place
 * (--shard-size, --force), and what is said of it when it is there. */
#pragma once

#include "checkpoint/checkpoint_write.h"
#include "checkpoints/choose.h"
#include "tensors/conversion.h"

typedef struct type_rule {
    const char *glob; /* NULL: every key of floats */
    tensor_type to;
    const ast *at; /* for unit_at */
    bool matched;  /* a key */
} type_rule;

typedef struct type_rules {
    type_rule *items;
    int64_t n;
    first_names seen;
} type_rules;

/* A key of the output: its name there, and its type. */
typedef struct target_key {
    const char *name;
    tensor_type type;
} target_key;

/* Begins with only the first four set. */
typedef struct target {
    session *s;
    const ast *call;
    result *out; /* its arena holds all texts */
    word to;
    choice chosen;
    type_rules types;
    checkpoint_text *metadata; /* each name once */
    int64_t nmetadata, metadata_cap;
    checkpoint_text *texts; /* owned: where target_metadata has put them */
    checkpoint_out_options how;
    losses lost;
    target_key *keys; /* of the output, for what is said of losses */
    int64_t nkeys;
    folder_files beside; /* what it gets besides weights */
} target;

/* Reads the options. globs: the argument that holds the patterns, or NULL; those that are in
 * o->chosen are kept, and metadata that are there are replaced by those of the same name. Errors:
 * usage (an unknown type; metadata without a name; what is not a size; the output is not a folder),
 * value (a name that a store gives to what it keeps), each at its word; memory. */
int target_read(target *o, const ast *globs, kv_err *e);

/* Reads only --shard-size and --force. */
int target_read_place(target *o, kv_err *e);

/* Error: usage, when metadata are given for an output whose format holds none. */
int target_check_metadata(const target *o, kv_err *e);

/* target_check_metadata, and whether the output could be written: a path that does not end as one
 * is an error, and so is one that --safe forbids. Errors: usage, unsupported, at the word. */
int target_check_path(const target *o, kv_err *e);

/* Puts the metadata of the inputs in front, unless the command has --drop-metadata. Error:
 * memory. */
int target_metadata(target *o, checkpoint *const *inputs, int n, kv_err *e);

/* The type that a tensor gets: that of the last rule for it, or else the one that it has. */
tensor_type target_type(target *o, const char *key, tensor_type has);

/* Returns true if a rule is about floats, or about this key. */
bool type_rules_touch(const type_rules *rules, const char *key);

/* To be called when target_type was asked for every key; notes a type for floats where no key has
 * them. Error: key, at a pattern that matched none. */
int target_check_types(const target *o, kv_err *e);

/* Plans to copy the files of the folder of a model (checkpoint/folder_files.h), when the output is
 * a folder, c one too, and the command has no --weights-only. */
void target_plan_files(target *o, const checkpoint *c);

/* Begins to count what an output of n keys loses (tensors/conversion.h), which the caller puts into
 * o->keys; with --strict nothing may be lost. Error: memory. */
int target_begin(target *o, int64_t n, kv_err *e);

/* It is written. Notes metadata that its format holds none of, and warns of what was lost, in one
 * line; --json has it as about.lost. Who typed the command at a terminal reads what was written. */
int target_end(target *o, kv_err *e);

/* Says which files were copied, in one line, and to --json; a warning where config.json is odd.
 * Releases o. rc says how the command went. Returns rc, or an error of its own. */
int target_release(target *o, int rc, kv_err *e);

/* Adds a member to what --json has as `about`; takes v, also on failure. Error: memory. */
int about_add(result *out, const char *name, value v, kv_err *e);

/* The hint where a path does not end as one that can be written. */
#define OUTPUT_ENDINGS                                                                             \
    "names end in .safetensors, .npz, .params or .kvs, that of a folder ends in /"
