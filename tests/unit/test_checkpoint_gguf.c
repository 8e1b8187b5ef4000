/* GGUF files that contradict themselves. */
#include "base/file.h"
#include "test_checkpoint.h"
#include "test_io.h"

#define NAME "x.gguf"

static void put_u32(buf *b, uint32_t x)
{
    buf_put(b, (const char *)&x, sizeof x);
}

static void put_u64(buf *b, uint64_t x)
{
    buf_put(b, (const char *)&x, sizeof x);
}

static void put_text(buf *b, const char *text)
{
    put_u64(b, strlen(text));
    buf_add(b, text);
}

static void put_head(buf *b, uint64_t tensors, uint64_t metadata)
{
    buf_clear(b);
    buf_add(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, tensors);
    put_u64(b, metadata);
}

static void put_tensor(buf *b, const char *name, int ndim, const uint64_t *sizes, uint32_t type,
                       uint64_t offset)
{
    put_text(b, name);
    put_u32(b, (uint32_t)ndim);
    for (int i = 0; i < ndim; i++)
        put_u64(b, sizes[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Zeros up to the alignment, and n more. */
static void put_data(buf *b, size_t n)
{
    while (b->len % 32)
        buf_char(b, '\0');
    for (size_t i = 0; i < n; i++)
        buf_char(b, '\0');
}

/* An exact copy on the heap, so that a sanitizer sees a read behind it. It is put into a file. */
static void refused(test_folder *d, const buf *b, const char *want)
{
    char all[300];
    folder_put(d, NAME, b->data, b->len);
    snprintf(all, sizeof all, "%%/" NAME ": %s", want);
    folder_refused(d, folder_file(d, NAME), KV_E_FORMAT, all, "");
}

static void opens(test_folder *d, const buf *b, int ntensors)
{
    folder_put(d, NAME, b->data, b->len);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, folder_file(d, NAME), NULL);
    CHECK_INT(checkpoint_count(c), ntensors);
}

TEST(checkpoint_gguf_head)
{
    own_folder d = folder_new();
    own_buf b = {0};
    put_head(&b, 0, 0);
    opens(&d, &b, 0);
    put_data(&b, 0);
    opens(&d, &b, 0);
    buf_char(&b, 'x');
    refused(&d, &b, "1 bytes behind the data belong to no tensor");
    put_head(&b, 1, 0);
    /* 16 bytes of data, and the file ends before the padding in front of them */
    put_tensor(&b, "a", 1, &(uint64_t){4}, 0, 0);
    refused(&d, &b, "cut within its data: 16 of 16 bytes are missing");
    for (int version = 0; version <= 4; version += version == 1 ? 3 : 1) {
        char want[80];
        snprintf(want, sizeof want, "GGUF version %d, and 2 and 3 are read", version);
        put_head(&b, 0, 0);
        b.data[4] = (char)version;
        refused(&d, &b, want);
    }
    put_head(&b, UINT64_MAX, 0);
    refused(&d, &b, "byte 24: the list of tensors needs 18446744073709551615 times 24 bytes more, "
                    "the file has 0");
    put_head(&b, 0, UINT64_MAX / 8);
    refused(&d, &b, "byte 24: the list of metadata needs 2305843009213693951 times 13 bytes more, "
                    "the file has 0");
    b.len = 5;
    refused(&d, &b, "byte 0: the begin of the header needs 8 bytes more, the file has 5");
    b.len = 4;
    refused(&d, &b, "byte 0: the begin of the header needs 8 bytes more, the file has 4");
}

/* One of the metadata with this type, and what follows it. */
static void put_metadata(buf *b, const char *name, uint32_t type, const void *value, size_t n)
{
    put_text(b, name);
    put_u32(b, type);
    buf_put(b, value, n);
}

TEST(checkpoint_gguf_metadata)
{
    static const struct {
        const char *name;
        uint32_t type;
        const char *value;
        size_t n;
        const char *want;
    } cases[] = {
        {"a", 13, "12345678", 8, "metadata \"a\" has a value of type 13, and there are 0 to 12"},
        {"a", 7, "\2......", 7, "metadata \"a\" is not a bool, its byte is 2"},
        {"a", 8, "\xFF\0\0\0\0\0\0\0", 8,
         "byte 45: metadata \"a\" needs 255 bytes more, the file has 0"},
        {"a", 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8,
         "byte 45: metadata \"a\" needs 18446744073709551615 bytes more, the file has 0"},
        {"a", 8, "\1\0\0\0\0\0\0\0\xFF", 9, "metadata \"a\" is not UTF-8"},
        {"a", 8, "\3\0\0\0\0\0\0\0a\0b", 11, "metadata \"a\" is not UTF-8"},
        {"\xC3", 0, "1......", 7, "the name of metadata 0 is not UTF-8"},
        {"a", 9, "\4\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x3F", 12,
         "byte 49: metadata \"a\" needs 4611686018427387903 times 4 bytes more, the file has 0"},
        {"a", 9, "\0\0\0\0\7\0\0\0\0\0\0\0", 12,
         "byte 49: metadata \"a\" needs 7 bytes more, the file has 0"},
        {"a", 9, "\x0D\0\0\0\0\0\0\0\0\0\0\0", 12,
         "metadata \"a\" has a value of type 13, and there are 0 to 12"},
        {"general.alignment", 4, "\0\0\0\0", 4,
         "metadata \"general.alignment\" is not a power of two of type u32"},
        {"general.alignment", 4, "\x18\0\0\0", 4,
         "metadata \"general.alignment\" is not a power of two of type u32"},
        {"general.alignment", 5, "\x20\0\0\0", 4,
         "metadata \"general.alignment\" is not a power of two of type u32"},
        {"general.alignment", 8,
         "\2\0\0\0\0\0\0\0"
         "32",
         10, "metadata \"general.alignment\" is not a power of two of type u32"},
    };
    own_folder d = folder_new();
    own_buf b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_head(&b, 0, 1);
        put_metadata(&b, cases[i].name, cases[i].type, cases[i].value, cases[i].n);
        refused(&d, &b, cases[i].want);
    }
    put_head(&b, 0, 2);
    put_metadata(&b, "a", 0, "1", 1);
    put_metadata(&b, "a", 1, "1", 1);
    refused(&d, &b, "metadata \"a\" stands there twice");

    /* lists in lists: as deep as is allowed, and one deeper */
    for (int depth = 8; depth <= 9; depth++) {
        put_head(&b, 0, 1);
        put_text(&b, "a");
        put_u32(&b, 9);
        for (int i = 1; i < depth; i++) {
            put_u32(&b, 9);
            put_u64(&b, 1);
        }
        put_u32(&b, 8);
        put_u64(&b, 1);
        put_text(&b, "deep");
        if (depth == 8)
            opens(&d, &b, 0);
        else
            refused(&d, &b, "metadata \"a\": lists are nested deeper than 8");
    }
    /* more than is kept in all */
    put_head(&b, 0, 3);
    for (int i = 0; i < 3; i++) {
        put_text(&b, (char[]){(char)('a' + i), '\0'});
        put_u32(&b, 8);
        put_u64(&b, 40000000);
        buf_repeat(&b, 'x', 40000000);
    }
    refused(&d, &b, "names and metadata of more than 100000000 bytes, which are not read");
    /* many short names are refused before they take much memory */
    put_head(&b, 3200000, 0);
    buf_repeat(&b, '\0', 3200000 * 24);
    refused(&d, &b, "names and metadata of more than 100000000 bytes, which are not read");
}

/* A list of 64 items is kept, one of 65 is not. */
TEST(checkpoint_gguf_lists)
{
    own_folder d = folder_new();
    own_buf b = {0};
    put_head(&b, 0, 4);
    for (uint32_t n = 64; n <= 65; n++) {
        char name[8];
        snprintf(name, sizeof name, "u%d", (int)n);
        put_text(&b, name);
        put_u32(&b, 9);
        put_u32(&b, 0);
        put_u64(&b, n);
        buf_repeat(&b, '\1', n);
        name[0] = 't';
        put_text(&b, name);
        put_u32(&b, 9);
        put_u32(&b, 8);
        put_u64(&b, n);
        for (uint32_t i = 0; i < n; i++)
            put_text(&b, "x");
    }
    folder_put(&d, NAME, b.data, b.len);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, folder_file(&d, NAME), NULL);
    CHECK_INT(checkpoint_metadata_count(c), 2);
    CHECK_INT(strlen(checkpoint_metadata(c, "u64")), 1 + 64 * 2);
    CHECK_INT(strlen(checkpoint_metadata(c, "t64")), 1 + 64 * 4);
}

