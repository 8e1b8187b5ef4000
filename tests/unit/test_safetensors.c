/* safetensors: what is written reads back equal; headers that contradict themselves are refused. */
#include "checkpoint/safetensors.h"

#include <fcntl.h>

#include "store_help.h"
#include "test_checkpoint.h"
#include "test_image.h"
#include "test_io.h"

#define NAME "x.safetensors"

/* ---- Files in memory ------------------------------------------------------------------------- */

static image written(const safetensors_item *items, int64_t n, const checkpoint_text *pairs,
                     int64_t npairs)
{
    image m = {0};
    FILE *f = open_memstream(&m.data, &m.n);
    CHECK_OK(safetensors_write(f, NAME, items, n, pairs, npairs, &e));
    fclose(f);
    return m;
}

/* A file with this header and ndata bytes of data, all 0. */
static image made(const char *header, size_t nheader, size_t ndata)
{
    uint64_t n = nheader;
    image m = {calloc(1, 8 + nheader + ndata), 8 + nheader + ndata};
    memcpy(m.data, &n, 8);
    memcpy(m.data + 8, header, nheader);
    return m;
}

static checkpoint *opened(image m)
{
    return MADE(checkpoint, checkpoint_open_memory, m.data, m.n, NAME);
}

/* An exact copy on the heap, so that a sanitizer sees a read behind it, is refused with this. */
static void refused(image m, kv_code code, const char *want)
{
    checkpoint *s = NULL;
    OWN(test_free) char *copy = malloc(m.n ? m.n : 1);
    memcpy(copy, m.data, m.n);
    CHECK_ERR(checkpoint_open_memory(&s, copy, m.n, NAME, &e), code, want);
    CHECK(!s);
}

/* ---- What is written ------------------------------------------------------------------------- */

/* Also what the format's own library reads: bool [True, False, True] as "on", float32 [[1, 2, 3],
 * [4, 5, 6]] as "w", and {"format": "pt"}. The floats come first, for their alignment. */
static const char pinned[] = "\x98\0\0\0\0\0\0\0"
                             "{\"__metadata__\":{\"format\":\"pt\"},"
                             "\"on\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[24,27]},"
                             "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}"
                             "       \0\0\x80\x3F\0\0\0\x40\0\0\x40\x40"
                             "\0\0\x80\x40\0\0\xA0\x40\0\0\xC0\x40"
                             "\1\0\1";

static const image sample = {(char *)pinned, sizeof pinned - 1};

TEST(safetensors_bytes)
{
    const int64_t three[] = {3}, matrix[] = {2, 3};
    const double bits[] = {1, 0, 1}, numbers[] = {1, 2, 3, 4, 5, 6};
    own_array *on = io_array(KV_BOOL, 1, three, bits);
    own_array *w = io_array(KV_FLOAT32, 2, matrix, numbers);
    const safetensors_item items[] = {{"on", on}, {"w", w}};
    const checkpoint_text pairs[] = {{"format", "pt"}};
    image m = written(items, 2, pairs, 1);
    CHECK_INT(m.n, sample.n);
    CHECK(memcmp(m.data, sample.data, m.n) == 0);
    free(m.data);

    own_checkpoint *s = opened(sample);
    own_arrays *back[3] = {NULL};
    CHECK_INT(checkpoint_count(s), 2);
    CHECK_OK(load_all(back, s, &e));
    CHECK(io_same(back[0], on));
    CHECK(io_same(back[1], w));
    CHECK_INT(checkpoint_at(s, 1)->offset, 8 + 152);
    CHECK_INT(checkpoint_at(s, 1)->bytes, 24);
    CHECK_INT(checkpoint_at(s, 1)->type, TENSOR_F32);
    CHECK_TEXT(checkpoint_at(s, 0)->name, "on");
    CHECK_INT(checkpoint_find(s, "w"), 1);
    CHECK_INT(checkpoint_find(s, "W"), -1);
    CHECK_INT(checkpoint_find(s, "__metadata__"), -1);
    CHECK_INT(checkpoint_metadata_count(s), 1);
    CHECK_TEXT(checkpoint_metadata_at(s, 0)->name, "format");
    CHECK_TEXT(checkpoint_metadata(s, "format"), "pt");
    CHECK(!checkpoint_metadata(s, "Format"));
}

