/* Help on optimizers. Their own parameters stand in the head of the rule, which is shown whole. */
#include "cmd/help.h"
#include "syntax/rules.h"

#include <string.h>

#include "base/suggest.h"
#include "kvstore.h"

static const char schedules[] =
    "Schedules (--lr-scheduler), with their defaults; n is the largest count of a key:\n"
    "  factor(step=N, factor=1, stop_factor_lr=1e-8)  times factor behind every N updates\n"
    "  multifactor(step=[N, M], factor=1)             times factor behind each of these\n"
    "  poly(max_update=N, pwr=2, final_lr=0)          falls as a power until n = N\n"
    "  cosine(max_update=N, final_lr=0)               falls as a half cosine until n = N\n"
    "  each also: base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode=\"linear\"\n";

/* The first line of a rule's comment, without its sign. */
static void comment_line(buf *out, const char *text)
{
    text += strspn(text, "# ");
    buf_put(out, text, strcspn(text, "\n"));
}

void optimizer_list(buf *out)
{
    const char *name, *text, *other, *next;
    buf names = {0};
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++) {
        buf_clear(&names);
        buf_add(&names, name);
        /* an alias has the same text, and stands behind the first name */
        while ((next = kv_optimizer_text(i + 1, &other)) && strcmp(next, text) == 0) {
            buf_printf(&names, ", %s", other);
            i++;
        }
        buf_printf(out, "  %-14s ", buf_text(&names));
        comment_line(out, text);
        buf_char(out, '\n');
    }
    out->failed |= names.failed;
    buf_release(&names);
}

static void common(buf *out)
{
    buf_add(out,
            "Every optimizer takes these too; where the rule lists one, its default counts:\n");
    for (const optimizer_param *p = optimizer_params; p->name; p++) {
        buf option = {0};
        buf_add(&option, "--");
        name_put(&option, p->name, strlen(p->name), '-');
        buf_printf(out, "  %-20s %-15s %s\n", buf_text(&option), p->value, p->about);
        out->failed |= option.failed;
        buf_release(&option);
    }
}

int optimizer_check(const char *word, kv_err *e)
{
    const char *name;
    suggest near = {.word = word, .by_first_letters = true};
    if (optimizer_text(word))
        return KV_OK;
    for (int i = 0; kv_optimizer_text(i, &name); i++)
        suggest_add(&near, name);
    kv_err_set(e, KV_E_NAME, "there is no optimizer `%.64s`", word);
    suggest_done(&near, e);
    return kv_err_hint(e, "`help optimizer` lists them"), KV_E_NAME;
}

bool optimizer_show(buf *out, const char *name)
{
    const char *text = optimizer_text(name);
    if (!text)
        return false;
    buf_add(out, text);
    common(out);
    buf_add(out, schedules);
    return true;
}
