/* Rules: what is refused and where, places, depth. */
#include "test_lang.h"

static bool rule(lang_text *t)
{
    rule_ast *r;
    if (parse_rule(&r, &t->src, &t->nodes, &t->e)) {
        CHECK(r == NULL);
        return false;
    }
    lang_dump_rule(&t->out, r);
    return true;
}

TEST(parse_rule_errors)
{
    LANG_ERRORS(rule,
        {"", "1:1-2", "the text ends where `{` is needed"},
        {"stored += input", "1:1-7", "`stored` stands where `{` is needed"},
        {"{ a = 1", "1:1-2", "the `{` that opens here is not closed"},
        {"{ a =", "1:1-2", "the `{` that opens here is not closed"},
        {"{\n if a {\n", "2:7-8", "the `{` that opens here is not closed"},
        {"{ a = (1", "1:7-8", "the `(` that opens here is not closed"},
        {"{ a = (1\n b = 2 }", "2:2-3", "`b` stands where `)` is needed",
         "the `(` that is to be closed stands in line 1, column 7"},
        {"{ a = 1\n } }", "2:4-5", "`}` stands where the end of the rule is needed"},
        {"{ } { }", "1:5-6", "`{` stands where the end of the rule is needed"},
        {"{ a = 1 b = 2 }", "1:9-10", "`b` stands where the end of the statement is needed"},
        {"{ a = }", "1:7-8", "`}` stands where a value is needed"},
        {"{ a =\n 1 }", "1:6-7", "the statement ends where a value is needed"},
        {"{ a }", "1:5-6", "`}` stands where `=` is needed"},
        {"{ a b }", "1:5-6", "`b` stands where `=` is needed"},
        {"{ a[0] = 1 }", "1:4-5", "`[` stands where `=` is needed"},
        {"{ m[:] = 1 }", "1:4-5", "`[` stands where `=` is needed", "m = …"},
        {"{ m[key] += 1 }", "1:4-5", "`[` stands where `=` is needed",
         "state m is an array for each key, 0 at first: state m; m = …"},
        {"{ f(a) }", "1:4-5", "`(` stands where `=` is needed"},
        {"{ 1 = a }", "1:3-4", "`1` stands where a statement of a rule is needed"},
        {"{ for i in a { } }", "1:3-6", "`for` stands where a statement of a rule is needed",
         "a rule goes over all elements by itself: stored -= 0.1 * input"},
        {"{ pi = 3 }", "1:3-5", "`pi` stands where a statement of a rule is needed"},
        {"{ none = 3 }", "1:3-7", "`none` stands where a statement of a rule is needed"},
        {"{ else { } }", "1:3-7", "`else` stands where a statement of a rule is needed"},
        {"{ if a skip }", "1:8-12", "`skip` stands where `{` is needed"},
        {"{ if a = 1 { } }", "1:8-9", "`=` stands where `{` is needed", "`==` compares"},
        {"{ if a\n{ } }", "1:7-8", "the statement ends where `{` is needed"},
        {"{ if a { } else { } else { } }", "1:21-25",
         "`else` stands where the end of the statement is needed"},
        {"{ rows }", "1:8-9", "`}` stands where `present` is needed"},
        {"{ rows absent }", "1:8-14", "`absent` stands where `present` is needed"},
        {"{ fail }", "1:8-9", "`}` stands where a value is needed"},
        {"{ state }", "1:9-10", "`}` stands where the name of a state is needed"},
        {"{ state 3 }", "1:9-10", "`3` stands where the name of a state is needed"},
        {"{ state m, }", "1:12-13", "`}` stands where the name of a state is needed"},
        {"{ state key inf }", "1:13-16", "`inf` stands where the name of a state is needed"},
        {"updater { }", "1:9-10", "`{` stands where a name for the updater is needed",
         "set-updater { … }, or updater NAME { … } for later"},
        {"updater if { }", "1:9-11", "`if` stands where a name for the updater is needed"},
        {"updater a, { }", "1:12-13", "`{` stands where a name for the updater is needed"},
        {"updater a", "1:10-11", "the text ends where `{` is needed", "set-updater a"},
        {"updater a\n{ }", "1:10-11", "the statement ends where `{` is needed", "set-updater a"},
        {"updater a(x = 1", "1:10-11", "the `(` that opens here is not closed"},
        {"updater a(x", "1:10-11", "the `(` that opens here is not closed"},
        {"updater a(x) { }", "1:12-13", "`)` stands where `=` and a default is needed"},
        {"updater a(3) { }", "1:11-12", "`3` stands where the name of a parameter is needed"},
        {"updater a(x = b) { }", "1:15-16",
         "`b` stands where a number, text, true, false or none is needed"},
        {"updater a(x = 1 + 2) { }", "1:17-18", "`+` stands where `)` is needed"},
        {"updater a(x = 1 in 0) { }", "1:21-22", "`)` stands where `..` is needed"},
        {"updater a(x = 1 in 0..) { }", "1:23-24",
         "`)` stands where a number, text, true, false or none is needed"},
        {"updater a(x = 1,, y = 2) { }", "1:17-18",
         "`,` stands where the name of a parameter is needed"},
        {"updater a(x = 9223372036854775808) { }", "1:15-34",
         "9223372036854775808 is too large for a 64-bit integer", NULL, KV_E_VALUE},
        {"updater a counts { }", "1:18-19", "`{` stands where `after` is needed"},
        {"updater a counts before { }", "1:18-24", "`before` stands where `after` is needed"},
        {"updater n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11,n12,n13,n14,n15,n16,n17 { }", "1:64-67",
         "an updater has at most 16 names"});
}

