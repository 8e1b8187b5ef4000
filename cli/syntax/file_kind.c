/* The kinds of files that hold arrays. One table says the endings; the texts that list them are
 * made from it. */
#include "syntax/file_kind.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/suggest.h"

static const struct {
    const char *name; /* of the format; "." before it is the ending */
    file_kind kind;
} kinds[] = {
    {"csv", FILE_CSV},       {"tsv", FILE_TSV}, {"json", FILE_JSON},
    {"ndjson", FILE_NDJSON}, {"npy", FILE_NPY}, {"safetensors", FILE_SAFETENSORS},
    {"txt", FILE_TEXT}, /* the last one: it is not read */
};

#define NKINDS ((int)(sizeof kinds / sizeof *kinds))

/* The ending of a path, behind its last dot, as of a file of text for "-"; "" without one. */
static const char *ending_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return strcmp(path, "-") == 0 ? "txt" : dot && dot > path && dot[-1] != '/' ? dot + 1 : "";
}

static bool is_ending(const char *path, const char *name)
{
    return strcasecmp(ending_of(path), name) == 0;
}

file_kind file_kind_of(const char *path)
{
    for (int i = 0; i < NKINDS; i++)
        if (is_ending(path, kinds[i].name))
            return kinds[i].kind;
    return is_ending(path, "jsonl") ? FILE_NDJSON : FILE_UNKNOWN; /* by its other name */
}

bool file_is_checkpoint(const char *path)
{
    static const char *const endings[] = {".safetensors", ".kvs", ".npz", ".gguf", ".pt", ".pth",
                                          ".params",      "/",    ".safetensors.index.json"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && strcasecmp(path + n - m, endings[i]) == 0)
            return true;
    }
    return false;
}

bool file_is_of_other_tool(const char *path)
{
    static const char *const names[] = {
        "bin", "bz2", "ckpt", "distcp", "gz", "h5", "hdf5", "keras", "lz4", "mat", "msgpack",
        "onnx", "parquet", "pb", "pickle", "pkl", "tar", "tflite", "tgz", "xz",  "zip",  "zst"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_ending(path, names[i]))
            return true;
    return false;
}

bool file_is_meant(const char *path)
{
    static const char *const others[] = {"bmp", "dat",  "eps", "gif",  "html", "jpeg",
                                         "jpg", "md",   "pdf", "tif",  "tiff", "webp",
                                         "xls", "xlsx", "xml", "yaml", "yml"};
    bool meant = file_kind_of(path) != FILE_UNKNOWN || plot_target_of(path) != PLOT_NOWHERE ||
                 file_is_of_other_tool(path) ||
                 (file_is_checkpoint(path) && path[strlen(path) - 1] != '/');
    for (size_t i = 0; i < sizeof others / sizeof *others && !meant; i++)
        meant = is_ending(path, others[i]);
    return meant;
}

const char *file_kind_title(file_kind kind)
{
    static const char *const titles[FILE_TEXT + 1] = {
        [FILE_CSV] = "CSV",       [FILE_TSV] = "TSV",  [FILE_JSON] = "JSON",
        [FILE_NDJSON] = "NDJSON", [FILE_NPY] = "NumPy"};
    return titles[kind];
}

static bool grows(file_kind kind)
{
    return kind == FILE_CSV || kind == FILE_TSV || kind == FILE_NDJSON || kind == FILE_TEXT;
}

/* Appends ".csv, .tsv or .txt": the endings of all kinds, or of the kinds that grow. */
static void add_endings(buf *out, bool growing)
{
    const char *chosen[NKINDS];
    int n = 0;
    for (int i = 0; i < NKINDS; i++)
        if (!growing || grows(kinds[i].kind))
            chosen[n++] = kinds[i].name;
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s.%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", chosen[i]);
}

const char *file_kind_format(int i)
{
    return i + 1 < NKINDS ? kinds[i].name : NULL;
}

int file_kind_parse(file_kind *out, const char *name, kv_err *e)
{
    suggest near = {.word = name};
    for (int i = 0; file_kind_format(i); i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *out = kinds[i].kind;
            return KV_OK;
        }
        suggest_add(&near, kinds[i].name);
    }
    kv_err_set(e, KV_E_VALUE, "there is no format \"%.80s\"", name);
    suggest_done(&near, e);
    return kv_err_hint(e, "formats: csv, tsv, json, ndjson, npy, safetensors");
}

int file_kind_check(const char *path, bool append, kv_err *e)
{
    own_buf endings = {0};
    file_kind kind = file_kind_of(path);
    int rc = KV_OK;
    if (kind == FILE_UNKNOWN) {
        add_endings(&endings, false);
        rc = kv_err_set(e, KV_E_USAGE, "`%s` has no known ending (%s)", path, buf_text(&endings));
        if (is_ending(path, "pt") || is_ending(path, "pth"))
            kv_err_hint(e, "safetensors.torch.load_file reads .safetensors");
        else if (file_is_checkpoint(path))
            kv_err_hint(e, "save writes keys of the store to .npz, .kvs and folders");
    } else if (append && !grows(kind)) {
        add_endings(&endings, true);
        rc = kv_err_set(e, KV_E_USAGE, ">> adds lines, and \"%s\" is not made of lines", path);
        kv_err_hint(e, "files that can grow end in %s", buf_text(&endings));
    }
    return rc;
}

int file_kind_check_keeps(const char *path, const char *what, kv_err *e)
{
    static const char *const others[][2] = {{"txt", "text"},     {"npz", "NumPy"},
                                            {"gguf", "GGUF"},    {"pt", "PyTorch"},
                                            {"pth", "PyTorch"}};
    const char *title = file_kind_title(file_kind_of(path));
    for (size_t i = 0; !title && i < sizeof others / sizeof *others; i++)
        if (is_ending(path, others[i][0]))
            title = others[i][1];
    return title ? kv_err_set(e, KV_E_USAGE,
                              "\"%s\" is the name of a %s file, which keeps no %s", path, title,
                              what)
                 : KV_OK;
}

/* ---- Pictures ---- */

plot_target plot_target_of(const char *path)
{
    const char *ending = ending_of(path);
    return strcasecmp(ending, "svg") == 0   ? PLOT_SVG
           : strcasecmp(ending, "png") == 0 ? PLOT_PNG
           : strcasecmp(ending, "txt") == 0 ? PLOT_TEXT
                                            : PLOT_NOWHERE;
}

int plot_path_check(const char *path, bool append, kv_err *e)
{
    plot_target target = plot_target_of(path);
    if (target == PLOT_NOWHERE)
        return kv_err_set(e, KV_E_USAGE,
                          "`%s` has no known ending of a picture (.svg, .png or .txt)", path);
    if (append && target != PLOT_TEXT) {
        kv_err_set(e, KV_E_USAGE, ">> adds lines, and \"%s\" is not made of lines", path);
        return kv_err_hint(e, "pictures that can grow end in .txt");
    }
    return KV_OK;
}