TEST(safetensors_empty)
{
    own_image m = written(NULL, 0, NULL, 0);
    CHECK_INT(m.n, 16);
    CHECK(memcmp(m.data, "\x08\0\0\0\0\0\0\0{}      ", 16) == 0);
    own_checkpoint *s = opened(m);
    CHECK_INT(checkpoint_count(s), 0);
    CHECK_INT(checkpoint_metadata_count(s), 0);
    CHECK_INT(checkpoint_find(s, ""), -1);
    CHECK(!checkpoint_metadata(s, ""));
    checkpoint_close(NULL);
}

/* Every dtype and shape, names and texts with all that must be escaped. */
TEST(safetensors_round)
{
    enum { N = NDTYPES * NSHAPES };
    static const checkpoint_text pairs[] = {
        {"", ""},
        {"a", "line\nline\r\t\"quoted\" \\ / \x01 \x1F \x7F"},
        {"\xC3\xA4\xF0\x9F\x98\x80", "\xE2\x82\xAC"},
        {"a/b", "{\"json\": [1, 2]}"},
    };
    uint64_t state = 815;
    char names[N][64];
    safetensors_item items[N];
    kv_array *back[N];
    for (int i = 0; i < N; i++) {
        int d = i % NDTYPES, k = i / NDTYPES;
        snprintf(names[i], sizeof names[i], "%d \"\\\n\xC3\xA4\xF0\x9F\x98\x80", i);
        items[i].name = i ? names[i] : "";
        items[i].array =
            io_random_array(all_dtypes[d], io_shapes[k].ndim, io_shapes[k].shape, &state);
    }
    image m = written(items, N, pairs, 4);
    checkpoint *s = opened(m);
    CHECK_INT(checkpoint_count(s), N);
    CHECK_OK(load_all(back, s, &e));
    for (int i = 0; i < N; i++) {
        const tensor_info *t = checkpoint_at(s, i);
        CHECK_TEXT(t->name, items[i].name);
        CHECK_INT(checkpoint_find(s, t->name), i);
        CHECK_INT(t->offset % tensor_type_run_bytes(t->type), 0);
        CHECK(io_same(back[i], items[i].array));
        kv_array_unref(back[i]);
    }
    CHECK_INT(checkpoint_metadata_count(s), 4);
    for (int i = 0; i < 4; i++) {
        CHECK_TEXT(checkpoint_metadata_at(s, i)->name, pairs[i].name);
        CHECK_TEXT(checkpoint_metadata(s, pairs[i].name), pairs[i].text);
    }
    image again = written(items, N, pairs, 4);
    CHECK(again.n == m.n && memcmp(again.data, m.data, m.n) == 0);
    free(again.data);
    checkpoint_close(s);
    free(m.data);
    for (int i = 0; i < N; i++)
        kv_array_unref(items[i].array);
}

TEST(safetensors_write_refuses)
{
    const int64_t one[] = {1}, none[] = {0, INT64_C(1000000000000000)};
    const double x = 1;
    own_array *a = io_array(KV_FLOAT32, 1, one, &x), *wide = NULL;
    CHECK_OK(kv_array_new(&wide, KV_INT8, 2, none, (kv_ctx){0}, &e));
    static const struct {
        const char *names[2], *pairs[2], *text, *want;
    } cases[] = {
        {{"a", "a"}, {"x", "y"}, "", "two tensors have the name \"a\""},
        {{"", ""}, {"x", "y"}, "", "two tensors have the name \"\""},
        {{"a", "__metadata__"}, {"x", "y"}, "", "no tensor can have the name \"__metadata__\""},
        {{"a", "\xFF"}, {"x", "y"}, "", "the name of a tensor is not UTF-8"},
        {{"a", "b"}, {"x", "x"}, "", "two metadata texts have the name \"x\""},
        {{"a", "b"}, {"x", "\xED\xA0\x80"}, "", "the name of a metadata text is not UTF-8"},
        {{"a", "b"}, {"x", "y"}, "\xC3", "the metadata text \"x\" is not UTF-8"},
    };
    own_image m = {0};
    FILE *f = open_memstream(&m.data, &m.n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const safetensors_item items[] = {{cases[i].names[0], a}, {cases[i].names[1], a}};
        const checkpoint_text pairs[] = {{cases[i].pairs[0], cases[i].text},
                                          {cases[i].pairs[1], ""}};
        char want[128];
        snprintf(want, sizeof want, NAME ": %s", cases[i].want);
        CHECK_ERR(safetensors_write(f, NAME, items, 2, pairs, 2, &e), KV_E_VALUE, want);
    }
    const safetensors_item items[] = {{"a", wide}};
    CHECK_ERR(safetensors_write(f, NAME, items, 1, NULL, 0, &e), KV_E_VALUE,
              NAME ": sizes and offsets have at most 15 digits");
    fclose(f);
    CHECK_INT(m.n, 0);
}

