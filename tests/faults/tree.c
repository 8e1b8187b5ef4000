/* See tree.h. */
#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "faults: cannot %s %s\n", what, path);
    exit(2);
}

static tree_file *add(tree *t, const char *path)
{
    t->files = realloc(t->files, (size_t)(t->n + 1) * sizeof *t->files);
    tree_file *f = &t->files[t->n++];
    *f = (tree_file){.data = NULL};
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        stop("hold", path);
    return f;
}

void tree_read_file(tree_file *f, const char *full)
{
    struct stat about;
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        stop("read", full);
    f->n = (size_t)about.st_size;
    f->data = malloc(f->n + 1);
    if (read(fd, f->data, f->n) != (ssize_t)f->n)
        stop("read", full);
    close(fd);
}

static void read_folder(tree *t, const char *folder, const char *below)
{
    char full[600], path[300];
    snprintf(full, sizeof full, "%s/%s", folder, below);
    DIR *d = opendir(full);
    if (!d)
        stop("read", full);
    for (const struct dirent *x; (x = readdir(d));) {
        struct stat about;
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s%s", below, x->d_name);
        snprintf(full, sizeof full, "%s/%s", folder, path);
        if (lstat(full, &about) != 0)
            stop("read", full);
        if (S_ISDIR(about.st_mode)) {
            strcat(path, "/");
            add(t, path);
            read_folder(t, folder, path);
        } else if (S_ISREG(about.st_mode)) {
            tree_read_file(add(t, path), full);
        }
    }
    closedir(d);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const tree_file *)a)->path, ((const tree_file *)b)->path);
}

void tree_sort(tree *t)
{
    if (t->n > 0)
        qsort(t->files, (size_t)t->n, sizeof *t->files, compare);
}

tree tree_read(const char *folder)
{
    tree t = {NULL, 0};
    read_folder(&t, folder, "");
    tree_sort(&t);
    return t;
}

void tree_release(tree *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->files[i].data);
    free(t->files);
    *t = (tree){NULL, 0};
}

const tree_file *tree_find(const tree *t, const char *path)
{
    tree_file key = {.data = NULL};
    snprintf(key.path, sizeof key.path, "%s", path);
    return t->n ? bsearch(&key, t->files, (size_t)t->n, sizeof key, compare) : NULL;
}

static bool is_same(const tree_file *a, const tree_file *b)
{
    return a && b && a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

void tree_write(const char *folder, const tree *now, const tree *t)
{
    char full[600];
    for (int i = now->n - 1; i >= 0; i--) {
        snprintf(full, sizeof full, "%s/%s", folder, now->files[i].path);
        if (!tree_find(t, now->files[i].path) && remove(full) != 0)
            stop("remove", full);
    }
    for (int i = 0; i < t->n; i++) {
        const tree_file *f = &t->files[i], *was = tree_find(now, f->path);
        snprintf(full, sizeof full, "%s/%s", folder, f->path);
        if (f->path[strlen(f->path) - 1] == '/') {
            if (!was && mkdir(full, 0755) != 0)
                stop("make", full);
        } else if (!is_same(was, f)) {
            /* a new file, because one without rights may stand there */
            if (was && unlink(full) != 0)
                stop("remove", full);
            int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
            if (fd < 0 || write(fd, f->data, f->n) != (ssize_t)f->n)
                stop("write", full);
            close(fd);
        }
    }
}

/* The bytes of a path that say what it is in: a file, or a folder with its "/". */
static size_t unit(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : strlen(path) + 1;
}

/* Whether a unit is the same in both. */
static bool unit_same(const tree *a, const tree *b, const char *path)
{
    size_t n = unit(path);
    int in_a = 0, in_b = 0;
    for (int i = 0; i < a->n; i++) {
        if (strncmp(a->files[i].path, path, n) != 0)
            continue;
        in_a++;
        if (!is_same(&a->files[i], tree_find(b, a->files[i].path)))
            return false;
    }
    for (int i = 0; i < b->n; i++)
        in_b += strncmp(b->files[i].path, path, n) == 0;
    return in_a == in_b;
}

const char *tree_odd(const tree *now, const tree *a, const tree *b, const char *but)
{
    const tree *all[] = {now, a, b};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < all[k]->n; i++) {
            const char *path = all[k]->files[i].path;
            const char *word = strstr(but, path);
            size_t n = strlen(path);
            if (word && (word == but || word[-1] == ' ') && (word[n] == ' ' || !word[n]))
                continue;
            if (!unit_same(now, a, path) && !unit_same(now, b, path))
                return path;
        }
    return NULL;
}

bool tree_same(const tree *a, const tree *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->files[i].path, b->files[i].path) != 0 || !is_same(&a->files[i], &b->files[i]))
            return false;
    return true;
}
