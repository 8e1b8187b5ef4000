/* Checkpoints that are written: `convert`, others into one, with other names, types or container,
 * or some keys; and `save`, a store. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_write.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "cmd/explain.h"
#include "eval/eval.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "syntax/file_kind.h"
#include "tensors/conversion.h"
#include "term/terminal.h"

/* A conversion while its words are read and its keys are chosen. The result owns its arrays. */
typedef struct plan {
    target o;
    words inputs; /* in front of OUT */
    checkpoint **files;
    renames names;
    conversion_key *keys;
    int64_t nkeys, cap;
} plan;

/* ---- Words ----------------------------------------------------------------------------------- */

/* Hints at `write` where an array shall become an npy, which no checkpoint is written as. */
static void hint_npy(const words *all, kv_err *e)
{
    const char *from = all->items[0].text, *to = NULL, *key = "KEY";
    for (int64_t i = 1; i < all->n; i++)
        *(file_kind_of(all->items[i].text) == FILE_NPY ? &to : &key) = all->items[i].text;
    if (to && strchr(from, '#'))
        kv_err_hint(e, "write @%s %s", from, to);
    else if (to)
        kv_err_hint(e, "write @%s#%s %s", from, key, to);
}

/* OUT is the last word that can be one: checkpoints stand in front of it, patterns behind it. */
static int cut_words(plan *p, const ast *at, const words *all, kv_err *e)
{
    int64_t to = all->n - 1;
    while (to >= 0 && !checkpoint_out_is_path(all->items[to].text))
        to--;
    if (to < 0) {
        unit_err(p->o.s, at, e, KV_E_USAGE, "OUT is missing: no word ends as a file to write");
        hint_npy(all, e);
        return kv_err_hint(e, OUTPUT_ENDINGS);
    }
    if (to == 0 && all->n > 1) { /* most likely an ending that is not written */
        unit_err(p->o.s, all->items[all->n - 1].at, e, KV_E_USAGE,
                 "\"%s\" does not end as a file to write", all->items[all->n - 1].text);
        hint_npy(all, e);
        return kv_err_hint(e, OUTPUT_ENDINGS);
    }
    if (to == 0) {
        unit_err(p->o.s, all->items[0].at, e, KV_E_USAGE, "no checkpoint stands before OUT, \"%s\"",
                 all->items[0].text);
        return kv_err_hint(e, "convert CKPT OUT: the last word that ends as a file to write is "
                              "OUT, and patterns of keys stand behind it");
    }
    p->inputs = (words){all->items, to, to};
    p->o.to = all->items[to];
    p->o.chosen.globs = (words){all->items + to + 1, all->n - to - 1, all->n - to - 1};
    return KV_OK;
}