/* Two wrapped arrays of one memory, each of half the numbers that a header can say. */
TEST(safetensors_write_limits)
{
    char byte = 0;
    const int64_t shape[] = {INT64_C(600000000000000)};
    kv_array *a = MADE(kv_array, kv_array_wrap, &byte, KV_INT8, 1, shape, (kv_ctx){0}, NULL, NULL);
    const safetensors_item items[] = {{"a", a}, {"b", a}};
    CHECK_ERR(safetensors_write(stdout, NAME, items, 2, NULL, 0, &e), KV_E_VALUE,
              NAME ": sizes and offsets have at most 15 digits");
    kv_array_unref(a);
    OWN(test_free) char *text = malloc(100000001);
    memset(text, 'x', 100000000);
    text[100000000] = '\0';
    const checkpoint_text pair = {"t", text};
    CHECK_ERR(safetensors_write(stdout, NAME, NULL, 0, &pair, 1, &e), KV_E_VALUE,
              NAME ": names and metadata need a header of 100000032 bytes, and at most 100000000 "
                   "are allowed");
    text[100000000 - 32] = '\0';
    FILE *f = fopen("/dev/null", "wb");
    CHECK_OK(safetensors_write(f, NAME, NULL, 0, &pair, 1, &e));
    fclose(f);
}

TEST(safetensors_write_full)
{
    const int64_t shape[] = {100000};
    FILE *f = fopen("/dev/full", "wb");
    if (!f)
        test_skip("no /dev/full");
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, shape, (kv_ctx){0});
    const safetensors_item item = {"a", a};
    CHECK_ERR(safetensors_write(f, NAME, &item, 1, NULL, 0, &e), KV_E_IO,
              "cannot write \"" NAME "\": No space left on device");
    fclose(f);
}

/* ---- Files on disk --------------------------------------------------------------------------- */

TEST(safetensors_file)
{
    checkpoint *s = NULL;
    IN_FOLDER(NAME, "old");
    CHECK_ERR(checkpoint_open(&s, NAME, NULL, &e), KV_E_IO,
              "cannot read \"" NAME "\": No such file or directory");
    CHECK_ERR(checkpoint_open(&s, ".", NULL, &e), KV_E_FORMAT,
              ".: the folder has no *.safetensors and no *.safetensors.index.json");
    CHECK(!s);

    file_fill(NAME, sample.data, sample.n);
    CHECK_OK(checkpoint_open(&s, NAME, NULL, &e));
    own_array *on = MADE(kv_array, checkpoint_load_name, s, "on"), *none = NULL;
    CHECK_INT(kv_array_size(on), 3);
    CHECK_ERR(checkpoint_load_name(&none, s, "off", &e), KV_E_NAME,
              NAME ": there is no tensor \"off\"");

    /* Replaced: what is open stays. Shortened: said. */
    CHECK(rename(NAME, "old") == 0);
    file_fill(NAME, "new", 3);
    own_array *w = MADE(kv_array, checkpoint_load_name, s, "w");
    CHECK_INT(kv_array_size(w), 6);
    CHECK(truncate("old", 165) == 0);
    CHECK_ERR(checkpoint_load_name(&none, s, "w", &e), KV_E_IO,
              NAME ": the file became shorter while it was read");
    CHECK(!none);
    checkpoint_close(s);
    CHECK_ERR(checkpoint_open(&s, NAME, NULL, &e), KV_E_FORMAT,
              NAME ": cut within the length of its header: 5 of 8 bytes are missing");
}

TEST(safetensors_pipe)
{
    int ends[2];
    char path[32];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], sample.data, sample.n) == (ssize_t)sample.n);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    own_checkpoint *s = MADE(checkpoint, checkpoint_open, path, NULL);
    own_array *a = MADE(kv_array, checkpoint_load_name, s, "w");
    CHECK_INT(kv_array_size(a), 6);
    close(ends[0]);
}

