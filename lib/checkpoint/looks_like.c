/* Files by their first bytes. */
#include "checkpoint/looks_like.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"

#define LOOK_BYTES 4096
#define FROM_DCP   "python -m torch.distributed.checkpoint.format_utils dcp_to_torch DIR FILE"

/* The begin of a file. */
typedef struct look {
    char text[LOOK_BYTES + 1]; /* with a NUL behind it */
    int64_t n;
    bool whole; /* it is all of the file */
} look;

static const char read_are[] = "read are safetensors, npz, npy, GGUF, .pt and .params files, and "
                               "folders of safetensors files";
static const char save_as[] =
    "save its arrays as safetensors or npz, with the library that wrote it";
static const char from_onnx[] = "its arrays become safetensors by onnx.numpy_helper and "
                                "safetensors.numpy.save_file";
static const char from_flax[] = "safetensors.flax.save_file(flax.traverse_util.flatten_dict("
                                "flax.serialization.msgpack_restore(open(FILE, \"rb\").read()), "
                                "sep=\".\"), \"m.safetensors\")";
static const char to_gguf[] = "convert it to gguf, or the model that it was made from";

static const char from_utf16[] = "write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW";

/* Marks at a fixed place. */
static const struct {
    int at, n;
    const char *mark, *what, *hint;
} marks[] = {
    {0, 3, "\x1F\x8B\x08", "a file compressed with gzip",
     "zcat FILE | kvctl -c 'x = @-' reads it; gunzip FILE unpacks it"},
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
    {0, 8, "\x89PNG\r\n\x1A\n", "a picture (PNG)", read_are},
    {0, 3, "\xFF\xD8\xFF", "a picture (JPEG)", read_are},
    {0, 5, "%PDF-", "a PDF file", read_are},
    {0, 4, "tjgg", "a ggml file from before GGUF", to_gguf},
    {0, 4, "fmgg", "a ggml file from before GGUF", to_gguf},
    {0, 4, "lmgg", "a ggml file from before GGUF", to_gguf},
    {4, 4, "TFL3", "a TFLite model", save_as},
    {0, 2, "\xFF\xFE", "a text in UTF-16, as PowerShell writes it", from_utf16},
    {0, 2, "\xFE\xFF", "a text in UTF-16, as PowerShell writes it", from_utf16},
    {0, 4, "PAR1", "a Parquet file", read_are},
    {0, 10, "MATLAB 5.0", "a MATLAB file", save_as},
    {0, 6, "ARROW1", "an Arrow file", read_are},
    {0, 15, "SQLite format 3", "an SQLite database", read_are},
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
    bool clause = strstr(what, ", which") != NULL;
    file_bad(e, KV_E_FORMAT, in->name, "this looks like %s%s not read", what,
             clause ? "; it is" : ", which is");
    kv_err_hint(e, "%s", hint);
    return KV_E_FORMAT;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool contains(const look *l, const char *text)
{
    return memmem(l->text, (size_t)l->n, text, strlen(text)) != NULL;
}

/* Where training scripts put the tensors in what they save beside other things. */
static const char *const torch_parts[] = {"state_dict", "model_state_dict", "model", "module"};

/* The begin of a file of PyTorch is a pickle of names; the tensors come behind it. */
#define TORCH_BYTES ((int64_t)1 << 20)

/* The part that holds the tensors, by a text of a pickle that is its name; NULL: none of those. */
static const char *torch_part(const char *text, int64_t n)
{
    for (size_t i = 0; i < sizeof torch_parts / sizeof *torch_parts; i++) {
        char pickled[32] = {'X', (char)strlen(torch_parts[i])}; /* and three bytes of 0 */
        size_t length = strlen(torch_parts[i]);
        memcpy(pickled + 5, torch_parts[i], length);
        if (memmem(text, (size_t)n, pickled, length + 5))
            return torch_parts[i];
    }
    return NULL;
}

/* Says that it is a file of PyTorch, with a hint that fits what it holds. */
static int say_torch(const input *in, const char *what, kv_err *e)
{
    int64_t n = at_most(in->size, TORCH_BYTES);
    char *text = mem_alloc(n, 1, e);
    int rc = text ? input_read(in, text, 0, n, e) : KV_E_MEMORY;
    const char *part = rc ? NULL : torch_part(text, n);
    mem_free(text);
    if (rc)
        return rc;
    say(in, what, "", e);
    return kv_err_hint(e,
                       "save it as safetensors: safetensors.torch.save_file(torch.load(FILE, "
                       "weights_only=True)%s%s%s, \"m.safetensors\")",
                       part ? "[\"" : "", part ? part : "", part ? "\"]" : ""),
           KV_E_FORMAT;
}

int looks_like_zip(const input *in, zip_kind kind, kv_err *e)
{
    switch (kind) {
    case ZIP_SCRIPT:
        return say(in, "a TorchScript program",
                   "safetensors.torch.save_file(torch.jit.load(FILE).state_dict(), "
                   "\"m.safetensors\")",
                   e);
    case ZIP_KERAS:
        return say(in, "a Keras file",
                   "numpy.savez(\"m.npz\", *keras.saving.load_model(FILE).get_weights())", e);
    case ZIP_TORCH: /* which is read */
    case ZIP_OTHER:
        break;
    }
    return say(in, "a zip archive without arrays", read_are, e);
}

static int look_at_zip(const input *in, const look *l, bool is_table, kv_err *e)
{
    bool zip = has(l, 0, "PK\3\4", 4) || has(l, 0, "PK\5\6", 4);
    bool torch = contains(l, "/data.pkl");
    if (zip && is_table && !torch) /* the arrays that it may have were not looked for */
        return say(in, "a zip archive", "one of arrays is read as FILE.npz; unzip FILE", e);
    return zip ? looks_like_zip(in, torch ? ZIP_TORCH : ZIP_OTHER, e) : KV_OK;
}

/* The first bytes of PyTorch's format from before the archives: a pickle of a number. */
#define LEGACY "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19"

/* A pickle of protocol 2 to 5 begins so, and goes on with a frame, a mark, a container or a value.
 */
static bool is_pickle(const look *l)
{
    return l->n >= 4 && l->text[0] == '\x80' && l->text[1] >= 2 && l->text[1] <= 5 &&
           strchr("\x95}](c\x8CqXKMJGNB\x8A\x88\x89U)", l->text[2]) && l->text[2];
}

/* A tar archive as PyTorch wrote it before anything else: storages, tensors and a pickle. */
static int look_at_tar(const input *in, kv_err *e)
{
    static const char *const names[] = {"storages", "tensors", "pickle"};
    enum { BLOCK = 512, MEMBERS = 32 };
    int found = 0;
    int64_t at = 0;
    for (int i = 0; i < MEMBERS && at + BLOCK <= in->size; i++) {
        char head[BLOCK + 1] = {0};
        int64_t size = 0;
        TRY(input_read(in, head, at, BLOCK, e));
        for (int k = 0; k < 3; k++)
            if (strncmp(head, names[k], 100) == 0)
                found |= 1 << k;
        for (const char *p = head + 124; p < head + 136 && *p >= '0' && *p <= '7'; p++)
            size = size * 8 + (*p - '0');
        at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return found == 7 ? say_torch(in, "PyTorch's tar format, from before its archives", e) : KV_OK;
}

/* msgpack: a map whose first name is a text. */
static bool is_msgpack(const look *l)
{
    const unsigned char *p = (const unsigned char *)l->text;
    int64_t at = p[0] >= 0x81 && p[0] <= 0x8F ? 1 : p[0] == 0xDE ? 3 : p[0] == 0xDF ? 5 : 0, n = 0;
    if (at == 0 || l->n < at + 3)
        return false;
    if (p[at] > 0xA0 && p[at] <= 0xBF)
        n = p[at++] & 31;
    else if (p[at] == 0xD9)
        n = p[at + 1], at += 2;
    for (int64_t i = at; i < at + n && i < l->n; i++)
        if (p[i] < ' ' || p[i] == 0x7F)
            return false;
    return n > 0 && l->n >= at + n;
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

/* Texts that came in the place of a file. */
static int look_at_substitute(const input *in, const look *l, kv_err *e)
{
    const char *word = first_word(l);
    if (strncmp(word, "version https://git-lfs", 23) == 0)
        return say(in, "a Git LFS pointer", "fetch the file that it points to: git lfs pull", e);
    if (strncasecmp(word, "<!doctype html", 14) == 0 || strncasecmp(word, "<html", 5) == 0)
        return say(in, "an HTML page, such as a server's login or error page",
                   "download the file again, with a token where one is needed", e);
    return KV_OK;
}

static int look_at_text(const input *in, const look *l, kv_err *e)
{
    const char *word = first_word(l);
    TRY(look_at_substitute(in, l, e));
    if (*word == '<')
        return say(in, "an XML text", read_are, e);
    if (*word == '{' || *word == '[') {
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
    if (is_csv(l))
        return say(in, "a CSV text", "as one array it is read by @FILE.csv", e);
    return say(in, "a text", read_are, e);
}

/* ---- All ------------------------------------------------------------------------------------- */

static int look_at(const input *in, bool is_table, kv_err *e)
{
    look l = {.n = at_most(in->size, LOOK_BYTES), .whole = in->size <= LOOK_BYTES};
    TRY(input_read(in, l.text, 0, l.n, e));
    TRY(look_at_zip(in, &l, is_table, e));
    if (has(&l, 0, LEGACY, sizeof LEGACY - 1))
        return say_torch(in, "PyTorch's format from before 1.6 (legacy)", e);
    int rc = KV_OK;
    if (has(&l, 257, "ustar", 5) && (rc = look_at_tar(in, e)))
        return rc;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (has(&l, marks[i].at, marks[i].mark, marks[i].n))
            return say(in, marks[i].what, marks[i].hint, e);
    }
    if (is_pickle(&l))
        return say(in, "a Python pickle, which would run code", save_as, e);
    if (is_onnx(&l))
        return say(in, "an ONNX graph", from_onnx, e);
    if (is_msgpack(&l))
        return say(in, "msgpack, as Flax writes it", from_flax, e);
    if (is_zeros(&l))
        return say(in, "a file of zeros, such as an unfinished download",
                   "download it again", e);
    if (!is_text(&l))
        return KV_OK;
    return is_table ? look_at_substitute(in, &l, e) : look_at_text(in, &l, e);
}

int looks_like(const input *in, kv_err *e)
{
    return look_at(in, false, e);
}

int looks_like_table(const input *in, kv_err *e)
{
    return look_at(in, true, e);
}

/* ---- Names ----------------------------------------------------------------------------------- */

int looks_like_name(const input *in, kv_err *e)
{
    static const struct {
        const char *pattern, *what, *hint;
    } names[] = {
        {"*.distcp", "a file of torch.distributed.checkpoint (DCP)", FROM_DCP},
        {"*.msgpack", "msgpack, as Flax writes it", from_flax},
        {"*.onnx", "an ONNX graph", from_onnx},
        {"saved_model.pb", "a TensorFlow SavedModel", save_as},
        {"*.data-[0-9][0-9][0-9][0-9][0-9]-of-*", "a TensorFlow checkpoint", save_as},
    };
    const char *base = checkpoint_base(in->name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (fnmatch(names[i].pattern, base, 0) == 0)
            return say(in, names[i].what, names[i].hint, e);
    return KV_OK;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* Folders of other tools: a name that stands there, and another one (NULL: that one is enough). */
static const struct {
    const char *name, *other, *what, *hint;
} folders[] = {
    {".metadata", "*.distcp", "a folder of torch.distributed.checkpoint (DCP)", FROM_DCP},
    {"*.distcp", NULL, "a folder of torch.distributed.checkpoint (DCP)", FROM_DCP},
    {"_CHECKPOINT_METADATA", NULL, "an Orbax checkpoint",
     "restore it in Python and save it as safetensors or npz"},
    {"_METADATA", NULL, "an Orbax checkpoint",
     "restore it in Python and save it as safetensors or npz"},
    {"manifest.ocdbt", NULL, "an Orbax checkpoint",
     "restore it in Python and save it as safetensors or npz"},
    {"saved_model.pb", NULL, "a TensorFlow SavedModel", save_as},
    {"checkpoint", "*.index", "a TensorFlow checkpoint", save_as},
};
enum { NFOLDERS = sizeof folders / sizeof *folders };

int looks_like_folder(const char *path, kv_err *e)
{
    bool first[NFOLDERS] = {false}, second[NFOLDERS] = {false};
    own_folder_names all = {0};
    TRY(folder_names_read(&all, path, e));
    for (int64_t k = 0; k < all.n; k++)
        for (int i = 0; i < NFOLDERS; i++) {
            first[i] |= fnmatch(folders[i].name, all.list[k], 0) == 0;
            second[i] |= !folders[i].other || fnmatch(folders[i].other, all.list[k], 0) == 0;
        }
    for (int i = 0; i < NFOLDERS; i++)
        if (first[i] && second[i]) {
            file_bad(e, KV_E_FORMAT, path, "this looks like %s, which is not read",
                     folders[i].what);
            return kv_err_hint(e, "%s", folders[i].hint), KV_E_FORMAT;
        }
    return KV_OK;
}
