/* Files that lie. Small valid files of every format are changed: each number in them becomes
 * another one, names and members are replaced, put twice, swapped, cut out; bytes are flipped. Each
 * of the results meets what must hold of every file (tests/fuzz/fuzz.c). Whatever a file says, that
 * ends soon and leaves nothing behind.
 *
 * CHECKPOINT_FUZZ=100000 TEST_SECONDS=3000 build/unit checkpoint_fuzz runs so many rounds, from
 * CHECKPOINT_FUZZ_SEED on. After a failure the files stay in $TEST_MEMORY/kv-checkpoint-*. */
#include <fcntl.h>
#include <malloc.h>
#include <time.h>

#include "base/file.h"
#include "../fuzz/fuzz.h"
#include "checkpoint/tensor_reader.h"
#include "test_checkpoint.h"

/* ---- Files ----------------------------------------------------------------------------------- */

#define NFILES 3
#define DATA   "tests/checkpoint/"

/* A checkpoint that is valid. */
typedef struct image {
    const char *path;            /* in its folder: that of the file to open; "": the folder */
    int64_t tensors;
    const char *names[NFILES];   /* of its files, */
    const char *sources[NFILES]; /* and where they come from; NULL: our own */
} image;

#define SHARDS "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
#define INDEX  "model.safetensors.index.json"

static const image images[] = {
    {"m.safetensors", 6, {"m.safetensors"}, {NULL}},
    {INDEX, 4, {INDEX, SHARDS}, {NULL, NULL, NULL}},
    {"", 4, {SHARDS}, {NULL, NULL}},
    {"m.gguf", 2, {"m.gguf"}, {DATA "small.gguf"}},
    {"m.npy", 1, {"m.npy"}, {DATA "npz/matrix.npy"}},
    {"m.npz", 5, {"m.npz"}, {DATA "npz/shapes.npz"}},
    {"m.npz", 4, {"m.npz"}, {DATA "npz/fortran-deflated.npz"}},
    {"m.npz", 5, {"m.npz"}, {DATA "npz/stream-deflated.npz"}},
    {"m.npz", 1, {"m.npz"}, {DATA "npz/zip64.npz"}},
    {"m.npz", 13, {"m.npz"}, {DATA "npz/swapped.npz"}},
    {"m.npz", 5, {"m.npz"}, {DATA "npz/behind.npz"}},
    {"m.params", 1, {"m.params"}, {DATA "small.params"}},
    {"m.params", 6, {"m.params"}, {DATA "sparse.params"}},
    {"m.pt", 1, {"m.pt"}, {DATA "torch/one.pt"}},
    {"m.pt", 4, {"m.pt"}, {DATA "torch/big.pt"}},
};
enum { NIMAGES = sizeof images / sizeof *images };

static const char header_of_one[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"a\\u00e9\":\"b\"},"
    "\"model.x.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[24,27]},"
    "\"four\":{\"dtype\":\"F4\",\"shape\":[2,1],\"data_offsets\":[27,28]},"
    "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
    "\"\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[28,36]},"
    "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[36,44]}}   ";
static const char header_of_shard[][200] = {
    "{\"x\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"
    "\"y\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[4,8]}}",
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"z\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
    "\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[2,8]}}",
};
static const char index_of_shards[] =
    "{\"metadata\": {\"total_size\": 16},\n \"weight_map\": {\n"
    "  \"x\": \"model-00001-of-00002.safetensors\", \"y\": \"model-00001-of-00002.safetensors\",\n"
    "  \"z\": \"model-00002-of-00002.safetensors\", \"w\": \"model-00002-of-00002.safetensors\"}}";

/* A file that is changed. */
typedef struct lying {
    buf bytes;
    int64_t header; /* of a safetensors file: the bytes of its header, else 0 */
} lying;

static void put_safetensors(lying *f, const char *header, int data)
{
    uint64_t n = strlen(header);
    f->header = (int64_t)n;
    buf_put(&f->bytes, (const char *)&n, sizeof n);
    buf_add(&f->bytes, header);
    for (int i = 0; i < data; i++)
        buf_char(&f->bytes, (char)(i % 2));
}

static lying file_of(const image *m, int i)
{
    lying f = {0};
    char *text;
    size_t n;
    if (m->sources[i]) {
        CHECK_OK(file_read(m->sources[i], &text, &n, &e));
        buf_put(&f.bytes, text, n);
        mem_free(text);
    } else if (strcmp(m->names[i], "m.safetensors") == 0) {
        put_safetensors(&f, header_of_one, 44);
    } else if (strcmp(m->names[i], INDEX) == 0) {
        buf_add(&f.bytes, index_of_shards);
    } else {
        put_safetensors(&f, header_of_shard[strstr(m->names[i], "00002-of") != NULL], 8);
    }
    return f;
}

/* Releases f. */
static void put_file(test_folder *d, const image *m, int i, lying f)
{
    folder_put(d, m->names[i], buf_text(&f.bytes), f.bytes.len);
    buf_release(&f.bytes);
}

static test_folder folder_of(const image *m)
{
    test_folder d = folder_new();
    for (int i = 0; i < NFILES && m->names[i]; i++)
        put_file(&d, m, i, file_of(m, i));
    return d;
}

/* The path of what is opened. */
static const char *path_of(const test_folder *d, const image *m)
{
    static char path[600];
    snprintf(path, sizeof path, "%s%s%s", d->path, *m->path ? "/" : "", m->path);
    return path;
}

/* ---- Lies ------------------------------------------------------------------------------------ */

static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state += 0x9E3779B97F4A7C15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return (x ^ (x >> 31)) % n;
}