/* A file of 6 GB, nearly all of it a hole: one tensor of it is read and nothing else. */
TEST(safetensors_large)
{
    static const char header[] =
        "{\"big\":{\"dtype\":\"U8\",\"shape\":[6000000000],\"data_offsets\":[0,6000000000]},"
        "\"end\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[6000000000,6000000003]}}";
    IN_FOLDER(NAME, NULL);
    own_image m = made(header, sizeof header - 1, 0);
    file_fill(NAME, m.data, m.n);
    int fd = open(NAME, O_WRONLY);
    if (pwrite(fd, "end", 3, (off_t)m.n + 6000000000) != 3)
        test_skip("no room for a sparse file of 6 GB");
    close(fd);
    own_checkpoint *s = MADE(checkpoint, checkpoint_open, NAME, NULL);
    own_array *a = MADE(kv_array, checkpoint_load_name, s, "end");
    CHECK(memcmp(array_elements(a), "end", 3) == 0);
}

/* ---- Hostile files --------------------------------------------------------------------------- */

TEST(safetensors_cut)
{
    for (size_t n = 0; n < sample.n; n++) {
        char want[128];
        long long missing = (long long)(sample.n - n);
        if (n == 0)
            snprintf(want, sizeof want, NAME ": the file is empty");
        else if (n < 8)
            snprintf(want, sizeof want,
                     NAME ": cut within the length of its header: %lld of 8 bytes are missing",
                     (long long)(8 - n));
        else if (n < 160)
            snprintf(want, sizeof want,
                     NAME ": cut within its header: %lld of 152 bytes are missing", missing - 27);
        else
            snprintf(want, sizeof want, NAME ": cut within its data: %lld of 27 bytes are missing",
                     missing);
        refused((image){sample.data, n}, KV_E_FORMAT, want);
    }
}

