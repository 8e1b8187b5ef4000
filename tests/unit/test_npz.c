/* npz and npy: what NumPy and zipfile write reads equal; archives that lie are refused, and read
 * nothing outside themselves. */
#include "checkpoint/checkpoint.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/tensor_reader.h"
#include "npz_cases.h"
#include "test_image.h"
#include "test_io.h"

#define NAME "w.npz"

static image file_image(const char *name)
{
    image m;
    m.data = npz_file(name, &m.n);
    return m;
}

/* ---- What other tools write ------------------------------------------------------------------ */

/* Tensor i has these numbers: read at once, in blocks of `step` elements, and as an array. */
static void same_numbers(const checkpoint *c, int64_t i, const npz_case *want)
{
    const tensor_info *t = checkpoint_at(c, i);
    int64_t bytes;
    OWN(test_free) char *data = npz_data(want, &bytes);
    CHECK_TEXT(t->name, want->name);
    CHECK_TEXT(tensor_type_name(t->type), tensor_type_name(want->type));
    CHECK_INT(t->ndim, want->ndim);
    for (int k = 0; k < t->ndim; k++)
        CHECK_INT(t->shape[k], want->shape[k]);
    CHECK_INT(t->bytes, bytes);
    for (int64_t step = 1; step < 200; step = step * 3 + 1) {
        const void *got;
        int64_t block = step * tensor_type_run_bytes(t->type);
        own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
        for (int64_t at = 0; at < bytes; at += block) {
            int64_t n = bytes - at < block ? bytes - at : block;
            CHECK_OK(tensor_read(r, &got, i, at, n, &e));
            CHECK(memcmp(got, data + at, (size_t)n) == 0);
        }
        CHECK_OK(tensor_reader_check(r, &e));
    }
    kv_dtype dtype;
    if (tensor_type_dtype(t->type, &dtype) && tensor_type_of(dtype) == t->type) {
        const void *got;
        own_array *a = MADE(kv_array, checkpoint_load, c, i);
        CHECK_OK(kv_array_read(a, &got, &e));
        CHECK(memcmp(got, data, (size_t)bytes) == 0);
    }
}

static void same_file(const char *name, const npz_case *cases, size_t n, int64_t first)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s", name);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
    for (size_t i = 0; i < n; i++)
        same_numbers(c, first + (int64_t)i, &cases[i]);
    CHECK_INT(checkpoint_metadata_count(c), 0);
}

TEST(npz_files)
{
    same_file("types.npz", npz_types, NTYPES, 0);
    same_file("shapes.npz", npz_shapes, NSHAPED, 0);
    same_file("behind.npz", npz_shapes, NSHAPED, 0);
    same_file("stream.npz", npz_shapes, NSHAPED, 0);
    same_file("nothing.npz", NULL, 0, 0);
    same_file("zip64.npz", &(npz_case){"a", TENSOR_F32, 2, {2, 3}}, 1, 0);
    same_file("deflated.npz", npz_types, NTYPES, 0);
    same_file("deflated.npz", npz_shapes, NSHAPED, NTYPES);
    same_file("stream-deflated.npz", npz_shapes, NSHAPED, 0);
    same_file("swapped.npz", npz_types, NTYPES, 0);
    same_file("swapped-deflated.npz", npz_types, NTYPES, 0);
    same_file("fortran.npz", npz_fortran, NFORTRAN, 0);
    same_file("fortran-deflated.npz", npz_fortran, NFORTRAN, 0);
}

TEST(npz_single)
{
    checkpoint *c = NULL;
    same_file("matrix.npy", &(npz_case){"matrix", TENSOR_F32, 2, {3, 5}}, 1, 0);
    same_file("short.npy", &(npz_case){"short", TENSOR_I16, 1, {4}}, 1, 0);
    CHECK_INT(checkpoint_open(&c, FOLDER "void.npy", NULL, &e), KV_E_FORMAT);
    CHECK_TEXT(e.text, FOLDER "void.npy: elements of descr '<V2' are not read");
    CHECK_TEXT(e.hint, "NumPy saves bfloat16 and other types of ml_dtypes without their names: "
                       "save them as safetensors");
    image m = file_image("matrix.npy");
    for (size_t n = 6; n < m.n; n++) {
        e = (kv_err){0};
        CHECK_INT(checkpoint_open_memory(&c, m.data, n, "x.npy", &e), KV_E_FORMAT);
        CHECK(strncmp(e.text, "x.npy: cut within its ", 22) == 0);
    }
    m.data = realloc(m.data, m.n + 1);
    CHECK_ERR(checkpoint_open_memory(&c, m.data, m.n + 1, "x.npy", &e), KV_E_FORMAT,
              "x.npy: there are bytes behind the data");
    mem_free(m.data);
}