TEST(parse_rule_without_an_error_to_fill)
{
    source src = {.name = "t", .text = "{", .len = 1, .line = 1, .col = 1};
    own_arena nodes = {0};
    rule_ast *r;
    CHECK_INT(parse_rule(&r, &src, &nodes, NULL), KV_E_SYNTAX);
    CHECK(r == NULL);
}

TEST(parse_rule_places)
{
    static const char text[] = "# c\nupdater a(x = 1 in 0..2) {\n  b = 1 # c\n}\n";
    source src = {.name = "t", .text = text, .len = sizeof text - 1, .line = 1, .col = 1};
    own_arena nodes = {0};
    rule_ast *r = MADE(rule_ast, parse_rule, &src, &nodes);
    CHECK_INT(r->pos, 4);
    CHECK_INT(r->end, 44);
    CHECK_INT(r->params[0].pos, 14);
    CHECK_INT(r->params[0].end, 27);
    CHECK_INT(r->body->kid[0]->pos, 33);
    CHECK_INT(r->body->kid[0]->end, 38);
}

TEST(parse_rule_depth)
{
    static const struct {
        const char *head, *piece, *middle, *piece2, *tail;
        int deepest;
    } rows[] = {{"", "{if a ", "{}", "}", "", PARSE_MAX_DEPTH - 1},
                {"{if a {}", " else if a {}", "", "", "}", PARSE_MAX_DEPTH - 2},
                {"{a = ", "(", "1", ")", "}", PARSE_MAX_DEPTH - 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int over = 0; over < 2; over++) {
            own_text *text = lang_repeated(rows[i].head, rows[i].piece, rows[i].deepest + over,
                                       rows[i].middle, rows[i].piece2, rows[i].tail);
            LANG_TEXT(t, text);
            if (rule(&t) == over)
                printf("# %d of %s: %s\n", rows[i].deepest + over, rows[i].piece, t.e.text);
            CHECK_TEXT(t.e.text, over ? "nested deeper than 200" : "");
        }
    }
}

static const char warmup[] =
    "updater lbsgd, large (strategy = \"linear\", scale = 1 in 1 .. 1024) counts after {\n"
    "  state key n = 0\n"
    "  n += 1; N = 5 * 32; B = scale\n"
    "  if B == 1 { rows present; grad = input }\n"
    "  else      { state batch; batch += input; grad = batch / B; if n % B == 0 { batch = 0 } }\n"
    "  if n % B == 0 {\n"
    "    if strategy == \"lars\" {\n"
    "      rate = lr * clip(sqrt(W / (G + wd * W + 1e-18)), 0.01, 100)\n"
    "    } else if n >= N                { rate = lr * B }\n"
    "    else if strategy == \"power2\" { rate = lr * (1 + (B - 1) * (n * n) / (N * N)) }\n"
    "    else                          { rate = lr }\n"
    "    stored = (1 - rate * wd) * stored - rate * grad\n"
    "  }\n"
    "}";

TEST(parse_rule_no_memory)
{
    lang_no_memory(warmup, rule, 10);
}