TEST(safetensors_lengths)
{
    static const struct {
        unsigned char length[9];
        const char *want;
    } cases[] = {
        {"\0\0\0\0\0\0\0\0", NAME ": a header begins with {, this one does not"},
        {"\x01\xE1\xF5\x05\0\0\0\0",
         NAME ": no safetensors file: it begins with a header of 100000001 bytes, and at most "
              "100000000 are allowed"},
        {"\0\xE1\xF5\x05\0\0\0\0",
         NAME ": cut within its header: 99999998 of 100000000 bytes are missing"},
        {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", NAME
         ": no safetensors file: it begins with a header of 18446744073709551615 bytes, and at "
         "most 100000000 are allowed"},
        {"\0\0\0\0\0\0\0\x80",
         NAME ": no safetensors file: it begins with a header of 9223372036854775808 bytes, and at "
              "most 100000000 are allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[10];
        memcpy(text, cases[i].length, 8);
        memcpy(text + 8, "{}", 2);
        refused((image){text, 10}, KV_E_FORMAT, cases[i].want);
    }
}

#define T(shape, offsets) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(safetensors_headers)
{
    static const struct {
        const char *header;
        int ndata;
        const char *want;
    } cases[] = {
        /* bytes */
        {"", 0, "a header begins with {, this one does not"},
        {" \n", 0, "a header begins with {, this one does not"},
        {" x{}", 0, "a header begins with {, this one does not"},
        {" {", 0, "the header ends before its last bracket"},
        {"[]", 0, "a header begins with {, this one does not"},
        {"\xEF\xBB\xBF{}", 0, "a header begins with {, this one does not"},
        {"{", 0, "the header ends before its last bracket"},
        {"{\"a", 0, "the header ends within a text"},
        {"{\"a\\", 0, "the header ends within a text"},
        {"{\"a\\\"", 0, "the header ends within a text"},
        {"{}{}", 0, "byte 10: only blanks may follow the header's last bracket"},
        {"{} x", 0, "byte 11: only blanks may follow the header's last bracket"},
        {"{\"a\":" T("[-1]", "[0,4]") "}", 4,
         "byte 37: the numbers of a header are whole and not negative"},
        {"{\"a\":" T("[1]", "[0,4.0]") "}", 4,
         "byte 59: the numbers of a header are whole and not negative"},
        {"{\"a\":" T("[1]", "[0,4e0]") "}", 4,
         "byte 59: the numbers of a header are whole and not negative"},
        {"{\"a\":" T("[1]", "[0,04]") "}", 4, "byte 58: a number that begins with 0"},
        {"{\"a\":" T("[1000000000000000]", "[0,4]") "}", 4,
         "byte 37: a number of more than 15 digits"},
        {"{\"a\":" T("[[1]]", "[0,4]") "}", 4,
         "tensor \"a\": its shape is not a list of up to 32 sizes"},
        {"{\"a\":{\"x\":1.2.3,\"y\":2}}", 0, "byte 18: a number that is none of JSON"},
        {"{\"a\":{\"x\":01}}", 0, "byte 18: a number that is none of JSON"},
        {"{\"a\":true}", 0, "tensor \"a\" is not described by an object"},
        {"{\"a\":tru}", 0, "byte 13: \"t\" cannot stand here"},
        {"{\"a\":\x80}", 0, "byte 13: a byte 0x80 cannot stand here"},
        {"{\"a\nb\":1}", 0, "byte 11: a text with a control character that is not escaped"},
        {"{\"a\\u0000b\":1}", 0, "byte 11: a text with a NUL"},
        {"{\"a\xC0\x80\":1}", 0, "byte 11: a text that is not UTF-8"},
        {"{\"a\xED\xA0\x80\":1}", 0, "byte 11: a text that is not UTF-8"},
        {"{\"a\\\xFF\":1}", 0, "byte 11: a text that is not UTF-8"},
        /* brackets, commas and escapes */
        {"{]", 0, "byte 9: \"]\" cannot stand here"},
        {"{,}", 0, "byte 9: \",\" cannot stand here"},
        {"{1:2}", 0, "byte 9: \"1\" cannot stand here"},
        {"{\"a\":" T("[1]", "[0,4]") ",}", 4, "byte 62: \"}\" cannot stand here"},
        {"{\"a\" 1}", 0, "byte 13: \"1\" cannot stand here"},
        {"{\"a\":" T("[1]", "[0,4]") " 2}", 4, "byte 62: \"2\" cannot stand here"},
        {"{\"a\\q\":1}", 0, "byte 11: a text with an escape that is none of JSON"},
        {"{\"\\ud800\":1}", 0, "byte 16: half of a pair of surrogates"},
        {"{\"\\udc00\":1}", 0, "byte 16: half of a pair of surrogates"},
        {"{\"\\u12g4\":1}", 0, "byte 10: \\u needs four hexadecimal digits"},
        /* members */
        {"{\"a\":1}", 0, "tensor \"a\" is not described by an object"},
        {"{\"a\":[]}", 0, "tensor \"a\" is not described by an object"},
        {"{\"a\":{}}", 0, "tensor \"a\" has no \"dtype\""},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor \"a\" has no \"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "tensor \"a\" has no \"data_offsets\""},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "tensor \"a\" has two \"dtype\""},
        {"{\"a\":{\"Shape\":[]}}", 0, "tensor \"a\" has no \"dtype\""},
        {"{\"a\":null}", 0, "tensor \"a\" is not described by an object"},
        {"{\"a\":{\"dtype\":4}}", 0, "tensor \"a\" has no \"shape\""},
        {"{\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "tensor \"a\": its dtype is not a text"},
        {"{\"a\":" T("3", "[0,4]") "}", 4,
         "tensor \"a\": its shape is not a list of up to 32 sizes"},
        {"{\"a\":" T("[\"3\"]", "[0,4]") "}", 4,
         "tensor \"a\": its shape is not a list of up to 32 sizes"},
        {"{\"a\":" T("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
                     "[0,4]") "}",
         4, "tensor \"a\": its shape is not a list of up to 32 sizes"},
        {"{\"a\":" T("[1]", "[4]") "}", 4,
         "tensor \"a\": its data_offsets are not a begin and an end"},
        {"{\"a\":" T("[1]", "[0,4,8]") "}", 4,
         "tensor \"a\": its data_offsets are not a begin and an end"},
        {"{\"a\":" T("[1]", "[4,0]") "}", 4,
         "tensor \"a\": its data_offsets are not a begin and an end"},
        {"{\"a\":" T("[1]", "4") "}", 4,
         "tensor \"a\": its data_offsets are not a begin and an end"},
        {"{\"a\":" T("[2,3]", "[0,20]") "}", 20,
         "tensor \"a\" of shape (2, 3) and dtype F32 needs 24 bytes, its data_offsets give it 20"},
        {"{\"a\":" T("[]", "[0,0]") "}", 0,
         "tensor \"a\" of shape () and dtype F32 needs 4 bytes, its data_offsets give it 0"},
        {"{\"a\":" T("[0,5]", "[0,4]") "}", 4,
         "tensor \"a\" of shape (0, 5) and dtype F32 needs 0 bytes, its data_offsets give it 4"},
        {"{\"a\":" T("[999999999999999,999999999999999]", "[0,4]") "}", 4,
         "tensor \"a\" of shape (999999999999999, 999999999999999) is too large"},
        {"{\"a\":" T("[4294967296,1073741824]", "[0,0]") "}", 0,
         "tensor \"a\" of shape (4294967296, 1073741824) is too large"},
        {"{\"a\\n\":" T("[]", "[0,4]") ",\"a\\u000a\":" T("[]", "[4,8]") "}", 8,
         "two tensors have the name \"a?\""},
        /* data */
        {"{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[2]", "[4,12]") "}", 12,
         "tensors \"a\" and \"b\" overlap"},
        {"{\"a\":" T("[2]", "[4,12]") ",\"b\":" T("[2]", "[0,8]") "}", 12,
         "tensors \"b\" and \"a\" overlap"},
        {"{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[2]", "[0,8]") "}", 8,
         "tensors \"a\" and \"b\" overlap"},
        {"{\"a\":" T("[2]", "[0,8]") ",\"b\":" T("[0]", "[4,4]") "}", 8,
         "tensors \"a\" and \"b\" overlap"},
        {"{\"a\":" T("[1]", "[4,8]") "}", 8,
         "4 bytes of data before tensor \"a\" belong to no tensor"},
        {"{\"a\":" T("[1]", "[0,4]") ",\"b\":" T("[1]", "[12,16]") "}", 16,
         "8 bytes of data before tensor \"b\" belong to no tensor"},
        {"{\"a\":" T("[1]", "[0,4]") "}", 7, "3 bytes behind the data belong to no tensor"},
        {"{}", 1, "1 bytes behind the data belong to no tensor"},
        {"{\"a\":" T("[250000000000]", "[0,1000000000000]") "}", 7,
         "cut within its data: 999999999993 of 1000000000000 bytes are missing"},
        /* metadata */
        {"{\"__metadata__\":1}", 0, "\"__metadata__\" is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata \"a\" is not a text"},
        {"{\"__metadata__\":{\"a\":{}}}", 0, "metadata \"a\" is not a text"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" stands there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[256];
        own_image m = made(cases[i].header, strlen(cases[i].header), (size_t)cases[i].ndata);
        snprintf(want, sizeof want, NAME ": %s", cases[i].want);
        refused(m, KV_E_FORMAT, want);
    }
    own_image m = made("{\"a\0b\":1}", 9, 0);
    refused(m, KV_E_FORMAT, NAME ": byte 11: a text with a control character that is not escaped");
    free(m.data);
    m = made("{\0}", 3, 0);
    refused(m, KV_E_FORMAT, NAME ": byte 9: a byte 0x00 cannot stand here");
}

