/* Patches that lie: whatever a patch says, applying it ends soon, with what its hashes promise or
 * with an error that names the file, and then nothing was written.
 *
 * PATCH_FUZZ=100000 TEST_SECONDS=3000 build/unit patch_damaged runs so many rounds. */
#include "patch/patch_format.h"
#include "patch_cases.h"
#include "tensors/tensor_hash.h"

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Bytes in a row; a zstd frame is made where it is asked for. */
typedef struct lie {
    const char *chunk; /* hexadecimal, behind the length; Z10000: a frame of so many zeros with its
                          length; - in front: the length is part of it */
    const char *says;
} lie;

static zstd_packer *packer;

static void put_frame(buf *out, int64_t n)
{
    char *zeros = calloc(1, (size_t)n), frame[4096];
    int64_t bytes = zstd_pack(packer, frame, sizeof frame, zeros, n, 3, 0);
    varint_put(out, bytes);
    buf_put(out, frame, (size_t)bytes);
    free(zeros);
}

static buf chunk_of(const char *text)
{
    buf body = {0}, out = {0};
    bool raw = *text == '-';
    for (text += raw; *text;) {
        if (*text == ' ') {
            text++;
        } else if (*text == 'Z') {
            put_frame(&body, strtoll(text + 1, (char **)&text, 10));
        } else {
            unsigned byte;
            CHECK(sscanf(text, "%2x", &byte) == 1);
            buf_char(&body, (char)byte);
            text += 2;
        }
    }
    if (!raw) {
        uint32_t sum = patch_sum(buf_text(&body), (int64_t)body.len);
        for (int i = 0; i < PATCH_SUM; i++)
            buf_char(&body, (char)(sum >> 8 * i));
        varint_put(&out, (int64_t)body.len);
    }
    buf_put(&out, buf_text(&body), body.len);
    buf_release(&body);
    return out;
}

/* The key is BF16, of 2 x 100 elements; 3 of them differ, the index says. */
static const lie lies[] = {
    {"-", "changes are missing"},
    {"-80", "the length of a chunk is wrong"},
    {"-ffffffffffffffffff7f", "the length of a chunk is wrong"},
    {"-ffffff7f", "the length of a chunk is wrong"},
    {"-05 00", "a chunk is cut"},
    {"-00", "a chunk is cut"},
    {"-04 00 00 00 00", "a chunk is not what its sum says"},
    {"-0d 00 00 03 00 00 02 01 02 00 01 02 03 04", "a chunk is not what its sum says"},
    {"02", "the head of a chunk is wrong"},
    {"00", "the head of a chunk is wrong"},
    {"00 00 00 00", "the head of a chunk is wrong"},
    {"00 00 81", "the head of a chunk is wrong"},
    {"00 00 81 80 04 00", "the head of a chunk is wrong"},
    {"01 00 81 80 0c 00", "the head of a chunk is wrong"},
    {"00 00 03 0a", "the head of a chunk is wrong"},
    {"00 c8 01 01 00 00 00 0000 00 0000", "a change stands behind its end"},
    {"00 ffffffffffffffff7f 01 00 00 00 0000", "a change stands behind its end"},
    {"01 64 65 00 02 00 02 00", "a change stands behind its end"},
    {"00 00 c9 01 00 00 02 00 02 00", "a change stands behind its end"},
    {"00 c7 01 02 00 00 02 00 02 00", "a change stands behind its end"},
    {"00 00 03 01 00 7f", "the places of changes cannot be read"},
    {"00 00 03 01 03 7f", "the places of changes cannot be read"},
    {"00 00 03 01 00 7f 7f 00 02 00 02 00", "a change stands behind its end"},
    {"00 00 03 08 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 00 02 00 02 00",
     "a change stands behind its end"},
    {"00 00 03 09 02 ff 08 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 02 ff 00 02 00 02 00",
     "a change stands behind its end"},
    {"00 00 01 09 02 00 01 02 00 02 00 02 00 02 00", "the places of changes cannot be read"},
    {"00 00 03 09 00 01 ff 09 02 00", "the places of changes cannot be read"},
    {"00 00 03 09 00 01 ff", "the places of changes cannot be read"},
    {"00 00 03 09 00 01 ff 01", "the places of changes cannot be read"},
    {"00 00 03 00", "the values of changes cannot be read"},
    {"00 00 03 00 02 02 00 02 00", "the values of changes cannot be read"},
    {"00 00 03 00 00 02 00", "the values of changes cannot be read"},
    {"00 00 03 00 00 00 01 02", "the values of changes cannot be read"},
    {"00 00 03 00 00 01 05 00 00", "the values of changes cannot be read"},
    {"00 00 03 00 00 01 Z1000000 02 00", "the values of changes cannot be read"},
    {"00 00 03 00 00 01 Z2 02 00", "the values of changes cannot be read"},
    {"00 00 03 00 01 01 Z3", "the values of changes cannot be read"},
    {"01 00 c8 01 00 01 Z100000000 02 00", "the values of changes cannot be read"},
    {"00 00 03 00 00 02 01 02 00 ff", "a chunk is longer than what it holds"},
    {"00 00 02 00 00 02 01 02 00", "changes are missing"},
    /* Whole, and not what was promised. */
    {"00 00 03 00 00 02 01 02 00", "does not become what its hash says"},
    {"00 00 03 00 00 01 Z3 02 00", "does not become what its hash says"},
    {"01 00 c8 01 01 02 07", "does not become what its hash says"},
    {"00 00 03 09 00 01 ff 01 02 01", "a change stands behind its end"},
};