/* Bytes before an archive that does not count them. */
TEST(npz_behind_bytes)
{
    image m = file_image("shapes.npz");
    OWN(test_free) char *longer = malloc(m.n + 100);
    memset(longer, 'x', 100);
    memcpy(longer + 100, m.data, m.n);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, longer, m.n + 100, NAME);
    for (size_t i = 0; i < NSHAPED; i++)
        same_numbers(c, (int64_t)i, &npz_shapes[i]);
    mem_free(m.data);
}

/* The length of this header begins like a zip archive. */
TEST(npz_no_zip)
{
    uint64_t n = 0x04034B50;
    OWN(test_free) char *text = malloc(8 + n);
    memset(text, ' ', 8 + n);
    memcpy(text, &n, 8);
    memcpy(text + 8, "{}", 2);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, text, 8 + n, "x.safetensors");
    CHECK_INT(checkpoint_count(c), 0);
}

/* ---- Archives made here ---------------------------------------------------------------------- */

typedef struct maker {
    char *data;
    size_t n, cap, directory;
    char lines[4096];
    size_t nlines;
    int count;
} maker;

#define own_maker OWN(free_maker) maker
static void free_maker(maker *m)
{
    free(m->data);
}

static void put(maker *m, const void *data, size_t n)
{
    if (m->n + n > m->cap) {
        m->cap = (m->n + n) * 2;
        m->data = realloc(m->data, m->cap);
    }
    memcpy(m->data + m->n, data, n);
    m->n += n;
}

/* Pairs of numbers and their bytes. */
static void put_numbers(char **to, const uint64_t (*x)[2], size_t n)
{
    for (size_t i = 0; i < n; *to += x[i++][1])
        memcpy(*to, &x[i][0], x[i][1]);
}

#define PUT(to, ...)                                                                               \
    put_numbers(to, (const uint64_t[][2]){__VA_ARGS__},                                            \
                sizeof((const uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]))

/* Adds a member with these bytes; deflated: without making them less, in blocks of 65535. */
static void add(maker *m, const char *name, const char *bytes, size_t n, bool deflated)
{
    size_t blocks = n / 65535 + 1, stored = deflated ? n + blocks * 5 : n;
    char about[26], header[64], *to = about;
    uint64_t offset = m->n, crc = inflate_crc(0, bytes, (int64_t)n);
    PUT(&to, {20, 2}, {0, 2}, {deflated ? 8 : 0, 2}, {0, 4}, {crc, 4}, {stored, 4}, {n, 4},
        {strlen(name), 2}, {0, 2});
    put(m, "PK\3\4", 4);
    put(m, about, sizeof about);
    put(m, name, strlen(name));
    for (size_t i = 0; i < blocks && deflated; i++) {
        size_t part = i + 1 < blocks ? 65535 : n % 65535;
        to = header;
        PUT(&to, {i + 1 == blocks, 1}, {part, 2}, {~part, 2});
        put(m, header, 5);
        put(m, bytes + i * 65535, part);
    }
    if (!deflated)
        put(m, bytes, n);
    to = m->lines + m->nlines;
    PUT(&to, {0x02014B50, 4}, {20, 2});
    memcpy(to, about, sizeof about);
    to += sizeof about;
    PUT(&to, {0, 8}, {0, 2}, {offset, 4});
    memcpy(to, name, strlen(name));
    m->nlines = (size_t)(to - m->lines) + strlen(name);
    m->count++;
}

static image made(maker *m)
{
    char end[22], *to = end;
    m->directory = m->n;
    const uint64_t count = (uint64_t)m->count;
    PUT(&to, {0x06054B50, 4}, {0, 4}, {count, 2}, {count, 2}, {m->nlines, 4}, {m->n, 4}, {0, 2});
    put(m, m->lines, m->nlines);
    put(m, end, sizeof end);
    return (image){m->data, m->n};
}

/* An npy file of n bytes as elements of this descr, shape and order. */
static char *npy(const char *dict, const char *data, size_t ndata, size_t *n)
{
    size_t header = strlen(dict);
    char *text = malloc(10 + header + ndata);
    memcpy(text, "\x93NUMPY\1\0", 8);
    text[8] = (char)header;
    text[9] = 0;
    memcpy(text + 10, dict, header);
    if (ndata)
        memcpy(text + 10 + header, data, ndata);
    *n = 10 + header + ndata;
    return text;
}

