/* Commands on how a store works: its update of a push (set-updater, set-optimizer) and the states
 * of that, compression, and what a type of store can do. Words of commands are checked before
 * anything runs. */
#include "cmd/commands.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "cmd/explain.h"
#include "cmd/help.h"
#include "eval/eval.h"
#include "eval/rule_variables.h"
#include "session/containers.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/command.h"
#include "syntax/effect.h"
#include "syntax/file_kind.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* ---- Checks of words ---- */

/* The literal word of a node, or NULL. */
static const char *literal(const ast *node)
{
    return node && node->kind == AST_TEXT ? node->u.text : NULL;
}

static int at(const source *src, const ast *node, kv_err *e)
{
    return source_at(src, node->pos, node->end, e), e->code;
}

/* Types have their names in any case. */
static bool registers(const map *types, const char *word)
{
    bool found = false;
    for (int64_t i = 0; i < types->cap; i++)
        found |= types->entries[i].hash && strcasecmp(types->entries[i].key.name, word) == 0;
    return found;
}

int check_type(const source *src, const ast *call, const map *types, kv_err *e)
{
    const kv_type_ops *ops;
    const char *word = literal(call->kid[0]);
    if (!word || !types || registers(types, word) || kv_find_type(word, &ops, e) == KV_OK)
        return KV_OK;
    return at(src, call->kid[0], e);
}

/* A new store refuses the parameters that the optimizer does not take. */
int check_compression(const source *src, const ast *call, const map *types, kv_err *e)
{
    own_store *store = NULL;
    kv_opt type = {"type", literal(call->kid[0])};
    (void)types;
    TRY(type.value ? kv_create("device", NULL, 0, &store, e) : KV_OK);
    return store && kv_set_gradient_compression(store, &type, 1, e) ? at(src, call->kid[0], e)
                                                                    : KV_OK;
}

/* Checks that the optimizer has the given parameters: it is set in a new store, whose error counts.
 * Values may need variables, so they are checked when the command runs. */
int check_params(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    own_store *store = NULL;
    bool update = command_option_of(call, "update") != NULL;
    (void)types;
    const ast *wrong = update ? call->kid[0] : call->kid[0] ? NULL : call;
    if (wrong)
        return source_err(src, wrong->pos, wrong->end, e, KV_E_USAGE, "%s",
                          update ? "--update changes the optimizer in use: no name"
                                 : "set-optimizer needs a NAME, or --update");
    TRY(word && optimizer_text(word) ? kv_create(NULL, NULL, 0, &store, e) : KV_OK);
    for (uint32_t i = 1; i < call->n && store; i++) {
        const ast *kid = call->kid[i];
        kv_err why = {0};
        if (!kid || kid->kind != STMT_OPTION || strcmp(kid->u.text, "update") == 0 ||
            strcmp(kid->u.text, "fresh") == 0)
            continue;
        const char *typed = src->text + kid->pos + strspn(src->text + kid->pos, "-");
        size_t n = strcspn(typed, " \t\n=,)");
        char name[64]; /* as it stands: learning_rat, not learning-rat */
        bool same = n < sizeof name && name_is_word(kid->u.text, typed, n);
        snprintf(name, sizeof name, "%.*s", (int)n, typed);
        kv_opt one = {same ? name : kid->u.text, "none"};
        if (kv_set_optimizer(store, word, &one, 1, &why) != KV_E_USAGE)
            continue;
        *e = why;
        kv_err_hint(e, "help optimizer %s lists its parameters", word); /* unless one is close */
        return at(src, kid, e);
    }
    return KV_OK;
}

int check_capability(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    bool yes;
    (void)types;
    return !word || kv_is_capable(NULL, word, &yes, e) == KV_OK ? KV_OK : at(src, call->kid[0], e);
}

int check_help(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *topic = literal(call->kid[0]), *word = literal(call->n > 1 ? call->kid[1] : NULL);
    own_buf found = {0};
    (void)types;
    return topic && word && help_words(&found, topic, word, e) ? at(src, call->kid[1], e) : KV_OK;
}

int check_write(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *path = literal(call->kid[1]);
    bool file = path && strcmp(path, "-") != 0;
    (void)types;
    return file && file_kind_check(path, false, e) ? at(src, call->kid[1], e) : KV_OK;
}

