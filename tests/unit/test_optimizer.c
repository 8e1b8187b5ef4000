/* optimizer: counts, rates and multipliers as a rule sees them, masters, changes of parameters,
 * what a failed push and a rollback leave. */
#include "core/optimizer.h"

#include "core/store.h"
#include "kvstore.h"
#include "store_help.h"
#include "test_io.h"

/* Prints what it is given. */
static const char shows[] = "updater shows(momentum = 0.5 in 0.0..1.0) {\n"
                            "  print key, name, t, lr, wd, base_lr\n"
                            "  if momentum == 0 { fail \"no momentum\" }\n"
                            "  stored += input\n"
                            "}";

static char lines[8][200];
static int nlines;

static void keep_line(void *arg, const char *line)
{
    (void)arg;
    if (nlines < 8)
        snprintf(lines[nlines++], sizeof lines[0], "%s", line);
}

static void push(kv *s, kv_key key, kv_dtype dtype, double x)
{
    push_one(s, key, filled_as(dtype, x, cpu0));
}

/* Pushes 1, and the rule prints this. */
static void check_step(kv *s, kv_key key, const char *want)
{
    push(s, key, KV_FLOAT32, 1);
    CHECK_TEXT(lines[nlines - 1], want);
}

static double pulled(kv *s, kv_key key)
{
    own_array *a = pull_into(s, key, filled_as(KV_FLOAT64, 0, cpu0));
    const double *data = array_elements(a);
    return data[0];
}

static kv *make_heard(void)
{
    kv *s = make("local");
    kv_set_print(s, keep_line, NULL);
    nlines = 0;
    return s;
}

/* A store with the keys 0, 1, 2 and a rule. */
static kv *with(const char *text, const kv_opt *params, int n)
{
    kv *s = make_heard();
    for (int i = 0; i < 3; i++)
        init_with(s, id(i), filled_as(KV_FLOAT32, 1, cpu0));
    set_rule_with(s, text, params, n);
    return s;
}

TEST(optimizer_multipliers_of_keys_and_names)
{
    const kv_opt params[] = {{"learning_rate", "0.1"},
                             {"wd", "0.5"},
                             {"names", "0=fc_weight,1=fc_bias,2=bn_gamma"},
                             {"lr_mult", "0=0.5,fc_bias=2"},
                             {"wd_mult", "bn_gamma=3"}};
    own_kv *s = with(shows, params, 5);
    check_step(s, id(0), "0 fc_weight 1 0.05 0.5 0.1");
    check_step(s, id(1), "1 fc_bias 1 0.2 0.0 0.1"); /* neither _weight nor _gamma */
    check_step(s, id(2), "2 bn_gamma 1 0.1 1.5 0.1");
}

TEST(optimizer_multipliers_and_names_change_under_way)
{
    const kv_opt params[] = {{"learning_rate", "0.5"}, {"wd", "0.5"}, {"lr_mult", "0=0.5,1=8"}},
                 other[] = {{"lr-mult", "1=4"}, {"names", "0=fc_bias"}};
    own_kv *s = with(shows, params, 3);
    check_step(s, id(0), "0  1 0.25 0.5 0.5");
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_update_optimizer(s, other, 2, &e));
    check_step(s, id(0), "0 fc_bias 2 0.5 0.0 0.5"); /* the table before is gone */
    check_step(s, id(1), "1  1 2.0 0.5 0.5");
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"wd_mult", "fc_bias=2"}, 1, &e));
    CHECK_ERR(kv_update_optimizer(s, &(kv_opt){"wd_mult", "x"}, 1, &e), KV_E_VALUE,
              "wd_mult takes pairs such as 0=0.5, not \"x\"");
    check_step(s, id(0), "0 fc_bias 3 0.5 1.0 0.5");
    CHECK_OK(kv_rollback(s, &e));
    check_step(s, id(0), "0  2 0.25 0.5 0.5");
    check_step(s, id(1), "1  1 4.0 0.5 0.5");
}

