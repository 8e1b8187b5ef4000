/* Half-written text: what completion offers and hints show for it, with the cursor at its end and
 * at places before. */
#include "fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "complete/complete.h"
#include "scripts.h"
#include "syntax/read_unit.h"

enum { ASK_MS = 5000 };

static void ask(session *s, const char *text, size_t n)
{
    kv_err e = {0};
    char *typed = mem_text(text, n, &e);
    HOLDS(typed != NULL, e.text);
    parse_cursor at;
    arena nodes = {0};
    line_words offers = {0};
    buf hint = {0};
    unit_cursor(&at, &nodes, typed, n);
    HOLDS(at.word <= n && at.statement <= at.word && at.rule <= at.word, typed);
    complete_words(s, typed, n, &offers);
    complete_hint(s, typed, n, &hint);
    HOLDS(offers.n >= 0, typed);
    line_words_release(&offers);
    buf_release(&hint);
    arena_release(&nodes);
    mem_free(typed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char begin[] =
        "init fc1.weight ones(2); init fc1.bias 1; init \"two words\" 1; learning_rate = 0.5\n"
        "def halve(x, parts) = x / 2\nupdater scale(by = 2.0) { stored += input * by }\n";
    session s;
    kv_err e = {0};
    if (memchr(data, '\0', n))
        return 0; /* nobody types it */
    scripts_begin(&s, ASK_MS);
    HOLDS(scripts_run(&s, begin, strlen(begin), &e) == KV_OK, e.text);
    ask(&s, (const char *)data, n);
    for (size_t cut = 1; cut < n; cut += 1 + n / 4)
        ask(&s, (const char *)data, cut);
    scripts_end(&s);
    return 0;
}
