/* Help on merges: their rules are shown whole. */
#include "cmd/help.h"

#include <string.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "lang/lex.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "vm/rule.h"

/* The first sentence of the comment at the top, in one line: a point before a blank and a letter
 * ends it, so that "et al. 2022" does not. */
static void put_title(buf *out, const char *text)
{
    char before = '\0';
    while (*text == '#') {
        text += strspn(text, "# ");
        if (before == '.' && !lex_is_digit(*text))
            return;
        for (; *text && *text != '\n'; before = *text++) {
            if (before == '.' && *text == ' ' && !lex_is_digit(text[1]))
                return;
            buf_char(out, *text);
        }
        text += *text == '\n';
        buf_char(out, ' ');
    }
}

/* --base CKPT, --density 0.2 in 0 .. 1, --scale 1.0 */
static void put_parameters(buf *out, const char *text)
{
    rule_ast *rule;
    arena nodes = {0};
    kv_err unused = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    bool read = parse_merge(&rule, &src, &nodes, &unused) == KV_OK;
    if (read && rule_reader(rule, "base"))
        buf_add(out, "--base CKPT");
    for (int i = 0; read && i < rule->nparams; i++) {
        const rule_param *p = &rule->params[i];
        size_t n = strlen(p->name);
        const char *from = text + p->pos + n;
        from += strspn(from, " =");
        buf_add(out, out->len > 0 ? ", --" : "--");
        name_put(out, p->name, n, '-');
        buf_char(out, ' ');
        buf_put(out, from, p->end - (size_t)(from - text));
    }
    arena_release(&nodes);
}

void merges_list(buf *out)
{
    for (const merge_text *t = merge_texts; t->name; t++) {
        buf names = {0}, title = {0}, parameters = {0};
        buf_printf(&names, "  %s", t->name);
        put_title(&title, t->text);
        put_parameters(&parameters, t->text);
        for (; t[1].name && strcmp(t[1].text, t->text) == 0; t++)
            buf_printf(&names, ", %s", t[1].name);
        buf_add(out, buf_text(&names));
        help_lines(out, buf_text(&title), (int)names.len);
        help_lines(out, buf_text(&parameters), 0);
        out->failed |= names.failed || title.failed || parameters.failed;
        buf_release(&names);
        buf_release(&title);
        buf_release(&parameters);
    }
}

int merges_check(const char *word, kv_err *e)
{
    if (merge_text_find(word))
        return KV_OK;
    kv_err_set(e, KV_E_NAME, "there is no merge `%.64s`", word);
    merge_text_suggest(word, e);
    return kv_err_hint(e, "`help merge` lists them"), KV_E_NAME;
}

bool merges_show(buf *out, const char *name)
{
    const merge_text *t = merge_text_find(name);
    if (t)
        buf_add(out, t->text);
    return t != NULL;
}