/* ---- States of an optimizer: files ---- */

static int ignore(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

/* Places an error at the file, or at the command where the store has no states at all. */
static int placed(session *s, const ast *call, kv *store, kv_err *e)
{
    bool none = e->code != KV_E_IO && kv_describe(store, "states", ignore, NULL, &(kv_err){0});
    return unit_at(s, none ? call : call->kid[0], e);
}

int cmd_save_states(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *name;
    uint32_t flags = command_option_of(call, "dump-optimizer") ? KV_DUMP_OPTIMIZER : 0;
    if (session_store(s, &store, e) ||
        !(name = eval_file(s, call->kid[0], "states stand", out, e)))
        return e->code;
    if (file_kind_check_keeps(name, "states", e)) {
        kv_err_hint(e, "save-states FILE.safetensors");
        return unit_at(s, call->kid[0], e);
    }
    /* a dry run finds the errors that do not need the file */
    int rc = safe_write(s, name, e);
    if (rc == KV_OK && s->dry_run)
        rc = kv_describe(store, "states", ignore, NULL, e);
    if (rc == KV_OK && !session_would(s, "write", name))
        rc = kv_save_states(store, name, flags, e);
    return rc ? placed(s, call, store, e) : KV_OK;
}

int cmd_load_states(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *name;
    if (session_store(s, &store, e) ||
        !(name = eval_file(s, call->kid[0], "states stand", out, e)))
        return e->code;
    return kv_load_states(store, name, e) ? placed(s, call, store, e) : KV_OK;
}

/* ---- Compression ---- */

/* {'type': '2bit', 'threshold': 0.5}, as MXNet has it. type, threshold: borrowed from the dict. */
static int take_dict(session *s, const ast *node, value dict, value *type, value *threshold,
                     bool *pull, kv_err *e)
{
    dict_settle(dict);
    const value *item = dict.u.list->items;
    *type = value_none();
    for (int64_t i = 0; i < dict_count(dict); i++, item += 2) {
        const char *key = item->kind == VALUE_TEXT ? item->u.text : "";
        if (strcmp(key, "type") == 0)
            *type = item[1];
        else if (strcmp(key, "threshold") == 0)
            *threshold = item[1];
        else if (strcmp(key, "pull") == 0)
            TRY(eval_truth(item[1], pull, e));
        else
            return unit_err(s, node, e, KV_E_USAGE, "the compression has no parameter `%s`", key);
    }
    return KV_OK;
}

int cmd_set_gradient_compression(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *node = call->kid[0], *option = command_option_of(call, "threshold");
    own_value given = value_none(), own = value_none(), text = value_none();
    bool pull = command_option_of(call, "pull") != NULL;
    kv *store;
    (void)out;
    TRY(session_store(s, &store, e));
    TRY(eval(s, node, &given, e));
    value type = given, threshold = value_none();
    TRY(given.kind == VALUE_DICT ? take_dict(s, node, given, &type, &threshold, &pull, e) : KV_OK);
    /* the dict may be emptied while the option is read */
    own_value kept_type = value_ref(type), kept = value_ref(threshold);
    if (type.kind != VALUE_TEXT) {
        unit_err(s, node, e, KV_E_DTYPE, "a type of compression is a text, not %s",
                 value_kind_name(type));
        return kv_err_hint(e, "2bit, 1bit or none; {'type': '2bit', 'threshold': 0.5}");
    }
    TRY(option ? eval(s, option, &own, e) : KV_OK);
    threshold = option ? own : kept;
    kv_opt params[3] = {{"type", kept_type.u.text}};
    int n = 1;
    if (threshold.kind != VALUE_NONE) {
        if (!value_is_scalar(threshold) || threshold.kind == VALUE_BOOL)
            return unit_err(s, option ? option : node, e, KV_E_DTYPE,
                            "a threshold is a number, not %s", value_kind_name(threshold));
        TRY(follow_text(&text, threshold, false, e));
        params[n++] = (kv_opt){"threshold", text.u.text};
    }
    if (pull)
        params[n++] = (kv_opt){"pull", "true"};
    if (kv_set_gradient_compression(store, params, n, e) == KV_OK)
        return KV_OK;
    /* A wrong parameter stands in its option, else in the first word. If none is wrong the store or
     * its keys are the reason. */
    bool wrong = e->option > 0 && e->option <= n;
    const ast *place = wrong ? command_option_of(call, params[e->option - 1].name) : call;
    return unit_at(s, place ? place : node, e);
}

/* ---- register ---- */

/* Loads FILE.so, which brings the type unless a base for it is given. */
static int load_plugin(session *s, const ast *file, const char *name, bool brings, result *out,
                       kv_err *e)
{
    const kv_type_ops *ops;
    kv_err why = {0};
    const char *path = eval_word(s, file, "the file of a plugin", out, e);
    if (!path)
        return e->code;
    int rc = safe_plugin(s, e);
    if (rc == KV_OK)
        rc = kv_load_plugin(path, e);
    if (rc == KV_OK && brings && kv_find_type(name, &ops, &why)) {
        rc = kv_err_set(e, KV_E_NAME, "%s brings no type \"%s\"", path, name);
        kv_err_hint(e, "%s", why.hint); /* the types that can be made now, also by the plugin */
    }
    return rc ? unit_at(s, file, e) : KV_OK;
}

int cmd_register(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *plugin = command_option_of(call, "plugin"), *base = command_option_of(call, "base");
    const kv_type_ops *ops;
    const char *name = eval_word(s, call->kid[0], "the name of a store type", out, e), *of = NULL;
    if (!name)
        return e->code;
    if (kv_find_type(name, &ops, &(kv_err){0}) == KV_OK)
        return unit_err(s, call->kid[0], e, KV_E_NAME, "there is a store type \"%s\" already",
                        name);
    if (plugin && (load_plugin(s, plugin, name, !base, out, e) || !base))
        return e->code;
    if (base && !(of = eval_word(s, base, "a store type", out, e)))
        return e->code;
    int rc = kv_register_name(name, of, e);
    return rc ? unit_at(s, rc == KV_E_UNSUPPORTED ? base : call->kid[0], e) : KV_OK;
}

/* ---- Workers and servers ---- */

int cmd_barrier(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    (void)call, (void)out;
    TRY(session_store(s, &store, e));
    return explain_barrier(s, store) ? kv_barrier(store, e) : KV_OK;
}

int cmd_send_command(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *body;
    int32_t head;
    if (session_store(s, &store, e) ||
        eval_int32(s, call->kid[0], "the head of a command", &head, e) ||
        !(body = eval_word(s, call->kid[1], "the body of a command", out, e)))
        return e->code;
    return kv_send_command(store, head, body, e);
}

/* ---- Updates ---- */

/* A command that sets a rule. */
typedef struct setting_rule {
    session *s;
    const ast *call;
} setting_rule;

/* The variable that a word names where no rule, function or optimizer has the name; or NULL. */
static const value *rule_variable(session *s, const char *word)
{
    bool known = session_defined(s, word) || optimizer_text(word) || strcmp(word, "assign") == 0;
    return known ? NULL : session_find(s, word);
}

/* Returns true if a parameter of the rule that a command names is a text. */
static bool takes_text(void *arg, const char *param)
{
    session *s = ((const setting_rule *)arg)->s;
    const ast *what = ((const setting_rule *)arg)->call->kid[0];
    own_value name = value_none();
    if (!what || what->kind == STMT_RULE)
        return optimizer_takes_text(param, what ? what->u.other : NULL);
    if (eval_text(s, what, "", &name, &(kv_err){0}))
        return false;
    const value *held = rule_variable(s, name.u.text);
    const char *word = held && held->kind == VALUE_TEXT ? held->u.text : name.u.text;
    const definition *d = session_defined(s, word);
    const char *text = d ? NULL : optimizer_text(word);
    own_arena nodes = {0};
    return (d || text) && optimizer_takes_text(param, d ? d->rule : rule_of_text(text, &nodes));
}

/* The rates that a command gives, for note_unused. NULL: it gives none. */
typedef struct given_rates {
    session *s;
    const kv_opt *lr, *wd;
} given_rates;

/* --learning-rate as it stands in a command, learning_rate in a call. */
static void note_rate(const given_rates *g, const kv_opt *rate, const char *why)
{
    bool word = strchr(rate->name, '-') || strcmp(rate->name, "wd") == 0;
    session_note(g->s, "%s: %s%s %s is not used", why, word ? "--" : "", rate->name, rate->value);
}

/* Receives the topic "rule". The base rate is the first number of a schedule's text. */
static int compare_rates(void *arg, const kv_field *fields, int n, kv_err *e)
{
    const given_rates *g = arg;
    const char *schedule = field_text(fields, n, "schedule"), *rule = field_text(fields, n, "rule");
    size_t name = strcspn(schedule, "(");
    own_buf why = {0};
    bool own = name > 0 && (strncmp(schedule, "poly", name) == 0 ||
                            strncmp(schedule, "cosine", name) == 0);
    (void)e;
    if (g->lr && !field_number(fields, n, "uses_lr")) {
        buf_printf(&why, "%s has no learning rate", rule);
        note_rate(g, g->lr, buf_text(&why));
    } else if (g->lr && own) {
        const char *base = strchr(schedule, '=');
        buf_printf(&why, "%.*s keeps its base_lr ", (int)name, schedule);
        buf_put(&why, base + 1, strcspn(base + 1, ",)"));
        note_rate(g, g->lr, buf_text(&why));
    }
    buf_clear(&why);
    if (g->wd && !field_number(fields, n, "uses_wd")) {
        buf_printf(&why, "%s has no weight decay", rule);
        note_rate(g, g->wd, buf_text(&why));
    }
    return KV_OK;
}

static bool is_zero(const char *text)
{
    double x = 1;
    return num_parse(text, strlen(text), NUM_BINARY64, &x, NULL) > 0 && !(x > 0 || x < 0);
}

/* Notes a rate that was given and that the rule does not use, or its schedule. */
static void note_unused(session *s, kv *store, const rule_params *p)
{
    given_rates g = {.s = s};
    for (int i = 0; i < p->n; i++) {
        const kv_opt *o = &p->opts[i];
        bool none = strcmp(o->value, "none") == 0;
        if (name_is_word("learning_rate", o->name, strlen(o->name)))
            g.lr = none ? NULL : o;
        else if (strcmp(o->name, "wd") == 0)
            g.wd = none || is_zero(o->value) ? NULL : o;
    }
    if (g.lr || g.wd)
        kv_describe(store, "rule", compare_rates, &g, &(kv_err){0});
}

/* Notes a parameter of every optimizer that acts by a name which the rule does not read, such as a
 * schedule where a rule takes its own `learning_rate` for the rate. */
static void note_unread(session *s, const rule_text *r, const rule_params *p)
{
    static const char *const read_by[][3] = {{"lr_scheduler", "lr", "base_lr"},
                                             {"lr_mult", "lr", "lr"},
                                             {"rescale_grad", "rescale_grad", "rescale_grad"},
                                             {"clip_gradient", "clip_gradient", "clip_gradient"}};
    const given_rates g = {.s = s};
    char why[160];
    for (int i = 0; i < p->n; i++)
        for (size_t j = 0; j < sizeof read_by / sizeof *read_by; j++) {
            const char *const *names = read_by[j];
            const kv_opt *o = &p->opts[i];
            if (!name_is_word(names[0], o->name, strlen(o->name)) ||
                strcmp(o->value, "none") == 0 || rule_lists(r->rule, names[0]) ||
                rule_reader(r->rule, names[1]) || rule_reader(r->rule, names[2]))
                continue;
            snprintf(why, sizeof why, "%.64s does not read `%s`",
                     r->rule->nnames ? r->rule->names[0] : "{ … }", names[1]);
            note_rate(&g, o, why);
        }
}

static void rule_release(kv_rule **r)
{
    kv_rule_free(*r);
}

/* Hands the text of a rule, with its place and the variables that it reads, to the store. */
static int set_rule(session *s, kv *store, const rule_text *r, rule_params *p, kv_err *e)
{
    int line, col;
    OWN(rule_release) kv_rule *made = NULL;
    OWN(follow_release) followed_names f = {0};
    const source *src = &r->unit->src;
    own_mem char *text = mem_text(src->text + r->rule->pos, r->rule->end - r->rule->pos, e);
    if (!text)
        return KV_E_MEMORY;
    source_locate(src, r->rule->pos, &line, &col);
    TRY(kv_rule_new(&made, text, src->name, line, col, e));
    TRY(rule_variables_take(s, r, p, &f, e));
    TRY(kv_set_rule(store, made, p->opts, p->n, e));
    follow_use(s, &f, r->rule->nnames ? r->rule->names[0] : "{ … }");
    note_unused(s, store, p);
    note_unread(s, r, p);
    rule_variables_warn(s, r, p);
    return KV_OK;
}

/* An optimizer of the library, or none. */
static int set_optimizer(session *s, kv *store, const char *name, const rule_params *p, kv_err *e)
{
    bool none = strcmp(name, "assign") == 0;
    if (none && p->n > 0)
        return kv_err_set(e, KV_E_USAGE, "assign has no parameters");
    TRY(none ? kv_set_updater(store, NULL, NULL, NULL, e)
             : kv_set_optimizer(store, name, p->opts, p->n, e));
    follow_use(s, &(followed_names){0}, name);
    note_unused(s, store, p);
    return KV_OK;
}

/* An optimizer that a variable holds; the command may add parameters. */
static int set_object(session *s, kv *store, value object, const rule_params *p, kv_err *e)
{
    OWN(rule_params_release) rule_params all = {0};
    TRY(optimizer_params_add(&all, object, e));
    for (int i = 0; i < p->n; i++)
        TRY(rule_params_add(&all, p->opts[i].name, value_ref(p->texts[i]), e));
    int rc = set_optimizer(s, store, object_name(object), &all, e);
    int own = all.n - p->n; /* of the object, which stand before those of the command */
    if (rc)
        e->option = e->option > own ? (uint8_t)(e->option - own) : 0;
    return rc;
}

/* The name of a rule of the script, of a variable that holds an optimizer, or of an optimizer of
 * the library. */
static int set_word(session *s, kv *store, const char *word, rule_params *p, kv_err *e)
{
    const definition *d = session_defined(s, word);
    const value *held = session_find(s, word);
    if (d) {
        rule_text found;
        own_arena nodes = {0};
        TRY(rule_text_of(&found, d, &nodes, e));
        return set_rule(s, store, &found, p, e);
    }
    return held && object_is_optimizer(*held) ? set_object(s, store, *held, p, e)
                                              : set_optimizer(s, store, word, p, e);
}

static int set_named(session *s, kv *store, const ast *what, rule_params *p, kv_err *e)
{
    own_value v = value_none();
    TRY(eval(s, what, &v, e));
    const value *held = v.kind == VALUE_TEXT ? rule_variable(s, v.u.text) : NULL;
    const value is = held ? *held : v;
    if (is.kind == VALUE_TEXT)
        return set_word(s, store, is.u.text, p, e);
    if (object_is_optimizer(is))
        return set_object(s, store, is, p, e);
    return kv_err_set(e, KV_E_DTYPE,
                      "an updater is a rule, an optimizer or the name of one, not %s",
                      value_kind_name(is));
}

int cmd_set_updater(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *what = call->kid[0];
    bool keeps = true, fresh = command_option_of(call, "fresh") != NULL;
    kv *store;
    rule_params p;
    int rc = session_store(s, &store, e);
    if (rc || (rc = rule_options_read(s, call, takes_text, &(setting_rule){s, call}, &p, e)))
        return rc;
    if (fresh)
        keeps = kv_keep_states(store, false);
    if (rule_params_has(&p, "lr") && rule_params_has(&p, "learning_rate"))
        rc =
            unit_err(s, call, e, KV_E_USAGE, "lr and learning_rate are one parameter, given twice");
    else if (!what) {
        if ((rc = kv_update_optimizer(store, p.opts, p.n, e)) == KV_OK)
            note_unused(s, store, &p);
    } else if (what->kind == STMT_RULE)
        rc = set_rule(s, store, &(rule_text){s->unit, what->u.other, false}, &p, e);
    else
        rc = set_named(s, store, what, &p, e);
    if (rc && fresh)
        kv_keep_states(store, keeps);
    if (rc)
        rc = rule_options_explain(s, call, e);
    else if (what)
        out->dropped = kv_states_dropped(store);
    if (rc && what && what->kind != STMT_RULE)
        unit_at(s, what, e);
    rule_params_release(&p);
    return rc;
}