static void put_patch(test_folder *d, patch_index *x, const char *chunk, const char *more)
{
    patch_spool s;
    int64_t bytes;
    own_buf data = chunk_of(chunk), other = chunk_of(more);
    buf_put(&data, buf_text(&other), other.len);
    CHECK_OK(patch_spool_init(&s, &e));
    CHECK_OK(patch_spool_add(&s, 0, &data, &e));
    CHECK_OK(patch_write(folder_file(d, "p"), x, &s, NULL, &bytes, &e));
    patch_spool_release(&s);
}

/* Opens and applies the file `p`; returns the code. */
static int try_patch(test_folder *d, checkpoint *a, kv_err *e)
{
    patch *p = NULL;
    patch_misfits wrong = {0};
    const checkpoint_out_options how = {.unsynced = true};
    *e = (kv_err){0};
    int code = patch_open(&p, folder_file(d, "p"), e);
    if (!code)
        code = patch_apply(folder_file(d, "out.safetensors"), &p, 1, a, &how, NULL, &wrong, e);
    patch_misfits_release(&wrong);
    patch_close(p);
    return code;
}

/* The key w, changed, with the right hash of A. */
static void index_of(patch_index *x, const model *a, const char *name, patch_state state)
{
    tensor_hash hash;
    const tensor_info *t = checkpoint_at(a->c, 0);
    patch_key k = {.name = name, .state = state, .changes = 3};
    CHECK_OK(tensor_hash_all(&hash, a->c, (int64_t[]){0}, 1, DIGEST_XXH3, NULL, NULL, &e));
    k.now = k.was = patch_shape_of(t);
    memcpy(k.a, hash.bytes, PATCH_HASH);
    CHECK_OK(patch_index_add(x, &k, &e));
}

TEST(patch_lying_chunks)
{
    own_folder d = folder_new();
    OWN(model_release) model a = {0};
    OWN(patch_index_release) patch_index x = {0};
    CHECK_OK(zstd_packer_new(&packer, &e));
    model_add(&a, "w", TENSOR_BF16, 200);
    model_open(&a, "a");
    index_of(&x, &a, "w", PATCH_CHANGED);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        put_patch(&d, &x, lies[i].chunk, "-");
        CHECK_INT(try_patch(&d, a.c, &e), KV_E_FORMAT);
        if (!strstr(e.text, lies[i].says))
            printf("# %s: %s, not %s\n", lies[i].chunk, e.text, lies[i].says);
        CHECK(strstr(e.text, lies[i].says) != NULL);
        CHECK(strstr(e.text, "/p: a damaged patch: ") != NULL);
        CHECK(access(folder_file(&d, "out.safetensors"), F_OK) != 0);
    }
    /* Chunks that overlap cannot be written; one that ends the key and another one can. */
    put_patch(&d, &x, "00 c5 01 03 00 00 02 00 02 00", "00 00 01 00 00 02 00 02 00");
    CHECK_INT(try_patch(&d, a.c, &e), KV_E_FORMAT);
    CHECK(strstr(e.text, "a change stands behind its end") != NULL);
    zstd_packer_free(packer);
}