static int read_words(plan *p, kv_err *e)
{
    words all = {0};
    TRY(eval_words(p->o.s, p->o.call->kid[0], "a path", p->o.out, &all, e));
    TRY(cut_words(p, p->o.call, &all, e));
    TRY(target_read(&p->o, NULL, e));
    TRY(target_check_path(&p->o, e));
    return renames_read(p->o.s, p->o.call, p->o.out, &p->names, e);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int add_key(plan *p, int file, int64_t at, kv_err *e)
{
    const tensor_info *t = checkpoint_at(p->files[file], at);
    TRY(arena_grow(&p->o.out->names, &p->keys, &p->cap, p->nkeys, sizeof *p->keys, e));
    const char *name = renames_apply(&p->names, p->o.s, t->name, &p->o.out->names, e);
    if (!name)
        return e->code;
    const tensor_info *codes = tensor_values_codes(p->files[file], at);
    tensor_type type = target_type(&p->o, codes ? codes->name : t->name, t->type);
    p->keys[p->nkeys++] = (conversion_key){file, at, name, type};
    return KV_OK;
}

/* Without --dtype codes and scales are carried; another type of either is another model. Scales may
 * stand in another input. */
static int check_scales(const plan *p, kv_err *e)
{
    const scales_model m = {p->files, (int)p->inputs.n};
    scales found;
    for (int64_t i = 0; i < p->nkeys && p->o.types.n > 0 && !command_option_of(p->o.call, "raw");
         i++) {
        const conversion_key *k = &p->keys[i];
        const tensor_info *t = checkpoint_at(p->files[k->input], k->at);
        if (scales_find(&found, m, k->input, t) &&
            (type_rules_touch(&p->o.types, t->name) ||
             type_rules_touch(&p->o.types, found.codes->name)))
            return unit_at(p->o.s, p->inputs.items[k->input].at,
                           (scales_refuse(&found, true, e), e));
    }
    return KV_OK;
}

static bool gets_type(void *types, const tensor_info *codes)
{
    return type_rules_touch(types, codes->name);
}

/* Opens the inputs, and chooses keys from each. */
static int choose_all(plan *p, kv_err *e)
{
    p->files = arena_alloc(&p->o.out->names, (size_t)p->inputs.n * sizeof *p->files, e);
    if (!p->files)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->inputs.n; i++)
        TRY(choose_open_tensors(p->o.s, &p->inputs.items[i], &p->files[i], e));
    TRY(choose_decode(p->o.s, p->o.call, p->inputs.items[0].at, p->files, (int)p->inputs.n,
                      gets_type, &p->o.types, e));
    for (int64_t i = 0; i < p->inputs.n; i++)
        for (int64_t k = 0; k < checkpoint_count(p->files[i]); k++)
            if (choose_takes(&p->o.chosen, checkpoint_at(p->files[i], k)->name))
                TRY(add_key(p, (int)i, k, e));
    TRY(choose_check_some(p->o.s, &p->o.chosen, e));
    TRY(check_scales(p, e));
    if (p->nkeys > 0)
        TRY(renames_check(&p->names, p->o.s, e));
    for (int64_t i = 0; i < p->nkeys; i++)
        if (choose_tell_training(p->o.s, p->files[p->keys[i].input], p->keys[i].at))
            break;
    return target_check_types(&p->o, e);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const char *name_before(const plan *p, int64_t i)
{
    return checkpoint_at(p->files[p->keys[i].input], p->keys[i].at)->name;
}

/* The type that key i has in its file: of codes theirs, not that of the numbers. */
static const char *type_before(const plan *p, int64_t i)
{
    const checkpoint *c = p->files[p->keys[i].input];
    const tensor_info *codes = tensor_values_codes(c, p->keys[i].at);
    return tensor_info_type(codes ? codes : checkpoint_at(c, p->keys[i].at));
}

/* What --dry-run shows: the keys whose name or dtype changes, with a column for names and two for
 * dtypes where one changes. */
static int list_changes(const plan *p, kv_err *e)
{
    static const rows_column all[] = {
        {"key", "key"}, {"becomes", "becomes"}, {"from", "from"}, {"to", "to"}};
    static const rows_column types[] = {{"key", "key"}, {"from", "from"}, {"to", "to"}};
    bool renamed = false, retyped = false;
    for (int64_t i = 0; i < p->nkeys; i++) {
        renamed |= strcmp(name_before(p, i), p->keys[i].name) != 0;
        retyped |= strcmp(type_before(p, i), tensor_type_name(p->keys[i].type)) != 0;
    }
    bool names = renamed || !retyped;
    own_rows table = {names ? all : types, 1 + names + 2 * retyped, NULL, 0, 0};
    int64_t same = 0;
    for (int64_t i = 0; i < p->nkeys; i++) {
        const char *name = p->keys[i].name, *type = tensor_type_name(p->keys[i].type);
        if (strcmp(name_before(p, i), name) == 0 && strcmp(type_before(p, i), type) == 0) {
            same++;
            continue;
        }
        TRY(rows_add_text(&table, name_before(p, i), e));
        TRY(names ? rows_add_text(&table, name, e) : KV_OK);
        TRY(retyped ? rows_add_text(&table, type_before(p, i), e) : KV_OK);
        TRY(retyped ? rows_add_text(&table, type, e) : KV_OK);
    }
    if (same > 0)
        session_note(p->o.s, "%lld of %lld keys keep%s name and dtype", (long long)same,
                     (long long)p->nkeys, same == 1 ? "s" : "");
    return result_table(p->o.out, &(buf){0}, &table, KV_OK, e);
}

/* What was decoded of the keys; *type: what the blocks of quantised types became. */
static decoded count_decoded(const plan *p, const char **type)
{
    const scales_model m = {p->files, (int)p->inputs.n};
    bool raw = command_option_of(p->o.call, "raw") != NULL;
    decoded d = {0};
    *type = NULL;
    for (int64_t i = 0; i < p->nkeys; i++) {
        const conversion_key *k = &p->keys[i];
        const char *becomes = tensor_type_name(k->type);
        int64_t blocks = d.blocks;
        bool reads = !raw && k->type != checkpoint_at(p->files[k->input], k->at)->type;
        choose_count_decoded(&d, m, k->input, k->at, reads);
        if (d.blocks > blocks)
            *type = !*type || *type == becomes ? becomes : "several types";
    }
    return d;
}

/* Returns true if a key of the output is codes that have scales. */
static bool keeps_codes(const plan *p)
{
    const scales_model m = {p->files, (int)p->inputs.n};
    scales unused;
    for (int64_t i = 0; i < p->nkeys; i++) {
        const conversion_key *k = &p->keys[i];
        if (scales_find_codes(&unused, m, k->input, checkpoint_at(p->files[k->input], k->at)))
            return true;
    }
    return false;
}

static int convert_all(plan *p, kv_err *e)
{
    target *o = &p->o;
    TRY(target_metadata(o, p->files, (int)p->inputs.n, e));
    conversion c = {.inputs = p->files,
                    .ninputs = (int)p->inputs.n,
                    .keys = p->keys,
                    .nkeys = p->nkeys,
                    .metadata = o->metadata,
                    .nmetadata = o->nmetadata,
                    .lost = &o->lost,
                    .progress = progress_bytes};
    if (conversion_check(&c, e))
        return unit_at(o->s, o->call, e);
    TRY(target_begin(o, p->nkeys, e));
    for (int64_t i = 0; i < p->nkeys; i++)
        o->keys[i] = (target_key){p->keys[i].name, p->keys[i].type};
    if (session_would(o->s, "write", o->to.text))
        return list_changes(p, e);
    const checkpoint *folder = NULL;
    for (int64_t i = p->inputs.n - 1; i >= 0; i--)
        folder = folder_files_has(p->files[i]) ? p->files[i] : folder;
    const char *type;
    const decoded values = count_decoded(p, &type);
    o->beside.unquantised = values.scaled > 0 && !keeps_codes(p);
    target_plan_files(o, folder);
    if (PROGRESS("convert", conversion_run(&c, o->to.text, &o->how, e)))
        return unit_at(o->s, o->to.at, e);
    choose_tell_decoded(o->s, &values, type);
    return target_end(o, e);
}

int cmd_convert(session *s, const ast *call, result *out, kv_err *e)
{
    plan p = {.o = {.s = s, .call = call, .out = out}};
    int rc = read_words(&p, e) || choose_all(&p, e) || convert_all(&p, e) ? (int)e->code : KV_OK;
    rc = target_release(&p.o, rc, e);
    for (int64_t i = 0; p.files && i < p.inputs.n; i++)
        checkpoint_close(p.files[i]);
    renames_release(&p.names);
    return rc;
}

/* `save`: the store into a file in the middle of a run: whole, as -s keeps it; the values of its
 * keys, as other tools take them; or the patch from a checkpoint to these values. */

/* ---- The whole store ------------------------------------------------------------------------- */

/* Saves as -s does: a file of another tool stays one while it only holds values. */
static int save_store(kv *store, const char *path, kv_err *e)
{
    own_buf updater = {0};
    kv_err why = {0};
    TRY(describe_field(store, "store", "updater", &updater, e));
    if (strcmp(buf_text(&updater), "assign") != 0 || !kv_is_foreign(store))
        return kv_save(store, path, e);
    int rc = kv_save_arrays(store, path, &why);
    if (rc == KV_E_UNSUPPORTED) /* a key is row_sparse now */
        return kv_save(store, path, e);
    *e = rc ? why : *e;
    return rc;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The keys of a store that are written, as tensors. */
typedef struct values {
    checkpoint_entry *entries;
    kv_key *keys; /* borrowed from the store */
    kv_dtype *has;
    int64_t n, bytes;
} values;

static int save_begin(target *o, const values *v, kv_err *e)
{
    TRY(target_begin(o, v->n, e));
    for (int64_t i = 0; i < v->n; i++)
        o->keys[i] = (target_key){v->entries[i].name, v->entries[i].type};
    return KV_OK;
}

/* The entry of a key, whose name and shape go to the memory of the result. */
static int describe_key(const kv_info *info, checkpoint_entry *to, result *out, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    const char *name = named_key(info->key, number);
    int64_t *shape = arena_alloc(&out->names, (size_t)info->ndim * sizeof *shape, e);
    const char *copy = arena_text(&out->names, name, strlen(name), e);
    if (!shape || !copy)
        return KV_E_MEMORY;
    for (int i = 0; i < info->ndim; i++)
        shape[i] = info->shape[i];
    *to = (checkpoint_entry){copy, tensor_type_of(info->dtype), info->ndim, shape};
    return KV_OK;
}

/* Reads the options, and chooses keys, and the types that they get. */
static int choose_values(target *o, kv *store, values *v, kv_err *e)
{
    int64_t n = kv_num_keys(store);
    arena *names = &o->out->names;
    TRY(named_texts(store, names, &o->metadata, &o->nmetadata, e));
    o->metadata_cap = o->nmetadata;
    TRY(target_read(o, o->call->kid[1], e));
    v->entries = arena_alloc(names, (size_t)n * sizeof *v->entries, e);
    v->keys = arena_alloc(names, (size_t)n * sizeof *v->keys, e);
    v->has = arena_alloc(names, (size_t)n * sizeof *v->has, e);
    if (!v->entries || !v->keys || !v->has)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        kv_info info;
        checkpoint_entry *t = &v->entries[v->n];
        TRY(kv_info_at(store, i, &info, e));
        TRY(describe_key(&info, t, o->out, e));
        if (!choose_takes(&o->chosen, t->name))
            continue;
        t->type = target_type(o, t->name, t->type);
        v->keys[v->n] = info.key;
        v->has[v->n++] = info.dtype;
        v->bytes += info.bytes;
    }
    TRY(choose_check_some(o->s, &o->chosen, e));
    return target_check_types(o, e);
}

/* Element i of the array has no number in the type that is written, or by strict another one. */
static int no_number(const checkpoint_entry *t, const kv_array *a, const void *data, int64_t i,
                     bool strict, kv_err *e)
{
    own_buf text = {0}, number = {0};
    show_index(&text, a, i);
    if (!strict)
        return kv_err_set(e, KV_E_VALUE, "\"%.200s\": %s has no number for element %s", t->name,
                          tensor_type_name(t->type), buf_text(&text));
    tensor_words_number(&number, tensor_type_of(kv_array_dtype(a)), data, i);
    kv_err_set(e, KV_E_VALUE, "\"%.200s\" is %s at %s, which %s cannot hold", t->name,
               buf_text(&number), buf_text(&text), tensor_type_name(t->type));
    return kv_err_hint(e, LOSSES_HINT);
}

/* A row_sparse key is written with all its rows. */
static int put_key(kv *store, checkpoint_out *file, const values *v, int64_t i, losses *lost,
                   kv_err *e)
{
    const checkpoint_entry *t = &v->entries[i];
    tensor_type has = tensor_type_of(v->has[i]);
    const void *data;
    int64_t wrong = -1;
    own_array *a = NULL;
    TRY(kv_array_new_raw(&a, v->has[i], t->ndim, t->shape, (kv_ctx){0}, e));
    TRY(kv_pull(store, &v->keys[i], 1, &a, NULL, e));
    TRY(kv_array_read(a, &data, e));
    TRY(tensor_put(file, i, t->type, data, has, kv_array_size(a), lost, &wrong, e));
    return wrong < 0 ? KV_OK : no_number(t, a, data, wrong, lost->strict, e);
}

static int save_values(target *o, kv *store, kv_err *e)
{
    values v = {0};
    checkpoint_out *file;
    TRY(choose_values(o, store, &v, e));
    TRY(target_check_metadata(o, e));
    if (session_would(o->s, "write", o->to.text))
        return KV_OK;
    TRY(save_begin(o, &v, e));
    TRY(checkpoint_out_open(&file, o->to.text, v.entries, v.n, o->metadata, o->nmetadata, &o->how,
                            e));
    int rc = KV_OK;
    int64_t done = 0;
    progress_begin("save", v.bytes, PROGRESS_BYTES);
    for (int64_t i = 0; i < v.n && rc == KV_OK; i++) {
        rc = put_key(store, file, &v, i, &o->lost, e);
        done += tensor_type_bytes(tensor_type_of(v.has[i]),
                                  tensor_elements(v.entries[i].ndim, v.entries[i].shape));
        progress_step(done);
    }
    progress_end();
    if (rc)
        return checkpoint_out_abandon(file), rc;
    TRY(checkpoint_out_commit(file, e));
    return target_end(o, e);
}

/* ---- A patch --------------------------------------------------------------------------------- */

/* The values as tensors in memory. */
typedef struct tensors {
    tensor_info *items;
    const void **data;
    kv_array **arrays; /* that they lie in, or */
    void **converted;
    int64_t n;
} tensors;

static int tensors_begin(tensors *t, const values *v, result *out, kv_err *e)
{
    size_t n = (size_t)v->n;
    t->items = arena_alloc(&out->names, n * sizeof *t->items, e);
    t->data = arena_alloc(&out->names, n * sizeof *t->data, e);
    t->arrays = arena_alloc(&out->names, n * sizeof *t->arrays, e);
    t->converted = arena_alloc(&out->names, n * sizeof *t->converted, e);
    return t->items && t->data && t->arrays && t->converted ? KV_OK : KV_E_MEMORY;
}

static void tensors_release(tensors *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        kv_array_unref(t->arrays[i]);
        mem_free_data(t->converted[i]);
    }
}

