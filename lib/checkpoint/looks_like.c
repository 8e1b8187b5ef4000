/* Files by their first bytes. */
#include "checkpoint/looks_like.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/utf8.h"

#define LOOK_BYTES 4096

/* The begin of a file. */
typedef struct look {
    char text[LOOK_BYTES + 1]; /* with a NUL behind it */
    int64_t n;
    bool whole; /* it is all of the file */
} look;

static const char read_are[] = "read are safetensors, npz, npy and GGUF files, and folders of "
                               "safetensors files";
static const char from_torch[] = "save it as safetensors: safetensors.torch.save_file("
                                 "torch.load(FILE, weights_only=True), \"m.safetensors\")";

/* Marks at a fixed place. */
static const struct {
    int at, n;
    const char *mark, *what, *hint;
} marks[] = {
    {0, 5, "\x80\x02\x8A\x0Al", "a PyTorch file", from_torch},
    {0, 3, "\x1F\x8B\x08", "a file compressed with gzip", "unpack it first: gunzip FILE"},
    {0, 4, "\x28\xB5\x2F\xFD", "a file compressed with zstd", "unpack it first: zstd -d FILE"},
    {0, 6,
     "\xFD"
     "7zXZ\0",
     "a file compressed with xz", "unpack it first: xz -d FILE"},
    {0, 3, "BZh", "a file compressed with bzip2", "unpack it first: bunzip2 FILE"},
    {0, 4, "\x04\x22\x4D\x18", "a file compressed with lz4", "unpack it first: lz4 -d FILE"},
    {257, 5, "ustar", "a tar archive", "unpack it first: tar -xf FILE"},
    {0, 8, "\x89HDF\r\n\x1A\n", "an HDF5 file, as Keras and NetCDF write them",
     "save its arrays as safetensors: h5py reads them, safetensors.numpy.save_file writes"},
    {0, 4, "tjgg", "a ggml file from before GGUF", "convert the model again, to GGUF"},
    {0, 4, "fmgg", "a ggml file from before GGUF", "convert the model again, to GGUF"},
    {0, 4, "lmgg", "a ggml file from before GGUF", "convert the model again, to GGUF"},
    {4, 4, "TFL3", "a TensorFlow Lite model", read_are},
    {0, 4, "PAR1", "a Parquet file", read_are},
    {0, 6, "ARROW1", "an Arrow file", read_are},
    {0, 15, "SQLite format 3", "an SQLite database", read_are},
    {0, 4, "%PDF", "a PDF document", read_are},
    {0, 4,
     "\x7F"
     "ELF",
     "a program", read_are},
};

static bool has(const look *l, int64_t at, const char *mark, int64_t n)
{
    return l->n >= at + n && memcmp(l->text + at, mark, (size_t)n) == 0;
}