/* ---- The index ------------------------------------------------------------------------------- */

static void check_index(const char *hex, int64_t hash_bytes, const char *says)
{
    kv_err e = {0};
    OWN(patch_index_release) patch_index x = {0};
    static const char hashes[256];
    own_buf text = {0};
    for (unsigned byte; *hex; hex += *hex == ' ' ? 1 : 2) {
        if (*hex == ' ')
            continue;
        CHECK(sscanf(hex, "%2x", &byte) == 1);
        buf_char(&text, (char)byte);
    }
    int code = patch_index_parse(&x, buf_text(&text), (int64_t)text.len, hashes, hash_bytes, "p",
                                 &e);
    if (!says) {
        CHECK_INT(code, KV_OK);
    } else {
        char want[128];
        snprintf(want, sizeof want, "p: a damaged patch: in its index %s", says);
        CHECK_FAILED(code, KV_E_FORMAT, want);
    }
}

TEST(patch_lying_index)
{
    /* no metadata, one key: "w", same, U8 [2] */
    check_index("00 01 01 77 00 02 55 38 01 02", 16, NULL);
    check_index("00 01 01 77 01 02 55 38 01 02 01", 32, NULL);
    check_index("01 01 61 00 00", 0, NULL);
    check_index("02 01 61 00 01 61 01 62 00", 0, "a metadata text stands twice");
    check_index("", 0, "it is cut");
    check_index("00", 0, "it is cut");
    check_index("05", 0, "a text is cut");
    check_index("ffffffffffffffff7f", 0, "a text is cut");
    check_index("01 7f 61", 0, "a text is cut");
    check_index("01 01 ff 00 00", 0, "a text is not UTF-8");
    check_index("01 02 61 00 00 00", 0, "a text is not UTF-8");
    check_index("00 ffffffffffffffff7f", 0, "a text is cut");
    check_index("00 01 01 77", 16, "a key has no state");
    check_index("00 01 01 77 05", 16, "a key has no state");
    check_index("00 01 01 77 00 02 55 39 01 02", 16, "a dtype is not known");
    check_index("00 01 01 77 00 02 55 38 21", 16, "a shape has too many dimensions");
    check_index("00 01 01 77 00 02 55 38 02 02", 16, "a shape is cut");
    check_index("00 01 01 77 00 02 55 38 02 ffffffffffffffff7f 7f", 16,
                "a shape has no whole number of bytes");
    check_index("00 01 01 77 00 02 46 34 01 03", 16, "a shape has no whole number of bytes");
    check_index("00 01 01 77 01 02 55 38 01 02 00", 32, "a count of changes cannot be");
    check_index("00 01 01 77 01 02 55 38 01 02 03", 32, "a count of changes cannot be");
    check_index("00 01 01 77 02 02 55 38 01 02 01", 16, "a count of changes cannot be");
    check_index("00 01 01 77 01 02 55 38 01 02 01", 31, "hashes are missing");
    check_index("00 01 01 77 00 02 55 38 01 02", 17, "something stands behind its end");
    check_index("00 01 01 77 00 02 55 38 01 02 00", 16, "something stands behind its end");
    check_index("00 02 01 77 00 02 55 38 01 02 01 77 00 02 55 38 01 02", 32, "a key stands twice");
    check_index("00 02 01 77 04 02 55 38 01 02 01 78 00 02 55 38 01 02", 32,
                "keys are out of order");
}