/* Unusual files that are right: other orders, blanks, tensors without elements anywhere. */
TEST(safetensors_unusual)
{
    static const char *const headers[] = {
        "{}",
        "{ }   ",
        "{\n\t\"a\" : " T("[ 2 ]", "[ 0 , 8 ]") "\r\n}\n",
        "{\"b\":" T("[1]", "[4,8]") ",\"a\":" T("[1]", "[0,4]") "}",
        "{\"b\":" T("[1]", "[4,8]") ",\"__metadata__\":{},\"a\":" T("[1]", "[0,4]") "}",
        "{\"b\":" T("[0]", "[8,8]") ",\"a\":" T("[2]", "[0,8]") ",\"c\":" T("[0,7]", "[0,0]") "}",
        "{\"a\":" T("[999999999999999,0,999999999999999]", "[0,0]") "}",
        "{\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"I32\"}}",
        "{\"a\\/\\b\\f\\n\\r\\t\\\\\\\"\\u00e4\\ud83d\\ude00\\\\u0000\":" T("[2]", "[0,8]") "}",
        "{\"a\":" T("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]",
                    "[0,8]") "}",
    };
    static const size_t ndata[] = {0, 0, 8, 8, 8, 8, 0, 4, 8, 8};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        kv_array *a[4];
        own_image m = made(headers[i], strlen(headers[i]), ndata[i]);
        own_checkpoint *s = opened(m);
        CHECK_OK(load_all(a, s, &e));
        for (int64_t j = 0; j < checkpoint_count(s); j++)
            kv_array_unref(a[j]);
        if (i == 8)
            CHECK_TEXT(checkpoint_at(s, 0)->name,
                       "a/\b\f\n\r\t\\\"\xC3\xA4\xF0\x9F\x98\x80\\u0000");
    }
}

