/* `convert`: checkpoints into another one, with other names, types or container, or some keys. */
#include <string.h>

#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "tensors/conversion.h"
#include "term/terminal.h"

/* A conversion while its words are read and its keys are chosen. */
typedef struct plan {
    session *s;
    const ast *call;
    result *out;          /* its arena holds all texts */
    words inputs;         /* in front of OUT */
    word to;              /* OUT */
    choice chosen;
    checkpoint **files;
    type_rules types;
    renames names;
    conversion_key *keys;
    int64_t nkeys, cap;
    metadata_list metadata;
    checkpoint_text *texts;
    int64_t ntexts;
    checkpoint_out_options options;
    losses lost;
    folder_files beside; /* what the output gets besides weights */
} plan;

static void plan_release(plan *p)
{
    for (int64_t i = 0; p->files && i < p->inputs.n; i++)
        checkpoint_close(p->files[i]);
    renames_release(&p->names);
    mem_free(p->files);
    mem_free(p->keys);
    mem_free(p->lost.keys);
    mem_free(p->texts);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* OUT is the last word that can be one: checkpoints stand in front of it, patterns behind it. */
static int cut_words(plan *p, const ast *at, const words *all, kv_err *e)
{
    int64_t to = all->n - 1;
    while (to >= 0 && !checkpoint_out_is_path(all->items[to].text))
        to--;
    if (to < 0) {
        unit_err(p->s, at, e, KV_E_USAGE, "there is no OUT: no word ends as a file to write");
        return kv_err_hint(e, OUTPUT_ENDINGS), KV_E_USAGE;
    }
    if (to == 0 && all->n > 1) { /* most likely an ending that is not written */
        unit_err(p->s, all->items[all->n - 1].at, e, KV_E_USAGE,
                 "\"%s\" does not end as a file to write", all->items[all->n - 1].text);
        return kv_err_hint(e, OUTPUT_ENDINGS), KV_E_USAGE;
    }
    if (to == 0) {
        unit_err(p->s, all->items[0].at, e, KV_E_USAGE, "no checkpoint stands before OUT, \"%s\"",
                 all->items[0].text);
        return kv_err_hint(e, "convert CKPT OUT: the last word that ends as a file to write is "
                              "OUT, and patterns of keys stand behind it"),
               KV_E_USAGE;
    }
    p->inputs = (words){all->items, to, to};
    p->to = all->items[to];
    p->chosen.globs = (words){all->items + to + 1, all->n - to - 1, all->n - to - 1};
    return KV_OK;
}

static int read_words(plan *p, kv_err *e)
{
    words all = {0};
    if (eval_words(p->s, p->call->kid[0], "a path", p->out, &all, e) ||
        cut_words(p, p->call, &all, e) ||
        choose_read(p->s, p->call, NULL, p->out, &p->chosen, e) ||
        type_rules_read(p->s, p->call, p->out, &p->types, e) ||
        renames_read(p->s, p->call, p->out, &p->names, e) ||
        metadata_read(p->s, p->call, p->out, &p->metadata, e) ||
        metadata_check(p->s, p->call, p->to.text, e) ||
        out_options_read(p->s, p->call, p->to.text, p->out, &p->options, e))
        return e->code;
    return safe_write(p->s, p->to.text, e) ? unit_at(p->s, p->to.at, e) : KV_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int add_key(plan *p, int file, int64_t at, kv_err *e)
{
    const tensor_info *t = checkpoint_at(p->files[file], at);
    int rc = mem_grow(&p->keys, &p->cap, p->nkeys + 1, sizeof *p->keys, e);
    const char *name = rc ? NULL : renames_apply(&p->names, p->s, t->name, &p->out->names, e);
    if (!name)
        return e->code;
    const tensor_info *codes = tensor_values_codes(p->files[file], at);
    tensor_type type = type_rules_of(&p->types, codes ? codes->name : t->name, t->type);
    p->keys[p->nkeys++] = (conversion_key){file, at, name, type};
    return KV_OK;
}

/* Without --dtype codes and scales are carried; another type of either is another model. Scales may
 * stand in another input. */
static int check_scales(const plan *p, kv_err *e)
{
    const scales_model m = {p->files, (int)p->inputs.n};
    scales found;
    for (int64_t i = 0; i < p->nkeys && p->types.n > 0 && !command_option_of(p->call, "raw"); i++) {
        const conversion_key *k = &p->keys[i];
        const tensor_info *t = checkpoint_at(p->files[k->input], k->at);
        if (scales_find(&found, m, k->input, t) && (type_rules_touch(&p->types, t->name) ||
                                                    type_rules_touch(&p->types, found.codes->name)))
            return unit_at(p->s, p->inputs.items[k->input].at, (scales_refuse(&found, true, e), e));
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
    p->files = mem_zalloc(p->inputs.n, sizeof *p->files, e);
    if (!p->files)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->inputs.n; i++) {
        checkpoint **c = &p->files[i];
        if (choose_open_tensors(p->s, &p->inputs.items[i], c, e))
            return e->code;
    }
    int rc = choose_decode(p->s, p->call, p->inputs.items[0].at, p->files, (int)p->inputs.n,
                           gets_type, &p->types, e);
    for (int64_t i = 0; i < p->inputs.n && rc == KV_OK; i++) {
        checkpoint **c = &p->files[i];
        for (int64_t k = 0; k < checkpoint_count(*c); k++)
            if (choose_takes(&p->chosen, checkpoint_at(*c, k)->name) && add_key(p, (int)i, k, e))
                return e->code;
    }
    if (rc || choose_check_some(p->s, &p->chosen, e) || check_scales(p, e))
        return e->code;
    if (p->nkeys > 0 && renames_check(&p->names, p->s, e))
        return e->code;
    return type_rules_check(p->s, &p->types, e);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const char *key_of(const void *keys, int64_t i, tensor_type *type)
{
    const conversion_key *k = (const conversion_key *)keys + i;
    *type = k->type;
    return k->name;
}

/* What --dry-run shows: the keys, by their old and new names. */
static int list_names(const plan *p, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"}, {"becomes", "becomes"}};
    rows table = {columns, 2, NULL, 0, 0};
    buf text = {0};
    int rc = KV_OK;
    for (int64_t i = 0; i < p->nkeys && !rc; i++) {
        const conversion_key *k = &p->keys[i];
        rc = rows_add_text(&table, checkpoint_at(p->files[k->input], k->at)->name, e);
        if (!rc)
            rc = rows_add_text(&table, k->name, e);
    }
    return result_table(p->out, &text, &table, rc, e);
}

/* What was decoded of the keys; *type: what the blocks of quantised types became. */
static decoded count_decoded(const plan *p, const char **type)
{
    const scales_model m = {p->files, (int)p->inputs.n};
    bool raw = command_option_of(p->call, "raw") != NULL;
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
    conversion c = {.inputs = p->files,
                 .ninputs = (int)p->inputs.n,
                 .keys = p->keys,
                 .nkeys = p->nkeys,
                 .metadata = p->texts,
                 .nmetadata = p->ntexts,
                 .lost = &p->lost,
                 .progress = progress_bytes};
    if (conversion_check(&c, e))
        return unit_at(p->s, p->call, e);
    if (out_losses_begin(&p->lost, p->call, p->nkeys, e))
        return e->code;
    if (session_would(p->s, "write", p->to.text))
        return list_names(p, e);
    const checkpoint *folder = NULL;
    for (int64_t i = p->inputs.n - 1; i >= 0; i--)
        folder = folder_files_has(p->files[i]) ? p->files[i] : folder;
    const char *type;
    const decoded values = count_decoded(p, &type);
    p->beside.unquantised = values.scaled > 0 && !keeps_codes(p);
    folder_files_plan(p->call, p->to.text, folder, &p->types, &p->beside, &p->options);
    progress_begin("convert", 0, PROGRESS_BYTES);
    int rc = conversion_run(&c, p->to.text, &p->options, e);
    progress_end();
    if (rc == KV_OK) {
        choose_tell_decoded(p->s, &values, type);
        metadata_tell(p->s, p->texts, p->ntexts, p->to.text);
    }
    return rc ? unit_at(p->s, p->to.at, e)
              : out_losses_end(p->s, p->call, p->to.text, &p->lost,
                               key_of, p->keys, p->nkeys, p->out, e);
}

int cmd_convert(session *s, const ast *call, result *out, kv_err *e)
{
    plan p = {.s = s, .call = call, .out = out};
    bool drop = command_option_of(call, "drop-metadata") != NULL;
    int rc = read_words(&p, e) || choose_all(&p, e) ||
                     conversion_metadata(&p.texts, &p.ntexts, p.files, (int)p.inputs.n, drop,
                                         p.metadata.items, p.metadata.n, e) ||
                     convert_all(&p, e)
                 ? (int)e->code
                 : KV_OK;
    rc = folder_files_tell(s, call, &p.beside, out, rc, e);
    plan_release(&p);
    return rc;
}