/* A key of a terabyte of which there is nothing: no file of that size is begun. */
TEST(patch_key_bomb)
{
    own_folder d = folder_new();
    OWN(model_release) model m = {0};
    OWN(patch_index_release) patch_index x = {0};
    const int64_t size = (int64_t)1 << 38;
    patch_key k = {.name = "w", .state = PATCH_NEW, .changes = size};
    k.now = k.was = (patch_shape){TENSOR_F32, 1, &size};
    CHECK_OK(patch_index_add(&x, &k, &e));
    model_open(&m, "m");
    put_patch(&d, &x, "01 00 80 80 0c 01 02 07", "-");
    CHECK_INT(try_patch(&d, m.c, &e), KV_E_FORMAT);
    CHECK(strstr(e.text, "in \"w\" changes are missing") != NULL);
}

/* An index that says that it is large. */
TEST(patch_index_bomb)
{
    own_folder d = folder_new();
    model m = {0};
    static const int64_t sizes[] = {-1, 3, (int64_t)1 << 40, PATCH_INDEX_MAX, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        checkpoint_out *out = NULL;
        char frame[64] = {0};
        int64_t shape[] = {40}, none[] = {0};
        const checkpoint_text mark = {PATCH_MARK, PATCH_VERSION};
        const checkpoint_entry entries[] = {{PATCH_INDEX, TENSOR_U8, 1, shape},
                                            {PATCH_HASHES, TENSOR_U8, 1, none}};
        memcpy(frame, &sizes[i], 8);
        CHECK_OK(checkpoint_out_open(&out, folder_file(&d, "p"), entries, 2, &mark, 1,
                                     &(checkpoint_out_options){.any_name = true}, &e));
        CHECK_OK(checkpoint_out_put(out, 0, 0, frame, 40, &e));
        CHECK_OK(checkpoint_out_commit(out, &e));
        CHECK_INT(try_patch(&d, m.c, &e), KV_E_FORMAT);
        CHECK(strstr(e.text, sizes[i] < 0 || sizes[i] > (1 << 21)
                                 ? "its index cannot be as long as it says"
                                 : "its index cannot be decompressed") != NULL);
    }
}

/* ---- Bytes that flip ------------------------------------------------------------------------- */

TEST(patch_damaged)
{
    const char *asked = getenv("PATCH_FUZZ");
    int rounds = asked ? atoi(asked) : 3000, made = 0;
    own_folder d = folder_new();
    OWN(model_release) model a = {0}, b = {0};
    random_state = 11;
    model_add(&a, "w", TENSOR_BF16, 70000);
    model_add(&a, "gone", TENSOR_F4, 40);
    model_add(&a, "v", TENSOR_F32, 2000);
    model_add(&a, "same", TENSOR_I64, 9);
    model_add(&b, "w", TENSOR_BF16, 70000);
    model_add(&b, "v", TENSOR_F32, 2000);
    model_add(&b, "same", TENSOR_I64, 9);
    model_add(&b, "new", TENSOR_F16, 100);
    memcpy(b.data[0], a.data[0], 140000);
    memcpy(b.data[2], a.data[3], 72);
    model_change(&b, 0, 100);
    model_open(&a, "a");
    model_open(&b, "b");
    patch_close(patch_between(&d, "good", &a, &b));
    FILE *f = fopen(folder_file(&d, "good"), "rb");
    static char good[1 << 20], bad[1 << 20];
    int64_t n = (int64_t)fread(good, 1, sizeof good, f);
    fclose(f);
    for (int i = 0; i < rounds; i++) {
        int64_t size = n;
        memcpy(bad, good, (size_t)n);
        for (int64_t k = 1 + random_below(3); k > 0; k--)
            bad[random_below(random_below(2) ? n : 600)] = (char)random_next();
        if (random_below(20) == 0)
            size = random_below(n);
        folder_put(&d, "p", bad, (size_t)size);
        int code = try_patch(&d, a.c, &e);
        if (code == KV_OK) { /* a byte that does not count, or the same one */
            made++;
            model_check(&b, folder_file(&d, "out.safetensors"));
            unlink(folder_file(&d, "out.safetensors"));
        } else {
            CHECK(code == KV_E_FORMAT || code == KV_E_ASSERT || code == KV_E_UNSUPPORTED);
            CHECK(access(folder_file(&d, "out.safetensors"), F_OK) != 0);
        }
    }
    CHECK(made < rounds / 3);
}