TEST(checkpoint_gguf_tensors)
{
    static const struct {
        int ndim;
        uint64_t sizes[4];
        uint32_t type;
        uint64_t offset;
        const char *want;
    } cases[] = {
        {5, {1}, 0, 0, "tensor \"a\" has 5 axes, and at most 4 are allowed"},
        {1, {UINT64_MAX}, 0, 0, "tensor \"a\" has a size of 18446744073709551615"},
        {2,
         {1ull << 40, 1ull << 40},
         0,
         0,
         "tensor \"a\" of shape (1099511627776, 1099511627776) is too large"},
        {1, {INT64_MAX / 2}, 0, 0, "tensor \"a\" of shape (4611686018427387903,) is too large"},
        {1, {8}, 4, 0, "tensor \"a\" has the type 4, which is not read"},
        {1, {8}, 42, 0, "tensor \"a\" has the type 42, which is not read"},
        {1, {8}, UINT32_MAX, 0, "tensor \"a\" has the type 4294967295, which is not read"},
        {2,
         {16, 2},
         8,
         0,
         "tensor \"a\" of shape (2, 16): the last size is not a whole number of "
         "blocks of Q8_0, which have 32 elements"},
        {0,
         {0},
         2,
         0,
         "tensor \"a\" of shape (): the last size is not a whole number of blocks of "
         "Q4_0, which have 32 elements"},
        {1, {8}, 0, 1, "tensor \"a\" begins at byte 1 of the data, which is not a multiple of 32"},
        {1,
         {8},
         0,
         1ull << 63,
         "tensor \"a\" begins at byte 9223372036854775808 of the data, which is too far"},
        {1, {8}, 0, 32, "32 bytes of data before tensor \"a\" belong to no tensor"},
        {1, {9}, 0, 0, "cut within its data: 4 of 36 bytes are missing"},
        {1,
         {1ull << 40},
         0,
         0,
         "cut within its data: 4398046511072 of 4398046511104 bytes are missing"},
    };
    own_folder d = folder_new();
    own_buf b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_head(&b, 1, 0);
        put_tensor(&b, "a", cases[i].ndim, cases[i].sizes, cases[i].type, cases[i].offset);
        put_data(&b, 32);
        refused(&d, &b, cases[i].want);
    }
    const uint64_t eight[] = {8}, nine[] = {9}, none[] = {0};
    put_head(&b, 1, 0);
    put_tensor(&b, "\xFF", 1, eight, 0, 0);
    put_data(&b, 32);
    refused(&d, &b, "the name of tensor 0 is not UTF-8");
    for (int twice = 0; twice < 2; twice++) {
        put_head(&b, 2, 0);
        put_tensor(&b, "a", 1, twice ? eight : nine, 0, 0);
        put_tensor(&b, twice ? "a" : "b", 1, eight, 0, 32);
        put_data(&b, 64);
        refused(&d, &b,
                twice ? "two tensors have the name \"a\"" : "tensors \"a\" and \"b\" overlap");
    }

    /* the other way round, a scalar, one without elements, padding at the end or none */
    for (int padding = 24; padding >= 0; padding -= 24) {
        put_head(&b, 4, 0);
        put_tensor(&b, "b", 1, nine, 0, 64);
        put_tensor(&b, "none", 1, none, 0, 0);
        put_tensor(&b, "a", 1, eight, 0, 0);
        put_tensor(&b, "scalar", 0, NULL, 28, 32);
        put_data(&b, 64 + 36 + (padding ? 28 : 0));
        opens(&d, &b, 4);
    }
}