/* The data of tensor i in the type that it gets. */
static int tensors_convert(tensors *t, const values *v, int64_t i, losses *lost, kv_err *e)
{
    const checkpoint_entry *x = &v->entries[i];
    tensor_type has = tensor_type_of(v->has[i]);
    int64_t n = tensor_elements(x->ndim, x->shape), bytes = tensor_type_bytes(x->type, n), wrong;
    t->items[i] = (tensor_info){.name = x->name, .type = x->type, .ndim = x->ndim,
                                .shape = x->shape, .elements = n, .bytes = bytes};
    TRY(kv_array_read(t->arrays[i], &t->data[i], e));
    if (x->type == has)
        return KV_OK;
    if (!(t->converted[i] = mem_alloc_data(bytes, e)))
        return KV_E_MEMORY;
    tensor_loss loss = {.first = -1};
    wrong = tensor_convert_counting(t->converted[i], x->type, t->data[i], has, n, &loss);
    if (wrong < 0 && lost->strict)
        wrong = loss.first;
    if (wrong >= 0)
        return no_number(x, t->arrays[i], t->data[i], wrong, lost->strict, e);
    losses_add(lost, i, &loss);
    kv_array_unref(t->arrays[i]);
    t->arrays[i] = NULL;
    t->data[i] = t->converted[i];
    return KV_OK;
}