TEST(optimizer_user_multiplier_wins_over_the_rule_for_names)
{
    const kv_opt params[] = {{"wd", "0.5"},
                             {"names", "0=fc_bias,1=x_gain,2=y"},
                             {"wd_mult", "fc_bias=2,2=4"},
                             {"decay_names", "_gain"}};
    own_kv *s = with(shows, params, 4);
    check_step(s, id(0), "0 fc_bias 1 0.01 1.0 0.01");
    check_step(s, id(1), "1 x_gain 1 0.01 0.5 0.01");
    check_step(s, id(2), "2 y 1 0.01 2.0 0.01"); /* the key's own comes before the name's */
}

TEST(optimizer_without_names_everything_decays)
{
    const kv_opt params[] = {{"wd", "0.5"}, {"wd_mult", "fc_bias=3"}};
    own_kv *s = with(shows, params, 2);
    check_step(s, id(1), "1  1 0.01 0.5 0.01");
    kv_free(s);
    s = make_heard();
    init_with(s, (kv_key){.name = "fc_bias"}, filled_as(KV_FLOAT32, 1, cpu0));
    set_rule_with(s, shows, params, 2);
    check_step(s, (kv_key){.name = "fc_bias"}, "fc_bias fc_bias 1 0.01 1.5 0.01");
}

TEST(optimizer_counts_from_begin_num_update)
{
    const kv_opt params[] = {{"begin_num_update", "10"},
                             {"lr_scheduler", "factor(11, 0.5, base_lr=1)"}};
    own_kv *s = with(shows, params, 2);
    push(s, id(0), KV_FLOAT32, 1);
    push(s, id(0), KV_FLOAT32, 1);
    push(s, id(1), KV_FLOAT32, 1);
    CHECK_TEXT(lines[0], "0  11 1.0 0.0 1.0");
    CHECK_TEXT(lines[1], "0  12 0.5 0.0 0.5");
    /* its own count, and the schedule goes by the largest */
    CHECK_TEXT(lines[2], "1  11 0.5 0.0 0.5");
}

TEST(optimizer_a_learning_rate_is_the_base_of_a_schedule)
{
    const kv_opt params[] = {{"lr_scheduler", "factor(1, 0.5, base_lr=1)"},
                             {"learning_rate", "0.4"}};
    own_kv *s = with(shows, params, 2);
    check_step(s, id(0), "0  1 0.4 0.0 0.4");
    check_step(s, id(0), "0  2 0.2 0.0 0.2");
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"learning-rate", "8"}, 1, &e));
    check_step(s, id(0), "0  3 4.0 0.0 4.0");
}

/* Its `lr` is a parameter without a value, until one is given. */
TEST(optimizer_a_def_that_reads_lr_takes_it_later)
{
    static const char def[] = "def u(key, grad, weight):\n    weight -= lr * grad\n";
    own_kv *s = with(def, NULL, 0);
    push(s, id(0), KV_FLOAT32, 1);
    float before = (float)pulled(s, id(0));
    CHECK_OK(kv_update_optimizer(s, NULL, 0, &e));
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"lr", "0.5"}, 1, &e));
    push(s, id(0), KV_FLOAT32, 1);
    CHECK(pulled(s, id(0)) == (double)(before - 0.5F));
}

TEST(optimizer_a_failed_push_counts_nothing)
{
    own_kv *s = with(shows, NULL, 0);
    own_array *a = filled_as(KV_FLOAT32, 1, cpu0);
    push(s, id(0), KV_FLOAT32, 1);
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"momentum", "0"}, 1, &e));
    CHECK_ERR(kv_push(s, &(kv_key){.id = 0}, 1, &a, NULL, &e), KV_E_VALUE, "no momentum");
    CHECK_INT(kv_push(s, &(kv_key){.id = 0}, 1, &a, NULL, NULL), KV_E_VALUE);
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"momentum", "1"}, 1, &e));
    check_step(s, id(0), "0  2 0.01 0.0 0.01");
    CHECK(pulled(s, id(0)) == 3);
}

/* The sum of many small steps is lost in half precision, and kept by a float32 master. */
static double small_steps(kv_dtype dtype, const char *multi_precision)
{
    const kv_opt params[] = {{"learning_rate", "0.0001"}, {"multi_precision", multi_precision}};
    own_kv *s = make_heard();
    init_with(s, id(0), filled_as(dtype, 1, cpu0));
    CHECK_OK(kv_set_optimizer(s, "sgd", params, 2, &e));
    for (int i = 0; i < 500; i++)
        push(s, id(0), dtype, 1);
    return pulled(s, id(0));
}

