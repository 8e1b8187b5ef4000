/* CSV files of arrays. libcsv splits the text into cells; each cell is converted once, straight
 * into the memory that becomes the array, which grows by doubling. Text arrives in pieces, so that
 * a file needs little memory beside its array, and reading stops soon after the first error.
 *
 * Invariant while reading: data holds n elements of dtype, and the last col belong to the row that
 * has begun and the others to rows of cols cells each. After an error (rc) everything is ignored.
 *
 * When columns are chosen, the first row is kept as text until it has ended: then it is known
 * which cells they are. From there on a row has its elements from its begin on, n counts these, col
 * counts all cells, and `to` says for each cell where its number goes. A column of texts has a zero
 * there until the file has ended, and its codes take their places, or more than one.
 */
#include "io/csv.h"

#include <csv.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/csv_cell.h"
#include "io/scalar.h"

/* Bytes that libcsv gets at a time. */
#define PIECE 65536

/* Bytes of a cell that libcsv has room for at first. */
#define CELL 512

typedef struct reader {
    const char *name, *path; /* of messages; of their hints */
    csv_options o;
    const csv_options *given; /* by the caller, or NULL */
    struct csv_parser parser;
    kv_err *e;
    int rc;

    kv_dtype dtype;
    bool default_dtype; /* float32, since no dtype was given */
    bool has_shape; /* the first line says it */
    int ndim;
    int64_t shape[KV_MAX_NDIM];

    char *data; /* n elements of dtype; room for cap */
    int64_t n, cap;
    int64_t line;       /* of the file, from 1 */
    int64_t col;        /* cells of the row so far */
    int64_t cols;       /* cells of every row, once one has ended */
    int64_t rows;       /* of numbers */
    bool after_cr;      /* a CR has just ended a row: a LF belongs to it */
    bool in_header;     /* the first row, which may turn out to be a header */
    bool had_header;
    int64_t numbers;    /* cells of the first row that are numbers */
    int64_t nwords;     /* cells of the first row that are neither numbers nor stand for none */
    int64_t named;      /* cells of the first row up to the last that is not empty */
    bool comment;       /* the first row begins with # */
    bool hash_named;    /* and a name follows, as in #chrom,start */
    int64_t hash;       /* the last line that begins with #, or 0 */
    kv_err first_error; /* the error of the first row if it is not a header */

    kv_err word;    /* the first cell of the row that is a word; reported when the row has ended */
    int64_t word_at; /* its column */
    char sign;      /* a separator that stands in it, or 0 */
    bool stands_for_none; /* it is NA, or the like */
    const char *notation;   /* see csv_notation */
    bool pointed;           /* a number had the sign of o.decimal */
    buf numbers_of; /* the columns of the row that are numbers, as cols= takes them */

    /* Where the separator is a blank, or lines are comments: a piece of the text, with a tab for
     * each run of blanks, and of a comment only its end; then whether its line has begun, whether
     * blanks came last, and whether a quote or a comment is open. */
    buf squeezed;
    bool in_line, gap, quoted, in_comment;

    buf words;      /* the cells of the first row, one behind the other */
    int64_t *ends;  /* where each of them ends there; nends, room for ends_cap */
    int64_t nends, ends_cap;
    int64_t *to;    /* for each cell of a row: 1 + the first chosen column that takes it, or 0 */
    int64_t *next;  /* for each chosen column: 1 + the next that takes the same cell, or 0 */
    bool chooses;   /* columns are chosen, or some are texts */
    csv_column *all;    /* the columns, where none are chosen but some are texts */
    csv_labels *labels; /* of each chosen column, where some are texts */
    bool keeps_empty;   /* a text may be missing */
    bool marked, emptied; /* a cell was one of missing=; one was empty, and is filled */
    buf number;           /* a number in the usual notation */
    int64_t semicolons;   /* in the first line, less commas */
    bool comma_points;    /* 1,5;2 stands in the first lines */
    bool other_notation;  /* the first row has a number in another notation */
} reader;

#define PLACE_TEXT 512

/* "x.csv:3:2", for messages. */
static const char *place(char out[PLACE_TEXT], const reader *r, int64_t line, int64_t col)
{
    snprintf(out, PLACE_TEXT, "%s:%lld:%lld", r->name, (long long)line, (long long)col);
    return out;
}

/* ---- Hints ------------------------------------------------------------------------------ */

/* Hints at comment= where a row that begins with # is in the way. */
static void hint_comment(const reader *r, kv_err *e)
{
    char behind[64];
    bool is_header = r->hash_named && r->had_header && r->col == r->cols;
    if (!r->hash || is_header || (r->rows > 0 && r->hash != r->line))
        return;
    snprintf(behind, sizeof behind, " passes over line %lld, which begins with #",
             (long long)r->hash);
    csv_hint_load(r->given, r->path, e, "comment=\"#\"", behind);
}

/* ---- Cells ------------------------------------------------------------------------------ */

