/* Any text for the parsers: of statements, of their parts, of rules and merges. It is parsed or
 * refused with a finished sentence at a place inside it, the same each time, also when memory runs
 * out. */
#include "fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "language.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"
#include "vm/merge.h"

/* Whether a place lies in the text, at most one column behind the end of its line. */
static bool is_inside(const source *s, const kv_err *e)
{
    int line = s->line, columns = 0;
    const char *at = s->text, *end = s->text + s->len;
    for (; line < e->line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at)
            return false;
        at++;
    }
    for (; at < end && *at != '\n'; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    return e->line >= 1 && e->col >= 1 && e->col <= columns + 1 && e->end > e->col &&
           e->end <= columns + 2;
}

static bool is_sound(const source *s, const ast *node)
{
    if (!node)
        return true;
    if (node->pos > node->end || node->end > s->len ||
        node->height > AST_MAX_HEIGHT + 4 * PARSE_MAX_DEPTH)
        return false;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && (node->kid[i]->height >= node->height || !is_sound(s, node->kid[i])))
            return false;
    return true;
}

/* The number of nodes and a sum of what they are. */
static uint64_t digest(const ast *node)
{
    uint64_t sum = node ? node->kind * 31u + node->op + (uint64_t)node->pos * 977 + node->end : 7;
    for (uint32_t i = 0; node && i < node->n; i++)
        sum = sum * 1099511628211u + digest(node->kid[i]);
    return sum;
}

enum { STATEMENTS, KEYS, PATH, LITERAL, RULE, MERGE, PARTS };

typedef struct outcome {
    uint64_t digest; /* of statements */
    bool incomplete;
    kv_err e;
} outcome;

static outcome parse(const source *s, int part)
{
    arena nodes = {0};
    parser p;
    rule_ast *rule = NULL;
    outcome o = {0};
    const ast *body = NULL;
    parse_init(&p, s, &nodes, &o.e);
    const void *got = part == STATEMENTS ? (body = statement_parse_all(&p))
                      : part == KEYS     ? (void *)parse_keys(&p)
                      : part == PATH     ? (void *)parse_path(&p)
                      : part == LITERAL  ? (void *)parse_literal(&p)
                      : part == RULE     ? (parse_rule(&rule, s, &nodes, &o.e), (void *)rule)
                                         : (parse_merge(&rule, s, &nodes, &o.e), (void *)rule);
    o.incomplete = p.lx.incomplete;
    o.digest = digest(body);
    HOLDS((got != NULL) == (o.e.code == KV_OK), o.e.text);
    HOLDS(is_sound(s, body), "a tree");
    if (!fuzz_result(o.e.code, &o.e) && o.e.code != KV_E_MEMORY)
        HOLDS(is_inside(s, &o.e), o.e.text);
    parse_release(&p);
    arena_release(&nodes);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kv_err e = {0};
    own_mem char *text = mem_text((const char *)data, n, &e); /* a zero byte ends it */
    HOLDS(text != NULL, e.text);
    source s = {.name = "t", .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    language_init();
    for (int part = 0; part < PARTS; part++) {
        outcome first = parse(&s, part), second = parse(&s, part);
        HOLDS(memcmp(&first.e, &second.e, sizeof first.e) == 0, first.e.text);
        HOLDS(first.digest == second.digest, "the same tree");
        if (part == STATEMENTS)
            HOLDS(unit_is_complete(s.text, n) == (first.e.code == KV_OK || !first.incomplete),
                  first.e.text);
        mem_fail_at(1 + n % 60);
        parse(&s, part);
        mem_fail_at(0);
    }
    return 0;
}