/* The values are in memory together: a patch is made from tensors that are read in any order. */
static int save_patch(target *o, const ast *from, kv *store, kv_err *e)
{
    const patch_options how = {.progress = progress_bytes};
    values v = {0};
    OWN(tensors_release) tensors t = {0};
    own_checkpoint *a = NULL, *b = NULL;
    TRY(choose_open(o->s, from, false, o->out, &a, e));
    TRY(patches_check_place(o->s, &o->to, a, e));
    TRY(choose_values(o, store, &v, e));
    if (session_would(o->s, "write", o->to.text))
        return KV_OK;
    TRY(tensors_begin(&t, &v, o->out, e));
    TRY(save_begin(o, &v, e));
    for (; t.n < v.n; t.n++) {
        const checkpoint_entry *x = &v.entries[t.n];
        t.converted[t.n] = NULL;
        TRY(kv_array_new_raw(&t.arrays[t.n], v.has[t.n], x->ndim, x->shape, (kv_ctx){0}, e));
    }
    /* all values at once, so that those of several machines come side by side */
    TRY(kv_pull(store, v.keys, v.n, t.arrays, NULL, e));
    for (int64_t i = 0; i < v.n; i++)
        TRY(tensors_convert(&t, &v, i, &o->lost, e));
    TRY(checkpoint_of_memory(&b, t.items, t.data, t.n, o->metadata, o->nmetadata, "the store", e));
    TRY(PROGRESS("save", patch_make(o->to.text, a, b, &how, NULL, e)));
    return target_end(o, e);
}

