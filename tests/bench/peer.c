/* What kvctl is measured against where no other program does the same: the plain C of somebody who
 * needs just this.
 *
 *     peer csv FILE         libcsv and strtof into an array that grows
 *     peer json FILE        the file in memory, and cJSON_Parse of it
 *     peer loop N TIMES     r = (x * 2 + y) * z - x / 3 over N float32, one loop, TIMES times; each
 *                           time into a new array, and the one before is freed
 *     peer loop-in-place N TIMES   the same into one array
 */
#include <cjson/cJSON.h>
#include <csv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *block)
{
    if (!block) {
        fputs("peer: no memory, or no such file\n", stderr);
        exit(1);
    }
    return block;
}

/* ---- CSV ---- */

typedef struct numbers {
    float *items;
    size_t n, cap;
} numbers;

static void on_cell(void *text, size_t n, void *arg)
{
    numbers *list = arg;
    (void)n;
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 1024;
        list->items = must(realloc(list->items, list->cap * sizeof *list->items));
    }
    list->items[list->n++] = strtof(text, NULL);
}

static void on_row(int end, void *arg)
{
    (void)end;
    (void)arg;
}

static size_t read_csv(const char *path)
{
    static char piece[65536];
    struct csv_parser parser;
    numbers list = {0};
    FILE *f = must(fopen(path, "r"));
    csv_init(&parser, CSV_APPEND_NULL);
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        csv_parse(&parser, piece, n, on_cell, on_row, &list);
    csv_fini(&parser, on_cell, on_row, &list);
    csv_free(&parser);
    fclose(f);
    return list.n;
}

/* ---- JSON ---- */

static size_t read_json(const char *path)
{
    FILE *f = must(fopen(path, "r"));
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    char *text = must(malloc(n + 1));
    rewind(f);
    n = fread(text, 1, n, f);
    text[n] = '\0';
    fclose(f);
    return (size_t)cJSON_GetArraySize(must(cJSON_Parse(text)));
}

/* ---- Loops ---- */

static float *ones(size_t n)
{
    float *items = must(malloc(n * sizeof *items));
    for (size_t i = 0; i < n; i++)
        items[i] = 1;
    return items;
}

static void fused(float *restrict r, const float *x, const float *y, const float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i] = (x[i] * 2 + y[i]) * z[i] - x[i] / 3;
}

static size_t loop(size_t n, int times, int in_place)
{
    float *x = ones(n), *y = ones(n), *z = ones(n), *r = NULL;
    for (int i = 0; i < times; i++) {
        float *fresh = in_place && r ? r : must(malloc(n * sizeof *r));
        fused(fresh, x, y, z, n);
        if (fresh != r)
            free(r);
        r = fresh;
    }
    return r && r[n - 1] > 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    size_t found = 0;
    if (argc == 3 && strcmp(what, "csv") == 0)
        found = read_csv(argv[2]);
    else if (argc == 3 && strcmp(what, "json") == 0)
        found = read_json(argv[2]);
    else if (argc == 4 && strncmp(what, "loop", 4) == 0)
        found = loop((size_t)atoll(argv[2]), atoi(argv[3]), strcmp(what, "loop") != 0);
    else
        fputs("usage: peer csv|json FILE | peer loop|loop-in-place N TIMES\n", stderr);
    return found > 0 ? 0 : 1;
}
