/* Entries and answers of a job and its workers. */
#include "launch/launch_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "term/signals.h"

/* ---- Answers ---- */

/* No text of a worker begins with these bytes; see launch_folder.h. */
#define ANSWER "\1\2kvdone "

long prompt_answer_find(const char *line, size_t n, int *code)
{
    const char *at = memmem(line, n, ANSWER, sizeof ANSWER - 1);
    if (!at)
        return -1;
    *code = atoi(at + sizeof ANSWER - 1); /* the line ends with it */
    return at - line;
}

void prompt_answer(int answers, int rank, int rc)
{
    dprintf(answers, "%d %d\n", rank, rc);
}

/* Below 0, so that it is no answer to an entry. */
void prompt_answer_gone(int answers, int rank, int rc)
{
    prompt_answer(answers, rank, -1 - rc);
}

/* ---- The worker's side ---- */

static int open_of(long pid, long fd, int flags, kv_err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", pid, fd);
    int mine = open(path, flags | O_CLOEXEC);
    if (mine < 0)
        file_error(e, "read", path, errno);
    return mine;
}

int entry_source_open(entry_source *from, const char *named, kv_err *e)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char *at;
    long pid = strtol(named, &at, 10), texts = strtol(at, &at, 10), fd = -1;
    for (int i = rank ? atoi(rank) : 0; i >= 0; i--)
        fd = strtol(at, &at, 10);
    from->texts = open_of(pid, texts, O_RDONLY, e);
    int next = from->texts < 0 ? -1 : open_of(pid, fd, O_RDONLY, e);
    from->next = next < 0 ? NULL : fdopen(next, "r");
    if (from->next)
        return KV_OK;
    if (from->texts >= 0)
        close(from->texts);
    return e->code ? e->code : kv_err_set(e, KV_E_MEMORY, "no memory for the entries of a job");
}

int entry_source_next(const entry_source *from, char **text, size_t *n, int *line, kv_err *e)
{
    char where[96];
    long long offset, bytes;
    *text = NULL;
    while (!fgets(where, sizeof where, from->next)) {
        if (!ferror(from->next) || errno != EINTR || interrupt_pending() == SIGTERM)
            return KV_OK;
        clearerr(from->next); /* Ctrl-C was for another worker */
        interrupt_clear();
    }
    if (sscanf(where, "%lld %lld %d", &offset, &bytes, line) != 3)
        return kv_err_set(e, KV_E_IO, "the prompt of the job sent what is no entry");
    char *made = mem_alloc(bytes + 1, 1, e);
    if (!made)
        return KV_E_MEMORY;
    if (pread(from->texts, made, (size_t)bytes, offset) != bytes) {
        mem_free(made);
        return file_error(e, "read", "the entries of the job", errno);
    }
    made[bytes] = '\0';
    *text = made;
    *n = (size_t)bytes;
    return KV_OK;
}

void entry_source_answer(int rc)
{
    printf(ANSWER "%d\n", rc);
    fflush(stdout);
    fprintf(stderr, ANSWER "%d\n", rc);
    fflush(stderr);
}

void entry_source_close(entry_source *from)
{
    fclose(from->next);
    close(from->texts);
}