static const uint64_t numbers[] = {
    0, 1, UINT64_MAX, 2, 255, UINT16_MAX, INT32_MAX, UINT64_C(1) << 31, UINT32_MAX,
    UINT64_C(1) << 32, UINT64_C(1) << 53, INT64_MAX, INT64_MAX - 7, UINT64_C(1) << 63,
    UINT64_C(1) << 62, 32, 100000000};
enum { NNUMBERS = sizeof numbers / sizeof *numbers };

static const char *const words[] = {
    "", ".", "..", "../../etc/passwd", "/etc/passwd", "\\u0000", "\\u001b[2J\\u009b\\u202e",
    "\xff\xfe", "\xc2\x9b", "\x1b", "\\ud800", "__metadata__", "dtype", "shape", "data_offsets",
    "weight_map", "F4", "F6_E2M3", "BOOL", "C64", "U64", "Q4_0", INDEX, "(1,)", "<f8", ">f2", "|V2",
    "<c16"};
enum { NWORDS = sizeof words / sizeof *words };

static const char *const literals[] = {
    "-1", "1e3", "0.5", "00", "null", "[]", "[[1]]", "{}", "\"\"", "true", "",
    "18446744073709551616"};
enum { NLITERALS = sizeof literals / sizeof *literals };

/* Puts n bytes in the place of `left_out` bytes. */
static void replace_part(lying *f, size_t at, size_t left_out, const char *text, size_t n)
{
    buf all = {0};
    buf_put(&all, f->bytes.data, at);
    buf_put(&all, text, n);
    buf_put(&all, f->bytes.data + at + left_out, f->bytes.len - at - left_out);
    if (f->header && at >= 8 && (int64_t)at <= 8 + f->header)
        f->header += (int64_t)n - (int64_t)left_out;
    buf_release(&f->bytes);
    f->bytes = all;
}

/* Finds the k-th number in digits. */
static bool find_digits(const lying *f, size_t k, size_t *at, size_t *n)
{
    const buf *b = &f->bytes;
    for (size_t i = f->header ? 8 : 0; i < b->len; i += *n + 1) {
        for (*n = 0; i + *n < b->len && b->data[i + *n] >= '0' && b->data[i + *n] <= '9';)
            ++*n;
        *at = i;
        if (*n > 0 && k-- == 0)
            return true;
    }
    return false;
}

/* Finds the k-th quoted text. */
static bool find_quoted(const lying *f, size_t k, size_t *at, size_t *n)
{
    const buf *b = &f->bytes;
    for (size_t i = f->header ? 8 : 0; i < b->len; i++) {
        char quote = b->data[i];
        if (quote != '"' && quote != '\'')
            continue;
        *at = i + 1;
        while (++i < b->len && b->data[i] != quote)
            continue;
        *n = i - *at;
        if (k-- == 0)
            return i < b->len;
    }
    return false;
}

static size_t count(const lying *f, bool (*find)(const lying *, size_t, size_t *, size_t *))
{
    size_t n = 0, at, length;
    while (find(f, n, &at, &length))
        n++;
    return n;
}

/* The k-th number in digits becomes number w of the list, a literal, or its neighbour. */
static void lie_in_digits(lying *f, size_t k, size_t w)
{
    char text[32];
    size_t at, n;
    if (!find_digits(f, k, &at, &n))
        return;
    uint64_t is = strtoull(f->bytes.data + at, NULL, 10);
    if (w < NLITERALS)
        snprintf(text, sizeof text, "%s", literals[w]);
    else if (w < NLITERALS + NNUMBERS)
        snprintf(text, sizeof text, "%llu", (unsigned long long)numbers[w - NLITERALS]);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)(w % 2 ? is + 1 : is - 1));
    replace_part(f, at, n, text, strlen(text));
}

