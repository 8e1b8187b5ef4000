/* lr_schedule: MXNet 1.9.1's rates update by update, what a schedule remembers, and its errors. */
#include "core/lr_schedule.h"

#include <math.h>

#include "test.h"

static lr_schedule parsed(const char *text, arena *a)
{
    lr_schedule s;
    CHECK_OK(lr_schedule_parse(&s, text, a, &e));
    return s;
}

/* The rates at the updates from, from + 1, …; ten digits are what the tables have. */
static void check_rates(const char *text, int64_t from, int n, const double *want)
{
    own_arena a = {0};
    lr_schedule s = parsed(text, &a);
    for (int i = 0; i < n; i++) {
        double got = lr_schedule_rate(&s, from + i);
        CHECK(fabs(got - want[i]) <= 1e-10 * want[i]);
    }
}

#define RATES(text, from, ...)                                                                     \
    check_rates(text, from, sizeof(double[]){__VA_ARGS__} / sizeof(double), (double[]){__VA_ARGS__})

TEST(lr_schedule_rates)
{
    RATES("factor(3, 0.5, base_lr=1)", 0, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125,
          0.125);
    RATES("factor(1, 0.1, stop_factor_lr=1e-3, base_lr=1)", 0, 1, 1, 0.1, 0.01, 0.001, 0.001);
    /* steps count from 0, not from the end of the warm-up */
    RATES("factor(3, 0.5, base_lr=1, warmup_steps=8, warmup_begin_lr=0.2)", 0, 0.2, 0.3, 0.4, 0.5,
          0.6, 0.7, 0.8, 0.9, 0.25, 0.25, 0.125, 0.125, 0.125, 0.0625);
    RATES("multifactor([3, 6], 0.1, base_lr=1)", 0, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01);
    RATES("multifactor([3, 6], 0.1, base_lr=1, warmup_steps=5, warmup_begin_lr=0.25, "
          "warmup_mode=\"constant\")",
          0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.1, 0.1, 0.01);
    RATES("poly(10, base_lr=0.1, pwr=2, final_lr=0.01, warmup_steps=2, warmup_begin_lr=0.02)", 0,
          0.02, 0.06, 0.1, 0.07890625, 0.060625, 0.04515625, 0.0325, 0.02265625, 0.015625,
          0.01140625, 0.01, 0.01, 0.01);
    RATES("cosine(10, base_lr=0.1, final_lr=0.01, warmup_steps=2, warmup_begin_lr=0.02)", 0, 0.02,
          0.06, 0.1, 0.09657457896301, 0.08681980515339, 0.07222075445643, 0.055, 0.03777924554357,
          0.02318019484661, 0.01342542103699, 0.01, 0.01);
    /* that go on where others stand */
    RATES("factor(3, 0.5, base_lr=8, count=6)", 8, 8, 8, 4);
    RATES("multifactor([3, 6, 9], 0.5, base_lr=8, count=6)", 7, 8, 8, 8, 4);
    RATES("factor(3, 0.5, base_lr=1, warmup_steps=2, warmup_final_lr=4)", 0, 0, 2, 1, 1, 0.5);
    RATES("poly(4, base_lr=1, pwr=1, last_lr=0.125)", 3, 0.25, 0, 0);
    RATES("poly(4, base_lr=1, pwr=1, last_lr=0.125)", 5, 0.125, 0.125);
}

TEST(lr_schedule_remembers)
{
    own_arena a = {0};
    /* what decayed does not go back */
    lr_schedule s = parsed("factor(3, 0.5, base_lr=1)", &a);
    CHECK(lr_schedule_rate(&s, 100) == 1e-8);
    CHECK(lr_schedule_rate(&s, 1) == 1e-8);
    /* behind its end a curve stays where it was asked last */
    s = parsed("poly(10, base_lr=0.1, pwr=2, final_lr=0.01, warmup_steps=2, warmup_begin_lr=0.02)",
               &a);
    CHECK(lr_schedule_rate(&s, 50) == 0.1);
    CHECK(fabs(lr_schedule_rate(&s, 6) - 0.0325) < 1e-15);
    CHECK(fabs(lr_schedule_rate(&s, 50) - 0.0325) < 1e-15);
    /* a copy remembers by itself */
    s = parsed("multifactor([2], 0.5, base_lr=1)", &a);
    lr_schedule copy = s;
    CHECK(lr_schedule_rate(&copy, 5) == 0.5);
    CHECK(lr_schedule_rate(&s, 1) == 1);
}

