/* How long LMDB takes to look up a value of 64 bytes, and to put one, under a random one of 100,000
 * text keys: what stands beside the last rows of small.c.
 *
 *     lmdb FOLDER [COUNT]     FOLDER: an empty one, best in memory
 *
 * Look-ups are made in one transaction that reads, and puts in one that writes and is not synced,
 * which is the best that LMDB can do.
 */
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"

enum { KEYS = 100000, NAME = 32, VALUE = 64 };

static void must(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "lmdb: %s\n", mdb_strerror(rc));
    exit(1);
}

static void show(const char *what, double seconds, long count)
{
    printf("%-44s %8.1f ns a call %7.2f million a second\n", what, seconds / (double)count * 1e9,
           (double)count / seconds * 1e-6);
}

int main(int argc, char **argv)
{
    static char names[KEYS][NAME];
    long count = argc > 2 ? atol(argv[2]) : 2000000;
    char value[VALUE] = {0};
    uint64_t seed = 11;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi table;
    if (argc < 2 || count < 1) {
        fputs("usage: lmdb FOLDER [COUNT]\n", stderr);
        return 2;
    }
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, (size_t)1 << 30));
    must(mdb_env_open(env, argv[1], MDB_NOSYNC | MDB_WRITEMAP, 0600));
    must(mdb_txn_begin(env, NULL, 0, &txn));
    must(mdb_dbi_open(txn, NULL, 0, &table));
    for (int i = 0; i < KEYS; i++) {
        snprintf(names[i], NAME, "key:%012d", i);
        MDB_val key = {strlen(names[i]), names[i]}, data = {VALUE, value};
        must(mdb_put(txn, table, &key, &data, 0));
    }
    must(mdb_txn_commit(txn));

    must(mdb_txn_begin(env, NULL, 0, &txn));
    double began = now();
    for (long n = 0; n < count; n++) {
        char *name = names[next_random(&seed) % KEYS];
        MDB_val key = {strlen(name), name}, data = {VALUE, value};
        must(mdb_put(txn, table, &key, &data, 0));
    }
    show("LMDB, put of one text key of 100,000, at random", now() - began, count);
    must(mdb_txn_commit(txn));

    must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    began = now();
    for (long n = 0; n < count; n++) {
        char *name = names[next_random(&seed) % KEYS];
        MDB_val key = {strlen(name), name}, data;
        must(mdb_get(txn, table, &key, &data));
        memcpy(value, data.mv_data, VALUE);
    }
    show("LMDB, get of one text key of 100,000, at random", now() - began, count);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return 0;
}