TEST(safetensors_dtypes)
{
    for (int t = 0; t < TENSOR_NSAFE; t++) {
        char header[128];
        int64_t n = tensor_type_run((tensor_type)t), bytes = tensor_type_run_bytes((tensor_type)t);
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                 tensor_type_name((tensor_type)t), (int)n, (int)bytes);
        own_image m = made(header, strlen(header), (size_t)bytes);
        own_checkpoint *s = opened(m);
        CHECK_INT(checkpoint_at(s, 0)->type, t);
        CHECK_INT(checkpoint_at(s, 0)->bytes, bytes);
    }
    static const char *const names[] = {"U128", "f32", "", "F32 ", "Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char header[128], want[128];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,4]}}", names[i]);
        snprintf(want, sizeof want, NAME ": tensor \"a\" has the dtype \"%s\", which is not read",
                 names[i]);
        own_image m = made(header, strlen(header), 4);
        refused(m, KV_E_FORMAT, want);
    }
}

TEST(safetensors_bools)
{
    kv_array *a[2] = {NULL, NULL};
    own_image m = {malloc(sample.n), sample.n};
    memcpy(m.data, sample.data, m.n);
    m.data[m.n - 2] = 2;
    own_checkpoint *s = opened(m);
    CHECK_ERR(checkpoint_load_name(a, s, "on", &e), KV_E_FORMAT,
              NAME ": tensor \"on\": element 1 is not a bool, its byte is 2");
    CHECK_ERR(load_all(a, s, &e), KV_E_FORMAT,
              NAME ": tensor \"on\": element 1 is not a bool, its byte is 2");
    CHECK(!a[0] && !a[1]);
}

/* Long names are cut between characters in messages. */
TEST(safetensors_long_names)
{
    char header[600], name[301], want[256];
    for (int i = 0; i < 100; i++)
        memcpy(name + 3 * i, "\xE2\x82\xAC", 3);
    name[300] = '\0';
    snprintf(header, sizeof header, "{\"%s\":1}", name);
    snprintf(want, sizeof want, NAME ": tensor \"%.78s\" is not described by an object", name);
    own_image m = made(header, strlen(header), 0);
    refused(m, KV_E_FORMAT, want);
}

/* n times `piece` between an opening and a closing text. */
static image repeated(const char *before, const char *piece, size_t n, const char *after)
{
    size_t size = strlen(piece), at = strlen(before);
    OWN(test_free) char *text = malloc(at + n * size + strlen(after) + 1);
    memcpy(text, before, at);
    for (size_t i = 0; i < n; i++, at += size)
        memcpy(text + at, piece, size);
    strcpy(text + at, after);
    return made(text, at + strlen(after), 0);
}

TEST(safetensors_deep_and_wide)
{
    own_image m = repeated("{\"a\":", "[", 1000000, "");
    refused(m, KV_E_FORMAT, NAME ": byte 139: brackets are nested deeper than 127");
    free(m.data);
    m = repeated("{\"a\":[0", ",0", 2000000, "]}");
    refused(m, KV_E_FORMAT, NAME ": tensor \"a\" is not described by an object");
    free(m.data);
    m = repeated("{\"a\":[0", ",0", 100000, "]}");
    refused(m, KV_E_FORMAT, NAME ": tensor \"a\" is not described by an object");
    free(m.data);
    m = repeated("{\"a\":{\"dtype\":\"", "x", 1000000, "\",\"shape\":[],\"data_offsets\":[0,0]}}");
    char want[200], x[81];
    memset(x, 'x', 80);
    x[80] = '\0';
    snprintf(want, sizeof want, NAME ": tensor \"a\" has the dtype \"%s\", which is not read", x);
    refused(m, KV_E_FORMAT, want);
}