static int say(const input *in, const char *what, const char *hint, kv_err *e)
{
    file_bad(e, KV_E_FORMAT, in->name, "this looks like %s, which is not read", what);
    kv_err_hint(e, "%s", hint);
    return KV_E_FORMAT;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool contains(const look *l, const char *text)
{
    return memmem(l->text, (size_t)l->n, text, strlen(text)) != NULL;
}

int looks_like_zip(const input *in, bool torch, kv_err *e)
{
    return torch ? say(in, "a PyTorch file", from_torch, e)
                 : say(in, "a zip archive without arrays", read_are, e);
}

static int look_at_zip(const input *in, const look *l, kv_err *e)
{
    bool zip = has(l, 0, "PK\3\4", 4) || has(l, 0, "PK\5\6", 4);
    return zip ? looks_like_zip(in, contains(l, "/data.pkl"), e) : KV_OK;
}

/* A pickle of protocol 2 to 5 begins so, and goes on with a frame, a mark or an empty container. */
static bool is_pickle(const look *l)
{
    return l->n >= 4 && l->text[0] == '\x80' && l->text[1] >= 2 && l->text[1] <= 5 &&
           strchr("\x95}](c\x8Cq", l->text[2]) && l->text[2];
}

/* The first field of an ONNX model is its version (a small number), the next two are texts. */
static bool is_onnx(const look *l)
{
    return l->n >= 16 && l->text[0] == '\x08' && l->text[1] >= 1 && l->text[1] <= 20 &&
           l->text[2] == '\x12' && l->text[3] >= 1 && l->text[3] < 64;
}

static bool is_zeros(const look *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        if (l->text[i])
            return false;
    }
    return l->n >= 64;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* UTF-8 without control characters; a short one needs the end of a line, as a length may be
 * letters, too. */
static bool is_text(const look *l)
{
    int64_t i = 0;
    bool ok = true;
    while (i < l->n && ok) {
        unsigned char byte = (unsigned char)l->text[i];
        if (byte < ' ' && !strchr("\t\n\r\f", byte ? byte : 1))
            return false;
        i += (int64_t)utf8_length(l->text + i, (size_t)(l->n - i), &ok);
    }
    if (!ok && (l->whole || l->n - i >= 3)) /* the look may have cut a character */
        return false;
    return l->n >= 8 || (l->n > 0 && l->text[l->n - 1] == '\n');
}

static const char *first_word(const look *l)
{
    const char *at = l->text;
    if (has(l, 0, "\xEF\xBB\xBF", 3))
        at += 3;
    return at + strspn(at, " \t\r\n");
}

static int commas(const char **line)
{
    int n = 0;
    for (; **line && **line != '\n'; ++*line)
        n += **line == ',';
    *line += **line == '\n';
    return n;
}

/* Lines with as many commas, and a digit somewhere. */
static bool is_csv(const look *l)
{
    const char *line = l->text;
    int n = commas(&line);
    for (int i = 0; i < 3 && strchr(line, '\n'); i++) {
        if (commas(&line) != n)
            return false;
    }
    return n > 0 && strpbrk(l->text, "0123456789");
}

static int look_at_json(const input *in, const look *l, kv_err *e)
{
    if (!contains(l, "\"weight_map\""))
        return say(in, "a JSON text", read_are, e);
    if (contains(l, ".bin\""))
        return say(in, "an index of PyTorch files",
                   "save the model as safetensors: save_pretrained(FOLDER, "
                   "safe_serialization=True) of transformers",
                   e);
    return say(in, "an index of shards under another name",
               "its name has to end in .safetensors.index.json", e);
}

static int look_at_text(const input *in, const look *l, kv_err *e)
{
    const char *word = first_word(l);
    if (strncmp(word, "version https://git-lfs", 23) == 0)
        return say(in, "a Git LFS pointer", "fetch the file that it points to: git lfs pull", e);
    if (strncasecmp(word, "<!doctype html", 14) == 0 || strncasecmp(word, "<html", 5) == 0)
        return say(in, "an HTML page, such as a server's login or error page",
                   "download the file again, with a token where one is needed", e);
    if (*word == '<')
        return say(in, "an XML text", read_are, e);
    if (*word == '{' || *word == '[')
        return look_at_json(in, l, e);
    if (is_csv(l))
        return say(in, "a CSV text", "as one array it is read by @FILE.csv", e);
    return say(in, "a text", read_are, e);
}

/* ---- All ------------------------------------------------------------------------------------- */

int looks_like(const input *in, kv_err *e)
{
    look l = {.n = in->size < LOOK_BYTES ? in->size : LOOK_BYTES, .whole = in->size <= LOOK_BYTES};
    int code = input_read(in, l.text, 0, l.n, e);
    if (code || (code = look_at_zip(in, &l, e)))
        return code;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (has(&l, marks[i].at, marks[i].mark, marks[i].n))
            return say(in, marks[i].what, marks[i].hint, e);
    }
    if (is_pickle(&l))
        return say(in, "a Python pickle", from_torch, e);
    if (is_onnx(&l))
        return say(in, "an ONNX model",
                   "its arrays become safetensors by onnx.numpy_helper and "
                   "safetensors.numpy.save_file",
                   e);
    if (is_zeros(&l))
        return say(in, "a file of zeros, such as an unfinished download",
                   "download it again", e);
    return is_text(&l) ? look_at_text(in, &l, e) : KV_OK;
}
