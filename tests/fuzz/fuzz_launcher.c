/* What launch is told by others. The first byte says which: the bytes of watchers and of mpirun,
 * built of cells; the file `lost` of a job's folder; a file of hosts. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch_attempt.h"
#include "launch/launch_folder.h"
#include "launch/launch_command.h"

enum { RANKS = 3 };

/* Cells have a rank, a kind, a length and a text. A kind in the list makes a whole cell, the one
 * behind it a cell of an unknown kind with a wild length; the last two put the text between cells.
 */
static void put_cells(buf *all, fuzz_bytes *in)
{
    static const char kinds[] = {WIRE_OUT,  WIRE_ERR, WIRE_EVENT,  WIRE_LOST,
                                 WIRE_BEAT, WIRE_SSH, WIRE_MISSED, WIRE_DONE};
    while (in->at < in->end) {
        wire_cell cell = {.mark = WIRE_MARK, .rank = (int)fuzz_draw(in, 8) - 2};
        unsigned kind = fuzz_draw(in, sizeof kinds + 3);
        size_t n = fuzz_draw(in, 256), left = (size_t)(in->end - in->at);
        n = n < left ? n : left;
        cell.kind = (int16_t)(kind < sizeof kinds ? kinds[kind] : (int)kind);
        cell.n = (int16_t)(kind == sizeof kinds ? 1000 * (int)n - 100000 : (int)n);
        memcpy(cell.text, in->at, n);
        if (kind <= sizeof kinds)
            buf_put(all, (const char *)&cell, sizeof cell);
        else
            buf_put(all, cell.text, n);
        in->at += n;
    }
}

/* A job over hosts that runs no process. */
static void take_cells(fuzz_bytes *in)
{
    launch_options o = {.by = LAUNCH_SSH, .workers = 2, .servers = 1, .deadline = 10};
    launch_hosts hosts = {0};
    rank ranks[RANKS];
    job j = {.o = &o, .hosts = &hosts, .n = RANKS, .ranks = ranks, .heard = -1, .early = -1};
    buf all = {0};
    memset(ranks, 0, sizeof ranks);
    kv_err e = {0};
    if (output_begin(&j.output, o.workers, o.servers, &e))
        return;
    snprintf(j.folder, sizeof j.folder, "%s", fuzz_path(""));
    remove(fuzz_path("lost"));
    size_t step = 1 + fuzz_draw(in, 256) * 8;
    put_cells(&all, in);
    for (size_t at = 0; at < all.len; at += step)
        attempt_take(&j, all.data + at, all.len - at < step ? all.len - at : step,
                     at + step >= all.len);
    HOLDS(j.end_ms == 0 || j.code != 0, "a job that failed has an exit code");
    output_release(&j.output);
    buf_release(&j.bytes);
    buf_release(&j.log);
    buf_release(&all);
}

static void read_lost(const uint8_t *data, size_t n)
{
    int number = 0;
    char why[64], folder[128];
    fuzz_file("lost", data, n);
    snprintf(folder, sizeof folder, "%s", fuzz_path(""));
    if (folder_lost(folder, &number, why, sizeof why))
        HOLDS(!strchr(why, '\n') && strlen(why) < sizeof why, "a line");
}

static void read_hosts(const uint8_t *data, size_t n)
{
    kv_err e = {0};
    launch_hosts h = {0};
    launch_options o = {.by = LAUNCH_SSH, .workers = 3, .servers = 1};
    buf list = {0};
    o.hostfile = fuzz_file("hosts", data, n);
    if (fuzz_result(hosts_read(&h, &o, &e), &e)) {
        int ranks = 0;
        for (int64_t i = 0; i < h.n; i++)
            ranks += h.items[i].ranks;
        HOLDS(ranks == o.workers + o.servers, "every rank has a host");
        hosts_list(&h, &list);
        hosts_ssh(&h, &o, &list);
    }
    buf_release(&list);
    hosts_release(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    switch (fuzz_draw(&in, 3)) {
    case 0: take_cells(&in); break;
    case 1: read_lost(in.at, (size_t)(in.end - in.at)); break;
    case 2: read_hosts(in.at, (size_t)(in.end - in.at)); break;
    }
    return 0;
}