/* ---- Rows out of columns --------------------------------------------------------------------- */

/* Where element i, counted by rows, stands by columns. */
static int64_t column_place(const int64_t *shape, int ndim, int64_t i)
{
    int64_t at = 0;
    for (int k = ndim - 1; k >= 0; k--) {
        int64_t size = 1;
        for (int j = 0; j < k; j++)
            size *= shape[j];
        at += i % shape[k] * size;
        i /= shape[k];
    }
    return at;
}

static void mark(char *to, int64_t i, size_t width)
{
    uint64_t x = (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    memcpy(to, &x, width);
}

/* Elements `at` to at + some of a tensor of n marks, as far as it and a block have them. */
static void check_marks(tensor_reader *r, int64_t n, int64_t at, int64_t some, size_t width)
{
    const void *got;
    char want[8];
    at = at < n ? at : n - 1;
    some = some < n - at ? some : n - at;
    if (some * (int64_t)width > TENSOR_BLOCK)
        some = TENSOR_BLOCK / (int64_t)width;
    CHECK_OK(tensor_read(r, &got, 0, at * (int64_t)width, some * (int64_t)width, &e));
    for (int64_t i = 0; i < some; i++) {
        mark(want, at + i, width);
        if (memcmp((const char *)got + i * (int64_t)width, want, width) != 0)
            CHECK_INT(i, -1);
    }
}

/* Blocks of a tensor by columns, whose file is read in several pieces: larger than a block, and
 * than a window. */
static void check_columns(const char *descr, size_t width, int ndim, const int64_t *shape, int form)
{
    char dict[160], shapes[64];
    int64_t n = tensor_elements(ndim, shape);
    OWN(test_free) char *data = malloc((size_t)n * width + 8);
    for (int64_t i = 0; i < n; i++)
        mark(data + column_place(shape, ndim, i) * (int64_t)width, i, width);
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': True, 'shape': %s}", descr,
             kv_shape_text(shapes, sizeof shapes, ndim, shape));
    own_maker m = {0};
    size_t nfile;
    OWN(test_free) char *file = npy(dict, data, (size_t)n * width, &nfile);
    image archive = {file, nfile};
    if (form) {
        add(&m, "a.npy", file, nfile, form == 2);
        archive = made(&m);
    }
    own_checkpoint *c = NULL;
    CHECK_OK(checkpoint_open_memory(&c, archive.data, archive.n, form ? NAME : "a.npy", &e));
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    CHECK_INT(checkpoint_at(c, 0)->form, TENSOR_STRIDED | (form == 2 ? TENSOR_DEFLATED : 0));
    uint64_t state = 99;
    for (int k = 0; k < 16; k++) {
        int64_t at = k < 8 ? k * 800000 : (int64_t)(io_random(&state) % (uint64_t)n);
        int64_t some = k % 3 ? 300000 : (int64_t)(io_random(&state) % 1000000);
        check_marks(r, n, at, some, width);
    }
    tensor_reader_free(r);
    /* In order, as much at a time as a window holds; another end comes in between. */
    CHECK_OK(tensor_reader_new(&r, c, TENSOR_BLOCK + 12345, &e));
    for (int64_t at = 0; at < n; at += 100000) {
        tensor_reader_ahead(r, 0, (at < n / 2 ? n / 2 : n) * (int64_t)width);
        check_marks(r, n, at, 100000, width);
        check_marks(r, n, at + 7, 1000, width);
    }
    check_marks(r, n, 0, 1000, width);
}

TEST(npz_columns)
{
    check_columns("<f4", 4, 2, (int64_t[]){1600, 700}, 0);
    check_columns("|u1", 1, 2, (int64_t[]){2, 2300000}, 0);
    check_columns("<u2", 2, 2, (int64_t[]){150000, 2}, 0);
    check_columns("<u8", 8, 4, (int64_t[]){101, 3, 47, 53}, 0);
    check_columns("<u2", 2, 5, (int64_t[]){1, 3, 1, 300, 1000}, 0);
}

TEST(npz_columns_in_archives)
{
    check_columns("<f4", 4, 2, (int64_t[]){300, 700}, 1);
    check_columns("<f4", 4, 2, (int64_t[]){300, 700}, 2);
    /* inflated in several blocks */
    check_columns("<u8", 8, 2, (int64_t[]){1000, 3000}, 2);
}

/* ---- Checksums ------------------------------------------------------------------------------- */

