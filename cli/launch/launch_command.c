/* The words of a command that launch runs, the same as a shell reads them, and the variables
 * that go with it. */
#include "launch/launch_command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "term/signals.h"

/* ---- Words ---- */

void launch_add(launch_command *c, const char *fmt, ...)
{
    va_list args;
    char *word = NULL;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && (word = mem_alloc(n + 1, 1, NULL))) {
        va_start(args, fmt);
        vsnprintf(word, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    if (c->failed || !word || mem_grow(&c->words, &c->cap, c->n + 2, sizeof *c->words, NULL)) {
        mem_free(word);
        c->failed = true;
        return;
    }
    c->words[c->n++] = word;
    c->words[c->n] = NULL;
}

void launch_add_words(launch_command *c, char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        launch_add(c, "%s", words[i]);
}

/* ---- Templates ---- */

/* The value of the first hole of a text up to its end; *behind: the text behind the hole. */
static const char *value_of(const char *text, const launch_hole *holes, const char **behind)
{
    const char *name = strchr(text, '{') + 1;
    name += *name == '\'';
    size_t n = strcspn(name, "}");
    *behind = name + n + 1;
    while (holes->name && (strlen(holes->name) != n || memcmp(holes->name, name, n) != 0))
        holes++;
    bool known = kv_assert(holes->name, "a template has a hole that nobody fills: %s", text);
    return known ? holes->value : NULL;
}

static void launch_quote(buf *out, const char *word);

/* blank: what stands for a blank of the template. */
static void fill(buf *out, const char *text, const launch_hole *holes, char blank)
{
    const char *behind;
    while (*text) {
        if (*text == '{') {
            const char *value = value_of(text, holes, &behind);
            if (text[1] == '\'')
                launch_quote(out, value);
            else
                buf_add(out, value);
            text = behind;
        } else if (*text == '[' && !value_of(text, holes, &behind)) {
            text = strchr(text, ']') + 1;
        } else {
            if (*text != '[' && *text != ']')
                buf_char(out, *text == ' ' ? blank : *text);
            text++;
        }
    }
}

void launch_fill(buf *out, const char *text, const launch_hole *holes)
{
    fill(out, text, holes, ' ');
}

void launch_add_filled(launch_command *c, const char *text, const launch_hole *holes)
{
    buf all = {0};
    fill(&all, text, holes, '\0');
    buf_char(&all, '\0');
    c->failed = c->failed || all.failed;
    for (size_t at = 0; at < all.len && !all.failed; at += strlen(all.data + at) + 1)
        if (all.data[at])
            launch_add(c, "%s", all.data + at);
    buf_release(&all);
}

/* ---- Words ---- */

int launch_command_check(const launch_command *c, kv_err *e)
{
    return c->failed ? kv_err_set(e, KV_E_MEMORY, "launch: no memory for a command") : KV_OK;
}

void launch_command_release(launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++)
        mem_free(c->words[i]);
    mem_free(c->words);
    *c = (launch_command){0};
}

static void launch_quote(buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,=/:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        buf_add(out, word);
        return;
    }
    buf_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_add(out, "'\\''");
        else
            buf_char(out, *word);
    }
    buf_char(out, '\'');
}

void launch_command_text(buf *out, const launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        launch_quote(out, c->words[i]);
    }
}

/* Octal numbers have three digits at most, so a digit may stand behind one. */
void launch_show_word(buf *out, const char *word)
{
    size_t n = strlen(word), size;
    char shown[VISIBLE_MAX];
    if (visible_is_plain(word, n)) {
        launch_quote(out, word);
        return;
    }
    buf_add(out, "$'");
    for (; n > 0; word += size, n -= size) {
        bool hidden = visible_escape(shown, word, n, &size);
        for (size_t i = 0; hidden && i < size; i++)
            buf_printf(out, "\\%03o", (unsigned char)word[i]);
        if (!hidden && strchr("'\\", *word))
            buf_char(out, '\\');
        if (!hidden)
            buf_put(out, word, size);
    }
    buf_char(out, '\'');
}

void launch_show_command(buf *out, const launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        launch_show_word(out, c->words[i]);
    }
}

const char *launch_seconds(char text[32], double seconds)
{
    snprintf(text, 32, "%lld.%03d", (long long)seconds,
             (int)((seconds - (double)(int64_t)seconds) * 1000));
    return text;
}

int launch_self(char path[4096], kv_err *e)
{
    ssize_t len = readlink("/proc/self/exe", path, 4095);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    path[len] = '\0';
    return KV_OK;
}

void launch_prefer_own(void)
{
    char folder[4096], program[4096 + 16];
    const char *before = getenv("PATH");
    buf path = {0};
    if (launch_self(folder, &(kv_err){0}))
        return;
    *strrchr(folder, '/') = '\0';
    snprintf(program, sizeof program, "%s/mpirun", folder);
    bool has_mpi = access(program, X_OK) == 0;
    snprintf(program, sizeof program, "%s/python3", folder);
    if (!has_mpi && access(program, X_OK))
        return;
    buf_printf(&path, "%s%s%s", folder, before ? ":" : "", before ? before : "");
    if (!path.failed)
        setenv("PATH", buf_text(&path), 1);
    buf_release(&path);
}