TEST(optimizer_master_of_half_precision)
{
    CHECK(small_steps(KV_FLOAT16, "false") == 1);
    CHECK(small_steps(KV_BFLOAT16, "false") == 1);
    double x = small_steps(KV_FLOAT16, "true"), y = small_steps(KV_BFLOAT16, "true");
    CHECK(x > 0.9495 && x < 0.9505);
    CHECK(y > 0.945 && y < 0.955);
    CHECK(small_steps(KV_FLOAT32, "true") == small_steps(KV_FLOAT32, "false"));
}

TEST(optimizer_multi_precision_can_be_switched_on)
{
    const kv_opt rate = {"by", "0.0001"};
    own_kv *s = make_heard();
    own_rule *rule = NULL;
    init_with(s, id(0), filled_as(KV_FLOAT16, 1, cpu0));
    /* nothing in it depends on the key: one update serves all, until there are masters */
    CHECK_OK(
        kv_rule_new(&rule, "updater plain(by = 0.1) { stored -= by * input }", NULL, 0, 0, &e));
    CHECK_OK(kv_set_rule(s, rule, &rate, 1, &e));
    push(s, id(0), KV_FLOAT16, 1);
    CHECK(pulled(s, id(0)) == 1);
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"multi_precision", "true"}, 1, &e));
    for (int i = 0; i < 500; i++)
        push(s, id(0), KV_FLOAT16, 1);
    CHECK(pulled(s, id(0)) < 0.96);
}

TEST(optimizer_names_of_the_library)
{
    own_kv *s = make_heard();
    CHECK_OK(kv_set_optimizer(s, "AdaM", NULL, 0, &e));
    CHECK_OK(kv_set_optimizer(s, "ccSGD", NULL, 0, &e));
    CHECK_INT(kv_set_optimizer(s, "adm", NULL, 0, &e), KV_E_USAGE);
    CHECK(strstr(e.text, "adm") && strstr(e.hint, "adam"));
}

TEST(optimizer_errors)
{
    static const struct {
        kv_opt param;
        kv_code code;
        const char *error;
    } cases[] = {
        {{"lr_mult", "3"}, KV_E_VALUE, "lr_mult takes pairs such as 0=0.5, not \"3\""},
        {{"lr_mult", "0=1,1=2,0=2"}, KV_E_VALUE, "lr_mult: the key 0 is given twice"},
        {{"names", "fc=a,fc=a"}, KV_E_VALUE, "names: the key fc is given twice"},
        {{"wd_mult", "0=x"}, KV_E_VALUE, "wd_mult: \"x\" is not a number"},
        {{"names", "0"}, KV_E_VALUE, "names takes pairs such as 0=fc_weight, not \"0\""},
        {{"names", "0=a,1="}, KV_E_VALUE, "names takes pairs such as 0=fc_weight, not \"1=\""},
        {{"seed", "-1"}, KV_E_VALUE, "seed is a whole number from 0 on, not \"-1\""},
        {{"lr_scheduler", "factor(0)"}, KV_E_VALUE, "step of factor is at least 1"},
    };
    own_kv *s = make_heard();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_ERR(kv_set_optimizer(s, "sgd", &cases[i].param, 1, &e), cases[i].code,
                  cases[i].error);
    CHECK_INT(kv_set_optimizer(s, "sgd", &(kv_opt){"momentun", "1"}, 1, &e), KV_E_USAGE);
    CHECK(strstr(e.text, "momentun") && strstr(e.hint, "momentum"));
    CHECK_ERR(kv_update_optimizer(s, NULL, 0, &e), KV_E_VALUE, "no optimizer is in use");
    CHECK_OK(kv_set_optimizer(s, "sgd", NULL, 0, &e));
    uint64_t before = kv_changes(s);
    CHECK_CODE(kv_update_optimizer(s, &(kv_opt){"lr_mult", "0=1,0=2"}, 1, &e), KV_E_VALUE);
    e = (kv_err){0};
    CHECK_ERR(kv_update_optimizer(s, &(kv_opt){"decay-names", "x"}, 1, &e), KV_E_USAGE,
              "decay_names is set with the optimizer, not changed later");
    CHECK_INT(kv_update_optimizer(s, &(kv_opt){"wdd", "1"}, 1, &e), KV_E_USAGE);
    CHECK(kv_changes(s) == before);
}