/* A file that holds less than it says: the findings, and what is left. */
TEST(checkpoint_gguf_findings)
{
    const uint64_t eight[5] = {8};
    own_folder d = folder_new();
    own_buf b = {0};
    put_head(&b, 4, 1);
    put_metadata(&b, "t", 8, "\1\0\0\0\0\0\0\0\xFF", 9);
    put_tensor(&b, "a", 1, eight, 0, 0);
    put_tensor(&b, "b", 1, eight, 99, 32);
    put_tensor(&b, "c", 1, eight, 0, 32);
    put_tensor(&b, "d", 1, eight, 0, 128);
    put_data(&b, 70);
    folder_put(&d, NAME, b.data, b.len);
    own_checkpoint *c =
        folder_findings(folder_file(&d, NAME),
                        NAME " -: metadata \"t\" is not UTF-8\n" NAME
                             " b: tensor \"b\" has the type 99, which is not read\n" NAME
                             " d: 64 bytes of data before tensor \"d\" belong to no tensor\n" NAME
                             " -: cut within its data: 90 of 160 bytes are missing\n");
    CHECK_INT(checkpoint_count(c), 2);
    CHECK_TEXT(checkpoint_at(c, 1)->name, "c");
    checkpoint_close(c);
    /* without the begin of its data none is known */
    put_head(&b, 2, 0);
    put_tensor(&b, "a", 1, eight, 0, 0);
    put_tensor(&b, "b", 5, eight, 0, 0);
    put_data(&b, 70);
    folder_put(&d, NAME, b.data, b.len);
    c = folder_findings(folder_file(&d, NAME),
                        NAME " -: tensor \"b\" has 5 axes, and at most 4 are allowed\n");
    CHECK_INT(checkpoint_count(c), 0);
}

