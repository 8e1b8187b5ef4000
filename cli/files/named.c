/* Files of named arrays: as the values of keys, and one array of a file. */
#include "files/files.h"

#include <fnmatch.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "checkpoint/scales.h"
#include "eval/eval.h"
#include "lang/lex.h"
#include "session/unit.h"
#include "syntax/file_kind.h"
#include "term/line.h"

static int named_open(const char *path, checkpoint **out, kv_err *e)
{
    own_checkpoint *c = NULL;
    if (strcmp(path, "-") == 0)
        line_lend_terminal();
    TRY(checkpoint_open(&c, path, &(checkpoint_options){.weights = true}, e));
    TRY(tensor_values_decode(&c, 1, NULL, NULL, e));
    *out = c;
    c = NULL;
    return KV_OK;
}

/* Returns true if a tensor of this name is all that a path of dicts leads to. */
static bool is_tensor(const checkpoint *c, const char *part)
{
    size_t n = strlen(part), m;
    if (checkpoint_count(c) != 1 || (m = strlen(checkpoint_at(c, 0)->name)) > n)
        return false;
    return strcmp(part + n - m, checkpoint_at(c, 0)->name) == 0 &&
           (m == n || part[n - m - 1] == '.');
}

/* The number of the array of this name, or -1: those too that are scales of another one, which no
 * pattern chooses. */
static int64_t named_find(const checkpoint *f, const char *name)
{
    int64_t i = checkpoint_find(f, name);
    return i >= 0 ? i : tensor_values_find_hidden(f, name);
}

static int named_open_part(const char *path, const char *part, checkpoint **out, bool *one,
                           kv_err *e)
{
    static const char *const endings[] = {".pt", ".pth", ".bin", ".ckpt"};
    const char *dot = strrchr(path, '.');
    bool torch = false;
    own_buf both = {0};
    kv_err why = {0};
    *out = NULL;
    *one = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && dot; i++)
        torch |= strcasecmp(dot, endings[i]) == 0;
    if (!torch)
        return KV_OK;
    buf_printf(&both, "%s#%s", path, part);
    int rc = buf_check(&both, &why);
    if (!rc)
        rc = named_open(buf_text(&both), out, &why);
    if (!rc) {
        *one = is_tensor(*out, part);
        return KV_OK;
    }
    *out = NULL;
    own_checkpoint *all = NULL; /* it may have an array of this name */
    if ((rc == KV_E_NAME || rc == KV_E_UNSUPPORTED) && !named_open(path, &all, &(kv_err){0}))
        rc = named_find(all, part) >= 0 ? KV_OK : rc;
    if (rc)
        *e = why;
    return rc;
}

bool named_is_pattern(const ast *keys)
{
    const ast *only = keys->n == 1 ? keys->kid[0] : NULL;
    return only && only->kind == AST_KEY && only->op == 2 && strpbrk(only->u.text, "*?");
}

/* Returns true if a name is an integer in its usual form: 7, -3, but not 007. */
static bool is_integer(const char *name, int64_t *id)
{
    char again[NUM_TEXT_MAX];
    bool over = false;
    size_t n = strlen(name);
    if (n == 0 || num_parse_int(name, n, id, &over) != n || over)
        return false;
    num_int(again, *id);
    return strcmp(again, name) == 0;
}

/* Adds the names that match; room is there for all. */
static int add_matching(const char *pattern, const checkpoint *f, bool *integers, key_list *out,
                        kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(f); i++) {
        const char *name = checkpoint_at(f, i)->name;
        int64_t id;
        if (fnmatch(pattern, name, 0) != 0)
            continue;
        if (strlen(name) > KV_KEY_MAX)
            return kv_err_set(e, KV_E_VALUE, "the name \"%.40s...\" is too long for a key", name);
        *integers = *integers && is_integer(name, &id);
        char *copy = arena_text(&out->names, name, strlen(name), e);
        if (!copy)
            return KV_E_MEMORY;
        out->keys[out->n++] = (kv_key){0, copy};
    }
    return KV_OK;
}