/* Says why the newest cell cannot be an element. */
static int cell_error(const reader *r, scalar_fit fit, const char *cell, size_t n, kv_err *e)
{
    char text[PLACE_TEXT];
    place(text, r, r->line, r->col);
    if (n == 0) {
        kv_err_set(e, KV_E_FORMAT, "%s: the cell is empty", text);
        if (kv_dtype_is_float(r->dtype))
            csv_hint_load(r->given, r->path, e, "missing=nan",
                          " reads it as nan; missing=0 fills it");
        return csv_hint_load(r->given, r->path, e, "missing=0", " fills it"), KV_E_FORMAT;
    }
    if (memchr(cell, '\0', n))
        return kv_err_set(e, KV_E_FORMAT, "%s: the cell holds a NUL byte", text);
    scalar_error(e, text, fit, r->dtype, cell, n);
    if (fit == SCALAR_ROUNDED)
        csv_hint_load(r->given, r->path, e, scalar_dtype_option(cell, n), "");
    return KV_E_FORMAT;
}

/* Returns true if a cell is empty, or one of the words that stand for nothing. */
static bool is_missing(const csv_options *o, const char *cell, size_t n)
{
    static const char *const usual[] = {"NA", "N/A", "null", "None", "?", "-"};
    const char *const *words = o->missing ? o->missing : usual;
    int64_t nwords = o->missing ? o->nmissing : (int64_t)(sizeof usual / sizeof *usual);
    for (int64_t i = 0; i < nwords; i++)
        if (strlen(words[i]) == n &&
            (o->missing ? memcmp(words[i], cell, n) : strncasecmp(words[i], cell, n)) == 0)
            return true;
    return n == 0;
}

/* Returns true if missing= fills this cell. */
static bool is_filled(reader *r, const char *cell, size_t n)
{
    bool is = r->o.fills && is_missing(&r->o, cell, n);
    r->marked |= is && n > 0;
    r->emptied |= is && n == 0;
    return is;
}

/* ---- Words among the numbers ------------------------------------------------------------ */

/* Names of more columns are kept only where columns are chosen: a row may have millions. */
#define NAMED 10000

/* Returns true if column i has a name. A comment may have fewer cells than the rows. */
static bool is_named(const reader *r, int64_t i)
{
    return r->had_header && !r->comment && i < r->nends;
}

/* Cell i of the first row, one of nends. */
static const char *kept_cell(const reader *r, int64_t i, size_t *n)
{
    int64_t from = i > 0 ? r->ends[i - 1] : 0;
    *n = (size_t)(r->ends[i] - from);
    return buf_text(&r->words) + from;
}

/* Bytes of a list of columns that a hint shows. */
#define LISTED 120

/* Adds column i to those that hold numbers: by its name, or by its number. */
static void list_column(reader *r, int64_t i)
{
    size_t n = 0;
    const char *name = is_named(r, i) ? kept_cell(r, i, &n) : NULL;
    if (r->numbers_of.len > LISTED)
        return;
    csv_hint_column(&r->numbers_of, name, n, i);
    if (r->numbers_of.len > LISTED)
        buf_add(&r->numbers_of, ", …");
}

/* A separator that a cell holds, which has numbers on both sides. */
static char separator_in(const char *cell, size_t n)
{
    for (size_t i = 1; i + 1 < n; i++)
        if (strchr(";|\t ", cell[i]) && strchr("0123456789. ", cell[i - 1]) &&
            strchr("0123456789.-+ ", cell[i + 1]))
            return cell[i] == '\t' ? ' ' : cell[i];
    return '\0';
}

/* Hints at the separator that stands in a word. */
static void hint_sign(const reader *r)
{
    csv_hint_load(r->given, r->path, r->e,
                  (char[]){'s', 'e', 'p', '=', '"', r->sign, '"', '\0'}, "");
}

/* Hints at another separator, if semicolons seem to part the cells. */
static void hint_separator(reader *r)
{
    if ((r->semicolons > 0 || r->comma_points) && r->o.separator == ',')
        csv_hint_load(r->given, r->path, r->e,
                      r->comma_points ? "sep=\";\", decimal=\",\"" : "sep=\";\"", "");
}

/* Hints at what makes codes of column i of texts, and at the columns of numbers, if there are. */
static void hint_texts(const reader *r, int64_t i, kv_err *e)
{
    size_t n = 0;
    const char *name = is_named(r, i) ? kept_cell(r, i, &n) : NULL;
    own_buf cats = {0}, behind = {0};
    hint_comment(r, e);
    buf_add(&cats, "cats=[");
    if (r->given)
        csv_hint_text_columns(&cats, r->given, false);
    csv_hint_column(&cats, name, n, i);
    buf_add(&cats, "]");
    buf_add(&behind, " makes codes of its texts");
    if (r->numbers_of.len)
        buf_printf(&behind, "; cols=[%s] leaves it out", buf_text(&r->numbers_of));
    csv_hint_load(r->given, r->path, e, buf_text(&cats), buf_text(&behind));
}

/* The newest cell is a word. */
static void on_word(reader *r, const char *cell, size_t n)
{
    cell_error(r, SCALAR_NO_NUMBER, cell, n, &r->word);
    r->word_at = r->col - 1;
    r->sign = separator_in(cell, n);
    r->stands_for_none = is_missing(&(csv_options){0}, cell, n);
    r->notation = csv_notation(&r->number, &r->o, cell, n);
    buf_clear(&r->numbers_of);
    for (int64_t i = 0; i + 1 < r->col; i++)
        list_column(r, i);
}

