/* history: the entries typed at the prompt, from the file of the history.
 *
 * The file is Readline's: a line `#SECONDS` stands before each entry, which may have several lines.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "term/pager.h"
#include "term/repl.h"

/* Returns true if the line is the time of the entry behind it. */
static bool is_time(const char *line, size_t n)
{
    size_t i = 1;
    while (i < n && line[i] >= '0' && line[i] <= '9')
        i++;
    return n > 1 && line[0] == '#' && i == n;
}

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

static int64_t count_entries(const char *text)
{
    int64_t n = 0;
    while (*text) {
        size_t length = line_length(text);
        n += is_time(text, length);
        text += length + (text[length] == '\n');
    }
    return n;
}

/* The last `most` entries, numbered from the first of all; further lines of one stand below. */
static void add_entries(buf *out, const char *text, int64_t most)
{
    int64_t all = count_entries(text), i = 0;
    bool begins = false;
    while (*text) {
        size_t n = line_length(text);
        if (is_time(text, n)) {
            i++;
            begins = true;
        } else if (i > all - most && i > 0) {
            if (begins)
                buf_printf(out, "%5lld  ", (long long)i);
            else
                buf_add(out, "       ");
            buf_put(out, text, n);
            buf_char(out, '\n');
            begins = false;
        }
        text += n + (text[n] == '\n');
    }
}

int cmd_history(session *s, const ast *call, result *out, kv_err *e)
{
    buf path = {0}, shown = {0};
    char *text = NULL;
    size_t n;
    int32_t most = INT32_MAX;
    if (call->kid[0] && eval_int32(s, call->kid[0], "a count of entries", &most, e))
        return e->code;
    if (most < 0)
        return unit_err(s, call->kid[0], e, KV_E_VALUE, "a count of entries is at least 0, not %d",
                        most);
    histfile_path(&path, s->history);
    int code = buf_check(&path, e);
    if (code == KV_OK && path.len > 0 && access(buf_text(&path), F_OK) == 0 &&
        (code = file_read_text(buf_text(&path), &text, &n, e)) == KV_OK)
        add_entries(&shown, text, most);
    pager_from_end(true); /* the newest are wanted first */
    mem_free(text);
    buf_release(&path);
    return result_text(out, &shown, code, e);
}