int named_keys(session *s, const ast *keys, const checkpoint *f, key_list *out, kv_err *e)
{
    const char *pattern = keys->kid[0]->u.text;
    bool integers = true;
    kv *store;
    kv_info first = {0};
    *out = (key_list){.list = true};
    if (session_store(s, &store, e) ||
        (kv_num_keys(store) > 0 && kv_info_at(store, 0, &first, e)) ||
        mem_grow(&out->keys, &out->cap, checkpoint_count(f) + 1, sizeof *out->keys, e) ||
        add_matching(pattern, f, &integers, out, e))
        return unit_at(s, keys, e);
    if (out->n == 0)
        return unit_err(s, keys, e, KV_E_KEY, "no array of the file has a name that matches `%s`",
                        pattern);
    for (int64_t i = 0; i < out->n && integers && !first.key.name; i++) {
        is_integer(out->keys[i].name, &out->keys[i].id);
        out->keys[i].name = NULL;
    }
    return KV_OK;
}

/* Array i of f. Errors: those of checkpoint_load; dtype (it is codes, whose scales are other
 * arrays: checkpoint/scales.h). */
static int named_load(kv_array **out, const checkpoint *f, int64_t i, kv_err *e)
{
    scales found;
    const tensor_info *t = checkpoint_at(f, i);
    return scales_find_of(&found, f, t) ? scales_refuse(&found, false, e)
                                        : checkpoint_load(out, f, i, e);
}

void bare_codes_count(bare_codes *b, const checkpoint *f, int64_t i)
{
    const tensor_info *t = i < 0 ? NULL : checkpoint_at(f, i);
    if (t && (t->type == TENSOR_F8_E4M3 || t->type == TENSOR_F8_E5M2) && b->n++ == 0) {
        b->name = t->name;
        b->f = f;
    }
}

void bare_codes_tell(session *s, const bare_codes *b)
{
    if (b->n > 0 && tensor_values_has_scales(b->f))
        session_note(s, "%lld key%s of F8 without a scale in this file, read as numbers: %.80s",
                     (long long)b->n, b->n == 1 ? " is" : "s are", b->name);
}

const char *named_key(kv_key key, char number[NUM_TEXT_MAX])
{
    num_int(number, key.id);
    return key.name ? key.name : number;
}

int named_array(kv_array **out, const checkpoint *f, kv_key key, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    const char *name = named_key(key, number);
    int64_t i = named_find(f, name);
    return i >= 0 ? named_load(out, f, i, e) : checkpoint_load_name(out, f, name, e);
}

typedef struct text_list {
    checkpoint_text *items;
    int64_t n, cap;
    arena *memory;
} text_list;

/* Receives the topic "metadata" of kv_describe. */
static int take_text(void *arg, const kv_field *fields, int n, kv_err *e)
{
    text_list *t = arg;
    const char *copies[2];
    (void)n;
    for (int i = 0; i < 2; i++)
        if (!(copies[i] = arena_text(t->memory, fields[i].text, strlen(fields[i].text), e)))
            return KV_E_MEMORY;
    TRY(arena_grow(t->memory, &t->items, &t->cap, t->n, sizeof *t->items, e));
    t->items[t->n++] = (checkpoint_text){copies[0], copies[1]};
    return KV_OK;
}

int named_texts(kv *store, arena *memory, checkpoint_text **texts, int64_t *n, kv_err *e)
{
    text_list t = {.memory = memory};
    TRY(kv_describe(store, "metadata", take_text, &t, e));
    *texts = t.items;
    *n = t.n;
    return KV_OK;
}

int named_metadata(kv *store, const checkpoint *f, kv_err *e)
{
    own_arena memory = {0};
    checkpoint_text *has;
    int64_t n;
    TRY(named_texts(store, &memory, &has, &n, e));
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++) {
        const checkpoint_text *text = checkpoint_metadata_at(f, i);
        bool there = strncmp(text->name, "kvstore.", 8) == 0; /* of a store of the same library */
        for (int64_t k = 0; k < n && !there; k++)
            there = strcmp(has[k].name, text->name) == 0;
        TRY(there ? KV_OK : kv_set_metadata(store, text->name, text->text, e));
    }
    return KV_OK;
}

/* ---- One array of a file ---- */

/* "it holds a, b and 39 more": as many whole names behind `hint` as an error has room for. Returns
 * whether that is all of them. */
