/* Rules: updaters as trees. */
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

TEST(parse_rule_statements)
{
    LANG_TREES(rule,
        {"{}", "{}"}, {"{ ; \n ; }", "{}"},
        {"# c\n\n{ stored = input }\n# d\n", "{(= stored input)}"},
        {"{ stored += input * 2 }", "{(= stored (+ stored (* input 2)))}"},
        {"{ a -= 1; a *= 2; a /= b + 1 }", "{(= a (- a 1)) (= a (* a 2)) (= a (/ a (+ b 1)))}"},
        {"{\n  a = 1 # c\n  b = 2; c = 3\n}", "{(= a 1) (= b 2) (= c 3)}"},
        {"{ a = (1 +\n 2) }", "{(= a (+ 1 2))}"}, {"{ a = 1 + \\\n 2 }", "{(= a (+ 1 2))}"},
        {"{ a = 1 -2 }", "{(= a (- 1 2))}"},      {"{ a = b > 0 }", "{(= a (> b 0))}"},
        {"{ rows present }", "{(rows)}"},         {"{ skip }", "{(skip)}"},
        {"{ fail \"no\" }", "{(fail \"no\")}"},
        {"{ fail f\"no {key}\" }", "{(fail (f \"no \" {key}))}"},
        {"{ fail \"a %d\" % key }", "{(fail (% \"a %d\" key))}"},
        {"{ print }", "{(print)}"}, {"{ print a }", "{(print a)}"},
        {"{ print \"a\", b + 1, c > 2, }", "{(print \"a\" (+ b 1) (> c 2))}"},
        {"{ print(a, b) }", "{(print a b)}"}, {"{ print(a) }", "{(print a)}"},
        {"{ print (a, b)[0] }", "{(print (index (, a b) 0))}"},
        {"{ if a { b = 1 } }", "{(if a {(= b 1)})}"},
        {"{ if a { b = 1 } else { b = 2 } }", "{(if a {(= b 1)} {(= b 2)})}"},
        {"{ if a { } else if b { } else { }; c = 1 }", "{(if a {} (if b {} {})) (= c 1)}"},
        {"{\n if a { skip }\n\n # c\n else if b { skip }\n else\\\n { skip }\n c = 1\n}",
         "{(if a {(skip)} (if b {(skip)} {(skip)})) (= c 1)}"},
        {"{ if a { skip }\n\n c = 1 }", "{(if a {(skip)}) (= c 1)}"},
        {"{ if a > 0 and not b { skip } }", "{(if (and (> a 0) (not b)) {(skip)})}"});
}

TEST(parse_rule_states)
{
    LANG_TREES(rule,
        {"{ state m }", "{(state m)}"}, {"{ state m, v }", "{(state m) (state v)}"},
        {"{ state m = stored, v, w = 1 + 2 }", "{(state m stored) (state v) (state w (+ 1 2))}"},
        {"{ state key n = 0 }", "{(state-key n 0)}"},
        {"{ state key n, k = 1 }", "{(state-key n) (state-key k 1)}"},
        {"{ state shared M = 1.0 }", "{(state-shared M 1.0)}"},
        {"{ state row h }", "{(state-row h)}"},
        /* words that are keywords only where they must be */
        {"{ state key }", "{(state key)}"},
        {"{ state key = 3, row }", "{(state key 3) (state row)}"},
        {"{ state row shared }", "{(state-row shared)}"},
        {"{ state = 1; state += 2 }", "{(= state 1) (= state (+ state 2))}"},
        {"{ rows = 1; skip = 2; fail = 3; print = 4 }",
         "{(= rows 1) (= skip 2) (= fail 3) (= print 4)}"},
        {"{ key = 1; row = by; counts = after }", "{(= key 1) (= row by) (= counts after)}"});
}

