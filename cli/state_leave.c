/* How a session with -s ends: the question, the report to a terminal, the lines of a dry run. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "session/result.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- Leaving a terminal ---------------------------------------------------------------------- */

static void say_unchanged(const state *st, const session *s)
{
    if (!s->out.quiet)
        terminal_say("%s is as it was", st->path);
}

/* Reads a line of the terminal. Anything but y or yes is a no, and so are Ctrl-C, Ctrl-D and a
 * signal. */
static bool read_yes(void)
{
    char line[16] = "";
    size_t n = 0;
    char c = 0;
    interrupt_at_prompt(true);
    while (c != '\n' && !interrupt_pending()) {
        ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0 && c != '\n' && n + 1 < sizeof line)
            line[n++] = c;
    }
    bool finished = c == '\n' && !interrupt_pending();
    interrupt_at_prompt(false);
    interrupt_clear();
    if (!finished)
        fputc('\n', stderr);
    return finished && (strcmp(line, "y") == 0 || strcmp(line, "yes") == 0);
}

/* Asks before another tool's file is changed. */
static int ask(const state *st, session *s, bool *yes, kv_err *e)
{
    buf question = {0}, visible = {0};
    buf_add(&question, "write ");
    int rc = state_summary(st, s, true, NULL, &question, e);
    if (rc == KV_OK) {
        buf_printf(&question, " to %s? [y/N] ", st->path);
        visible_line(&visible, buf_text(&question), question.len);
        fflush(stdout);
        fputs(buf_text(&visible), stderr);
        *yes = read_yes();
    }
    buf_release(&question);
    buf_release(&visible);
    return rc;
}

int state_leave(state *st, session *s, bool terminal, kv_err *e)
{
    bool changed = st->path && state_changed(st, s), yes = true;
    int64_t gone = 0;
    buf summary = {0};
    if (st->read_only && terminal)
        return changed ? state_preview(st, s, e) : KV_OK;
    state_end_transaction(s);
    changed = changed && state_changed(st, s);
    int rc = changed && !s->out.quiet ? state_summary(st, s, false, &gone, &summary, e) : KV_OK;
    if (rc == KV_OK && changed && terminal && st->guard.foreign && !st->force &&
        (rc = state_check(st, s, e)) == KV_OK)
        rc = ask(st, s, &yes, e);
    if (rc == KV_OK && !yes)
        say_unchanged(st, s);
    /* keys of another tool's file do not go silently */
    bool tells = summary.len > 0 && (terminal || s->out.verbose || st->read_only ||
                                     (st->guard.foreign && gone > 0));
    if (rc == KV_OK && yes && (rc = state_save(st, s, e)) == KV_OK && tells)
        terminal_say(st->read_only ? "read only: %s would change: %s" : "wrote %s: %s", st->path,
                     buf_text(&summary));
    buf_release(&summary);
    return rc;
}

void state_discard(const state *st, const session *s, bool terminal)
{
    if (terminal && st->path && state_changed(st, s))
        say_unchanged(st, s);
}

/* ---- The lines of a dry run ------------------------------------------------------------------ */

static void put_line(buf *out, const char *what, const kv_info *info)
{
    char shape[256];
    buf_printf(out, "  %-9s", what);
    show_key(out, info->key);
    buf_printf(out, ": %s %s", kv_dtype_name(info->dtype),
               kv_shape_text(shape, sizeof shape, info->ndim, info->shape));
}

/* The stored array of a key, as a new array on the CPU. */
static int pull_key(kv *store, const kv_info *info, kv_array **out, const void **data, kv_err *e)
{
    int rc = kv_array_new_raw(out, info->dtype, info->ndim, info->shape, (kv_ctx){0}, e);
    if (rc)
        return rc;
    if ((rc = kv_pull(store, &info->key, 1, out, NULL, e)) ||
        (rc = kv_array_read(*out, data, e)))
        kv_array_unref(*out);
    return rc;
}

/* The number of elements with different bytes. */
static int64_t count_changed(const char *a, const char *b, int64_t n, size_t size)
{
    int64_t changed = 0;
    for (int64_t i = 0; i < n; i++, a += size, b += size)
        changed += memcmp(a, b, size) != 0;
    return changed;
}

