/* The options of commands that write a checkpoint: the types that tensors get (--dtype T,
 * --dtype GLOB=T), the metadata (--metadata NAME=TEXT), and how the output comes into its place
 * (--shard-size, --force). */
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

/* Begins zeroed; there is nothing to release. */
typedef struct type_rules {
    type_rule *items;
    int64_t n;
    first_names seen;
} type_rules;

/* Reads each --dtype of a command. Errors: usage, at the option (no such type), memory. */
int type_rules_read(session *s, const ast *call, result *out, type_rules *rules, kv_err *e);

/* The type that a tensor gets: that of the last rule for it, or else the one that it has. */
tensor_type type_rules_of(type_rules *rules, const char *key, tensor_type has);

/* Returns true if a rule is about floats, or about this key. */
bool type_rules_touch(const type_rules *rules, const char *key);

/* To be called when type_rules_of was asked for every key; notes a type for floats where no key has
 * them. Error: key, at a pattern that matched none. */
int type_rules_check(session *s, const type_rules *rules, kv_err *e);

/* The metadata of an output, each name once. Begins zeroed; there is nothing to release. */
typedef struct metadata_list {
    checkpoint_text *items;
    int64_t n, cap;
} metadata_list;

/* Adds a text, or puts it in the place of the one with this name. Copies both into the memory of
 * the result. Error: memory. */
int metadata_set(metadata_list *m, const char *name, const char *text, result *out, kv_err *e);

/* The same for each --metadata of a command. Errors: usage, at the option (no `=`, no name); value
 * (a name that a store gives to what it keeps); memory. */
int metadata_read(session *s, const ast *call, result *out, metadata_list *m, kv_err *e);

/* Error: usage, when metadata are given for an output whose format holds none. */
int metadata_check(session *s, const ast *call, const char *to, kv_err *e);

/* A note that names n metadata, which such an output was written without. */
void metadata_tell(session *s, const checkpoint_text *texts, int64_t n, const char *to);

/* The files that an output gets from the folder of a model (checkpoint/folder_files.h): puts them
 * into the options, when `to` is a folder, c one too, and the command has no --weights-only. f
 * begins zeroed. */
void folder_files_plan(const ast *call, const char *to, const checkpoint *c,
                       const type_rules *rules, folder_files *f, checkpoint_out_options *o);

/* Says what was copied, in one line, and to --json; a warning where config.json is odd. Releases f,
 * whatever rc is, which says how the command went. Returns rc, or an error of its own. */
int folder_files_tell(session *s, const ast *call, folder_files *f, result *out, int rc,
                      kv_err *e);

/* Adds a member to what --json has as `about`; takes v, also on failure. Error: memory. */
int about_add(result *out, const char *name, value v, kv_err *e);

/* The hint where a path does not end as one that can be written. */
#define OUTPUT_ENDINGS                                                                             \
    "names end in .safetensors, .npz, .params or .kvs, that of a folder ends in /"

/* Refuses an output that could not be written: its path does not end as one, or --safe forbids it.
 * Errors: usage, unsupported, at the word. */
int out_check_path(session *s, const word *to, kv_err *e);

/* Reads --shard-size and --force, for the output `to`. Errors: usage (no size; the output is no
 * folder). */
int out_options_read(session *s, const ast *call, const char *to, result *out,
                     checkpoint_out_options *o, kv_err *e);

/* Begins to count what an output of n keys loses (tensors/conversion.h); with --strict nothing may
 * be lost. Error: memory. The caller releases l->keys with mem_free. */
int out_losses_begin(losses *l, const ast *call, int64_t n, kv_err *e);

/* Key i of an output: its name there, and its type. */
typedef const char *out_key_of(const void *keys, int64_t i, tensor_type *type);

/* Warns of what was lost, in one line; --json has it as about.lost. keys: for key_of. Who typed the
 * command at a terminal reads what was written: to. */
int out_losses_end(session *s, const ast *call, const char *to, const losses *l,
                   out_key_of *key_of, const void *keys, int64_t n, result *out, kv_err *e);
