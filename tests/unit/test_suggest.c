/* suggest: which names are near enough to a mistyped one to be offered. */
#include "base/suggest.h"

#include "test.h"

static const char *hint_for(const char *word)
{
    static kv_err e;
    static const char *const names[] = {"push", "pull",    "pushpull", "print", "init",
                                        NULL,   "set-key", "x",        "abs"};
    memset(&e, 0, sizeof e);
    kv_err_set(&e, KV_E_USAGE, "unknown command %s", word);
    suggest_hint(&e, word, names, 9);
    return e.hint;
}

TEST(suggest_close_names)
{
    CHECK_TEXT(hint_for("psuh"), "did you mean push?");
    CHECK_TEXT(hint_for("pus"), "did you mean push?");
    CHECK_TEXT(hint_for("inti"), "did you mean init?");
    CHECK_TEXT(hint_for("int"), "did you mean init or print?");
    CHECK_TEXT(hint_for("set_kye"), "did you mean set-key?");
    CHECK_TEXT(hint_for("pushpul"), "did you mean pushpull?");
}

/* What abbreviates a name of several words comes before what is close by letters. */
TEST(suggest_abbreviations)
{
    static const char *const names[] = {"lars", "learning_rate", "lr_x", "U8", "F8_E4M3",
                                        "F8_E5M2", "weight-decay", "momentum", "wd"};
    static const char *const hints[][2] = {
        {"lr", "did you mean learning_rate or lr_x?"},
        {"LR", "did you mean learning_rate or lr_x?"}, {"learning", "did you mean learning_rate?"},
        {"f8", "did you mean F8_E4M3, F8_E5M2 or U8?"},
        {"WD", "did you mean weight-decay?"}, {"decay", "did you mean weight-decay?"},
        {"weight_", ""},                      {"weight", "did you mean weight-decay?"},
        {"Weight_decal", "did you mean wd or weight-decay?"},
        {"l", ""},                      {"mom", ""},
        {"word_d", "did you mean wd?"}, {"word_d_x", ""},
        {"lrs", "did you mean lars?"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        e = (kv_err){0};
        kv_err_set(&e, KV_E_USAGE, "no");
        suggest_hint(&e, hints[i][0], names, (int)(sizeof names / sizeof *names));
        CHECK_TEXT(e.hint, hints[i][1]);
    }
}

/* Where names are few, first letters abbreviate them, as far away as a name can be. */
TEST(suggest_by_first_letters)
{
    static const char *const hints[][2] = {
        {"mom", "did you mean momentum?"}, {"Mom", "did you mean momentum?"},
        {"mo", ""},                        {"omen", ""},
        {"lear", "did you mean leap or learning_rate?"},
        {"ada", "did you mean adam, adabelief or adadelta?"}, /* the close one comes first */
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        e = (kv_err){0};
        kv_err_set(&e, KV_E_USAGE, "no");
        suggest s = {.word = hints[i][0], .by_first_letters = true};
        suggest_add(&s, "learning_rate");
        suggest_add(&s, "leap");
        suggest_add(&s, "momentum");
        suggest_add(&s, "adabelief");
        suggest_add(&s, "adadelta");
        suggest_add(&s, "adagrad");
        suggest_add(&s, "adam");
        suggest_done(&s, &e);
        CHECK_TEXT(e.hint, hints[i][1]);
    }
}

TEST(suggest_as_methods)
{
    kv_err_set(&e, KV_E_USAGE, "a store has no method num_worker");
    suggest s = {.word = "num_worker", .as_methods = true};
    suggest_add(&s, "num-workers");
    suggest_done(&s, &e);
    CHECK_TEXT(e.hint, "did you mean num_workers?");
}

TEST(suggest_far_names)
{
    CHECK_TEXT(hint_for("frobnicate"), "");
    CHECK_TEXT(hint_for("y"), "");
    CHECK_TEXT(hint_for("lull"), "did you mean pull?");
    CHECK_TEXT(hint_for("lush"), "did you mean push?"); /* pull is two letters away from it */
    CHECK_TEXT(hint_for(""), "");
    CHECK_TEXT(hint_for("pushpushpushpushpushpushpushpushpushpushpushpushpushpushpushpushpush"),
               "");
}

TEST(suggest_closest_first)
{
    kv_err_set(&e, KV_E_NAME, "no variable learnin");
    suggest s = {.word = "learnin"};
    suggest_add(&s, "learners");
    suggest_add(&s, "learn");
    suggest_add(&s, "learning");
    suggest_add(&s, "learnt");
    suggest_add(&s, "learnin2");
    CHECK_INT(s.n, 3);
    suggest_done(&s, &e);
    CHECK_TEXT(e.hint, "did you mean learning, learnin2 or learn?");
}

TEST(suggest_once)
{
    kv_err_set(&e, KV_E_NAME, "no tanh");
    suggest s = {.word = "ran"};
    suggest_add(&s, "rank");
    suggest_add(&s, "rank");
    suggest_done(&s, &e);
    CHECK_TEXT(e.hint, "did you mean rank?");
}

TEST(suggest_keeps_first_hint)
{
    kv_err_set(&e, KV_E_NAME, "no");
    kv_err_hint(&e, "first");
    static const char *const names[] = {"abc"};
    suggest_hint(&e, "abd", names, 1);
    CHECK_TEXT(e.hint, "first");
    suggest_hint(NULL, "abd", names, 1);
}

/* - and _ are the same in names, at the ends too; a part of a name is none. */
TEST(name_words)
{
    static const struct {
        const char *name, *word;
        bool is;
    } cases[] = {{"row-ids", "row_ids", true},  {"row_ids", "row-ids", true},
                 {"a-b_c", "a_b-c", true},      {"row-ids", "row-id", false},
                 {"row-ids", "row-idss", false}, {"row", "", false},
                 {"", "", true},                {"row ids", "row-ids", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(name_is_word(cases[i].name, cases[i].word, strlen(cases[i].word)) == cases[i].is);
    own_buf b = {0};
    name_put(&b, "row-ids_x!", 9, '_');
    CHECK_TEXT(buf_text(&b), "row_ids_x");
}