/* Returns true if what is asked for is the store, not its values: a name without options. */
static bool is_whole(const ast *call, const char *path)
{
    bool kvs = utf8_ends_in(path, ".kvs");
    return !call->kid[1] && call->n == 2 && (kvs || !checkpoint_out_is_path(path));
}

/* ---- The command ----------------------------------------------------------------------------- */

static int save_whole(session *s, kv *store, const char *path, kv_err *e)
{
    int rc = file_kind_check_keeps(path, "store", e);
    if (rc)
        return kv_err_hint(e, "save FILE.kvs keeps the store, save FILE.safetensors its values; "
                              "pull KEY > FILE.npy writes one value");
    if (session_would(s, "write", path))
        return KV_OK;
    rc = save_store(store, path, e);
    if (rc == KV_E_UNSUPPORTED && kv_num_workers(store) > 1)
        kv_err_hint(e, "kvctl launch --checkpoint FILE keeps the store of a job; save "
                       "FILE.safetensors writes its values");
    return rc;
}

int cmd_save(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    target o = {.s = s, .call = call, .out = out, .to.at = call->kid[0]};
    if (session_store(s, &store, e) ||
        !(o.to.text = eval_file(s, call->kid[0], "a store stands", out, e)))
        return e->code;
    if (safe_write(s, o.to.text, e))
        return unit_at(s, call->kid[0], e);
    if (kv_num_keys(store) == 0) {
        unit_err(s, call, e, KV_E_VALUE, "the store holds no keys");
        return kv_err_hint(e, "kvctl -s FILE begins with those of a file");
    }
    const ast *from = command_option_of(call, "patch-from");
    int rc = from                        ? save_patch(&o, from, store, e)
             : is_whole(call, o.to.text) ? save_whole(s, store, o.to.text, e)
                                         : save_values(&o, store, e);
    return target_release(&o, rc, e) ? unit_at(s, call->kid[0], e) : KV_OK;
}