#define LARGE 1000000

/* An archive of one tensor of bytes, "a". */
static image large_image(maker *m, bool deflated)
{
    OWN(test_free) char *data = malloc(LARGE);
    size_t n;
    for (int i = 0; i < LARGE; i++)
        data[i] = (char)(i * 7 / 3);
    char *file = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000,)}", data, LARGE,
                     &n);
    add(m, "a.npy", file, n, deflated);
    free(file);
    return made(m);
}

#define DAMAGED NAME ": tensor \"a\": damaged: its checksum is another one"

TEST(npz_checksum)
{
    static const int64_t steps[] = {LARGE, 1000, 65536, 100000, 131072};
    for (size_t k = 0; k < 2 * sizeof steps / sizeof *steps; k++) {
        own_maker m = {0};
        kv_array *a = NULL;
        const void *got;
        int64_t step = steps[k / 2], at = 0;
        image large = large_image(&m, k % 2);
        large.data[500000] ^= 1;
        own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, large.data, large.n, NAME);
        own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
        for (; at + step < LARGE; at += step)
            CHECK_OK(tensor_read(r, &got, 0, at, step, &e));
        CHECK_ERR(tensor_read(r, &got, 0, at, LARGE - at, &e), KV_E_FORMAT, DAMAGED);
        CHECK_ERR(checkpoint_load(&a, c, 0, &e), KV_E_FORMAT, DAMAGED);
        CHECK_ERR(checkpoint_load(&a, c, 0, &e), KV_E_FORMAT, DAMAGED);
    }
}

/* One of two that share the pieces of a tensor. */
typedef struct sharer {
    const checkpoint *c;
    int first, failed;
} sharer;

static void *share(void *arg)
{
    sharer *s = arg;
    kv_err e = {0};
    const void *got;
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, s->c, 0);
    for (int64_t at = s->first * 65536; at < LARGE; at += 2 * 65536) {
        int64_t n = LARGE - at < 65536 ? LARGE - at : 65536;
        s->failed += tensor_read(r, &got, 0, at, n, &e) != KV_OK;
    }
    return NULL;
}

TEST(npz_checksum_of_threads)
{
    for (int k = 0; k < 40; k++) {
        own_maker m = {0};
        pthread_t thread;
        image large = large_image(&m, false);
        large.data[77 + k * 20000] ^= (char)(k % 2);
        own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, large.data, large.n, NAME);
        sharer s[] = {{c, 0, 0}, {c, 1, 0}};
        CHECK_INT(pthread_create(&thread, NULL, share, &s[1]), 0);
        share(&s[0]);
        pthread_join(thread, NULL);
        CHECK_INT(s[0].failed + s[1].failed, k % 2);
    }
}

/* ---- Archives that lie ----------------------------------------------------------------------- */

/* An exact copy, so that a sanitizer sees a read behind it, is refused with this. */
static void refused(image m, const char *want)
{
    checkpoint *c = NULL;
    char text[256], *copy = malloc(m.n ? m.n : 1);
    memcpy(copy, m.data, m.n);
    snprintf(text, sizeof text, NAME ": %s", want);
    CHECK_ERR(checkpoint_open_memory(&c, copy, m.n, NAME, &e), KV_E_FORMAT, text);
    CHECK(!c);
    free(copy);
}

static void restart(maker *m)
{
    m->n = m->nlines = 0;
    m->count = 0;
}

/* What was made is refused, and the next archive begins. */
static void refused_then(maker *m, const char *want)
{
    refused(made(m), want);
    restart(m);
}

/* Where the record with this signature stands for the k-th time. */
static size_t record(image m, const char *signature, int k)
{
    for (size_t i = 0; i + 4 <= m.n; i++) {
        if (memcmp(m.data + i, signature, 4) == 0 && k-- == 0)
            return i;
    }
    CHECK(!"there is such a record");
    return 0;
}