TEST(parse_rule_heads)
{
    LANG_TREES(
        rule, {"updater a { }", "(updater a {})"}, {"updater a, b ,c { }", "(updater a b c {})"},
        {"updater a() { }", "(updater a {})"}, {"updater a (x = 1) { }", "(updater a (x 1) {})"},
        {"updater a(i = 1, f = -1.5, b = true, c = false, n = none, t = \"x\", k = inf, l = -inf,) "
         "{ }",
         "(updater a (i 1) (f -1.5) (b true) (c false) (n none) (t \"x\") (k inf) (l -inf) {})"},
        {"updater a(x = 0.5 in 0..1, y = -1 in -2..-1, z = 1 in 0.0 .. inf) { }",
         "(updater a (x 0.5 0 1) (y -1 -2 -1) (z 1 0.0 inf) {})"},
        {"updater a(x = 0.5 in 0.5..1.5) { }", "(updater a (x 0.5 0.5 1.5) {})"},
        {"updater a(\n x = 1, # c\n y = 2\n) counts after {\n}",
         "(updater a (x 1) (y 2) counts-after {})"},
        {"updater a counts after { skip }", "(updater a counts-after {(skip)})"},
        {"updater a(x = -9223372036854775808) { }", "(updater a (x -9223372036854775808) {})"},
        {"updater n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11,n12,n13,n14,n15,n16 { }",
         "(updater n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 {})"});
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

/* ---- Rules as they are written ---- */

static const char adam[] =
    "# Adaptive moment estimation: Kingma and Ba 2014.\n"
    "updater adam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8,\n"
    "             lazy_update = true) {\n"
    "  if lazy_update { rows present }\n"
    "  state mean, var\n"
    "  rate = lr * (sqrt(1 - beta2 ** t) / (1 - beta1 ** t))\n"
    "  grad = clip(rescale_grad * input + wd * stored, clip_gradient)\n"
    "  mean = beta1 * mean + (1 - beta1) * grad\n"
    "  var = beta2 * var + (1 - beta2) * grad * grad\n"
    "  stored -= rate * mean / (sqrt(var) + epsilon)\n"
    "}\n";

static const char adam_tree[] =
    "(updater adam (learning_rate 0.001) (beta1 0.9) (beta2 0.999) (epsilon 1e-08) (lazy_update "
    "true) {(if lazy_update {(rows)}) (state mean) (state var) (= rate (* lr (/ (sqrt (- 1 (** "
    "beta2 t))) (- 1 (** beta1 t))))) (= grad (clip (+ (* rescale_grad input) (* wd stored)) "
    "clip_gradient)) (= mean (+ (* beta1 mean) (* (- 1 beta1) grad))) (= var (+ (* beta2 var) (* "
    "(* (- 1 beta2) grad) grad))) (= stored (- stored (/ (* rate mean) (+ (sqrt var) epsilon))))})";

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

static const char warmup_tree[] =
    "(updater lbsgd large (strategy \"linear\") (scale 1 1 1024) counts-after {(state-key n 0) (= "
    "n (+ n 1)) (= N (* 5 32)) (= B scale) (if (== B 1) {(rows) (= grad input)} {(state batch) (= "
    "batch (+ batch input)) (= grad (/ batch B)) (if (== (% n B) 0) {(= batch 0)})}) (if (== (% n "
    "B) 0) {"
    "(if (== strategy \"lars\") {(= rate (* lr (clip (sqrt (/ W (+ (+ G (* wd W)) 1e-18))) 0.01 "
    "100)))} (if (>= n N) {(= rate (* lr B))} (if (== strategy \"power2\") {(= rate (* lr (+ 1 (/ "
    "(* (- B 1) (* n n)) (* N N)))))} {(= rate lr)}))) (= stored (- (* (- 1 (* rate wd)) stored) "
    "(* rate grad)))})})";

static const char lars[] =
    "updater lars(momentum = 0.0, decay_names = \"_weight\", low = none) {\r\n"
    "  state shared last = base_lr; state row h\r\n"
    "  if not endswith(name, \"gamma\", \"beta\") { wn = norm(stored); gn = norm(input) } # two "
    "norms\r\n"
    "  if low > 0 { r1 = max(r1, low) }\r\n"
    "  u = f64(m / (sqrt(v) + 1e-6) + wd * stored);   ru = norm(u)\r\n"
    "  stored -= lr * where(wn == 0 or gn == 0, 1, wn / gn) * u * (abs(z) > low) + -lr\r\n"
    "}\r\n";

static const char lars_tree[] =
    "(updater lars (momentum 0.0) (decay_names \"_weight\") (low none) {(state-shared last "
    "base_lr) (state-row h) (if (not (endswith name \"gamma\" \"beta\")) {(= wn (norm stored)) (= "
    "gn (norm input))}) (if (> low 0) {(= r1 (max r1 low))}) (= u (f64 (+ (/ m (+ (sqrt v) 1e-06)) "
    "(* wd stored)))) (= ru (norm u)) (= stored (- stored (+ (* (* (* lr (where (or (== wn 0) (== "
    "gn 0)) 1 (/ wn gn))) u) (> (abs z) low)) (- lr))))})";

TEST(parse_rule_optimizers)
{
    lang_check_tree(adam, adam_tree, rule);
    lang_check_tree(warmup, warmup_tree, rule);
    lang_check_tree(lars, lars_tree, rule);
}

TEST(parse_rule_no_memory)
{
    lang_no_memory(warmup, rule, 10);
}
