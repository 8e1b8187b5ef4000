/* Patches: what is made of two checkpoints turns one into the other, bit by bit. */
#include "patch/patch.h"

#include "patch_cases.h"
#include "tensors/walk.h"

/* ---- Round trips ----------------------------------------------------------------------------- */

/* From a to b and back, into files of any name. */
static void check_both_ways(model *a, model *b)
{
    own_folder d = folder_new();
    model_open(a, "a");
    model_open(b, "b");
    patch *there = patch_between(&d, "there", a, b), *back = patch_between(&d, "back", b, a);
    CHECK_OK(apply_all(&d, &there, 1, a, "out.safetensors", &e));
    model_check(b, folder_file(&d, "out.safetensors"));
    CHECK_OK(apply_all(&d, &back, 1, b, "out.safetensors", &e));
    model_check(a, folder_file(&d, "out.safetensors"));
    CHECK_OK(apply_all(&d, (patch *[]){there, back, there}, 3, a, "out.safetensors", &e));
    model_check(b, folder_file(&d, "out.safetensors"));
    patch_close(there);
    patch_close(back);
    model_release(a);
    model_release(b);
}

static void copy_model(model *b, const model *a)
{
    for (int i = 0; i < a->n; i++) {
        const tensor_info *t = &a->tensors[i];
        model_add(b, a->names[i], t->type, tensor_elements(t->ndim, t->shape));
        memcpy(b->data[i], a->data[i], (size_t)model_bytes(a, i));
    }
}

/* Every share of changed elements, in pieces of a walk and beyond them. */
TEST(patch_every_type)
{
    static const int64_t shares[] = {1, 2, 9, 50, 3000};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        model a = {0}, b = {0};
        model_types(&a, s % 4 ? 300 * 256 : WALK_PIECE + 256 * 40);
        copy_model(&b, &a);
        for (int i = 0; i < b.n; i++)
            model_change(&b, i, shares[s]);
        check_both_ways(&a, &b);
    }
}

/* Keys without elements, of one element, with gaps larger than a byte and two bytes, the last
 * element alone, and values that differ in their bits alone. */
TEST(patch_edges)
{
    model a = {0}, b = {0};
    model_add(&a, "none", TENSOR_F32, 0);
    model_add(&a, "one", TENSOR_BF16, 1);
    model_add(&a, "byte", TENSOR_F4, 2);
    model_add(&a, "far", TENSOR_BF16, 20 * WALK_PIECE);
    model_add(&a, "last", TENSOR_I64, WALK_PIECE + 1);
    model_add(&a, "bits", TENSOR_F32, 6);
    model_add(&a, "gaps", TENSOR_BF16, 900);
    model_add(&a, "first", TENSOR_I64, WALK_PIECE + 1);
    memcpy(a.data[5], (uint32_t[]){0, 0x80000000, 0x7fc00000, 0x7fc00001, 0xffc00000, 1}, 24);
    copy_model(&b, &a);
    memcpy(b.data[5], (uint32_t[]){0x80000000, 0, 0x7fc00001, 0x7fc00000, 0x7fc00000, 1}, 24);
    for (int i = 0, at = 7; i < 24; i++) { /* few gaps of 255 and more, which do not fit a byte */
        ((uint16_t *)b.data[6])[at] ^= 1;
        at += i < 20 ? 1 : 235 + i;
    }
    ((uint16_t *)b.data[1])[0] ^= 1;
    ((uint8_t *)b.data[2])[0] ^= 0x10;
    ((uint16_t *)b.data[3])[3] ^= 1;
    ((uint16_t *)b.data[3])[3 + 255] ^= 1;
    ((uint16_t *)b.data[3])[3 + 255 + 256 + 1] ^= 1;
    ((uint16_t *)b.data[3])[19 * WALK_PIECE] ^= 1;
    ((uint64_t *)b.data[4])[WALK_PIECE] ^= 1;
    ((uint64_t *)b.data[7])[0] ^= 1; /* the last piece, of one element, stays */
    check_both_ways(&a, &b);
    model_add(&a, "x", TENSOR_F32, 0);
    model_add(&b, "y", TENSOR_F32, 0);
    check_both_ways(&a, &b);
    check_both_ways(&a, &b); /* none at all */
}

