/* See disk.h. */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void disk_stop(const char *why)
{
    fprintf(stderr, "states: %s\n", why);
    exit(2);
}

static void *get(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        disk_stop("no memory");
    return p;
}

static bytes bytes_of(const char *data, int64_t n)
{
    bytes c = {get((size_t)n), n};
    if (n)
        memcpy(c.data, data, (size_t)n);
    return c;
}

static void bytes_resize(bytes *b, int64_t n)
{
    bytes c = {get((size_t)n), n};
    if (b->n)
        memcpy(c.data, b->data, (size_t)(n < b->n ? n : b->n));
    free(b->data);
    *b = c;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int find(const entry *list, int n, int folder, const char *name)
{
    for (int i = 0; i < n; i++)
        if (list[i].folder == folder && strcmp(list[i].name, name) == 0)
            return i;
    return -1;
}

static void set(entry *list, int *n, const entry *to)
{
    int i = find(list, *n, to->folder, to->name);
    if (to->node < 0 && i >= 0)
        list[i] = list[--*n];
    if (to->node < 0)
        return;
    if (i < 0 && (i = (*n)++) == NAMES)
        disk_stop("too many names");
    list[i] = *to;
}

/* The entry of a path: where it stands, or would. node is -1 if nothing does. */
static entry look_up(const disk *d, const char *path)
{
    entry e = {.folder = -1, .node = 0};
    while (*path) {
        size_t n = strcspn(path, "/");
        if (e.node < 0 || n >= sizeof e.name)
            disk_stop("a folder is not there, or a name is too long");
        e.folder = e.node;
        memcpy(e.name, path, n);
        e.name[n] = '\0';
        int i = find(d->now, d->nnow, e.folder, e.name);
        e.node = i < 0 ? -1 : d->now[i].node;
        path += n + (path[n] == '/');
    }
    return e;
}

static void change_names(disk *d, name_change c)
{
    for (int i = 0; i < c.n; i++)
        set(d->now, &d->nnow, &c.set[i]);
    if (d->npending == CHANGES)
        disk_stop("too many changes of names");
    d->pending[d->npending++] = c;
}

static void sync_folder(disk *d, int folder)
{
    int kept = 0;
    for (int i = 0; i < d->npending; i++) {
        const name_change c = d->pending[i];
        bool in = c.set[0].folder == folder || (c.n > 1 && c.set[1].folder == folder);
        for (int k = 0; in && k < c.n; k++)
            set(d->synced, &d->nsynced, &c.set[k]);
        if (!in)
            d->pending[kept++] = c;
    }
    d->npending = kept;
}

static entry with_node(entry e, int n)
{
    e.node = n;
    return e;
}

static int new_node(disk *d, bool is_folder)
{
    if (d->nnodes == NODES)
        disk_stop("too many files");
    d->nodes[d->nnodes].is_folder = is_folder;
    return d->nnodes++;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void note_size(node *f, int64_t size)
{
    if (f->nsizes == CHANGES)
        disk_stop("too many sizes");
    f->sizes[f->nsizes++] = size;
}

/* A file may have become larger by parts. */
static void resize(node *f, int64_t size, int64_t page)
{
    for (int64_t at = f->now.n / page * page + page; at < size && f->nsizes < CHANGES - 4;
         at += page)
        note_size(f, at);
    bytes_resize(&f->now, size);
    note_size(f, size);
}

/* Pages are kept whole: what is behind the end of the file is zero. */
static void keep_page(node *f, int64_t number, int64_t page)
{
    char *data = get((size_t)page);
    int64_t at = number * page, n = f->now.n - at;
    if (n > 0)
        memcpy(data, f->now.data + at, (size_t)(n < page ? n : page));
    f->versions = realloc(f->versions, (size_t)(f->nversions + 1) * sizeof *f->versions);
    f->versions[f->nversions++] = (page_version){number, data};
}

static void write_bytes(node *f, int64_t at, const char *data, int64_t n, int64_t page)
{
    if (at + n > f->now.n)
        resize(f, at + n, page);
    memcpy(f->now.data + at, data, (size_t)n);
    for (int64_t p = at / page; p * page < at + n; p++)
        keep_page(f, p, page);
}

static void forget_pending(node *f)
{
    for (int64_t i = 0; i < f->nversions; i++)
        free(f->versions[i].data);
    free(f->versions);
    f->versions = NULL;
    f->nversions = f->nsizes = 0;
}

static void sync_file(node *f)
{
    forget_pending(f);
    free(f->synced.data);
    f->synced = bytes_of(f->now.data, f->now.n);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void disk_apply(disk *d, const calls_head *h, const char *name, const char *other,
                const char *data)
{
    entry e = look_up(d, name), to = look_up(d, other);
    if (h->kind != CALL_CREATE && h->kind != CALL_FOLDER && e.node < 0)
        disk_stop("a call is about a file that is not there");
    node *f = e.node < 0 ? NULL : &d->nodes[e.node];
    switch (h->kind) {
    case CALL_CREATE:
    case CALL_FOLDER:
        change_names(d, (name_change){{with_node(e, new_node(d, h->kind == CALL_FOLDER))}, 1});
        break;
    case CALL_WRITE:
        write_bytes(f, h->place, data, h->data, d->page);
        break;
    case CALL_SIZE:
        if (f->now.n != h->place)
            resize(f, h->place, d->page);
        break;
    case CALL_SYNC:
        if (f->is_folder)
            sync_folder(d, e.node);
        else
            sync_file(f);
        break;
    case CALL_RENAME:
        change_names(
            d, (name_change){{with_node(e, h->place ? to.node : -1), with_node(to, e.node)}, 2});
        break;
    case CALL_LINK:
        change_names(d, (name_change){{with_node(to, e.node)}, 1});
        break;
    case CALL_UNLINK:
        change_names(d, (name_change){{with_node(e, -1)}, 1});
        break;
    default:
        disk_stop("a log holds a call that nobody knows");
    }
}

void disk_from(disk *d, const tree *t, int64_t page)
{
    *d = (disk){.page = page, .nnodes = 1, .nodes = {{.is_folder = true}}};
    for (int i = 0; i < t->n; i++) { /* a folder stands before what is in it */
        const tree_file *f = &t->files[i];
        char path[sizeof f->path];
        size_t n = strlen(f->path);
        bool is_folder = f->path[n - 1] == '/';
        snprintf(path, sizeof path, "%.*s", (int)(n - is_folder), f->path);
        entry e = with_node(look_up(d, path), new_node(d, is_folder));
        set(d->now, &d->nnow, &e);
        d->nodes[e.node].now = bytes_of(f->data, (int64_t)f->n);
        d->nodes[e.node].synced = bytes_of(f->data, (int64_t)f->n);
    }
    memcpy(d->synced, d->now, sizeof d->now);
    d->nsynced = d->nnow;
}

void disk_release(disk *d)
{
    for (int i = 0; i < d->nnodes; i++) {
        forget_pending(&d->nodes[i]);
        free(d->nodes[i].now.data);
        free(d->nodes[i].synced.data);
    }
}

/* ---- States ---------------------------------------------------------------------------------- */

static void add_choice(choice *list, int *n, choice c)
{
    if (*n == CHOICES)
        disk_stop("too many pages are not synced at one time");
    list[(*n)++] = c;
}

int disk_choices(const disk *d, choice list[CHOICES])
{
    int n = 0;
    for (int i = 0; i < d->npending; i++)
        add_choice(list, &n, (choice){OF_NAME, 0, i, 2, 0});
    for (int f = 0; f < d->nnodes; f++) {
        const node *x = &d->nodes[f];
        int before = n;
        for (int64_t v = 0; v < x->nversions; v++) {
            int i = before;
            while (i < n && list[i].page != x->versions[v].page)
                i++;
            if (i == n)
                add_choice(list, &n, (choice){OF_PAGE, f, x->versions[v].page, 1, 0});
            list[i].ways++;
        }
        if (x->nsizes)
            add_choice(list, &n, (choice){OF_SIZE, f, 0, x->nsizes + 1, 0});
    }
    return n;
}

/* The version of a page that was chosen, from 1. */
static const char *version_of(const node *f, const choice *c)
{
    int way = 0;
    for (int64_t v = 0; v < f->nversions; v++)
        if (f->versions[v].page == c->page && ++way == c->way)
            return f->versions[v].data;
    return NULL;
}

static bytes content(const disk *d, int f, const choice *list, int n)
{
    const node *x = &d->nodes[f];
    int64_t size = x->synced.n, most = x->now.n > size ? x->now.n : size;
    bytes b = bytes_of(x->synced.data, x->synced.n);
    if (x->nversions == 0 && x->nsizes == 0)
        return b;
    for (int i = 0; i < n; i++)
        if (list[i].what == OF_SIZE && list[i].node == f && list[i].way)
            size = x->sizes[list[i].way - 1];
    for (int i = 0; i < x->nsizes; i++)
        most = x->sizes[i] > most ? x->sizes[i] : most;
    bytes_resize(&b, (most + d->page) / d->page * d->page + d->page);
    for (int i = 0; i < n; i++)
        if (list[i].what == OF_PAGE && list[i].node == f && list[i].way)
            memcpy(b.data + list[i].page * d->page, version_of(x, &list[i]), (size_t)d->page);
    bytes_resize(&b, size);
    return b;
}

typedef struct view {
    const disk *d;
    const entry *names;
    int nnames;
    const choice *list;
    int n;
} view;

static void add_folder(tree *t, const view *v, int folder, const char *below)
{
    for (int i = 0; i < v->nnames; i++) {
        const entry *e = &v->names[i];
        if (e->folder != folder || strlen(below) > 100)
            continue;
        t->files = realloc(t->files, (size_t)(t->n + 1) * sizeof *t->files);
        tree_file *f = &t->files[t->n++];
        bool is_folder = v->d->nodes[e->node].is_folder;
        bytes b = is_folder ? (bytes){0} : content(v->d, e->node, v->list, v->n);
        *f = (tree_file){.data = b.data, .n = (size_t)b.n};
        snprintf(f->path, sizeof f->path, "%s%s%s", below, e->name, is_folder ? "/" : "");
        if (is_folder) {
            char path[sizeof f->path];
            memcpy(path, f->path, sizeof path);
            add_folder(t, v, e->node, path);
        }
    }
}

tree disk_state(const disk *d, const choice *list, int n)
{
    static entry names[NAMES];
    int nnames = d->nsynced;
    tree t = {NULL, 0};
    memcpy(names, d->synced, sizeof names);
    for (int i = 0; i < n; i++) {
        const name_change *c = &d->pending[list[i].page];
        for (int k = 0; list[i].what == OF_NAME && list[i].way && k < c->n; k++)
            set(names, &nnames, &c->set[k]);
    }
    add_folder(&t, &(view){d, names, nnames, list, n}, 0, "");
    tree_sort(&t);
    return t;
}