/* What the format's own reader takes, although no writer of ours makes it. */
TEST(safetensors_lenient)
{
    static const char *const headers[] = {
        "  \n\t\r{\"a\":" T("[1]", "[0,4]") "}",
        "{\"__metadata__\":null,\"a\":" T("[1]", "[0,4]") "}",
        "{\"a\":{\"strides\":[1,{\"x\":[[[[null]]]]}],\"dtype\":\"F32\",\"more\":-1.5e3,\"shape\":["
        "1],"
        "\"data_offsets\":[0,4],\"no\":false}}",
        "{\"__metadata__\":{\"k\":\"1\",\"o\":\"2\",\"k\":\"3\",\"k\":\"4\"},\"a\":" T("[1]",
                                                                                       "[0,4]") "}",
    };
    test_folder d = folder_new();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        own_image m = made(headers[i], strlen(headers[i]), 4);
        checkpoint *s = opened(m);
        CHECK_INT(checkpoint_count(s), 1);
        CHECK_INT(checkpoint_at(s, 0)->offset, (int64_t)(8 + strlen(headers[i])));
        CHECK_INT(checkpoint_metadata_count(s), i == 3 ? 2 : 0);
        if (i == 3) {
            CHECK_TEXT(checkpoint_metadata(s, "k"), "4");
            CHECK_TEXT(checkpoint_metadata_at(s, 0)->name, "o");
        }
        checkpoint_close(s);
        folder_put(&d, NAME, m.data, m.n);
        checkpoint_close(folder_findings(folder_file(&d, NAME), ""));
    }
    folder_remove(&d);
    /* as much white space as a writer puts there to align data, and a page more */
    own_image m = repeated("", " ", 9000, "{}");
    checkpoint *s = opened(m);
    CHECK_INT(checkpoint_count(s), 0);
    checkpoint_close(s);
    free(m.data);
    m = repeated("", " ", 9000, "x");
    refused(m, KV_E_FORMAT, NAME ": byte 9008: \"x\" cannot stand here");
}

/* Many tensors: no step is quadratic. */
TEST(safetensors_many)
{
    enum { N = 20000 };
    const int64_t one[] = {1};
    const double x = 7;
    own_array *a = io_array(KV_INT8, 1, one, &x);
    OWN(test_free) safetensors_item *items = malloc(N * sizeof *items);
    char(*names)[16] = malloc(N * sizeof *names);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layer%d", N - i);
        items[i] = (safetensors_item){names[i], a};
    }
    own_image m = written(items, N, NULL, 0);
    own_checkpoint *s = opened(m);
    for (int i = 0; i < N; i += 97) {
        CHECK_INT(checkpoint_find(s, names[i]), i);
        own_array *b = MADE(kv_array, checkpoint_load_name, s, names[i]);
        CHECK(io_same(a, b));
    }
    free(names);
}

TEST(safetensors_no_memory)
{
    const int64_t three[] = {3};
    const double numbers[] = {1, 2, 3};
    own_array *a = io_array(KV_FLOAT32, 1, three, numbers);
    const safetensors_item items[] = {{"a", a}, {"b", a}};
    const checkpoint_text pairs[] = {{"format", "pt"}};
    FILE *f = fopen("/dev/null", "wb");
    CHECK(FAILURES(safetensors_write(f, NAME, items, 2, pairs, 1, &e)) > 2);
    fclose(f);
}

/* Types without a dtype here become arrays of one that holds their numbers, by blocks. */
TEST(safetensors_wider)
{
    const void *data;
    static const char header[] =
        "{\"h\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]},"
        "\"u\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[2,10]},"
        "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[10,18]},"
        "\"v\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[18,26]}}";
    own_image m = made(header, strlen(header), 26);
    char *at = m.data + m.n - 26;
    memcpy(at, "\x38\xFE", 2); /* 1, -448 */
    memset(at + 2, 0, 24);
    at[2] = 7;
    at[25] = (char)0x80; /* 2^63 */
    own_checkpoint *c = opened(m);
    kv_array *a = MADE(kv_array, checkpoint_load_name, c, "h");
    CHECK_INT(kv_array_dtype(a), KV_FLOAT32);
    CHECK_OK(kv_array_read(a, &data, &e));
    CHECK(((const float *)data)[0] == 1 && ((const float *)data)[1] == -448);
    kv_array_unref(a);
    CHECK_OK(checkpoint_load_name(&a, c, "u", &e));
    CHECK_INT(kv_array_dtype(a), KV_INT64);
    CHECK_OK(kv_array_read(a, &data, &e));
    CHECK_INT(((const int64_t *)data)[0], 7);
    kv_array_unref(a);
    CHECK_ERR(checkpoint_load_name(&a, c, "c", &e), KV_E_DTYPE,
              NAME ": tensor \"c\" is C64, of which no array can be made");
    CHECK_ERR(checkpoint_load_name(&a, c, "v", &e), KV_E_VALUE,
              NAME ": tensor \"v\": element 0 is 2^63 or more, beyond int64");
}
