/* The session behind the prompt: what repl.h asks of an interpreter, answered by cli/script.
 *
 * Every entry is a unit of its own, and an error in it is reported and forgotten. Completion reads
 * the tables that the parser reads, so it knows what there is.
 */
#include "prompt.h"

#include <string.h>

#include "base/mem.h"
#include "script/command.h"
#include "script/function.h"
#include "script/report.h"
#include "script/unit.h"
#include "term/histfile.h"
#include "term/interrupt.h"
#include "term/repl.h"

static int entry_complete(void *arg, const char *text, size_t n)
{
    (void)arg;
    return unit_is_complete(text, n);
}

/* Runs one entry; an error is reported and the session goes on. */
static bool entry_run(void *arg, const char *text, size_t n, int first_line)
{
    session *s = arg;
    kv_err e = {0};
    unit *u = NULL;
    char *copy = mem_text(text, n, &e);
    if (copy && unit_read(s, &u, "<repl>", copy, n, first_line, NULL, &e) == KV_OK)
        unit_run(s, u, &e);
    if (e.code == KV_E_INTERRUPTED) {
        fflush(stdout);
        fputs("interrupted\n", stderr);
    } else if (e.code) {
        report_error(s, &e);
    }
    if (interrupt_pending() == 0 || e.code == KV_E_INTERRUPTED)
        interrupt_clear();
    unit_drop(s, u);
    e = (kv_err){0};
    if (session_flush(s, &e))
        report_error(s, &e);
    return s->leaving || s->stdout_closed;
}

static void offer_keys(session *s, const char *typed, line_words *out)
{
    kv *store = s->current >= 0 ? s->stores[s->current].store : NULL;
    for (int64_t i = 0; store && i < kv_num_keys(store); i++) {
        kv_info info;
        kv_err unused = {0};
        char number[32];
        if (kv_info_at(store, i, &info, &unused))
            continue;
        snprintf(number, sizeof number, "%lld", (long long)info.key.id);
        line_offer(out, info.key.name ? info.key.name : number, typed);
    }
}

static void offer_names(session *s, const char *typed, line_words *out)
{
    for (int64_t i = 0; i < s->globals.n; i++)
        line_offer(out, s->globals.items[i].name, typed);
    for (int64_t i = 0; i < s->ndefs; i++)
        line_offer(out, s->defs[i].name, typed);
    for (const function *f = function_table; f->name; f++) {
        char call[64];
        snprintf(call, sizeof call, "%s(", f->name);
        line_offer(out, call, typed);
    }
}

/* Where the statement that text + at lies in begins. */
static const char *statement_start(const char *text, size_t at)
{
    size_t i = at;
    while (i > 0 && !strchr(";\n{}", text[i - 1]))
        i--;
    while (i < at && text[i] == ' ')
        i++;
    return text + i;
}

/* Words for the argument of a command that begins at text + at: keys, options, updaters, stores. */
static void offer_argument(session *s, const command *c, const char *rest, const char *typed,
                           line_words *out)
{
    bool first = strchr(rest, ' ') == NULL; /* the first argument is being typed */
    arg_kind kind = c->args[0].kind;
    for (const command_option *o = c->options; o->name; o++) {
        char option[64];
        snprintf(option, sizeof option, "--%s", o->name);
        if (*typed == '-')
            line_offer(out, option, typed);
    }
    if (first && kind == ARG_KEYS)
        offer_keys(s, typed, out);
    if (first && kind == ARG_RULE)
        for (int64_t i = 0; i < s->nrules; i++)
            line_offer(out, s->rule_defs[i].name, typed);
    if (first && kind == ARG_NAME)
        for (int64_t i = 0; i < s->nstores; i++)
            line_offer(out, s->stores[i].name, typed);
    if (first && kind == ARG_WORD && strcmp(c->name, "help") == 0)
        for (const command *one = command_table; one->name; one++)
            line_offer(out, one->name, typed);
    if (first && kind == ARG_WORD && strcmp(c->name, "create") == 0) {
        line_offer(out, "local", typed);
        line_offer(out, "device", typed);
    }
    if (!first || kind == ARG_EXPRS || kind == ARG_VALUE)
        offer_names(s, typed, out);
}

static void entry_candidates(void *arg, const char *text, size_t at, line_words *out)
{
    session *s = arg;
    const char *typed = text + at, *start = statement_start(text, at);
    size_t word = strcspn(start, " ");
    const command *c = start + word < text + at ? command_find(start, word) : NULL;
    if (start == typed) {
        for (const command *one = command_table; one->name; one++)
            line_offer(out, one->name, typed);
        offer_names(s, typed, out);
    } else if (c) {
        const char *rest = start + word;
        while (*rest == ' ')
            rest++;
        offer_argument(s, c, rest, typed, out);
    } else {
        offer_names(s, typed, out);
    }
}

/* kv> , or kv:b> for a store that is not the first; with a * when a transaction is open in it. */
static const char *entry_prompt(void *arg)
{
    session *s = arg;
    static char prompt[64]; /* the terminal is one a process */
    const store_entry *used = s->current >= 0 ? &s->stores[s->current] : NULL;
    const char *open = used && kv_in_transaction(used->store) ? "*" : "";
    if (!used || strcmp(used->name, "kv") == 0)
        snprintf(prompt, sizeof prompt, "kv%s> ", open);
    else
        snprintf(prompt, sizeof prompt, "kv:%.48s%s> ", used->name, open);
    return prompt;
}

int prompt_run(session *s)
{
    static const repl_ops ops = {entry_complete, entry_run, entry_candidates, entry_prompt,
                                 "kvctl " KV_VERSION ": help lists the commands, Ctrl-D leaves"};
    buf history = {0};
    histfile_path(&history, NULL);
    int ended = repl_run(&ops, s, s->quiet, buf_text(&history));
    buf_release(&history);
    return ended;
}