TEST(checkpoint_gguf_cut)
{
    own_folder d = folder_new();
    size_t n;
    own_text *small = file_text("tests/checkpoint/small.gguf", &n);
    CHECK_INT(n, 272);
    for (size_t k = 4; k < n; k++) {
        own_checkpoint *c = NULL;
        e = (kv_err){0};
        folder_put(&d, NAME, small, k);
        int rc = checkpoint_open(&c, folder_file(&d, NAME), NULL, &e);
        /* the last bytes are padding */
        CHECK_INT(rc, k < 266 ? KV_E_FORMAT : KV_OK);
        CHECK_INT(e.code, rc);
    }
}

/* A part with these tensors, each an F32 of one element, its name's first byte; total < 0: it does
 * not say. */
static void put_part(test_folder *d, const char *file, uint16_t no, uint16_t count, int32_t total,
                     const char *names)
{
    own_buf b = {0};
    uint64_t one = 1, n = strlen(names);
    put_head(&b, n, total < 0 ? 3 : 4);
    put_metadata(&b, "general.name", 8, "\1\0\0\0\0\0\0\0m", 9);
    put_metadata(&b, "split.no", 2, &no, sizeof no);
    put_metadata(&b, "split.count", 2, &count, sizeof count);
    if (total >= 0)
        put_metadata(&b, "split.tensors.count", 5, &total, sizeof total);
    for (uint64_t i = 0; i < n; i++)
        put_tensor(&b, (char[]){names[i], '\0'}, 1, &one, 0, 32 * i);
    for (uint64_t i = 0; i < n; i++) {
        float x = (float)names[i];
        put_data(&b, 0);
        buf_put(&b, (const char *)&x, sizeof x);
    }
    put_data(&b, 0);
    folder_put(d, file, b.data, b.len);
}