/* A key that both stores hold. */
static int compare_key(buf *out, kv *before, const kv_info *was, kv *after, const kv_info *is,
                       kv_err *e)
{
    kv_array *a, *b;
    const void *old_data, *new_data;
    bool same_form = was->dtype == is->dtype && was->ndim == is->ndim &&
                     memcmp(was->shape, is->shape, (size_t)is->ndim * sizeof *is->shape) == 0;
    if (was->unread && was->unread == is->unread && was->unread_inode == is->unread_inode)
        return KV_OK; /* the store has not read it yet, so it has not changed it */
    if (!same_form) {
        put_line(out, "replaced", is);
        buf_char(out, '\n');
        return KV_OK;
    }
    int rc = pull_key(before, was, &a, &old_data, e);
    if (rc)
        return rc;
    if ((rc = pull_key(after, is, &b, &new_data, e)) == KV_OK) {
        int64_t n = kv_array_size(a);
        int64_t changed = count_changed(old_data, new_data, n, (size_t)kv_dtype_bytes(is->dtype));
        if (changed > 0 || is->pushes != was->pushes) {
            put_line(out, "changed", is);
            buf_printf(out, ", %lld of %lld elements\n", (long long)changed, (long long)n);
        }
        kv_array_unref(b);
    }
    kv_array_unref(a);
    return rc;
}

/* What an updater keeps for a key: its count, or nothing. */
static void put_states(buf *out, const kv_info *info)
{
    if (info && info->states > 0)
        buf_printf(out, "t %lld", (long long)info->updates);
    else
        buf_add(out, "none");
}

/* A line where the states of a key change, begin or go. was, is: NULL where there is no key. */
static void compare_states(buf *out, const kv_info *was, const kv_info *is)
{
    bool some = (was && was->states > 0) || (is && is->states > 0);
    bool same = was && is && was->pushes == is->pushes && was->updates == is->updates &&
                was->states == is->states;
    if (!some || same)
        return;
    buf_add(out, "  states   ");
    show_key(out, is ? is->key : was->key);
    buf_add(out, ": ");
    put_states(out, is);
    buf_add(out, ", before: ");
    put_states(out, was);
    buf_char(out, '\n');
}

/* The keys of one store that another one does not have, or has too. Either may be NULL. */
static int compare_keys(buf *out, kv *before, kv *after, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; after && i < kv_num_keys(after) && rc == KV_OK; i++) {
        kv_info is, was;
        kv_err none = {0};
        if ((rc = kv_info_at(after, i, &is, e)))
            return rc;
        if (before && kv_find(before, &is.key, &was, &none) == KV_OK) {
            rc = compare_key(out, before, &was, after, &is, e);
            compare_states(out, &was, &is);
        } else {
            put_line(out, "new", &is);
            buf_char(out, '\n');
            compare_states(out, NULL, &is);
        }
    }
    for (int64_t i = 0; before && i < kv_num_keys(before) && rc == KV_OK; i++) {
        kv_info was, is;
        kv_err none = {0};
        if ((rc = kv_info_at(before, i, &was, e)) == KV_OK &&
            (!after || kv_find(after, &was.key, &is, &none))) {
            put_line(out, "gone", &was);
            buf_char(out, '\n');
            compare_states(out, &was, NULL);
        }
    }
    return rc;
}

static int compare_rest(buf *out, kv *before, kv *after, kv_err *e)
{
    char was[STATE_UPDATER] = "assign", is[STATE_UPDATER] = "assign";
    const char *old_type = before ? kv_type(before) : "", *new_type = after ? kv_type(after) : "";
    int rc = before ? kv_describe(before, "store", state_guard_updater, was, e) : KV_OK;
    if (rc == KV_OK && after)
        rc = kv_describe(after, "store", state_guard_updater, is, e);
    if (before && after && strcmp(old_type, new_type) != 0)
        buf_printf(out, "  type     %s, before: %s\n", new_type, old_type);
    if (strcmp(was, is) != 0)
        buf_printf(out, "  updater  %s, before: %s\n", is, was);
    return rc;
}

int state_preview(const state *st, session *s, kv_err *e)
{
    int64_t at = session_find_store(s, "kv");
    kv *before = NULL, *after = at < 0 ? NULL : s->stores[at].store;
    const char *why = s->dry_run ? "dry run" : "read only";
    buf lines = {0}, path = {0};
    if (!st->is_open)
        return KV_OK;
    state_end_transaction(s);
    int rc = state_load_again(st, &before, e);
    if (rc == KV_OK && state_changed(st, s) &&
        (rc = compare_keys(&lines, before, after, e)) == KV_OK &&
        (rc = compare_rest(&lines, before, after, e)) == KV_OK && lines.len == 0)
        buf_add(&lines, "  only its updater, or counts\n");
    kv_free(before);
    if (rc == KV_OK && (rc = buf_check(&lines, e)) == KV_OK) {
        fflush(stdout);
        visible_line(&path, st->path ? st->path : "", st->path ? strlen(st->path) : 0);
        if (!st->path && lines.len)
            fputs("dry run: without a state file; kv would hold:\n", stderr);
        else if (st->path)
            fprintf(stderr, "%s: \"%s\" would %s\n", why, buf_text(&path),
                    !lines.len ? "stay as it is" : st->loaded ? "change:" : "be made:");
        fputs(buf_text(&lines), stderr);
        rc = state_check(st, s, e);
    }
    buf_release(&lines);
    buf_release(&path);
    return rc;
}
