/* Conversions: what every key becomes, and what cannot be said in the new type. */
#include "tensors/conversion.h"

#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "store_help.h"
#include "test_tensor.h"

#define OUT "x.safetensors"

/* A piece of a walk has 2^17 elements: so several of them, and a part of one. */
enum { LONG = (1 << 18) + 5 };

static float numbers[LONG];
static const uint8_t bits[] = {1, 0, 1};
static const float nans[] = {1, NAN, -3};
static const float complex_pair[] = {1, 2, 3, 4};

static buf first_file(void)
{
    for (int i = 0; i < LONG; i++)
        numbers[i] = (float)(i % 251) - 100;
    const tensor_given t[] = {{"on", TENSOR_BOOL, 3, 0, bits},
                              {"long", TENSOR_F32, LONG, 0, numbers},
                              {"empty", TENSOR_F32, 0, 0, NULL},
                              {"one", TENSOR_F32, -1, 0, numbers}};
    return tensor_file(t, 4);
}

static buf second_file(void)
{
    const tensor_given t[] = {{"nans", TENSOR_F32, 1, 3, nans},
                              {"pairs", TENSOR_C64, 2, 0, complex_pair},
                              {"on", TENSOR_BOOL, 3, 0, bits}};
    return tensor_file(t, 3);
}

/* Two inputs, and keys chosen from them. */
typedef struct given {
    buf files[2];
    checkpoint *inputs[2];
    conversion_key keys[8];
    conversion c;
} given;

static void add(given *g, int input, const char *name, const char *to, tensor_type type)
{
    int64_t at = checkpoint_find(g->inputs[input], name);
    g->keys[g->c.nkeys++] = (conversion_key){input, at, to, type};
}

static void begin(given *g)
{
    enter_folder();
    *g = (given){.files = {first_file(), second_file()}};
    g->inputs[0] = tensor_open(&g->files[0], "a.safetensors");
    g->inputs[1] = tensor_open(&g->files[1], "b.safetensors");
    g->c = (conversion){.inputs = g->inputs, .ninputs = 2, .keys = g->keys};
}

static void end(given *g)
{
    for (int i = 0; i < 2; i++) {
        checkpoint_close(g->inputs[i]);
        buf_release(&g->files[i]);
    }
    leave_folder(OUT, NULL);
}

static checkpoint *converted(const given *g)
{
    checkpoint *c;
    CHECK_OK(conversion_check(&g->c, &e));
    CHECK_OK(conversion_run(&g->c, OUT, NULL, &e));
    CHECK_OK(checkpoint_open(&c, OUT, NULL, &e));
    return c;
}

TEST(tensor_convert_keys)
{
    given g;
    begin(&g);
    add(&g, 0, "long", "a.long", TENSOR_BF16);
    add(&g, 0, "on", "on", TENSOR_I64);
    add(&g, 0, "empty", "empty", TENSOR_F4);
    add(&g, 0, "one", "one", TENSOR_F32);
    add(&g, 1, "pairs", "pairs", TENSOR_C64);
    add(&g, 1, "nans", "nans", TENSOR_F8_E4M3);
    checkpoint *c = converted(&g);
    CHECK_INT(checkpoint_count(c), 6);
    static const char *const names[] = {"a.long", "on", "empty", "one", "pairs", "nans"};
    for (int i = 0; i < 6; i++) {
        CHECK_TEXT(checkpoint_at(c, i)->name, names[i]);
        CHECK_INT(checkpoint_at(c, i)->type, g.keys[i].type);
    }
    kv_array *a = MADE(kv_array, checkpoint_load, c, 0);
    const uint16_t *data = array_elements(a);
    for (int i = 0; i < LONG; i++) {
        uint32_t want;
        memcpy(&want, &numbers[i], sizeof want);
        CHECK_INT(data[i], want >> 16);
    }
    kv_array_unref(a);
    CHECK_OK(checkpoint_load(&a, c, 1, &e));
    data = array_elements(a);
    CHECK(memcmp(data, (const int64_t[]){1, 0, 1}, 24) == 0);
    kv_array_unref(a);
    CHECK_INT(checkpoint_at(c, 3)->ndim, 0);
    CHECK_INT(checkpoint_at(c, 5)->ndim, 2);
    checkpoint_close(c);

    /* what is only copied is where it was, as it was */
    size_t n;
    char *text = file_text(OUT, &n);
    CHECK_OK(checkpoint_open_memory(&c, text, n, OUT, &e));
    CHECK(memcmp(text + checkpoint_at(c, 4)->offset, complex_pair, sizeof complex_pair) == 0);
    CHECK(memcmp(text + checkpoint_at(c, 3)->offset, numbers, 4) == 0);
    CHECK(memcmp(text + checkpoint_at(c, 5)->offset, "\x38\x7F\xC4", 3) == 0);
    CHECK_INT(checkpoint_at(c, 0)->offset % 2, 0);
    checkpoint_close(c);
    mem_free(text);
    end(&g);
}