static void lie_in_quotes(lying *f, size_t k, size_t w)
{
    size_t at, n, other, nother;
    if (!find_quoted(f, k, &at, &n))
        return;
    if (w < NWORDS) {
        replace_part(f, at, n, words[w], strlen(words[w]));
    } else if (find_quoted(f, draw(count(f, find_quoted)), &other, &nother)) {
        OWN(test_free) char *copy = malloc(nother + 1);
        memcpy(copy, f->bytes.data + other, nother);
        replace_part(f, at, n, copy, nother);
    }
}

/* `width` bytes from `at` on become a number, or what stands there plus or minus one. */
static void lie_in_bytes(lying *f, size_t at, size_t width, size_t w)
{
    uint64_t x = 0;
    if (at + width > f->bytes.len)
        return;
    memcpy(&x, f->bytes.data + at, width);
    x = w < NNUMBERS ? numbers[w] : w % 2 ? x + 1 : x - 1;
    memcpy(f->bytes.data + at, &x, width);
}

/* Something between commas, or any bytes, is put twice, cut out or moved. */
static void move_part(lying *f)
{
    size_t from = draw(f->bytes.len), n = draw(f->bytes.len - from), to = draw(f->bytes.len);
    const char *comma = memchr(f->bytes.data + from, ',', f->bytes.len - from), *next = NULL;
    const char *end = f->bytes.data + f->bytes.len;
    if (comma && draw(4)) {
        from = (size_t)(comma - f->bytes.data);
        for (size_t k = draw(6) + 1; k > 0 && comma; k--)
            next = comma = memchr(comma + 1, ',', (size_t)(end - comma - 1));
        n = next ? (size_t)(next - f->bytes.data) - from : 1;
        to = from;
    }
    OWN(test_free) char *part = malloc(n + 1);
    memcpy(part, f->bytes.data + from, n);
    if (draw(2))
        replace_part(f, from, n, "", 0);
    if (to <= f->bytes.len && draw(2))
        replace_part(f, to, 0, part, n);
}

static void random_lie(lying *f)
{
    char junk[64];
    static const size_t widths[] = {1, 2, 4, 8};
    if (f->bytes.len == 0)
        return;
    switch (draw(10)) {
    case 0:
    case 1:
        lie_in_digits(f, draw(count(f, find_digits) + 1), draw(NLITERALS + NNUMBERS + 2));
        break;
    case 2:
        lie_in_quotes(f, draw(count(f, find_quoted) + 1), draw(NWORDS + 4));
        break;
    case 3:
    case 4:
        lie_in_bytes(f, draw(f->bytes.len), widths[draw(4)], draw(NNUMBERS + 2));
        break;
    case 5:
        f->bytes.data[draw(f->bytes.len)] ^= (char)(1 << draw(8));
        break;
    case 6:
        f->bytes.data[draw(f->bytes.len)] = (char)draw(256);
        break;
    case 7:
        replace_part(f, draw(f->bytes.len), 0, NULL, 0);
        f->bytes.len = draw(8) ? f->bytes.len : draw(f->bytes.len);
        break;
    case 8:
        for (size_t i = 0; i < sizeof junk; i++)
            junk[i] = draw(2) ? (char)draw(256) : 0;
        replace_part(f, draw(2) ? f->bytes.len : draw(f->bytes.len), 0, junk, draw(sizeof junk));
        break;
    default:
        move_part(f);
    }
}

/* Makes the length of the header right, so that what it says is looked at. */
static void mend_length(lying *f)
{
    uint64_t n = (uint64_t)f->header;
    if (f->header > 0 && f->bytes.len >= sizeof n)
        memcpy(f->bytes.data, &n, sizeof n);
}

/* ---- What is done with a file ---------------------------------------------------------------- */

static int count_finding(void *arg, const char *key, const char *file, const char *finding,
                         kv_err *e)
{
    (void)key, (void)file, (void)finding, (void)e;
    ++*(int64_t *)arg;
    return KV_OK;
}

static volatile unsigned char touched; /* so that every byte is read */