TEST(npz_lies)
{
    static const struct {
        const char *record;
        int k, at, bytes;
        uint64_t value;
        const char *want;
    } cases[] = {
        {"PK\5\6", 0, 0, 1, 'Q', "cut, or no zip archive: it does not end with a directory"},
        {"PK\5\6", 0, 4, 2, 1, "zip archives in several files are not read"},
        {"PK\5\6", 0, 8, 2, 4, "zip archives in several files are not read"},
        {"PK\5\6", 0, 8, 4, 0x00060006,
         "malformed zip archive: its directory ends within a member"},
        {"PK\5\6", 0, 8, 4, 0x00040004, "54 bytes of the zip directory belong to no member"},
        {"PK\5\6", 0, 8, 4, 0xFFFFFFFF,
         "malformed zip archive: 65535 members in a directory of 280 bytes"},
        {"PK\5\6", 0, 12, 4, 0xFFFFFFFF,
         "malformed zip archive: its directory would begin before the file"},
        {"PK\5\6", 0, 12, 4, 279, "malformed zip archive: no member of its directory at byte 997"},
        {"PK\5\6", 0, 16, 4, 0xFFFF,
         "malformed zip archive: its directory would begin before the file"},
        {"PK\1\2", 1, 0, 1, 'Q', "malformed zip archive: no member of its directory at byte 1052"},
        {"PK\1\2", 0, 8, 2, 1, "member \"scalar.npy\" is encrypted"},
        {"PK\1\2", 0, 10, 2, 12,
         "member \"scalar.npy\" is compressed by method 12, and only deflate is read"},
        {"PK\1\2", 0, 10, 2, 8, "member \"scalar.npy\" has another header than the directory says"},
        {"PK\1\2", 0, 16, 4, 1, "member \"scalar.npy\" has another header than the directory says"},
        {"PK\1\2", 0, 20, 4, 131, "member \"scalar.npy\" is stored with 131 bytes, but has 132"},
        {"PK\1\2", 0, 24, 4, 0xFFFFFFFF,
         "member \"scalar.npy\" has no zip64 sizes, which it needs"},
        {"PK\1\2", 0, 42, 4, 0x7FFFFFFF,
         "member \"scalar.npy\" begins at byte 2147483647, outside the members"},
        {"PK\1\2", 0, 42, 4, 1, "member \"scalar.npy\" has no header at byte 1"},
        {"PK\1\2", 0, 46, 1, 'S',
         "member \"Scalar.npy\" has another header than the directory says"},
        {"PK\1\2", 0, 46, 1, 0xFF,
         "member \"\xFF"
         "calar.npy\" has a name that is not UTF-8, or with a NUL"},
        {"PK\1\2", 0, 46, 1, 0, "member \"\" has a name that is not UTF-8, or with a NUL"},
        {"PK\3\4", 0, 28, 2, 0xFFFF, "member \"scalar.npy\" ends outside the members"},
        {"PK\3\4", 4, 28, 2, 21, "member \"deep.npy\" ends outside the members: it has 176 bytes"},
        {"PK\3\4", 0, 40, 1, 7, "member \"scalar.npy\" has another header than the directory says"},
        {"\x93NUM", 0, 0, 1, 'x',
         "member \"scalar.npy\": no npy file: it does not begin with 0x93 and NUMPY"},
        {"\x93NUM", 0, 23, 1, '8',
         "member \"scalar.npy\": 132 bytes: its header has 128 and asks for 8 more"},
        {"\x93NUM", 1, 22, 1, 'i', "member \"none.npy\": damaged: its checksum is another one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image m = file_image("shapes.npz");
        size_t at = record(m, cases[i].record, cases[i].k) + (size_t)cases[i].at;
        memcpy(m.data + at, &cases[i].value, (size_t)cases[i].bytes);
        refused(m, cases[i].want);
        mem_free(m.data);
    }
}

/* A directory that names one member very often, so that a small archive would mean much work. */
TEST(npz_repeated)
{
    own_maker m = {0};
    size_t n;
    OWN(test_free)
    char *bytes = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc", 3, &n);
    add(&m, "a.npy", bytes, n, false);
    size_t line = m.nlines;
    for (; m.count < 60; m.count++, m.nlines += line)
        memcpy(m.lines + m.nlines, m.lines, line);
    image repeated = made(&m);
    refused(repeated, "malformed zip archive: its members have more bytes than there are");
}

TEST(npz_cut)
{
    image m = file_image("shapes.npz");
    for (size_t n = 4; n < m.n; n++)
        refused((image){m.data, n}, "cut, or no zip archive: it does not end with a directory");
    m.data = realloc(m.data, m.n + 7);
    memset(m.data + m.n, 0, 7);
    refused((image){m.data, m.n + 7}, "7 bytes behind the zip archive");
    mem_free(m.data);
}

#define USUAL                                                                                      \
    "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1 c8, with < or > before it (or | before those of one "     \
    "byte)"
#define SCALAR "{'descr': '<f4', 'fortran_order': False, 'shape': ()}"

TEST(npz_members)
{
    size_t n;
    OWN(test_free) char *file = npy(SCALAR, "abcd", 4, &n);
    own_maker m = {0};
    add(&m, "a.npy", file, n, false);
    add(&m, "a.npy", file, n, false);
    refused_then(&m, "two tensors have the name \"a\"");
    add(&m, "a.npy", file, n, false);
    add(&m, "b.txt", file, n, false);
    image mixed = made(&m);
    own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, mixed.data, mixed.n, NAME);
    CHECK_INT(checkpoint_count(c), 1);
    checkpoint_close(c);
    restart(&m);
    add(&m, "[Content_Types].xml", "", 0, true);
    refused_then(&m, "this looks like a zip archive without arrays, which is not read");
    add(&m, "model/version", "3", 1, false);
    add(&m, "model/data.pkl", "x", 1, false);
    refused(made(&m), "malformed pickle: no protocol at byte 0");
    add(&m, "model/code/__torch__.py", "", 0, false);
    add(&m, "model/constants.pkl", "x", 1, false);
    refused_then(&m, "this looks like a TorchScript program, which is not read");
    add(&m, "config.json", "{}", 2, false);
    add(&m, "model.weights.h5", "x", 1, false);
    refused_then(&m, "this looks like a Keras file, which is not read");
    /* Two members at one place, and two whose bytes are shared. */
    add(&m, "a.npy", file, n, false);
    memcpy(m.lines + m.nlines, m.lines, m.nlines);
    m.nlines *= 2;
    m.count = 2;
    refused(made(&m), "members overlap at byte 0");
    /* Names are only names, and folders no members. */
    c = NULL;
    restart(&m);
    add(&m, "../", "", 0, false);
    add(&m, "../../a.npy", file, n, false);
    add(&m, "/etc/\033.npy", file, n, true);
    add(&m, ".npy", file, n, true);
    image names = made(&m);
    CHECK_OK(checkpoint_open_memory(&c, names.data, names.n, NAME, &e));
    CHECK_INT(checkpoint_count(c), 3);
    CHECK_TEXT(checkpoint_at(c, 0)->name, "../../a");
    CHECK_TEXT(checkpoint_at(c, 1)->name, "/etc/\033");
    CHECK_TEXT(checkpoint_at(c, 2)->name, "");
}