TEST(patch_at_random)
{
    for (int64_t round = 1 + test_random(3000) / 1000; round > 0; round--) {
        model a = {0}, b = {0};
        random_state = (uint64_t)round + test_seed(0);
        model_types(&a, 256 * random_below(600));
        model_mutate(&b, &a);
        check_both_ways(&a, &b);
    }
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* In one pass, one by one, and joined: the same. */
TEST(patch_chains)
{
    enum { N = 5 };
    for (int64_t round = 1 + test_random(1000) / 1000; round > 0; round--) {
        patch_misfits wrong = {0};
        patch_summary made;
        model m[N] = {0};
        patch *p[N], *joined;
        char name[] = "0.patch";
        own_folder d = folder_new();
        random_state = (uint64_t)round + test_seed(0) + 1000;
        model_types(&m[0], 256 * random_below(round == 1 ? 2000 : 300));
        model_open(&m[0], "0");
        for (int i = 1; i < N; i++) {
            name[0] = (char)('0' + i);
            model_mutate(&m[i], &m[i - 1]);
            model_open(&m[i], name);
            p[i - 1] = patch_between(&d, name, &m[i - 1], &m[i]);
        }
        CHECK_OK(apply_all(&d, p, N - 1, &m[0], "out.safetensors", &e));
        model_check(&m[N - 1], folder_file(&d, "out.safetensors"));
        CHECK_OK(patch_join(folder_file(&d, "all"), p, N - 1, NULL, &made, &wrong, &e));
        CHECK_OK(patch_open(&joined, folder_file(&d, "all"), &e));
        CHECK_OK(apply_all(&d, &joined, 1, &m[0], "out.safetensors", &e));
        model_check(&m[N - 1], folder_file(&d, "out.safetensors"));
        CHECK_INT(made.same + made.changed + made.added, m[N - 1].n);
        patch_close(joined);
        for (int i = 0; i < N; i++)
            model_release(&m[i]);
        for (int i = 0; i < N - 1; i++)
            patch_close(p[i]);
    }
}

TEST(patch_links)
{
    own_folder d = folder_new();
    OWN(model_release) model a = {0}, b = {0}, c = {0};
    patch_misfits wrong = {0};
    model_add(&a, "x", TENSOR_F32, 8);
    model_add(&a, "y", TENSOR_F32, 8);
    model_add(&b, "x", TENSOR_F32, 8);
    model_add(&b, "z", TENSOR_F32, 8);
    model_add(&c, "x", TENSOR_BF16, 8);
    ((uint32_t *)a.data[0])[7] = 1;
    ((uint32_t *)b.data[0])[7] = 2;
    model_open(&a, "a");
    model_open(&b, "b");
    model_open(&c, "c");
    patch *ab = patch_between(&d, "ab", &a, &b), *bc = patch_between(&d, "bc", &b, &c);
    /* b is not a: x differs, z is not known, y is missing */
    CHECK_INT(patch_apply(folder_file(&d, "out.safetensors"), &ab, 1, b.c, NULL, NULL, &wrong, &e),
              KV_E_ASSERT);
    CHECK(strncmp(e.text, "b is what ", 10) == 0);
    CHECK_INT(wrong.n, 3);
    CHECK_TEXT(wrong.items[0].name, "x");
    CHECK_TEXT(wrong.items[0].why, "differs");
    CHECK_TEXT(wrong.items[1].why, "unknown");
    CHECK_TEXT(wrong.items[2].name, "y");
    CHECK_TEXT(wrong.items[2].why, "missing");
    CHECK_INT(wrong.keys, 3);
    CHECK(wrong.is_result);
    patch_misfits_release(&wrong);
    e = (kv_err){0};
    CHECK_INT(patch_apply(folder_file(&d, "out.safetensors"), &ab, 1, c.c, NULL, NULL, &wrong, &e),
              KV_E_ASSERT);
    CHECK(strncmp(e.text, "c is not what ", 14) == 0);
    CHECK_TEXT(wrong.items[0].why, "dtype");
    CHECK(!wrong.is_result);
    patch_misfits_release(&wrong);
    e = (kv_err){0};
    CHECK_INT(patch_join(folder_file(&d, "out"), (patch *[]){ab, bc, bc}, 3, NULL, NULL, &wrong,
                         &e),
              KV_E_ASSERT);
    CHECK_INT(wrong.link, 3);
    CHECK_INT(wrong.n, 2);
    patch_misfits_release(&wrong);
    CHECK(access(folder_file(&d, "out"), F_OK) != 0);
    CHECK(access(folder_file(&d, "out.safetensors"), F_OK) != 0);
    patch_close(ab);
    patch_close(bc);
}

/* ---- In place -------------------------------------------------------------------------------- */

TEST(patch_in_place)
{
    for (int64_t round = 1 + test_random(1000) / 1000; round > 0; round--) {
        const patch_options o = {.unsynced = true};
        patch_place place = PATCH_BESIDE;
        patch_misfits wrong = {0};
        OWN(model_release) model a = {0}, b = {0}, none = {0};
        own_folder d = folder_new();
        random_state = (uint64_t)round + test_seed(0) + 77;
        model_types(&a, 256 * random_below(800));
        copy_model(&b, &a);
        for (int i = 0; i < b.n; i++)
            if (random_below(3))
                model_change(&b, i, 1 + random_below(300));
        model_open(&a, "a");
        model_open(&b, "b");
        model_open(&none, "none");
        patch *p = patch_between(&d, "p", &a, &b), *first = patch_between(&d, "first", &none, &a);
        CHECK_OK(apply_all(&d, &first, 1, &none, "m.safetensors", &e));
        model_check(&a, folder_file(&d, "m.safetensors"));
        for (int twice = 0; twice < 2; twice++) {
            CHECK_OK(patch_apply_in_place(folder_file(&d, "m.safetensors"), &p, 1, 0, &o, &place,
                                          &wrong, &e));
            CHECK_INT(place, twice ? PATCH_ALREADY : PATCH_IN_PLACE);
            model_check(&b, folder_file(&d, "m.safetensors"));
        }
        patch_misfits_release(&wrong);
        patch_close(p);
        patch_close(first);
    }
}

/* A file that changes in its header is written anew; so is one that changes nearly everywhere,
 * unless another name of it would keep A. */
TEST(patch_in_place_anew)
{
    static const struct {
        int64_t elements, changes;
        bool has_link;
        const char *step; /* of B's header; A has "1" */
        patch_place place;
    } cases[] = {{300000, 300000, false, "1", PATCH_BESIDE},
                 {300000, 300000, true, "1", PATCH_IN_PLACE},
                 {300000, 20, false, "1", PATCH_IN_PLACE},
                 {300000, 20, false, "2", PATCH_BESIDE},
                 {60000, 60000, false, "1", PATCH_IN_PLACE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const patch_options o = {.unsynced = true};
        patch_place place = PATCH_ALREADY;
        patch_misfits wrong = {0};
        OWN(model_release) model a = {0}, b = {0}, none = {0};
        own_folder d = folder_new();
        model_add(&a, "x", TENSOR_F32, cases[i].elements);
        copy_model(&b, &a);
        a.ntexts = b.ntexts = 1;
        a.texts[0] = (checkpoint_text){"step", "1"};
        b.texts[0] = (checkpoint_text){"step", cases[i].step};
        for (int64_t k = 0; k < cases[i].changes; k++)
            ((uint32_t *)b.data[0])[k] ^= 1;
        model_open(&a, "a");
        model_open(&b, "b");
        model_open(&none, "none");
        patch *p = patch_between(&d, "p", &a, &b), *first = patch_between(&d, "first", &none, &a);
        CHECK_OK(apply_all(&d, &first, 1, &none, "m.safetensors", &e));
        char other[8192];
        snprintf(other, sizeof other, "%s", folder_file(&d, "other.safetensors"));
        if (cases[i].has_link)
            CHECK(link(folder_file(&d, "m.safetensors"), other) == 0);
        CHECK_OK(patch_apply_in_place(folder_file(&d, "m.safetensors"), &p, 1, 0, &o, &place,
                                      &wrong, &e));
        CHECK_INT(place, cases[i].place);
        model_check(&b, folder_file(&d, "m.safetensors"));
        if (cases[i].has_link)
            model_check(&b, other);
        patch_misfits_release(&wrong);
        patch_close(p);
        patch_close(first);
    }
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static buf bytes_of(test_folder *d, const char *name)
{
    buf out = {0};
    char piece[4096];
    size_t n;
    FILE *f = fopen(folder_file(d, name), "rb");
    CHECK(f != NULL);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_put(&out, piece, n);
    fclose(f);
    return out;
}

/* The file does not depend on the number of threads. */
TEST(patch_same_bytes)
{
    static const char *const threads[] = {"1", "2", "5"};
    own_folder d = folder_new();
    for (int i = 0; i < 3; i++)
        IN_CHILD(threads[i]) {
            model a = {0}, b = {0};
            random_state = 5;
            model_types(&a, 2 * WALK_PIECE);
            model_mutate(&b, &a);
            model_open(&a, "a");
            model_open(&b, "b");
            patch_close(patch_between(&d, threads[i], &a, &b));
        }
    own_buf one = bytes_of(&d, "1");
    CHECK(one.len > 10000);
    for (int i = 1; i < 3; i++) {
        own_buf other = bytes_of(&d, threads[i]);
        CHECK_INT(other.len, one.len);
        CHECK(memcmp(other.data, one.data, one.len) == 0);
    }
}

/* ---- Size ------------------------------------------------------------------------------------ */

static int64_t best(const void *data, int64_t n)
{
    zstd_packer *z = NULL;
    CHECK_OK(zstd_packer_new(&z, &e));
    char *room = malloc((size_t)zstd_bound(n));
    int64_t bytes = zstd_pack(z, room, zstd_bound(n), data, n, 9, 0);
    CHECK(bytes > 0);
    free(room);
    zstd_packer_free(z);
    return bytes;
}

/* What a plain list of differences of positions and new values takes, or the whole key. */
static int64_t plain_size(const model *a, const model *b, int i)
{
    int64_t unit = tensor_type_run_bytes(a->tensors[i].type), bytes = model_bytes(a, i);
    own_buf list = {0}, values = {0};
    uint32_t before = 0;
    for (int64_t k = 0; k < bytes / unit; k++) {
        const char *was = (const char *)a->data[i] + k * unit;
        const char *is = (const char *)b->data[i] + k * unit;
        if (memcmp(was, is, (size_t)unit) == 0)
            continue;
        uint32_t gap = (uint32_t)k - before;
        before = (uint32_t)k;
        buf_put(&list, (const char *)&gap, sizeof gap);
        buf_put(&values, is, (size_t)unit);
    }
    buf_put(&list, buf_text(&values), values.len);
    int64_t size = list.len ? best(list.data, (int64_t)list.len) : 0;
    int64_t whole = size ? best(b->data[i], bytes) : 0;
    return whole < size ? whole : size;
}

/* Numbers about as weights are: a sum of random ones. */
static void fill_weights(model *m, int i, double spread)
{
    int64_t n = tensor_elements(2, m->shapes[i]);
    for (int64_t k = 0; k < n; k++) {
        double x = 0;
        for (int j = 0; j < 3; j++)
            x += (double)(random_next() >> 11) * 0x1p-53 - 0.5;
        float f = (float)(x * spread);
        uint32_t bits;
        memcpy(&bits, &f, 4);
        if (m->tensors[i].type == TENSOR_F32)
            memcpy((char *)m->data[i] + 4 * k, &bits, 4);
        else
            ((uint16_t *)m->data[i])[k] = (uint16_t)(bits >> 16);
    }
}

enum { NSHARES = 10 };

/* Ways to change a key of weights. */
static void change_weights(model *b, const model *fresh, int way)
{
    static const int64_t shares[] = {2, 5, 10, 20, 100, 1000};
    int64_t n = tensor_elements(2, b->shapes[0]), w = tensor_type_run_bytes(b->tensors[0].type);
    char *to = b->data[0];
    const char *from = fresh->data[0];
    for (int64_t k = 0; k < n; k++) {
        bool changes = way < 6    ? random_below(shares[way]) == 0
                       : way == 6 ? true
                       : way == 7 ? k / 1000 % 9 == 0      /* runs */
                       : way == 8 ? k % 64 == 0             /* a column */
                                  : random_below(50) == 0; /* to few values */
        if (changes && way == 9)
            memset(to + k * w, (int)random_below(7), (size_t)w);
        else if (changes)
            memcpy(to + k * w, from + k * w, (size_t)w);
    }
}

TEST(patch_size)
{
    own_folder d = folder_new();
    for (int way = 0; way < NSHARES * 2; way++) {
        patch_summary made;
        OWN(model_release) model a = {0}, b = {0}, fresh = {0};
        tensor_type type = way < NSHARES ? TENSOR_BF16 : TENSOR_F32;
        random_state = (uint64_t)way;
        model_add(&a, "w", type, WALK_PIECE + 30000);
        model_add(&fresh, "w", type, WALK_PIECE + 30000);
        fill_weights(&a, 0, 0.02);
        fill_weights(&fresh, 0, 0.02);
        copy_model(&b, &a);
        change_weights(&b, &fresh, way % NSHARES);
        model_open(&a, "a");
        model_open(&b, "b");
        CHECK_OK(patch_make(folder_file(&d, "p"), a.c, b.c, NULL, &made, &e));
        double most = 1.1 * (double)plain_size(&a, &b, 0) + 512 + 4096;
        if ((double)made.bytes > most)
            printf("# way %d: %lld bytes, at most %lld\n", way, (long long)made.bytes,
                   (long long)most);
        CHECK((double)made.bytes <= most);
        if (way == 4) /* one in a hundred */
            CHECK(made.bytes * 50 <= model_bytes(&b, 0));
    }
}

/* Bytes in which words come back: the best search, which single bytes give no reason for, finds
 * more of them. */
TEST(patch_size_of_words)
{
    enum { BYTES = 1 << 17, WORDS = 300, LENGTH = 8 };
    patch_summary made;
    own_folder d = folder_new();
    OWN(model_release) model a = {0}, b = {0};
    uint64_t words[WORDS];
    random_state = 1;
    for (int i = 0; i < WORDS; i++)
        words[i] = random_next();
    model_add(&a, "x", TENSOR_U8, BYTES);
    model_add(&b, "x", TENSOR_U8, BYTES);
    for (int64_t at = 0, n; at < BYTES; at += n) {
        n = 4 + random_below(LENGTH - 3);
        n = n < BYTES - at ? n : BYTES - at;
        memcpy((char *)b.data[0] + at, &words[random_below(WORDS)], (size_t)n);
    }
    model_open(&a, "a");
    model_open(&b, "b");
    CHECK_OK(patch_make(folder_file(&d, "p"), a.c, b.c, NULL, &made, &e));
    CHECK(made.bytes < 60000); /* 46262; by the quick search 98945 */
}

TEST(patch_of_equal_is_tiny)
{
    patch_summary made;
    own_folder d = folder_new();
    OWN(model_release) model a = {0};
    model_types(&a, 4096);
    model_open(&a, "a");
    CHECK_OK(patch_make(folder_file(&d, "p"), a.c, a.c, NULL, &made, &e));
    CHECK_INT(made.same, a.n);
    CHECK_INT(made.changed + made.added + made.gone + made.elements, 0);
    CHECK(made.bytes < 1500);
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

/* One allocation after the other fails, with those that follow or without them: what is made is
 * whole or not there. */
TEST(patch_without_memory)
{
    setenv("KVSTORE_THREADS", "1", 1);
    own_folder d = folder_new();
    OWN(model_release) model a = {0}, b = {0};
    patch *p[2] = {0};
    random_state = 3;
    model_types(&a, 512);
    model_mutate(&b, &a);
    model_open(&a, "a");
    model_open(&b, "b");
    p[0] = patch_between(&d, "p", &a, &b);
    p[1] = patch_between(&d, "q", &b, &a);
    for (int way = 0; way < 8; way++) {
        int what = way / 2;
        static const char *const outs[] = {"made", "joined", "out.safetensors", NULL};
        int code = KV_E_MEMORY;
        for (int64_t n = 1; code; n++) {
            patch_misfits wrong = {0};
            patch *q = NULL;
            e = (kv_err){0};
            char path[5000], from[5000];
            snprintf(path, sizeof path, "%s", outs[what] ? folder_file(&d, outs[what]) : "");
            snprintf(from, sizeof from, "%s", folder_file(&d, "p"));
            if (n == 1)
                unlink(path); /* of the way before */
            mem_fail_at(way % 2 ? -n : n);
            code = what == 0   ? patch_make(path, a.c, b.c, NULL, NULL, &e)
                   : what == 1 ? patch_join(path, p, 2, NULL, NULL, &wrong, &e)
                   : what == 2 ? patch_apply(path, p, 1, a.c, NULL, NULL, &wrong, &e)
                               : patch_open(&q, from, &e);
            mem_fail_at(0);
            patch_misfits_release(&wrong);
            patch_close(q);
            CHECK_INT(code ? code : KV_E_MEMORY, KV_E_MEMORY);
            CHECK_INT(e.code, code);
            if (*path)
                CHECK_INT(access(path, F_OK) == 0, code == KV_OK);
            CHECK(n < 5000);
        }
    }
    model_check(&b, folder_file(&d, "out.safetensors"));
    patch_close(p[0]);
    patch_close(p[1]);
}