TEST(lr_schedule_prints_what_it_reads)
{
    static const char *const texts[] = {
        "factor(step=3, factor=0.5, base_lr=0.1)",
        "multifactor(step=[2, 9, 40], factor=0.1, warmup_steps=1)",
        "poly(max_update=100, pwr=1, final_lr=1e-5, base_lr=3)",
        "cosine(7, warmup_steps=3, warmup_begin_lr=0.001, warmup_mode=\"constant\")"};
    own_arena a = {0};
    own_buf one = {0}, two = {0};
    for (int i = 0; i < 4; i++) {
        lr_schedule s = parsed(texts[i], &a);
        buf_clear(&one);
        lr_schedule_print(&s, &one);
        lr_schedule t = parsed(buf_text(&one), &a);
        buf_clear(&two);
        lr_schedule_print(&t, &two);
        CHECK_TEXT(buf_text(&two), buf_text(&one));
        for (int n = 0; n < 50; n++)
            CHECK(lr_schedule_rate(&s, n) == lr_schedule_rate(&t, n));
    }
    lr_schedule final = parsed("factor(3, base_lr=1, warmup_steps=2, warmup_final_lr=4)", &a);
    lr_schedule_print(&final, &two);
    CHECK(strstr(buf_text(&two), "warmup_final_lr=4.0"));
    CHECK_TEXT(buf_text(&one), "cosine(base_lr=0.01, warmup_steps=3, warmup_mode=\"constant\", "
                               "warmup_begin_lr=0.001, final_lr=0.0, max_update=7)");
}

TEST(lr_schedule_errors)
{
    static const struct {
        const char *text;
        kv_code code;
        const char *error;
    } cases[] = {
        {"factr(2)", KV_E_USAGE, "there is no schedule `factr`"},
        {"factor", KV_E_USAGE, "a schedule is written as a call: factor(…)"},
        {"3", KV_E_USAGE, "a schedule is written as a call: factor(step=2, factor=0.5)"},
        {"factor()", KV_E_VALUE, "step of factor is at least 1"},
        {"factor(0)", KV_E_VALUE, "step of factor is at least 1"},
        {"factor(1.5)", KV_E_VALUE, "step of factor is a whole number"},
        {"factor(2, 1.5)", KV_E_VALUE, "factor of factor is at most 1"},
        {"factor(2, -0.5)", KV_E_VALUE, "factor of factor is at least 0"},
        {"multifactor([2], factor=-0.5)", KV_E_VALUE, "factor of multifactor is at least 0"},
        {"factor(2, nan)", KV_E_VALUE, "factor of factor is a finite number"},
        {"cosine(4, base_lr=nan)", KV_E_VALUE, "base_lr of cosine is a finite number"},
        {"poly(4, final_lr=-inf)", KV_E_VALUE, "final_lr of poly is a finite number"},
        {"poly(4, pwr=-1)", KV_E_VALUE, "pwr of poly is at least 0"},
        {"factor(2, \"x\")", KV_E_VALUE, "factor of factor is a number"},
        {"factor(2, stp=3)", KV_E_USAGE, "the schedule factor has no parameter `stp`"},
        {"poly(10, factor=1)", KV_E_USAGE, "the schedule poly has no parameter `factor`"},
        {"factor(1, 1, 1, 1)", KV_E_USAGE, "name the parameters of factor: factor(…=…)"},
        {"multifactor()", KV_E_VALUE, "multifactor needs its steps: multifactor(step=[5, 7])"},
        {"multifactor(3)", KV_E_VALUE, "step of multifactor is a list such as [5, 7]"},
        {"multifactor([3, 3])", KV_E_VALUE, "the steps of multifactor rise from 1 on"},
        {"multifactor([0])", KV_E_VALUE, "the steps of multifactor rise from 1 on"},
        {"poly()", KV_E_VALUE, "poly needs max_update, at least 1"},
        {"cosine(5, warmup_steps=5)", KV_E_VALUE, "warmup_steps is less than max_update"},
        {"cosine(5, warmup_steps=-1)", KV_E_VALUE, "warmup_steps of cosine is a whole number"},
        {"factor(2, warmup_begin_lr=1)", KV_E_VALUE, "warmup_begin_lr is at most base_lr"},
        {"factor(2, warmup_mode=\"exp\")", KV_E_VALUE,
         "warmup_mode is \"linear\" or \"constant\""}};
    own_arena a = {0};
    lr_schedule s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_ERR(lr_schedule_parse(&s, cases[i].text, &a, &e), cases[i].code, cases[i].error);
    CHECK_INT(lr_schedule_parse(&s, "factor(", &a, &e), KV_E_SYNTAX);
    CHECK_INT(lr_schedule_parse(&s, "factor(0)", &a, NULL), KV_E_VALUE);
}