/* Sizes that deflated data do not have. */
TEST(npz_bombs)
{
    checkpoint *c = NULL;
    kv_array *a = NULL;
    size_t n;
    own_maker m = {0};
    char *file = npy(SCALAR, "abcd", 4, &n);
    /* Claims in both headers; the npy header agrees. */
    static const struct {
        uint32_t bytes;
        const char *want;
    } cases[] = {
        {0x7FFFFFFF, "member \"a.npy\" cannot have 2147483647 bytes: it is deflated to 72"},
        {69, "member \"a.npy\": 69 bytes: its header has 63 and asks for 4 more"},
        {0, "member \"a.npy\": 0 bytes: its header has 63 and asks for 4 more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        restart(&m);
        add(&m, "a.npy", file, n, true);
        memcpy(m.data + 22, &cases[i].bytes, 4);
        memcpy(m.lines + 24, &cases[i].bytes, 4);
        refused(made(&m), cases[i].want);
    }
    free(file);
    /* All agree, but there are more or fewer bytes. */
    for (int less = 0; less < 2; less++) {
        const char *dict = less ? "{'descr': '|u1', 'fortran_order': False, 'shape': (1000,)}"
                                : "{'descr': '|u1', 'fortran_order': False, 'shape': (59,)}  ";
        char data[100] = {0};
        file = npy(dict, data, 100, &n);
        uint32_t claimed = (uint32_t)(n - 100 + (less ? 1000 : 59));
        restart(&m);
        add(&m, "a.npy", file, n, true);
        memcpy(m.data + 22, &claimed, 4);
        memcpy(m.lines + 24, &claimed, 4);
        image lie = made(&m);
        CHECK_OK(checkpoint_open_memory(&c, lie.data, lie.n, NAME, &e));
        CHECK_ERR(checkpoint_load(&a, c, 0, &e), KV_E_FORMAT,
                  less ? NAME ": tensor \"a\": its compressed data end too early: 900 bytes are "
                         "missing"
                       : NAME ": tensor \"a\": its compressed data are more than its header asks "
                         "for");
        checkpoint_close(c);
        free(file);
    }
}

/* ---- Findings -------------------------------------------------------------------------------- */

static int note(void *arg, const char *key, const char *file, const char *finding, kv_err *e)
{
    (void)file, (void)e;
    char *all = arg;
    size_t n = strlen(all);
    snprintf(all + n, 1000 - n, "%s: %s\n", key ? key : "-", finding);
    return KV_OK;
}

TEST(npz_findings)
{
    char all[1000] = "", path[64];
    size_t n;
    size_t nodd;
    OWN(test_free) char *file = npy(SCALAR, "abcd", 4, &n);
    OWN(test_free)
    char *odd = npy("{'descr': '<V2', 'fortran_order': False, 'shape': ()}", "ab", 2, &nodd);
    own_maker m = {0};
    add(&m, "good.npy", file, n, false);
    add(&m, "secret.npy", file, n, false);
    m.lines[46 + 8 + 8] |= 1;
    add(&m, "odd.npy", odd, nodd, false);
    add(&m, "readme", "x", 1, false);
    add(&m, "last.npy", file, n, true);
    image mixed = made(&m);
    int fd = memfd_create("npz", 0);
    CHECK_INT(write(fd, mixed.data, mixed.n), mixed.n);
    CHECK_INT(write(fd, "!", 1), 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const checkpoint_options o = {.found = note, .arg = all};
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, &o);
    CHECK_INT(checkpoint_count(c), 3);
    CHECK_TEXT(checkpoint_at(c, 0)->name, "good");
    CHECK_TEXT(checkpoint_at(c, 1)->name, "odd");
    CHECK_TEXT(checkpoint_at(c, 2)->name, "last");
    CHECK_TEXT(all, "-: 1 bytes behind the zip archive\n"
                    "secret.npy: member \"secret.npy\" is encrypted\n");
    close(fd);
}

/* Members without numbers are listed, and refused by their names. */
TEST(npz_odd)
{
    static const struct {
        const char *dict, *type, *hint;
    } cases[] = {
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2,)}", "<U3", USUAL},
        {"{'descr': '|S2', 'fortran_order': False, 'shape': (0,)}", "|S2", USUAL},
        {"{'descr': '<c16', 'fortran_order': True, 'shape': (2, 2)}", "<c16", USUAL},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2,)}", "<f16", USUAL},
        {"{'descr': '<M8[D]', 'fortran_order': False, 'shape': ()}", "<M8[D]", USUAL},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "|O",
         "these are objects of Python: save arrays of numbers"},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (1,)}", "<V2",
         "NumPy saves bfloat16 and other types of ml_dtypes without their names: save them as "
         "safetensors"},
        {"{'descr': [('a', '<f4'), (('t]', \"b'\"), '<i4', (2,))], 'fortran_order': False, "
         "'shape': (1,)}",
         "[('a', '<f4'), (('t]', \"b'\"), '<i4', (2,", USUAL},
    };
    size_t n;
    OWN(test_free) char *good = npy(SCALAR, "\0\0\x80\x3F", 4, &n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[200];
        size_t nodd;
        OWN(test_free) char *odd = npy(cases[i].dict, "abcdefgh", 8, &nodd);
        own_maker m = {0};
        add(&m, "odd.npy", odd, nodd, i % 2);
        add(&m, "good.npy", good, n, false);
        image file = made(&m);
        e = (kv_err){0};
        own_checkpoint *c = MADE(checkpoint, checkpoint_open_memory, file.data, file.n, NAME);
        CHECK_INT(checkpoint_count(c), 2);
        CHECK_TEXT(tensor_info_type(checkpoint_at(c, 0)), cases[i].type);
        CHECK_INT(checkpoint_at(c, 0)->bytes, 8);
        kv_array *a = MADE(kv_array, checkpoint_load_name, c, "good");
        kv_array_unref(a);
        CHECK_INT(checkpoint_load_name(&a, c, "odd", &e), KV_E_DTYPE);
        snprintf(want, sizeof want,
                 NAME ": \"odd\" is not an array of numbers: its elements are %s", cases[i].type);
        CHECK_TEXT(e.text, want);
        CHECK_TEXT(e.hint, cases[i].hint);
    }
}