/* The same file as a stream. */
static void open_stream(const char *path)
{
    own_text *text = NULL;
    own_checkpoint *c = NULL;
    kv_err e = {0}, why = {0};
    size_t n;
    int ends[2], before = dup(STDIN_FILENO);
    if (file_read(path, &text, &n, &e))
        return;
    CHECK(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    if (n < 60000) /* what a pipe holds */
        CHECK(write(ends[1], text, n) == (ssize_t)n);
    close(ends[0]);
    close(ends[1]);
    fuzz_names("stdin: ", 7);
    if (fuzz_file_result(checkpoint_open(&c, "-", NULL, &why), &why))
        fuzz_use(c);
    CHECK(dup2(before, STDIN_FILENO) == STDIN_FILENO);
    close(before);
}

/* Blocks of any size at any place, also back. */
static void read_about(const char *path)
{
    own_checkpoint *c = NULL;
    if (checkpoint_open(&c, path, NULL, NULL))
        return;
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, TENSOR_BLOCK);
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const tensor_info *t = checkpoint_at(c, i);
        int64_t one = tensor_type_run_bytes(t->type), runs = t->odd ? 0 : t->bytes / one;
        for (uint64_t k = runs > 0 ? 1 + draw(8) : 0; k > 0 && t->bytes < 1 << 16; k--) {
            kv_err e = {0};
            const void *data;
            int64_t at = (int64_t)draw((uint64_t)runs),
                    n = 1 + (int64_t)draw((uint64_t)(runs - at < 999 ? runs - at : 999));
            if (!fuzz_file_result(tensor_read(r, &data, i, at * one, n * one, &e), &e))
                break;
            for (int64_t b = 0; b < n * one; b++)
                touched ^= ((const unsigned char *)data)[b];
        }
    }
}

/* Everything, with the files in the folder. */
static void exercise(test_folder *d, const image *m)
{
    const char *path = path_of(d, m);
    clock_t begin = clock();
    int fd = free_fd();
    fuzz_small = true;
    fuzz_checkpoint(path);
    read_about(path);
    if (*m->path && strcmp(m->path, INDEX) != 0 && draw(8) == 0)
        open_stream(path);
    HOLDS(free_fd() == fd, path);
    HOLDS(clock() - begin < 2 * CLOCKS_PER_SEC, path);
}

/* ---- The tests ------------------------------------------------------------------------------- */

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* Each of n places of a file becomes some of so many lies in turn; with $CHECKPOINT_FUZZ all. */
static void each_lie(test_folder *d, const image *m, int i, size_t n, size_t lies,
                     void (*lie)(lying *f, size_t k, size_t w))
{
    CHECK(n > 0);
    for (size_t k = 0; k < n * lies; k += setting("CHECKPOINT_FUZZ", 0) ? 1 : 3) {
        lying f = file_of(m, i);
        lie(&f, k / lies, k % lies);
        mend_length(&f);
        put_file(d, m, i, f);
        exercise(d, m);
    }
}

/* Every number and every name of the texts, some of the lies each; with $CHECKPOINT_FUZZ all. */
TEST(checkpoint_fuzz_texts)
{
    for (int k = 0; k < NIMAGES; k++) {
        own_folder d = folder_of(&images[k]);
        for (int i = 0; i < NFILES && images[k].names[i] && !images[k].sources[i]; i++) {
            lying f = file_of(&images[k], i);
            each_lie(&d, &images[k], i, count(&f, find_digits), NLITERALS + NNUMBERS + 2,
                     lie_in_digits);
            each_lie(&d, &images[k], i, count(&f, find_quoted), NWORDS, lie_in_quotes);
            put_file(&d, &images[k], i, f);
        }
    }
}

/* Every number that bytes could be; of widths and lies each byte gets some, in turn. */
TEST(checkpoint_fuzz_bytes)
{
    static const size_t widths[] = {4, 8, 2, 1};
    int64_t every = setting("CHECKPOINT_FUZZ", 0) ? 1 : 797, count = 0;
    for (int k = 0; k < NIMAGES; k++) {
        own_folder d = folder_of(&images[k]);
        lying f = file_of(&images[k], 0);
        for (size_t at = 0; at < f.bytes.len && images[k].sources[0]; at++)
            for (size_t w = 0; w < 4 * (NNUMBERS + 2); w++) {
                if (count++ % every)
                    continue;
                lying changed = file_of(&images[k], 0);
                lie_in_bytes(&changed, at, widths[w % 4], w / 4);
                put_file(&d, &images[k], 0, changed);
                exercise(&d, &images[k]);
            }
        buf_release(&f.bytes);
    }
}

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Several random lies in one file. */
static void random_rounds(int64_t rounds)
{
    static test_folder d[NIMAGES];
    for (int k = 0; k < NIMAGES; k++)
        d[k] = folder_of(&images[k]);
    for (int64_t n = 0; n < rounds; n++) {
        int k = (int)draw(NIMAGES), files = 0;
        while (files < NFILES && images[k].names[files])
            files++;
        int i = (int)draw((uint64_t)files);
        lying f = file_of(&images[k], i);
        for (uint64_t lies = 1 + draw(3); lies > 0; lies--)
            random_lie(&f);
        if (draw(8))
            mend_length(&f);
        put_file(&d[k], &images[k], i, f);
        exercise(&d[k], &images[k]);
        put_file(&d[k], &images[k], i, file_of(&images[k], i));
    }
    for (int k = 0; k < NIMAGES; k++)
        folder_remove(&d[k]);
}