TEST(optimizer_tells_the_option_of_a_value_that_it_refuses)
{
    static const struct {
        kv_opt params[3];
        int option; /* from 1; 0: none */
    } cases[] = {
        {{{"seed", "-1"}, {"momentum", "0.5"}, {"wd", "0"}}, 1},
        {{{"seed", "1"}, {"momentum", "x"}, {"wd", "0"}}, 2},
        {{{"seed", "1"}, {"lr_mult", "0=1"}, {"momentum", "x"}}, 3},
        {{{"wd", "0"}, {"lr_scheduler", "cosine"}, {"seed", "1"}}, 2},
        {{{"wd", "0"}, {"seed", "1"}, {"clip_global_norm", "0"}}, 3},
        {{{"wd", "0"}, {"seed", "1"}, {"speed", "1"}}, 0},
    };
    own_kv *s = make_heard();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e = (kv_err){0};
        CHECK(kv_set_optimizer(s, "sgd", cases[i].params, 3, &e) != KV_OK);
        CHECK_INT(e.option, cases[i].option);
    }
}

/* Rates that follow a schedule, multipliers and counts are numbers of what was compiled: twice for
 * each key's form, without its states and with them, and a few branches more where a rule has them.
 */
TEST(optimizer_compiles_its_rule_once)
{
    const kv_opt params[] = {{"lr_scheduler", "factor(2, 0.9)"}, {"lr_mult", "0=0.5"}};
    const char *name = "";
    for (int i = 0; kv_optimizer_text(i, &name); i++) {
        own_kv *s = make_heard();
        init_with(s, id(0), filled_as(KV_FLOAT32, 1, cpu0));
        init_with(s, id(3), filled_as(KV_FLOAT32, 2, cpu0));
        CHECK_OK(kv_set_optimizer(s, name, params, 2, &e));
        for (int t = 0; t < 500; t++) {
            push(s, id(0), KV_FLOAT32, 1 + t % 7);
            push(s, id(3), KV_FLOAT32, 2 - t % 5);
        }
        const optimizer *o = s->updater.optimizer;
        if (o->ncompiled > 4)
            CHECK_TEXT(name, "compiled four times at most");
        CHECK_OK(kv_update_optimizer(s, &(kv_opt){"rescale_grad", "0.5"}, 1, &e));
        int64_t before = o->ncompiled;
        push(s, id(0), KV_FLOAT32, 1);
        CHECK_INT(o->ncompiled, before + 1);
        for (int t = 0; t < 9; t++) { /* it was changed once, and so it is a number from then on */
            kv_opt changed[] = {{"rescale_grad", t % 2 ? "0.25" : "2"},
                                {"learning_rate", t % 3 ? "0.5" : "0.1"}};
            CHECK_OK(kv_update_optimizer(s, changed, 2, &e));
            push(s, id(0), KV_FLOAT32, 1);
        }
        CHECK_INT(o->ncompiled, before + 1);
    }
}

/* What a name of a script is changed to is what the rule computes with, compiled once; another kind
 * of value is another case. */
TEST(optimizer_follows_a_parameter_without_compiling)
{
    static const char *const rates[] = {"0.5", "0.25", "none", "2.0", "none", "0.125"};
    kv_rule *rule = NULL;
    own_kv *s = make_heard();
    init_with(s, id(0), filled_as(KV_FLOAT32, 0, cpu0));
    CHECK_OK(kv_rule_new(&rule, "{ if rate != none { stored += input * rate } }", "r", 1, 1, &e));
    CHECK_OK(kv_set_rule(s, rule, &(kv_opt){"rate", "1.0"}, 1, &e));
    kv_rule_free(rule);
    push(s, id(0), KV_FLOAT32, 8);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(kv_update_optimizer(s, &(kv_opt){"rate", rates[i]}, 1, &e));
        push(s, id(0), KV_FLOAT32, 8);
    }
    CHECK(pulled(s, id(0)) == 8 * (1 + 0.5 + 0.25 + 2 + 0.125));
    CHECK_INT(s->updater.optimizer->ncompiled, 3);
}

/* Keys for which a rule reads the same share one update; others get their own, and a change of a
 * parameter reaches all. */
