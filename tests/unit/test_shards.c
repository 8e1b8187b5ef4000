/* Shards: cut as Hugging Face's tools cut them, with their index. */
#include "checkpoint/sharded.h"

#include "test.h"

/* Sizes, as letters of the alphabet from a = 1 on, and the files that they come to. */
static const struct {
    const char *sizes, *files;
    int64_t limit, n;
} splits[] = {
    {"", "", 10, 1},     {"aaa", "000", 10, 1},
    {"ff", "01", 10, 2}, {"ffbkfbb", "0221333", 10, 4},
    {"kkk", "012", 10, 3},
    {"bkb", "101", 10, 2},  /* the larger one is complete first */
    {"bkjk", "1032", 10, 4}, {"jja", "012", 10, 3},
    {"eee", "001", 10, 2},   {"jaj", "012", 10, 3},
    {"`j`j`", "00011", 10, 2}, /* ` has no bytes */
    {"bb", "01", 1, 2},
};

TEST(shards_split)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        int64_t bytes[16], shard[16], n = (int64_t)strlen(splits[i].sizes);
        char got[16] = "";
        for (int64_t k = 0; k < n; k++)
            bytes[k] = splits[i].sizes[k] - '`';
        CHECK_INT(shards_split(shard, bytes, n, splits[i].limit), splits[i].n);
        for (int64_t k = 0; k < n; k++)
            got[k] = (char)('0' + shard[k]);
        CHECK_TEXT(got, splits[i].files);
    }
}

TEST(shards_names)
{
    char name[SHARD_NAME_MAX];
    shard_name(name, 0, 1);
    CHECK_TEXT(name, "model.safetensors");
    shard_name(name, 2, 3);
    CHECK_TEXT(name, "model-00003-of-00003.safetensors");
    shard_name(name, 99999, 123456);
    CHECK_TEXT(name, "model-100000-of-123456.safetensors");
}

/* json.dumps(index, indent=2, sort_keys=True) + "\n" of Python gives this text. */
TEST(shards_index_is_that_of_python)
{
    own_buf out = {0};
    named entries[] = {{"b\"\\\n\x7F", 1}, {"a.\xC3\xA4\xF0\x9F\x98\x80", 0}, {"", 1}};
    shards_index(&out, entries, 3, 2, 1234567890123);
    CHECK_TEXT(buf_text(&out),
               "{\n"
               "  \"metadata\": {\n"
               "    \"total_size\": 1234567890123\n"
               "  },\n"
               "  \"weight_map\": {\n"
               "    \"\": \"model-00002-of-00002.safetensors\",\n"
               "    \"a.\\u00e4\\ud83d\\ude00\": \"model-00001-of-00002.safetensors\",\n"
               "    \"b\\\"\\\\\\n\\u007f\": \"model-00002-of-00002.safetensors\"\n"
               "  }\n"
               "}\n");
    buf_clear(&out);
    shards_index(&out, NULL, 0, 2, 0);
    CHECK_TEXT(buf_text(&out), "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n"
                               "  \"weight_map\": {}\n}\n");
}
