/* The text of a rule and its parameters, out and in. */
#include "core/rule_parts.h"

#include <string.h>

int rule_parts_add(image *im, const optimizer *o, kv_err *e)
{
    int rc = image_text(im, RULE_PART, "", o->rule->text, e);
    for (int i = 0; i < o->nparams && !rc; i++)
        rc = image_text(im, PARAM_PART, o->params[i].name, o->params[i].value, e);
    return rc;
}

static bool is_param(const char *name)
{
    return strncmp(name, PARAM_PART, strlen(PARAM_PART)) == 0;
}

bool rule_parts_has(const char *name)
{
    return is_param(name) || strcmp(name, RULE_PART) == 0;
}

/* params has room for all metadata. */
static int read_params(const safetensors *f, kv_opt *params)
{
    int n = 0;
    for (int64_t i = 0; i < safetensors_metadata_count(f); i++) {
        const safetensors_pair *p = safetensors_metadata_at(f, i);
        if (is_param(p->name))
            params[n++] = (kv_opt){p->name + strlen(PARAM_PART), p->text};
    }
    return n;
}

/* An error of a rule that stands in a file begins with the file. */
static int in_rule(const char *path, const kv_err *why, kv_err *e)
{
    kv_code code = why->code == KV_E_MEMORY ? KV_E_MEMORY : KV_E_FORMAT;
    kv_err_set(e, code, "%s: its rule: %s", path, why->text);
    if (why->hint[0])
        kv_err_hint(e, "%s", why->hint);
    return code;
}

int rule_parts_read(updater *u, const safetensors *f, const char *path, kv_err *e)
{
    const char *text = safetensors_metadata(f, RULE_PART);
    kv_rule *rule = NULL;
    kv_err why = {0};
    if (!text)
        return kv_err_set(e, KV_E_FORMAT, "%s: the metadata have no \"" RULE_PART "\"", path);
    kv_opt *params = mem_alloc(safetensors_metadata_count(f), sizeof *params, e);
    if (!params)
        return KV_E_MEMORY;
    int rc = kv_rule_new(&rule, text, NULL, 0, 0, &why);
    if (!rc)
        rc = updater_init_rule(u, rule, params, read_params(f, params), &why);
    if (rc)
        rc = in_rule(path, &why, e);
    kv_rule_free(rule);
    mem_free(params);
    return rc;
}