TEST(optimizer_keys_that_share_an_update_and_keys_that_do_not)
{
    kv_array *w = NULL;
    own_arrays *a[4] = {NULL};
    static const int64_t shapes[] = {2, 2, 3};
    kv_key keys[] = {{.id = 0}, {.id = 1}, {.id = 2}};
    kv_opt params[] = {{"learning_rate", "1"}, {"lr_mult", "1=2"}, {"momentum", "0.5"}};
    own_kv *s = make("local");
    for (int i = 0; i < 3; i++) {
        CHECK_OK(kv_array_new(&a[i], KV_FLOAT32, 1, &shapes[i], (kv_ctx){0}, &e));
        float *data = array_data(a[i]);
        for (int64_t j = 0; j < shapes[i]; j++)
            data[j] = 1;
    }
    CHECK_OK(kv_init(s, keys, 3, a, NULL, &e));
    CHECK_OK(kv_set_optimizer(s, "sgd", params, 3, &e));
    CHECK_OK(kv_push(s, keys, 3, a, NULL, &e));
    static const float first[] = {0, -1, 0}, second[] = {-0.6f, -2.2f, -0.6f};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            CHECK_OK(kv_array_new(&w, KV_FLOAT32, 1, &shapes[i], (kv_ctx){0}, &e));
            CHECK_OK(kv_pull(s, &keys[i], 1, &w, NULL, &e));
            const float *got = array_elements(w);
            CHECK(got[shapes[i] - 1] == (round ? second : first)[i]);
            kv_array_unref(w);
        }
        CHECK_OK(kv_update_optimizer(s, &(kv_opt){"learning_rate", "0.1"}, 1, &e));
        CHECK_OK(kv_push(s, keys, 3, a, NULL, &e));
    }
}

/* Expected from the formulas of MXNet 1.9.1, by hand. */
TEST(optimizer_signs_of_zero)
{
    static const struct {
        const char *name, *param, *value;
        double weight[2], grads[3][2]; /* up to three pushes */
        int pushes;
        double want[2];
    } runs[] = {
        {"ftrl", NULL, NULL, {0, 0}, {{0.005, -0.005}}, 1, {0.0, -0.0}},
        {"ftml", NULL, NULL, {0.0, -0.0}, {{0.0, 0.0}}, 1, {-0.0, -0.0}},
        {"nadam", NULL, NULL, {-0.0, -0.0}, {{0.0, -0.0}}, 1, {-0.0, -0.0}},
        {"sgd", NULL, NULL, {-0.0, -0.0}, {{0.0, -0.0}}, 1, {0.0, 0.0}},
        {"lbsgd", NULL, NULL, {-0.0, -0.0}, {{0.0, -0.0}}, 1, {-0.0, 0.0}},
        /* A later gradient is added to 0; a weight is stepped with rate 0 until a batch is full. */
        {"lbsgd", NULL, NULL, {-0.0, -0.0}, {{0.0, 0.0}, {-0.0, 0.0}}, 2, {-0.0, -0.0}},
        {"lbsgd", "batch_scale", "4", {-0.0, -0.0}, {{-1, 1}}, 1, {0.0, -0.0}},
        {"lbsgd", "batch_scale", "2", {-0.0, -0.0}, {{-0.0, 0.0}, {-0.0, -0.0}}, 2, {0.0, -0.0}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        own_kv *s = make_heard();
        const kv_key key = id(0);
        const kv_opt param = {runs[i].param, runs[i].value};
        own_array *a = io_array(KV_FLOAT32, 1, (int64_t[]){2}, runs[i].weight);
        CHECK_OK(kv_init(s, &key, 1, &a, NULL, &e));
        CHECK_OK(kv_set_optimizer(s, runs[i].name, &param, param.name != NULL, &e));
        for (int p = 0; p < runs[i].pushes; p++) {
            kv_array *grad = io_array(KV_FLOAT32, 1, (int64_t[]){2}, runs[i].grads[p]);
            push_one(s, key, grad);
        }
        CHECK_OK(kv_pull(s, &key, 1, &a, NULL, &e));
        const float *got = array_elements(a);
        for (int k = 0; k < 2; k++) {
            CHECK(got[k] == 0);
            CHECK_INT(signbit(got[k]) != 0, signbit(runs[i].want[k]) != 0);
        }
    }
}