TEST(checkpoint_fuzz_random)
{
    int64_t rounds = setting("CHECKPOINT_FUZZ", 1000);
    state = (uint64_t)setting("CHECKPOINT_FUZZ_SEED", 1);
    random_rounds(rounds / 2);
    size_t before = in_use();
    random_rounds(rounds / 2);
    CHECK(in_use() < before + 100000);
    CHECK(fuzz_readable > fuzz_opened / 10 && fuzz_readable < fuzz_opened * 9 / 10);
    CHECK(fuzz_findings > rounds / 10);
    if (rounds > 1000)
        printf("# %lld opened, %lld readable, %lld findings\n", (long long)fuzz_opened,
               (long long)fuzz_readable, (long long)fuzz_findings);
}

/* ---- Memory that fails ----------------------------------------------------------------------- */

/* Opens and loads while allocation n fails, see mem_fail_at: a file with this many tensors as it is
 * (mode 0), its weights (1), or with findings (2). Returns how many allocations there were. */
static int64_t with_fault(const char *path, int mode, int64_t n, int64_t tensors, int64_t want)
{
    kv_err e = {0};
    own_checkpoint *c = NULL;
    kv_array *arrays[32];
    int64_t findings = 0;
    checkpoint_options o = {.weights = mode == 1};
    if (mode == 2) {
        o.found = count_finding;
        o.arg = &findings;
    }
    int fd = free_fd();
    mem_fail_at(n);
    int code = checkpoint_open(&c, path, &o, &e);
    if (!code && tensors >= 0 && (code = load_all(arrays, c, &e)) == KV_OK) {
        for (int64_t i = 0; i < checkpoint_count(c); i++)
            kv_array_unref(arrays[i]);
        CHECK_INT(checkpoint_count(c), tensors);
    }
    int64_t made = mem_fail_at(0);
    checkpoint_close(c);
    c = NULL;
    HOLDS(code == KV_OK || (code == KV_E_DTYPE && tensors >= 0) ||
              (code == KV_E_MEMORY && strstr(e.text, "out of memory")),
          e.text);
    HOLDS(code ? findings <= want : findings == want, path);
    CHECK_INT(free_fd(), fd);
    return made;
}

static void each_fault(const char *path, int mode, int64_t tensors, int64_t want)
{
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int64_t n = 1; with_fault(path, mode, sign * n, tensors, want) >= n; n++)
            CHECK(n < 5000);
}

TEST(checkpoint_fuzz_memory)
{
    for (int k = 0; k < NIMAGES; k++) {
        own_folder d = folder_of(&images[k]);
        for (int mode = 0; mode < 3; mode++)
            each_fault(path_of(&d, &images[k]), mode, images[k].tensors, 0);
    }
}

/* A random change of a file that makes findings, but for which it can be opened. */
static int64_t make_findings(test_folder *d, const image *m)
{
    for (int tries = 0; tries < 10000; tries++) {
        own_checkpoint *c = NULL;
        int64_t findings = 0;
        const checkpoint_options o = {.found = count_finding, .arg = &findings};
        lying f = file_of(m, 0);
        random_lie(&f);
        mend_length(&f);
        put_file(d, m, 0, f);
        if (checkpoint_open(&c, path_of(d, m), &o, NULL) == KV_OK && findings > 0)
            return findings;
    }
    CHECK(!"a change makes findings");
    return 0;
}

/* All findings come, or an error. */
TEST(checkpoint_fuzz_memory_of_findings)
{
    for (int k = 0; k < NIMAGES; k++) {
        own_folder d = folder_of(&images[k]);
        for (int round = 0; round < 10; round++) {
            int64_t want = make_findings(&d, &images[k]);
            each_fault(path_of(&d, &images[k]), 2, -1, want);
        }
    }
}