/* ---- PyTorch --------------------------------------------------------------------------------- */

#define TENSOR(offset, sizes, strides)                                                             \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0"     \
    "X\3\0\0\0cpuK\4tQK" offset sizes strides "\x89NtR."

/* Pickles that lie, about a storage of 4 floats. Bytes that stand for "\0" are in the texts, so
 * their lengths are given. */
TEST(torch_pickles_that_lie)
{
#define PICKLE(text, want) {text, sizeof text - 1, want}
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } cases[] = {
        PICKLE("}.", "malformed pickle: no protocol at byte 0"),
        PICKLE("\x80\1}.", "malformed pickle: a protocol other than 2 to 5 at byte 0"),
        PICKLE("\x80\2}", "malformed pickle: it is cut at byte 3"),
        PICKLE("\x80\2.", "malformed pickle: a value is missing at byte 2"),
        PICKLE("\x80\2}}.", "malformed pickle: values that nothing takes at byte 4"),
        PICKLE("\x80\2Na.", "malformed pickle: items for what holds none at byte 3"),
        PICKLE("\x80\2NNa.", "malformed pickle: items for what holds none at byte 4"),
        PICKLE("\x80\2(a.", "malformed pickle: a value is missing at byte 3"),
        PICKLE("\x80\2}(Nu.", "malformed pickle: a key without a value at byte 5"),
        PICKLE("\x80\2}u.", "malformed pickle: a mark is missing at byte 3"),
        PICKLE("\x80\2h\7.", "malformed pickle: a value that the memo lacks at byte 2"),
        PICKLE("\x80\2}r\xFF\xFF\xFF\xFF.",
               "malformed pickle: a place of the memo that cannot be at byte 3"),
        PICKLE("\x80\4\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF.",
               "malformed pickle: a text of more than 4 GB at byte 2"),
        PICKLE("\x80\2X\xFF\xFF\xFF\x7F.", "malformed pickle: it is cut at byte 2"),
        PICKLE("\x80\2Nb.", "malformed pickle: a value is missing at byte 3"),
        PICKLE("\x80\2}Nb.", "malformed pickle: a state for what has none at byte 4"),
        PICKLE("\x80\2cos\nsystem\nNR.", "malformed pickle: a call without a tuple at byte 14"),
        PICKLE("\x80\2\x82\1.", "the pickle has the opcode 0x82 at byte 2, which is not read"),
        PICKLE("\x80\2cos\nsystem\n(X\4\0\0\0truetR.",
               "it is a os.system, which only Python can make"),
        PICKLE("\x80\2cos\nsystem\n.", "it is a os.system, which only Python can make"),
        PICKLE("\x80\2})Ns.", "its dict has a key that gives no name"),
        PICKLE("\x80\2" TENSOR("\1", "K\4\x85", "K\1\x85"), "tensor \"w\" goes beyond its storage"),
        PICKLE("\x80\2" TENSOR("\0", "K\2\x85", "K\4\x85"), "tensor \"w\" goes beyond its storage"),
        PICKLE("\x80\2" TENSOR("\0", "K\2\x85", "J\xFF\xFF\xFF\xFF\x85"),
               "tensor \"w\" has sizes or strides that are not read"),
        PICKLE("\x80\2" TENSOR("\0", "K\2\x85", ")"),
               "tensor \"w\" has sizes or strides that are not read"),
        PICKLE("\x80\2" TENSOR("\0", "J\xFF\xFF\xFF\x7F\x85", "K\0\x85"),
               "tensor \"w\" has more than 64 times the bytes of its storage"),
        PICKLE("\x80\2" TENSOR("\0", "\x8A\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x85", "K\0\x85"),
               "tensor \"w\" is too large: more than 2^63 bytes"),
    };
    static const char data[16] = {0};
    own_maker m = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        restart(&m);
        add(&m, "m/data.pkl", cases[i].text, cases[i].n, false);
        add(&m, "m/data/0", data, sizeof data, false);
        refused(made(&m), cases[i].want);
    }
    /* members that are missing, doubled, or of another size */
    static const char good[] = "\x80\2" TENSOR("\0", "K\4\x85", "K\1\x85");
    restart(&m);
    add(&m, "m/data.pkl", good, sizeof good - 1, false);
    refused(made(&m), "tensor \"w\" has a storage that is not in the archive");
    add(&m, "m/data/0", data, 12, false);
    refused_then(&m, "tensor \"w\" has a storage of another size than its member");
    add(&m, "m/data.pkl", good, sizeof good - 1, false);
    add(&m, "m/data/0", data, 16, false);
    add(&m, "m/byteorder", "middle", 6, false);
    refused(made(&m), "its order of bytes is neither little nor big");
    add(&m, "m/data/0", data, 16, false);
    refused_then(&m, "two members have the name \"m/data/0\"");
    add(&m, "m/data.pkl", good, sizeof good - 1, false);
    add(&m, "n/data.pkl", good, sizeof good - 1, false);
    refused(made(&m), "two members are pickles: m/data.pkl and n/data.pkl");
}