static test_folder three_parts(void)
{
    test_folder d = folder_new();
    put_part(&d, "m-00001-of-00003.gguf", 0, 3, 4, "");
    put_part(&d, "m-00002-of-00003.gguf", 1, 3, 4, "zc");
    put_part(&d, "m-00003-of-00003.gguf", 2, 3, 4, "ba");
    return d;
}

static void check_split(const checkpoint *c, const char *names)
{
    own_buf got = {0};
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        buf_add(&got, checkpoint_at(c, i)->name);
        own_array *a = MADE(kv_array, checkpoint_load, c, i);
        const float *data = array_elements(a);
        CHECK(*data == (float)*checkpoint_at(c, i)->name);
    }
    CHECK_TEXT(buf_text(&got), names);
}

TEST(checkpoint_gguf_split)
{
    own_folder d = three_parts();
    char path[4200];
    for (int i = 0; i <= 3; i++) {
        snprintf(path, sizeof path, i ? "%s/m-%05d-of-00003.gguf" : "%s", d.path, i);
        own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
        check_split(c, "zcba");
        CHECK_INT(checkpoint_nfiles(c), 3);
        CHECK(strstr(checkpoint_file(c, 1), "/m-00002-of-00003.gguf") != NULL);
        CHECK_INT(checkpoint_at(c, 2)->file, 2);
        CHECK_INT(checkpoint_metadata_count(c), 1);
        CHECK_TEXT(checkpoint_metadata(c, "general.name"), "m");
        checkpoint_close(folder_findings(path, ""));
    }
    /* two models in a folder, or a file beside the parts: one has to be named */
    put_part(&d, "n-00001-of-00001.gguf", 0, 1, 1, "q");
    snprintf(path, sizeof path, "%%/m-00001-of-00003.gguf");
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%: the folder has no *.safetensors and no *.safetensors.index.json",
                   "name the file: %/m-00001-of-00003.gguf");
    own_checkpoint *c = NULL;
    CHECK_OK(checkpoint_open(&c, folder_file(&d, "n-00001-of-00001.gguf"), NULL, &e));
    check_split(c, "q");
}

#define FIRST  "%/m-00001-of-00003.gguf"
#define SECOND "%/m-00002-of-00003.gguf"

TEST(checkpoint_gguf_split_refused)
{
    own_folder d = three_parts();
    char path[4200], named[4200];
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", d.path);
    unlink(folder_file(&d, "m-00002-of-00003.gguf"));
    folder_refused(&d, path, KV_E_FORMAT, SECOND ": part 2 of 3 of the split model is not there",
                   "");
    folder_refused(&d, d.path, KV_E_FORMAT, SECOND ": part 2 of 3 of the split model is not there",
                   "");
    checkpoint *c = folder_findings(
        path, "m-00002-of-00003.gguf -: part 2 of 3 of the split model is not there\n");
    check_split(c, "ba");
    checkpoint_close(c);

    static const struct {
        int part, parts, tensors;
        const char *names, *want;
    } second[] = {
        {2, 3, 4, "zc", SECOND ": its metadata say part 3 of 3, its name says 2 of 3"},
        {1, 4, 4, "zc", SECOND ": its metadata say part 2 of 4, its name says 2 of 3"},
        {0, 0, -1, "zc", SECOND ": its metadata say part 1 of 0, its name says 2 of 3"},
        {1, 3, 4, "z", FIRST ": its parts hold 3 tensors, split.tensors.count says 4"},
        {1, 3, 4, "za",
         FIRST ": tensor \"a\" is in m-00002-of-00003.gguf and in m-00003-of-00003.gguf"}};
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
        put_part(&d, "m-00002-of-00003.gguf", second[i].part, second[i].parts, second[i].tensors,
                 second[i].names);
        folder_refused(&d, path, KV_E_FORMAT, second[i].want, "");
    }
    snprintf(named, sizeof named, "%s/model.gguf", d.path);
    CHECK(rename(path, named) == 0);
    folder_refused(&d, named, KV_E_FORMAT, "%/model.gguf: part 1 of 3 of a split model; its name "
                                           "does not lead to the others", "");
}
