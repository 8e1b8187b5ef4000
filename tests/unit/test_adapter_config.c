/* The configuration of adapters, and the texts of merges. */
#include "merge/merge_adapter.h"

#include <math.h>

#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "test_checkpoint.h"

#define CONFIG "adapter_config.json"

/* Scales of configurations; NAN: an error, and its text. */
static const struct {
    const char *text;
    double scale;
    const char *error;
} configs[] = {
    {"{\"r\": 8, \"lora_alpha\": 16}", 2, NULL},
    {"{\"lora_alpha\":0.5,\"r\":2,\"target_modules\":[\"q\",{\"x\":[1]}],\"bias\":\"none\"}", 0.25,
     NULL},
    {"{\"r\":16,\"lora_alpha\":16,\"use_rslora\":true}", 4, NULL},
    {"{\"r\":16,\"lora_alpha\":16,\"use_rslora\":false,\"use_dora\":null,\"rank_pattern\":{ },"
     "\"alpha_pattern\":{},\"fan_in_fan_out\":false,\"modules_to_save\":null}",
     1, NULL},
    {"{\"r\":8,\"lora_alpha\":1e400}", NAN, "\"lora_alpha\" is not a positive number"},
    {"{\"r\":0,\"lora_alpha\":1}", NAN, "\"r\" is not a positive number"},
    {"{\"r\":\"8\",\"lora_alpha\":1}", NAN, "\"r\" is not a positive number"},
    {"{\"r\":8}", NAN, "it has no \"lora_alpha\""},
    {"{\"lora_alpha\":8}", NAN, "it has no \"r\""},
    {"{\"r\":8,\"lora_alpha\":8,\"use_dora\":true}", NAN,
     "\"use_dora\" makes the adapter more than a scaled product"},
    {"{\"r\":8,\"lora_alpha\":8,\"rank_pattern\":{\"q\":4}}", NAN,
     "\"rank_pattern\" makes the adapter more than a scaled product"},
    {"{\"r\":8,\"lora_alpha\":8,\"layer_replication\":[[0,4],[2,5]]}", NAN,
     "\"layer_replication\" makes the adapter more than a scaled product"},
    {"{\"r\":8,\"lora_alpha\":8,\"init_lora_weights\":\"gaussian\"}", 1, NULL},
    {"{\"peft_type\":\"LORA\",\"r\":8,\"lora_alpha\":8}", 1, NULL},
    {"{\"peft_type\":\"IA3\",\"r\":8,\"lora_alpha\":8}", NAN, "\"peft_type\" is not LORA"},
    {"{\"r\":8,\"lora_alpha\":8,\"init_lora_weights\":\"pissa_niter_16\"}", NAN,
     "by \"init_lora_weights\" the adapter is not for the base as it is"},
    {"{\"init_lora_weights\":\"olora\",\"r\":8,\"lora_alpha\":8}", NAN,
     "by \"init_lora_weights\" the adapter is not for the base as it is"},
    {"{\"r\":8,\"lora_alpha\":8", NAN, "the text ends before its last bracket"},
    {"[8]", NAN, ""},
    {"", NAN, ""},
};

TEST(adapter_config_scales)
{
    own_folder d = folder_new();
    char folder[70], want[600];
    snprintf(folder, sizeof folder, "%s/", d.path);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        e = (kv_err){0};
        double scale = 0, beside = 0, rank = -1;
        folder_text(&d, CONFIG, configs[i].text);
        int code = adapter_config_read(d.path, &scale, &rank, &e);
        if (!isnan(configs[i].scale)) {
            CHECK_INT(code, KV_OK);
            CHECK(scale == configs[i].scale && rank >= 2);
            CHECK_OK(adapter_config_read(folder, &scale, &rank, &e));
            CHECK_OK(adapter_config_read(folder_file(&d, "m.safetensors"), &beside, &rank, &e));
            CHECK(scale == configs[i].scale && beside == configs[i].scale);
            continue;
        }
        CHECK(code == KV_E_FORMAT || code == KV_E_UNSUPPORTED);
        snprintf(want, sizeof want, "%s/" CONFIG ": %s", d.path, configs[i].error);
        if (*configs[i].error)
            CHECK_TEXT(e.text, want);
    }
}

TEST(adapter_config_may_be_missing)
{
    own_folder d = folder_new();
    double scale = 0, rank = -1;
    CHECK_OK(adapter_config_read(d.path, &scale, &rank, &e));
    CHECK(scale == 1 && rank == 0);
    scale = 0;
    CHECK_OK(adapter_config_read("-", &scale, &rank, &e));
    CHECK(scale == 1);
}

TEST(merge_texts_are_merges)
{
    int n = 0;
    for (const merge_text *t = merge_texts; t->name; t++, n++) {
        own_arena nodes = {0};
        bool named = false;
        source src = {.name = t->name, .text = t->text, .line = 1, .col = 1};
        src.len = (uint32_t)strlen(t->text);
        CHECK(t->text[0] == '#');
        rule_ast *rule = MADE(rule_ast, parse_merge, &src, &nodes);
        for (int i = 0; i < rule->nnames; i++)
            named |= strcmp(rule->names[i], t->name) == 0;
        CHECK(named && merge_text_find(t->name) == t);
    }
    CHECK(n >= 14);
    CHECK(merge_text_find("TIES") == merge_text_find("ties"));
    CHECK(merge_text_find("Dare-Ties") == merge_text_find("dare_ties"));
    CHECK(merge_text_find("average")->text != merge_text_find("ties")->text);
    CHECK(!merge_text_find("tie") && !merge_text_find("tiess") && !merge_text_find(""));
}