int launch_find(const char *program, const char *package, kv_err *e)
{
    if (child_finds(program))
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no %s in $PATH", program);
    return kv_err_hint(e, "it belongs to %s", package), KV_E_UNSUPPORTED;
}

/* ---- Variables ---- */

/* On their way they are KVCTL_ENV_r_NAME, where r is the role. */

#define WAY "KVCTL_ENV_"

extern char **environ;

static int name_length(const launch_variable *v)
{
    return (int)strcspn(v->text, "=");
}

void variables_carry(launch_command *set, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++)
        launch_add(set, WAY "%c_%s", o->variables[i].role, o->variables[i].text);
}

void variables_name(launch_command *c, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, "-x");
        launch_add(c, WAY "%c_%.*s", v->role, name_length(v), v->text);
    }
}

void variables_text(buf *out, const launch_options *o, const char *begin, const char *end,
                    bool elsewhere)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        buf_printf(out, "%s" WAY "%c_%.*s=", begin, v->role, n, v->text);
        if (elsewhere)
            launch_quote(out, v->text + n + 1);
        else if (v->by_name)
            buf_printf(out, "\"$%.*s\"", n, v->text);
        else
            launch_show_word(out, v->text + n + 1);
        buf_add(out, end);
    }
}

/* Returns whether a later variable of the same role has the same name. */
static bool is_said_again(const launch_options *o, int64_t i)
{
    const launch_variable *v = &o->variables[i];
    size_t n = (size_t)name_length(v) + 1; /* with the = */
    for (int64_t k = i + 1; k < o->nvariables; k++)
        if (o->variables[k].role == v->role && strncmp(o->variables[k].text, v->text, n) == 0)
            return true;
    return false;
}

size_t variables_secret(buf *out, const launch_options *o)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        size_t size = strlen(v->text + n + 1);
        if (is_said_again(o, i))
            continue;
        buf_printf(out, "  " WAY "%c_%.*s: \"", v->role, n, v->text);
        yaml_base64(out, v->text + n + 1, size);
        buf_add(out, "\"\n");
        bytes += size;
    }
    return bytes;
}

const char *variables_carried(char role, const char *name)
{
    char way[sizeof WAY + 2 + VARIABLE_MOST];
    int n = snprintf(way, sizeof way, WAY "%c_%s", role, name);
    return n < (int)sizeof way ? getenv(way) : NULL;
}

/* holds: they are set, else only forgotten. */
static void take_role(char role, bool holds)
{
    char name[sizeof WAY + 2 + VARIABLE_MOST];
    for (int64_t i = 0; environ[i];) {
        const char *word = environ[i], *own = word + sizeof WAY + 1;
        bool found = strncmp(word, WAY, sizeof WAY - 1) == 0 && word[sizeof WAY - 1] == role &&
                     word[sizeof WAY] == '_';
        int n = found ? (int)strcspn(own, "=") : 0;
        if (!found || n > VARIABLE_MOST) {
            i++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", n, own);
        if (holds)
            setenv(name, own + n + 1, 1);
        snprintf(name, sizeof name, WAY "%c_%.*s", role, n, own);
        unsetenv(name);
        i = 0; /* the list has moved */
    }
}

/* A variable for one role holds over the same variable for all. */
void variables_take(char role)
{
    take_role('a', true);
    take_role(role, true);
    take_role(role == 'w' ? 's' : 'w', false);
}

/* ---- The launch of a queue or of Kubernetes ---- */

/* Queues and Kubernetes give the same options; each has its own words before them. */

int inner_options(launch_command *c, const launch_options *o, kv_err *e)
{
    char deadline[32], timeout[32], workers[16], servers[16], restarts[16];
    snprintf(workers, sizeof workers, "%d", o->workers);
    snprintf(servers, sizeof servers, "%d", o->servers);
    snprintf(restarts, sizeof restarts, "%d", o->restarts);
    const launch_hole holes[] = {
        {"workers", workers},
        {"servers", o->servers > 0 ? servers : NULL},
        {"deadline", o->deadline > 0 ? launch_seconds(deadline, o->deadline) : NULL},
        {"timeout", o->timeout > 0 ? launch_seconds(timeout, o->timeout) : NULL},
        {"checkpoint", o->checkpoint},
        {"every", o->every},
        {"restarts", o->restarts > 0 ? restarts : NULL},
        {"elastic", o->elastic ? "--elastic" : NULL},
        {NULL, NULL}};
    launch_add_filled(c,
                      "-n {workers}[ -s {servers}][ --deadline {deadline}][ --timeout {timeout}]"
                      "[ --checkpoint {checkpoint}][ --checkpoint-every {every}]"
                      "[ --max-restarts {restarts}][ {elastic}]",
                      holes);
    /* Adds the options with which another launch takes them from its environment. */
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, v->role == 'a' ? "--env" : v->role == 'w' ? "--env-worker" : "--env-server");
        launch_add(c, "%.*s", name_length(v), v->text);
    }
    launch_add_words(c, o->words, o->nwords);
    return launch_command_check(c, e);
}