/* Data of a megabyte and more begin at a page. */
TEST(tensor_convert_aligns)
{
    given g;
    begin(&g);
    add(&g, 0, "long", "long", TENSOR_F32);
    checkpoint *c = converted(&g);
    CHECK_INT(checkpoint_at(c, 0)->offset, 4096);
    struct stat file;
    CHECK(stat(checkpoint_file(c, 0), &file) == 0);
    CHECK_INT(file.st_size, 4096 + LONG * 4);
    checkpoint_close(c);
    end(&g);
}

TEST(tensor_convert_refuses)
{
    given g;
    begin(&g);
    add(&g, 0, "on", "on", TENSOR_BOOL);
    add(&g, 1, "on", "on", TENSOR_BOOL);
    CHECK_ERR(conversion_check(&g.c, &e), KV_E_KEY,
              "\"on\" stands in a.safetensors and in b.safetensors");
    g.c.nkeys = 0;
    add(&g, 0, "one", "w", TENSOR_F32);
    add(&g, 1, "nans", "w", TENSOR_F32);
    CHECK_ERR(conversion_check(&g.c, &e), KV_E_KEY, "\"one\" and \"nans\" would both become \"w\"");
    g.c.nkeys = 0;
    add(&g, 1, "pairs", "w", TENSOR_F32);
    CHECK_ERR(conversion_check(&g.c, &e), KV_E_DTYPE,
              "b.safetensors: \"pairs\" is C64, which cannot become F32");
    g.c.nkeys = 0;
    add(&g, 0, "one", "w", TENSOR_C64);
    CHECK_ERR(conversion_check(&g.c, &e), KV_E_DTYPE,
              "a.safetensors: \"one\" is F32, which cannot become C64");
    static const struct {
        int input;
        const char *name;
        tensor_type to;
        const char *text;
    } misfits[] = {
        {1, "nans", TENSOR_I32, "b.safetensors: \"nans\" is nan at [0, 1], which I32 cannot hold"},
        {1, "nans", TENSOR_BOOL,
         "b.safetensors: \"nans\" is nan at [0, 1], which BOOL cannot hold"},
        {0, "long", TENSOR_U8, "a.safetensors: \"long\" is -100 at [0], which U8 cannot hold"},
        {0, "long", TENSOR_I8, "a.safetensors: \"long\" is 128 at [228], which I8 cannot hold"},
        {0, "one", TENSOR_U64, "a.safetensors: \"one\" is -100 at [], which U64 cannot hold"},
    };
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        g.c.nkeys = 0;
        add(&g, misfits[i].input, misfits[i].name, misfits[i].name, misfits[i].to);
        CHECK_OK(conversion_check(&g.c, &e));
        CHECK_ERR(conversion_run(&g.c, OUT, NULL, &e), KV_E_VALUE, misfits[i].text);
        CHECK(access(OUT, F_OK) != 0);
    }
    end(&g);
}

TEST(tensor_convert_metadata)
{
    const checkpoint_text a[] = {{"format", "pt"}, {"x", "1"}}, b[] = {{"y", "2"}, {"x", "3"}};
    const checkpoint_text set[] = {{"x", "4"}, {"z", "5"}, {"z", "6"}};
    checkpoint *inputs[2];
    buf files[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        int64_t size;
        CHECK_OK(safetensors_header(&files[i], &size, NULL, 0, i ? b : a, 2, "x", &e));
        inputs[i] = tensor_open(&files[i], "x");
    }
    for (int i = 0; i < 4; i++) {
        static const char *const wanted[] = {"format=pt x=1 y=2 ", "format=pt x=4 y=2 z=6 ", "",
                                             "x=4 z=6 "};
        own_mem checkpoint_text *texts = NULL;
        int64_t n;
        own_buf got = {0};
        CHECK_OK(conversion_metadata(&texts, &n, inputs, 2, i >= 2, set, i % 2 ? 3 : 0, &e));
        for (int64_t k = 0; k < n; k++)
            buf_printf(&got, "%s=%s ", texts[k].name, texts[k].text);
        CHECK_TEXT(buf_text(&got), wanted[i]);
    }
    for (int i = 0; i < 2; i++) {
        checkpoint_close(inputs[i]);
        buf_release(&files[i]);
    }
}

/* Every allocation fails: the old file stays. */
TEST(tensor_convert_without_memory)
{
    given g;
    begin(&g);
    add(&g, 0, "one", "one", TENSOR_F16);
    add(&g, 1, "pairs", "pairs", TENSOR_C64);
    checkpoint_close(converted(&g));
    g.keys[0].type = TENSOR_F64;
    int64_t n, made = 1;
    int code = KV_OK, failures = 0;
    for (n = 1; made >= n && n < 500; n++) {
        own_checkpoint *c = NULL;
        mem_fail_at(n);
        if (!(code = conversion_check(&g.c, &e)))
            code = conversion_run(&g.c, OUT, NULL, &e);
        made = mem_fail_at(0) + 1;
        failures += code != KV_OK;
        if (code)
            CHECK_INT(code, KV_E_MEMORY);
        e = (kv_err){0};
        CHECK_OK(checkpoint_open(&c, OUT, NULL, &e));
        CHECK_INT(checkpoint_at(c, 0)->type, code ? TENSOR_F16 : TENSOR_F64);
    }
    CHECK_INT(code, KV_OK);
    CHECK(failures > 10 && n < 500);
    end(&g);
}