/* Reports the word, with the name of its column, at the end of its row. */
static int word_error(reader *r)
{
    size_t n = 0;
    bool named = !r->sign && is_named(r, r->word_at);
    const char *name = named ? kept_cell(r, r->word_at, &n) : NULL;
    kv_err_set(r->e, KV_E_FORMAT, "%s%s%.*s%s", r->word.text, name ? ", in column \"" : "",
               n < 60 ? (int)n : 60, name ? name : "", name ? "\"" : "");
    hint_comment(r, r->e);
    hint_separator(r);
    if (r->semicolons <= 0 && r->sign)
        hint_sign(r);
    if (r->stands_for_none)
        csv_hint_load(r->given, r->path, r->e, "missing=nan", " reads it as nan");
    if (r->notation)
        csv_hint_load(r->given, r->path, r->e, r->notation, "");
    hint_texts(r, r->word_at, r->e);
    return r->e->code;
}

/* ---- The first row ---------------------------------------------------------------------- */

/* Counts a cell of the first row; what is wrong with it is kept until the row has ended. */
static void on_first_row_cell(reader *r, scalar_fit fit, const char *cell, size_t n)
{
    bool word = fit == SCALAR_NO_NUMBER && n > 0;
    if (word && !r->word.code)
        on_word(r, cell, n);
    else if (fit == SCALAR_FITS && r->word.code)
        list_column(r, r->col - 1);
    if (fit != SCALAR_FITS && !word)
        cell_error(r, fit, cell, n, &r->first_error);
    r->numbers += fit != SCALAR_NO_NUMBER;
    if (n > 0)
        r->named = r->col;
    r->comment |= r->col == 1 && n > 0 && cell[0] == '#';
    r->other_notation |= word && csv_notation(&r->number, &r->o, cell, n);
    if (word) {
        r->nwords += !is_missing(&(csv_options){0}, cell, n);
        if (memchr(cell, '\0', n))
            r->rc = cell_error(r, fit, cell, n, r->e);
        /* A header may hold line ends in quotes. */
        for (size_t i = 0; i < n; i++)
            r->line += cell[i] == '\n';
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Converts a cell into element i of dst. */
static scalar_fit parse_cell(reader *r, void *dst, int64_t i, const char *cell, size_t n)
{
    const char *text = cell;
    size_t size = n;
    bool noted = r->o.decimal || r->o.thousands || r->o.percent, right = true;
    if (noted) {
        r->pointed |= r->o.decimal && memchr(cell, r->o.decimal, n);
        right = csv_plain_number(&r->number, r->o.decimal ? r->o.decimal : '.', r->o.thousands,
                                 r->o.percent, cell, n);
        text = buf_text(&r->number);
        size = r->number.len;
    }
    bool filled = r->o.missing && is_filled(r, cell, n);
    scalar_fit fit = filled  ? SCALAR_NO_NUMBER
                     : right ? scalar_parse(r->dtype, dst, i, text, size)
                             : SCALAR_NO_NUMBER;
    if (fit == SCALAR_FITS && size >= 8 && r->default_dtype &&
        !scalar_keeps_integer((float *)dst + i, text, size))
        return SCALAR_ROUNDED;
    if (fit == SCALAR_FITS || !(filled || is_filled(r, cell, n)))
        return fit;
    char filler[NUM_TEXT_MAX];
    int length = num_repr(filler, r->o.filler, NUM_BINARY64);
    return scalar_parse(r->dtype, dst, i, filler, (size_t)length);
}

/* Makes room for more elements. */
static bool make_room(reader *r, int64_t more)
{
    if (r->cap - r->n < more)
        r->rc = mem_grow(&r->data, &r->cap, r->n + more, (size_t)kv_dtype_bytes(r->dtype), r->e);
    return !r->rc;
}

/* The newest cell, of a column of texts. */
static void take_text(reader *r, csv_labels *l, const char *cell, size_t n)
{
    char where[PLACE_TEXT];
    kv_err why = {0};
    bool missing = r->o.fills ? is_filled(r, cell, n) : n == 0;
    if ((missing && !r->o.fills && !r->keeps_empty) || memchr(cell, '\0', n))
        r->rc = cell_error(r, SCALAR_NO_NUMBER, cell, n, r->e);
    else if ((r->rc = csv_labels_add(l, missing ? NULL : cell, n, &why)))
        kv_err_set(r->e, (kv_code)r->rc, "%s: %s", place(where, r, r->line, r->col), why.text);
    for (size_t i = 0; i < n; i++) /* in quotes a text may have several lines */
        r->line += cell[i] == '\n';
}

/* A cell, where some columns are chosen. */
static void on_chosen_cell(reader *r, const char *cell, size_t n)
{
    if (r->col == 0) {
        if (!make_room(r, r->o.ncolumns))
            return;
        r->n += r->o.ncolumns;
    }
    int64_t at = r->col++, row = r->n - r->o.ncolumns;
    for (int64_t i = at < r->cols ? r->to[at] : 0; i > 0 && !r->rc; i = r->next[i - 1]) {
        csv_labels *l = r->labels ? &r->labels[i - 1] : NULL;
        bool text = l && l->kind != CSV_NUMBERS;
        scalar_fit fit = text ? SCALAR_FITS : parse_cell(r, r->data, row + i - 1, cell, n);
        if (!text && l && fit == SCALAR_NO_NUMBER && n > 0 && r->rows == 0 &&
            !csv_notation(&r->number, &r->o, cell, n)) {
            l->kind = r->o.every;
            text = l->kind != CSV_NUMBERS;
        }
        if (text) {
            take_text(r, l, cell, n);
        } else if (fit != SCALAR_FITS) {
            r->rc = cell_error(r, fit, cell, n, r->e);
            if (fit == SCALAR_NO_NUMBER && n > 0) {
                const char *notation = csv_notation(&r->number, &r->o, cell, n);
                if (is_missing(&(csv_options){0}, cell, n))
                    csv_hint_load(r->given, r->path, r->e, "missing=nan", " reads it as nan");
                if (notation)
                    csv_hint_load(r->given, r->path, r->e, notation, "");
                hint_texts(r, at, r->e);
            }
        }
    }
}

/* Keeps a cell of the first row: it may be the name of a column. */
static void keep_cell(reader *r, const char *cell, size_t n)
{
    if (mem_grow(&r->ends, &r->ends_cap, r->col + 1, sizeof *r->ends, r->e)) {
        r->rc = KV_E_MEMORY;
        return;
    }
    buf_put(&r->words, cell, n);
    r->ends[r->col] = (int64_t)r->words.len;
    r->nends = r->col + 1;
}

static void on_cell(void *field, size_t n, void *arg)
{
    reader *r = arg;
    const char *cell = n ? field : "";
    /* libcsv drops the blanks round a cell, but not those within its quotes. */
    while (n > 0 && is_blank(cell[0])) {
        cell++;
        n--;
    }
    while (n > 0 && is_blank(cell[n - 1]))
        n--;
    r->after_cr = false;
    if (r->rc)
        return;
    if (r->col == 0 && n > 0 && cell[0] == '#') {
        r->hash = r->line;
        r->hash_named = r->in_header && n > 1 && !is_blank(cell[1]);
    }
    if (r->in_header && (r->chooses || r->col < NAMED))
        keep_cell(r, cell, n);
    if (!r->rc && r->chooses && !r->in_header)
        on_chosen_cell(r, cell, n);
    else if (!r->rc && (r->chooses || make_room(r, 1))) {
        /* A cell of a row that is taken whole, or of the first one, which may turn out to be a
         * header. */
        char element[8];
        bool kept = r->chooses; /* until the columns are found */
        scalar_fit fit = parse_cell(r, kept ? element : r->data, kept ? 0 : r->n, cell, n);
        r->n += !kept;
        r->col++;
        if (r->in_header)
            on_first_row_cell(r, fit, cell, n);
        else if (fit == SCALAR_NO_NUMBER && n > 0 && !memchr(cell, '\0', n) && !r->word.code)
            on_word(r, cell, n);
        else if (fit == SCALAR_FITS && r->word.code)
            list_column(r, r->col - 1);
        else if (fit != SCALAR_FITS && !r->word.code)
            r->rc = cell_error(r, fit, cell, n, r->e);
    }
}

/* ---- Chosen columns --------------------------------------------------------------------- */

static int find_named(reader *r, const char *name, int64_t *at)
{
    int64_t found = -1;
    if (!r->had_header)
        return kv_err_set(r->e, KV_E_NAME, "%s has no header, so no column is called \"%.80s\"",
                          r->name, name);
    for (int64_t i = 0; i < r->cols; i++) {
        size_t n;
        const char *cell = kept_cell(r, i, &n);
        if (n != strlen(name) || memcmp(cell, name, n) != 0)
            continue;
        if (found >= 0)
            return kv_err_set(r->e, KV_E_NAME, "%s has two columns called \"%.80s\"", r->name,
                              name);
        found = i;
    }
    *at = found;
    if (found >= 0)
        return KV_OK;
    kv_err_set(r->e, KV_E_NAME, "%s has no column \"%.80s\"", r->name, name);
    hint_separator(r);
    r->hash_named = false;
    hint_comment(r, r->e);
    return KV_E_NAME;
}

static int find_column(reader *r, const csv_column *c, int64_t *at)
{
    if (c->name)
        return find_named(r, c->name, at);
    *at = c->number < 0 ? c->number + r->cols : c->number;
    if (*at >= 0 && *at < r->cols)
        return KV_OK;
    kv_err_set(r->e, KV_E_INDEX, "%s has %lld column%s, there is no column %lld", r->name,
               (long long)r->cols, r->cols == 1 ? "" : "s", (long long)c->number);
    hint_comment(r, r->e);
    return KV_E_INDEX;
}

/* Makes a chosen column one of texts. */
static int label_column(reader *r, const csv_text_column *t)
{
    int64_t at = 0, n = 0;
    int rc = find_column(r, &t->column, &at);
    for (int64_t i = rc ? 0 : r->to[at]; i > 0 && !rc; i = r->next[i - 1], n++) {
        csv_labels *l = &r->labels[i - 1];
        if (l->kind != CSV_NUMBERS)
            return kv_err_set(r->e, KV_E_VALUE, "cats= and onehot= name column %lld twice",
                              (long long)at);
        l->kind = t->onehot ? CSV_ONEHOT : CSV_CODES;
        rc = t->texts ? csv_labels_give(l, t->texts, t->ntexts, r->e) : KV_OK;
    }
    if (rc || n)
        return rc;
    kv_err_set(r->e, KV_E_VALUE, "cats= or onehot= names column %lld, which cols= leaves out",
               (long long)at);
    return kv_err_hint(r->e, t->column.name ? "cols=[…, \"%s\"] reads it" : "cols= has to name it",
                       t->column.name),
           KV_E_VALUE;
}

/* Chooses all columns, unless some are chosen. */
static int choose_all(reader *r)
{
    if (r->o.columns)
        return KV_OK;
    if (!(r->all = mem_zalloc(r->cols, sizeof *r->all, r->e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < r->cols; i++)
        r->all[i].number = i;
    r->o.columns = r->all;
    r->o.ncolumns = r->cols;
    return KV_OK;
}

/* Finds the chosen columns when the first row has ended, then takes it unless it is a header. */
static void choose(reader *r)
{
    r->cols = r->col;
    r->col = 0;
    if ((r->rc = choose_all(r)))
        return;
    r->to = mem_zalloc(r->cols, sizeof *r->to, r->e);
    r->next = mem_zalloc(r->o.ncolumns, sizeof *r->next, r->e);
    r->rc = r->to && r->next ? buf_check(&r->words, r->e) : KV_E_MEMORY;
    for (int64_t i = 0, at = 0; i < r->o.ncolumns && !r->rc; i++) {
        r->rc = find_column(r, &r->o.columns[i], &at);
        if (!r->rc) {
            r->next[i] = r->to[at];
            r->to[at] = i + 1;
        }
    }
    bool texts = r->o.ntexts || r->o.every != CSV_NUMBERS;
    if (texts && !r->rc && !(r->labels = mem_zalloc(r->o.ncolumns, sizeof *r->labels, r->e)))
        r->rc = KV_E_MEMORY;
    for (int64_t i = 0; i < r->o.ntexts && !r->rc; i++)
        r->rc = label_column(r, &r->o.texts[i]);
    for (int64_t i = 0; i < r->cols && !r->rc && !r->had_header; i++) {
        size_t n;
        const char *cell = kept_cell(r, i, &n);
        on_chosen_cell(r, cell, n);
    }
}

/* ---- Rows ------------------------------------------------------------------------------- */

/* Returns true if a column is chosen by its name. */
static bool names_column(const reader *r)
{
    bool names = false;
    for (int64_t i = 0; i < r->o.ncolumns; i++)
        names |= r->o.columns[i].name != NULL;
    for (int64_t i = 0; i < r->o.ntexts; i++)
        names |= r->o.texts[i].column.name != NULL;
    return names;
}

/* Passes over a comment before the header where no column is chosen by its name: then it need not
 * be a header, and may have any length. Returns true if it did. */
static bool skip_comment(reader *r)
{
    if (!r->comment || !r->chooses || r->o.header < 0 || names_column(r))
        return false;
    r->o.header = r->o.header > 0 ? -1 : 0;
    r->comment = r->hash_named = false;
    r->hash = 0;
    r->col = r->nends = r->numbers = r->nwords = r->named = 0;
    r->word = r->first_error = (kv_err){0};
    buf_clear(&r->words);
    return true;
}

/* The first row has ended: drops it when it is a header. */
static void end_first_row(reader *r)
{
    if (skip_comment(r))
        return;
    r->in_header = false;
    bool is_header =
        r->o.header > 0 || (r->numbers == 0 && r->nwords > 0 && !r->other_notation);
    r->had_header = r->o.header >= 0 && is_header;
    if (r->had_header || r->chooses) {
        r->word = (kv_err){0};
        r->marked = r->emptied = false;
    }
    if (r->chooses) {
        choose(r);
        return;
    }
    if (r->had_header) {
        r->cols = r->col;
        r->n = 0;
        r->col = 0;
        return;
    }
    if (!r->word.code && r->first_error.code) {
        r->rc = kv_err_set(r->e, (kv_code)r->first_error.code, "%s", r->first_error.text);
        kv_err_hint(r->e, "%s", r->first_error.hint);
    }
}

/* A header must have a name for each cell of the rows, or a column would be lost, or taken for its
 * neighbour, without a word. The rows may lack its last names where these are empty. A comment, and
 * the row that header=true passes over, may have any length. */
static bool fits_header(const reader *r)
{
    bool any = r->o.header > 0 || r->comment || (r->col < r->cols && r->col >= r->named);
    return r->col == r->cols || (any && !r->chooses);
}

static void end_row(reader *r)
{
    char text[PLACE_TEXT];
    bool below_header = r->rows == 0 && r->had_header;
    bool ragged = below_header ? !fits_header(r)
                               : (r->rows > 0 || r->chooses) && r->col != r->cols;
    /* the hint at columns would name those of another header */
    if (r->word.code && (r->sign || !(below_header && ragged))) {
        r->rc = word_error(r);
    } else if (ragged) {
        int64_t from = (r->col < r->cols ? r->col : r->cols) + 1;
        r->rc = kv_err_set(r->e, KV_E_FORMAT, "%s: the row has %lld cell%s, %s %lld",
                           place(text, r, r->line, from), (long long)r->col,
                           r->col == 1 ? "" : "s",
                           below_header ? "the header has" : "those above have",
                           (long long)r->cols);
        hint_comment(r, r->e);
        hint_separator(r);
        if (below_header && r->cols == 1 && r->col == 2 && r->o.separator == ',')
            csv_hint_load(r->given, r->path, r->e, "decimal=\",\", sep=\";\"",
                          " reads 1,5 as one number; header=true passes over a title");
        if (below_header && !r->chooses)
            csv_hint_load(r->given, r->path, r->e, "header=true",
                          " passes over the first row, whatever it holds");
    }
    r->cols = r->col;
    r->rows++;
    r->col = 0;
}

static void on_line_end(int c, void *arg)
{
    reader *r = arg;
    bool second_half = c == '\n' && r->after_cr;
    r->after_cr = c == '\r';
    if (r->rc || second_half)
        return;
    if (r->col > 0 && r->in_header)
        end_first_row(r);
    /* A header has no cells left, nor has a blank line; a first row of numbers is a row like any
     * other. */
    if (r->col > 0 && !r->rc)
        end_row(r);
    r->line++;
}

/* ---- The first line --------------------------------------------------------------------- */

/* Reads the sizes of `shape=2,3`, p being what stands behind "=". */
static int read_shape(reader *r, const char *p, size_t n)
{
    size_t at = 0;
    while (at < n) {
        int64_t size;
        bool over;
        size_t used = num_parse_int(p + at, n - at, &size, &over);
        bool ends = at + used == n, goes_on = !ends && p[at + used] == ',' && at + used + 1 < n;
        if (used == 0 || over || size < 0 || !(ends || goes_on) || r->ndim == KV_MAX_NDIM)
            return kv_err_set(r->e, KV_E_FORMAT, "%s:%lld:1: \"shape=%.*s\" is not a shape",
                              r->name, (long long)r->line, n < 100 ? (int)n : 100, p);
        r->shape[r->ndim++] = size;
        at += used + goes_on;
    }
    r->has_shape = true;
    return KV_OK;
}

static int read_dtype(reader *r, const char *p, size_t n)
{
    char name[20];
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name, p);
    kv_dtype dtype;
    if (kv_dtype_parse(&dtype, name, NULL))
        return kv_err_set(r->e, KV_E_FORMAT, "%s:%lld:1: there is no dtype \"%s\"", r->name,
                          (long long)r->line, name);
    r->default_dtype = false;
    if (!r->o.has_dtype)
        r->dtype = dtype;
    return KV_OK;
}

/* The bytes of the blank lines that the text begins with; *lines is how many they are. */
static size_t blank_lines(const char *text, size_t n, int64_t *lines)
{
    size_t used = 0;
    *lines = 0;
    for (size_t i = 0; i < n && (is_blank(text[i]) || text[i] == '\r' || text[i] == '\n'); i++) {
        if (text[i] == '\n') {
            used = i + 1;
            ++*lines;
        }
    }
    return used;
}

/* Reads `# shape=2,3 dtype=float16` when the text begins with it. Returns the bytes used. */
static size_t read_first_line(reader *r, const char *text, size_t n)
{
    int64_t before;
    const char *p = text + blank_lines(text, n, &before);
    const char *end = memchr(p, '\n', n - (size_t)(p - text));
    size_t used = end ? (size_t)(end - text) + 1 : n;
    end = end ? end : text + n;
    if (end > p && end[-1] == '\r')
        end--;
    if (p == end || *p != '#')
        return 0;
    r->line = before + 1;
    bool ours = false;
    for (bool first = true;; first = false) {
        do
            p++;
        while (p < end && (*p == ' ' || *p == '\t'));
        const char *word = p;
        while (p < end && *p != ' ' && *p != '\t')
            p++;
        size_t size = (size_t)(p - word);
        if (size >= 6 && memcmp(word, "shape=", 6) == 0 && !r->has_shape)
            r->rc = read_shape(r, word + 6, size - 6);
        else if (size >= 6 && memcmp(word, "dtype=", 6) == 0)
            r->rc = read_dtype(r, word + 6, size - 6);
        else if (first)
            break; /* some other comment, which may be a header */
        else if (size > 0)
            r->rc =
                kv_err_set(r->e, KV_E_FORMAT, "%s:%lld:1: \"%.*s\" is neither a shape nor a dtype",
                           r->name, (long long)r->line, size < 40 ? (int)size : 40, word);
        ours = true;
        if (r->rc || p == end)
            break;
    }
    r->line = ours ? before + 2 : 1;
    return ours ? used : 0;
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* libcsv grows its buffer of one cell through these. */
static void *grow_cell(void *block, size_t bytes)
{
    int64_t cap = 0;
    return mem_grow(&block, &cap, (int64_t)bytes, 1, NULL) ? NULL : block;
}

static void reader_init(reader *r, const char *name, const csv_options *o, kv_err *e)
{
    *r = (reader){.name = name, .e = e, .line = 1};
    if (o)
        r->o = *o;
    r->given = o;
    r->path = r->o.path ? r->o.path : name;
    r->dtype = r->o.has_dtype ? r->o.dtype : KV_FLOAT32;
    r->default_dtype = !r->o.has_dtype;
    r->chooses = r->o.columns || r->o.ntexts || r->o.every != CSV_NUMBERS;
    r->in_header = r->o.header >= 0 || r->chooses;
    csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL);
    csv_set_realloc_func(&r->parser, grow_cell);
    csv_set_free_func(&r->parser, mem_free);
    r->o.separator = r->o.separator ? r->o.separator : ',';
    csv_set_delim(&r->parser, (unsigned char)(r->o.separator == ' ' ? '\t' : r->o.separator));
}

/* Writes n bytes to squeezed, with one tab for each run of blanks between cells, and without
 * comments. */
static void squeeze(reader *r, const char *text, size_t n)
{
    buf_clear(&r->squeezed);
    for (size_t i = 0; i < n; i++) {
        bool end = text[i] == '\n' || text[i] == '\r', begins = !r->in_line && !r->quoted;
        r->in_comment = !end && (r->in_comment || (begins && r->o.comment == text[i]));
        if (r->in_comment)
            continue;
        r->quoted ^= text[i] == '"';
        if (is_blank(text[i]) && !r->quoted && r->o.separator == ' ') {
            r->gap = true;
            continue;
        }
        if (r->gap && r->in_line && !end)
            buf_char(&r->squeezed, '\t');
        r->gap = false;
        r->in_line = (!end || r->quoted) && (!begins || !is_blank(text[i]) ||
                                             r->o.separator == '\t');
        buf_char(&r->squeezed, text[i]);
    }
    if (buf_check(&r->squeezed, r->e))
        r->rc = KV_E_MEMORY;
}

/* Takes the next n bytes; the first call must hold the whole first line. */
static void reader_feed(reader *r, const char *text, size_t n, bool first)
{
    size_t at = 0;
    if (first && n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        at = 3;
    if (first)
        at += read_first_line(r, text + at, n - at);
    for (size_t i = at; first && i < n && text[i] != '\n'; i++)
        r->semicolons += (text[i] == ';') - (text[i] == ',');
    if (first)
        r->comma_points = csv_has_comma_points(text + at, n - at);
    while (at < n && !r->rc) {
        size_t size = n - at < PIECE ? n - at : PIECE, cell = csv_get_buffer_size(&r->parser);
        /* libcsv grows its buffer by this much: by its own size, or a cell of n bytes would be
         * copied n times. */
        csv_set_blk_size(&r->parser, cell > CELL ? cell : CELL);
        const char *piece = text + at;
        size_t left = size;
        if (r->o.separator == ' ' || r->o.comment) {
            squeeze(r, piece, size);
            piece = buf_text(&r->squeezed);
            left = r->squeezed.len;
        }
        if (csv_parse(&r->parser, piece, left, on_cell, on_line_end, r) != left && !r->rc) {
            char where[PLACE_TEXT];
            if (csv_error(&r->parser) == CSV_EPARSE)
                r->rc = kv_err_set(r->e, KV_E_FORMAT, "%s: a quote stands where none can be",
                                   place(where, r, r->line, r->col + 1));
            else
                r->rc = kv_err_set(r->e, KV_E_MEMORY, "%s: out of memory for a cell",
                                   place(where, r, r->line, r->col + 1));
            if (r->rc == KV_E_FORMAT)
                hint_separator(r); /* "a";"b" */
        }
        at += size;
    }
}

/* Puts the codes of texts into their places, now that all texts are known. */
static int settle_texts(reader *r)
{
    bool all_texts = r->rows > 0 && !names_column(r);
    for (int64_t i = 0; i < r->o.ncolumns; i++)
        all_texts &= r->labels[i].kind != CSV_NUMBERS;
    if (r->o.doubtful)
        *r->o.doubtful = all_texts && r->had_header && r->o.header == 0;
    int rc = csv_labels_spread(r->labels, r->o.ncolumns, r->rows, r->dtype, r->o.filler, &r->data,
                               &r->shape[1], r->name, r->e);
    r->n = r->cap = r->rows * r->shape[1];
    return rc;
}

/* The shape of chosen columns. */
static int settle_chosen(reader *r)
{
    char text[160];
    kv_shape_text(text, sizeof text, r->ndim, r->shape);
    if (r->has_shape && r->ndim != 2)
        return kv_err_set(r->e, KV_E_SHAPE, "%s has shape %s, and columns need two axes", r->name,
                          text);
    if (r->has_shape && (r->shape[0] != r->rows || (r->rows > 0 && r->shape[1] != r->cols)))
        return kv_err_set(r->e, KV_E_FORMAT, "%s: %lld rows of %lld numbers do not fit shape %s",
                          r->name, (long long)r->rows, (long long)r->cols, text);
    r->ndim = 2;
    r->shape[0] = r->rows;
    r->shape[1] = r->o.ncolumns;
    return r->labels ? settle_texts(r) : KV_OK;
}

/* Checks that there are as many numbers as the first line promises, or gives the array two axes. */
static int settle_shape(reader *r)
{
    if (r->chooses && (r->rows > 0 || r->has_shape))
        return settle_chosen(r);
    if (r->has_shape) {
        char text[160];
        if (scalar_bytes(KV_INT8, r->ndim, r->shape) != r->n)
            return kv_err_set(r->e, KV_E_FORMAT, "%s: %lld numbers do not fit shape %s", r->name,
                              (long long)r->n, kv_shape_text(text, sizeof text, r->ndim, r->shape));
        return KV_OK;
    }
    if (r->n == 0) {
        kv_err_set(r->e, KV_E_FORMAT,
                   r->had_header ? "%s: no row of numbers follows the header"
                                 : "%s: the file is empty",
                   r->name);
        if (r->had_header && r->sign)
            hint_sign(r);
        return KV_E_FORMAT;
    }
    r->ndim = 2;
    r->shape[0] = r->rows;
    r->shape[1] = r->cols;
    return KV_OK;
}

/* Ends the text. */
static int reader_end(reader *r)
{
    char where[PLACE_TEXT];
    int64_t line = r->line, col = r->col + 1;
    if (!r->rc && csv_fini(&r->parser, on_cell, on_line_end, r) != 0 && !r->rc)
        r->rc =
            kv_err_set(r->e, KV_E_FORMAT, "%s: a quote is not closed", place(where, r, line, col));
    if (!r->rc)
        r->rc = settle_shape(r);
    if (!r->rc && r->o.decimal == r->o.separator && !r->pointed && !r->keeps_empty) {
        r->rc = kv_err_set(r->e, KV_E_VALUE,
                           "decimal=\"%c\" is also what parts cells, and no number in quotes "
                           "has one",
                           r->o.decimal);
        kv_err_hint(r->e, "sep=\";\"");
    }
    if (r->o.unmarked)
        *r->o.unmarked = !r->rc && r->o.missing && r->emptied && !r->marked;
    return r->rc;
}

static int reader_release(reader *r)
{
    csv_free(&r->parser);
    for (int64_t i = 0; i < r->o.ncolumns && r->labels; i++)
        csv_labels_release(&r->labels[i]);
    mem_free(r->labels);
    mem_free(r->all);
    mem_free(r->data);
    mem_free(r->ends);
    mem_free(r->to);
    mem_free(r->next);
    buf_release(&r->words);
    buf_release(&r->numbers_of);
    buf_release(&r->squeezed);
    buf_release(&r->number);
    return r->rc;
}

/* Feeds all of a stream. */
static void feed_stream(reader *r, FILE *f)
{
    own_mem char *piece = mem_alloc(PIECE, 1, r->e);
    if (!piece)
        r->rc = KV_E_MEMORY;
    for (bool first = true; !r->rc; first = false) {
        errno = 0;
        size_t n = fread(piece, 1, PIECE, f);
        reader_feed(r, piece, n, first);
        if (n < PIECE && ferror(f) && !r->rc)
            r->rc = file_error(r->e, "read", r->name, errno ? errno : EIO);
        if (n < PIECE)
            break;
    }
}

int csv_read_stream(kv_array **out, FILE *f, const char *name, const csv_options *o, kv_err *e)
{
    reader r;
    reader_init(&r, name, o, e);
    feed_stream(&r, f);
    if (!reader_end(&r) && r.n == 0) {
        r.rc = kv_array_new(out, r.dtype, r.ndim, r.shape, (kv_ctx){0}, r.e);
    } else if (!r.rc) {
        mem_shrink(&r.data, &r.cap, r.n, (size_t)kv_dtype_bytes(r.dtype));
        r.rc = kv_array_wrap(out, r.data, r.dtype, r.ndim, r.shape, (kv_ctx){0}, mem_free, r.data,
                             r.e);
        if (!r.rc)
            r.data = NULL;
    }
    return reader_release(&r);
}

int csv_read_texts(FILE *f, const char *name, const csv_options *o, bool each,
                   int (*visit)(void *arg, const char *text, kv_err *e), void *arg, kv_err *e)
{
    reader r;
    csv_options texts = *o;
    texts.texts = &(csv_text_column){.column = o->columns[0]};
    texts.ntexts = 1;
    reader_init(&r, name, &texts, e);
    r.given = o;
    r.keeps_empty = true;
    feed_stream(&r, f);
    if (!reader_end(&r) && r.rows > 0) {
        const csv_labels *l = &r.labels[0];
        for (int64_t i = 0; i < (each ? l->nrows : l->n) && !r.rc; i++) {
            int64_t number = each ? l->rows[i] : i;
            r.rc = visit(arg, number < 0 ? "" : l->texts[number], e);
        }
    }
    return reader_release(&r);
}