static bool list_names(buf *hint, const checkpoint *f)
{
    const size_t room = sizeof((kv_err *)0)->hint - sizeof " and 9223372036854775807 more";
    int64_t n = checkpoint_count(f), i = 0;
    for (; i < n; i++) {
        const char *name = checkpoint_at(f, i)->name, *between = i > 0 ? ", " : "it holds ";
        if (hint->len + strlen(between) + strlen(name) > room)
            break;
        buf_printf(hint, "%s%s", between, name);
    }
    if (i == 0)
        buf_printf(hint, "it holds %lld arrays", (long long)n);
    else if (i < n)
        buf_printf(hint, " and %lld more", (long long)(n - i));
    return i == n;
}

/* Returns true if a text needs no quotes behind @ or #. */
static bool is_bare(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x80 && !lex_is_letter(*text) && !lex_is_digit(*text) &&
            !strchr("./~+-", *text))
            return false;
    return true;
}

/* Finds the array of f that is meant. */
static int choose_tensor(const checkpoint *f, const char *path, const char *name, int64_t *at,
                         kv_err *e)
{
    own_buf hint = {0};
    suggest near = {.word = name};
    bool all = true;
    int64_t n = checkpoint_count(f);
    *at = name ? named_find(f, name) : 0;
    if (name ? *at >= 0 : n == 1)
        return KV_OK;
    if (name)
        kv_err_set(e, KV_E_NAME, "\"%s\" holds no array `%.80s`", path, name);
    else
        kv_err_set(e, KV_E_VALUE, "\"%s\" holds %lld arrays, and one is needed", path,
                   (long long)n);
    if (!name && n > 0) {
        const char *first = checkpoint_at(f, 0)->name;
        bool is_stdin = strcmp(path, "-") == 0;
        if (!is_stdin && is_bare(path) && *first && is_bare(first))
            buf_printf(&hint, "say which: @%s#%s; ", path, first);
        else
            buf_printf(&hint, "say which: load(\"%s\"%s, name=\"%s\"); ", path,
                       is_stdin ? ", format=\"safetensors\"" : "", first);
    }
    if (n > 0)
        all = list_names(&hint, f);
    else if (name)
        buf_add(&hint, "it holds none");
    if (!all && name) {
        for (int64_t i = 0; i < checkpoint_count(f); i++)
            suggest_add(&near, checkpoint_at(f, i)->name);
    }
    if (near.n > 0)
        suggest_done(&near, e);
    else if (hint.len > 0)
        kv_err_hint(e, "%s", buf_text(&hint));
    return e->code;
}

int named_read(session *s, const char *path, const char *name, value *out, kv_err *e)
{
    own_checkpoint *f = NULL;
    checkpoint *part;
    int64_t at;
    kv_array *a;
    bool one = false;
    bare_codes bare = {0};
    int rc = named_open(path, &f, e);
    /* Of a file with an object that only Python can make the other parts are read. */
    if (rc == KV_E_FORMAT && name && !named_open_part(path, name, &part, &one, &(kv_err){0})) {
        f = part;
        name = one ? NULL : name;
        rc = f ? KV_OK : rc;
    }
    TRY(rc);
    if (one)
        *e = (kv_err){0};
    TRY(choose_tensor(f, path, name, &at, e));
    TRY(named_load(&a, f, at, e));
    TRY(value_array(out, a, e));
    bare_codes_count(&bare, f, at);
    bare_codes_tell(s, &bare);
    return KV_OK;
}

bool named_is_checkpoint(const char *path)
{
    struct stat about;
    if (file_is_checkpoint(path))
        return true;
    return file_kind_of(path) == FILE_UNKNOWN && stat(path, &about) == 0 &&
           (S_ISDIR(about.st_mode) || file_is_of_other_tool(path));
}

int load_named(session *s, const ast *node, checkpoint **out, kv_err *e)
{
    own_value path = value_none();
    *out = NULL;
    bool one = false;
    if (node->kind != AST_FILE)
        return KV_OK;
    TRY(eval_text(s, node->kid[0], "a file name", &path, e));
    int rc = KV_OK;
    if (named_is_checkpoint(path.u.text))
        rc = node->n == 2 ? named_open_part(path.u.text, node->kid[1]->u.text, out, &one, e)
                          : named_open(path.u.text, out, e);
    if (one) { /* an array, as @FILE#KEY is of every file */
        checkpoint_close(*out);
        *out = NULL;
    }
    return rc ? unit_at(s, node, e) : KV_OK;
}
