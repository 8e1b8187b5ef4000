/* Readers of files that are changed in place: what they make of journals in every state, and who
 * waits for whom. Crashes are in tests/faults. */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "checkpoint/checkpoint_write.h"
#include "in_place_model.h"

/* A reader finds the file with these bytes and the journal of m: it is `want` afterwards. */
static void check_ends(const model *m, const char *state, const char *want)
{
    put_state(m, state);
    CHECK_OK(read_it(NAME, &e));
    check_holds(want, m->bytes);
}

/* A file without the mark is whole, before the mark came and after it went. */
TEST(in_place_cut_beside_the_mark)
{
    SMALL_CHANGE();
    check_ends(m, m->a, m->a);
    check_ends(m, m->b, m->b);
}

/* The mark has come, and any of the places: none, each, or some bytes of them. */
TEST(in_place_cut_among_the_places)
{
    SMALL_CHANGE();
    for (uint64_t seed = 0; seed < 52; seed++) {
        for (int64_t i = 8; i < m->bytes; i++) {
            bool is_b = seed < 2 ? seed == 1 : noise(seed * 100003 + (uint64_t)i) % 2;
            half[i] = is_b ? m->b[i] : m->a[i];
        }
        check_ends(m, half, m->b);
    }
}

/* A power cut brought a journal back whose change had ended: the next change has its own. */
TEST(in_place_change_beside_an_old_journal)
{
    own_model *m = model_small(), *next = model_new(20000);
    own_text *half = half_of(next);
    model_change_some(next, 70);
    IN_FOLDER(NAME, NULL);
    put_state(m, m->a);
    CHECK_OK(change(next, NAME, &e));
    check_holds(next->b, next->bytes);
    put_journal(m, JOURNAL); /* it was cut short, too: its journal took the place of the old one */
    put_file(NAME, half, next->bytes);
    put_journal(next, JOURNAL);
    check_read(next->b, next->bytes);
}

/* Another program wrote the file, or put another one there: it is as it wrote it. */
TEST(in_place_journal_of_a_file_that_another_program_wrote)
{
    own_model *m = model_small(), *other = model_new(20001), *third = model_new(20000);
    memset(third->a + HEADER, 7, 20000);
    IN_FOLDER(NAME, NULL);
    check_ends(m, third->a, third->a);
    put_file(NAME, other->a, other->bytes);
    put_journal(m, JOURNAL);
    CHECK_OK(read_it(NAME, &e));
    check_holds(other->a, other->bytes);
    put_file(NAME, "short", 5);
    put_journal(m, JOURNAL);
    CHECK_ERR(read_it(NAME, &e), KV_E_FORMAT,
              NAME ": cut within the length of its header: 3 of 8 bytes are missing");
    check_holds("short", 5);
}

/* The journal of an earlier version, which had the old bytes too, of a file of 328 bytes. */
TEST(in_place_journal_of_an_earlier_version)
{
    static const char journal[] =
        "kvjourn1\36;\0\0\0\0\0\0H\1\0\0\0\0\0\0x\0\0\0\0\0\0\0r\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0p"
        "\245\353`\177\344\134\204Yn\256\306\323;\42\276\0\0\0\0\0\0\0\0\42\0\0\0\5\0\0\0\210\5\4"
        "\253e^\210\256eY\210\300\2\2\226\215\230\2151M\366@\366)\212\204\200\204\271\1_\271R\271";
    static const struct {
        int64_t at, n;
        const char *now;
    } places[] = {{162, 4, "\xae\x65\x59\x88"}, {246, 2, "\x98\x8d"}, {260, 2, "\x40\xf6"},
                  {272, 2, "\x80\x84"}, {320, 2, "\x52\xb9"}};
    char half[328] = IN_PLACE_MARK "{\"w\":{\"dtype\":\"BF16\",\"shape\":[100],"
                                   "\"data_offsets\":[0,200]}}",
         whole[328];
    for (size_t i = strlen(half); i < 128; i++)
        half[i] = ' ';
    memcpy(whole, half, sizeof half);
    memcpy(whole, "\x78\0\0\0\0\0\0", 8);
    IN_FOLDER(NAME, NULL);
    put_file(NAME, whole, sizeof whole);
    put_file(JOURNAL, journal, sizeof journal - 1);
    CHECK_OK(read_it(NAME, &e));
    check_holds(whole, sizeof whole);
    put_file(NAME, half, sizeof half);
    put_file(JOURNAL, journal, sizeof journal - 1);
    CHECK_OK(read_it(NAME, &e));
    for (int i = 0; i < 5; i++)
        memcpy(whole + places[i].at, places[i].now, (size_t)places[i].n);
    check_holds(whole, sizeof whole);
}

/* Only what a killed writer had not completed. */
TEST(in_place_reader_removes_a_journal_that_is_not_complete)
{
    SMALL_CHANGE();
    put_file(NAME, m->a, m->bytes);
    put_file(JOURNAL ".tmp", "half", 4);
    CHECK_OK(read_it(NAME, &e));
    check_alone();
    put_file(JOURNAL ".tmp", m->a, m->bytes); /* a writer uses its name */
    CHECK_OK(change(m, NAME, &e));
    check_holds(m->b, m->bytes);
}

#define DAMAGED                                                                                    \
    NAME ": half changed, and the journal of the change, "                                         \
         "\"" JOURNAL "\", is damaged"
#define DAMAGED_HINT "the file is lost: put a whole one in its place and remove \"" JOURNAL "\""

/* The first n bytes of a journal with byte `at` flipped, beside a file that is whole: it is as it
 * was, and beside one that is half changed: an error, and both stay. */
static void check_damaged(const model *m, const char *half, const char *journal, int64_t n,
                          int64_t at)
{
    char bytes[4096];
    CHECK(n <= (int64_t)sizeof bytes);
    memcpy(bytes, journal, (size_t)n);
    if (at >= 0)
        bytes[at] ^= 0x10;
    put_file(NAME, m->a, m->bytes);
    put_file(JOURNAL, bytes, n);
    CHECK_OK(read_it(NAME, &e));
    check_holds(m->a, m->bytes);

    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, bytes, n);
    check_refused(KV_E_FORMAT, DAMAGED, DAMAGED_HINT);
    CHECK(holds(NAME, half, m->bytes) && holds(JOURNAL, bytes, n));
}

TEST(in_place_journal_cut_or_flipped)
{
    own_model *m = model_new(9000);
    model_change_some(m, 20);
    char *half = half_of(m), journal[4096];
    IN_FOLDER(NAME, NULL);
    put_journal(m, JOURNAL);
    FILE *f = fopen(JOURNAL, "rb");
    int64_t n = (int64_t)fread(journal, 1, sizeof journal, f);
    fclose(f);
    CHECK(n > 200 && n < (int64_t)sizeof journal);
    for (int64_t cut = 0; cut < n; cut++)
        check_damaged(m, half, journal, cut, -1);
    for (int64_t at = 0; at < n; at++)
        check_damaged(m, half, journal, n, at);
    journal[n] = 0; /* a byte too many is none of it */
    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, journal, n + 1);
    check_read(m->b, m->bytes);
    mem_free(half);
}

/* Sums are right, but a place is beyond the file. */
TEST(in_place_journal_that_lies)
{
    SMALL_CHANGE();
    const int64_t lies[][2] = {{0, 9}, {7, 1}, {m->bytes - 1, 2}, {m->bytes, 1}, {1L << 58, 5}};
    for (int i = 0; i < 11; i++) { /* the places of bytes, and those of keys; a long name */
        journal_writer w;
        const char *now = i < 5 ? m->b : NULL;
        journal_record r = {.offset = lies[i % 5][0], .n = lies[i % 5][1], .now = now, .key = m->a};
        if (i == 10)
            r = (journal_record){.offset = 8, .n = 1, .key = m->a, .key_bytes = JOURNAL_NAME + 1};
        int fd = open(JOURNAL, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK_OK(journal_begin(&w, fd, JOURNAL, &e));
        CHECK_OK(journal_add(&w, &r, &e));
        w.about.target_bytes = m->bytes;
        memcpy(w.about.first, m->a, 8);
        CHECK_OK(journal_end(&w, &e));
        journal_release(&w);
        close(fd);
        put_file(NAME, half, m->bytes);
        check_refused(KV_E_FORMAT, DAMAGED, DAMAGED_HINT);
        CHECK(holds(NAME, half, m->bytes));
    }
}

#define CHANGED_SINCE ": the file was changed after a change of it was cut short"

/* A file with the mark that is none of the states of its change. */
TEST(in_place_half_changed_file_that_another_program_wrote)
{
    own_model *m = model_small(), *other = model_new(20001);
    own_text *half = half_of(other);
    IN_FOLDER(NAME, JOURNAL);
    put_journal(m, JOURNAL);
    put_file(NAME, half, other->bytes);
    check_refused(KV_E_FORMAT,
                  NAME ": half changed, and 20081 bytes, where \"" JOURNAL
                       "\" is of a file of 20080" CHANGED_SINCE,
                  DAMAGED_HINT);
    CHECK(holds(NAME, half, other->bytes));
    mem_free(half);

    half = half_of(m);
    half[m->bytes - 3] ^= 1;
    put_file(NAME, half, m->bytes);
    check_refused(KV_E_FORMAT,
                  NAME ": half changed, and \"w\" is not what \"" JOURNAL
                       "\" makes of it" CHANGED_SINCE,
                  DAMAGED_HINT);
    CHECK(access(JOURNAL, F_OK) == 0);
}

#define LOST                                                                                       \
    NAME                                                                                           \
        ": half changed: a change of it in place was cut short, and the journal of the change is " \
        "not beside it"
#define LOST_HINT                                                                                  \
    "the journal, .NAME.kv-journal, stands beside the name under which the file was changed: "     \
    "read it there"

/* The file has another hard link, under whose name it was changed, or was moved. */
TEST(in_place_journal_elsewhere)
{
    own_model *m = model_small();
    own_text *half = half_of(m);
    in_place *j;
    IN_FOLDER(NAME, "other");
    put_file("other", half, m->bytes);
    CHECK(link("other", NAME) == 0);
    put_journal(m, ".other.kv-journal");
    check_refused(KV_E_FORMAT, LOST, LOST_HINT);
    CHECK_ERR(in_place_open(&j, NAME, &e), KV_E_FORMAT, LOST);
    CHECK_OK(read_it("other", &e));
    CHECK(holds(NAME, m->b, m->bytes));
    CHECK_OK(read_it(NAME, &e));
}

/* A change of the file at `path`, which is `file`, that was cut short is ended, and done again. */
static void check_journal(const char *path, const char *file, const char *journal)
{
    own_model *m = model_small();
    own_text *half = half_of(m);
    put_file(file, half, m->bytes);
    put_journal(m, journal);
    CHECK_OK(read_it(path, &e));
    CHECK(holds(file, m->b, m->bytes));
    put_file(file, m->a, m->bytes);
    CHECK_OK(change(m, path, &e));
    CHECK(holds(file, m->b, m->bytes));
}

/* The journal stands beside the file that a link leads to, and beside a name of the greatest
 * length. */
TEST(in_place_names)
{
    char name[256] = {0}, journal[64];
    IN_FOLDER(name, NULL);
    CHECK(mkdir("blobs", 0700) == 0 && symlink("blobs/f00d", NAME) == 0);
    check_journal(NAME, "blobs/f00d", "blobs/.f00d.kv-journal");
    CHECK(unlink("blobs/f00d") == 0 && rmdir("blobs") == 0 && unlink(NAME) == 0);
    memset(name, 'n', 255);
    snprintf(journal, sizeof journal, ".%016llx.kv-journal", (unsigned long long)xxh64(name, 255));
    check_journal(name, name, journal);
    check_alone();
}

/* A file that was written anew needs no journal of an old one. */
TEST(in_place_journal_of_a_file_that_was_replaced)
{
    SMALL_CHANGE();
    checkpoint_entry entry = {"x", TENSOR_U8, 1, (int64_t[]){3}};
    put_state(m, m->a);
    checkpoint_out *out = MADE(checkpoint_out, checkpoint_out_open, NAME, &entry, 1, NULL, 0, NULL);
    CHECK_OK(checkpoint_out_put(out, 0, 0, "abc", 3, &e));
    CHECK_OK(checkpoint_out_commit(out, &e));
    check_alone();
    CHECK_OK(read_it(NAME, &e));
}

TEST(in_place_journal_is_small)
{
    journal_writer w;
    FILE *f = tmpfile();
    CHECK_OK(journal_begin(&w, fileno(f), "journal", &e));
    for (int64_t i = 0; i < 10000000; i++)
        if ((noise((uint64_t)i) * 256 + noise((uint64_t)i + 99)) % 100 == 0) {
            journal_record r = {.offset = HEADER + 2 * i, .n = 2, .now = "cd"};
            CHECK_OK(journal_add(&w, &r, &e));
        }
    CHECK_OK(journal_end(&w, &e));
    CHECK(w.about.records > 50000);
    CHECK(w.about.bytes < w.about.records * 41 / 10);
    journal_release(&w);
    fclose(f);
}

static bool no_locks;

/* In front of that of the C library. */
int flock(int fd, int how)
{
    if (!no_locks)
        return (int)syscall(SYS_flock, fd, how);
    errno = ENOLCK;
    return -1;
}

/* Without locks nothing tells whether a writer is about to put the mark: its journal stays, and
 * harms nobody. */
TEST(in_place_without_locks)
{
    SMALL_CHANGE();
    no_locks = true;
    put_state(m, m->a);
    check_read(m->a, m->bytes);
    CHECK(access(JOURNAL, F_OK) == 0);
    CHECK_OK(change(m, NAME, &e));
    check_holds(m->b, m->bytes);
    check_ends(m, half, m->b);
}

TEST(in_place_reader_waits_for_a_writer)
{
    SMALL_CHANGE();
    char text[200];
    put_file(NAME, half, m->bytes);
    put_file(JOURNAL, "", 0);
    pid_t pid = hold(NAME, LOCK_EX, JOURNAL);
    put_journal_of(m, JOURNAL, pid); /* the same file */
    snprintf(text, sizeof text,
             "\"" NAME "\" is being changed in place by process %d; waited 3 s for it", (int)pid);
    check_refused(KV_E_BUSY, text, "try again when that has ended");
    CHECK(holds(NAME, half, m->bytes));
    let_go(pid);
    check_read(m->b, m->bytes);
}

/* Until it is complete, the writer only reads, as readers do. */
TEST(in_place_reader_beside_a_writer_that_prepares)
{
    SMALL_CHANGE();
    put_file(NAME, m->a, m->bytes);
    in_place *j = MADE(in_place, in_place_open, NAME);
    CHECK_OK(put_all(j, m, &e));
    int64_t before = clock_ms();
    checkpoint *c = MADE(checkpoint, checkpoint_open, NAME, NULL);
    CHECK(clock_ms() - before < IN_PLACE_WAIT_MS);
    checkpoint_close(c);
    CHECK_OK(in_place_commit(j, &e));
    check_holds(m->b, m->bytes);
}

TEST(in_place_writer_waits_for_a_reader)
{
    SMALL_CHANGE();
    put_file(NAME, m->a, m->bytes);
    checkpoint *c = MADE(checkpoint, checkpoint_open, NAME, NULL);
    CHECK_ERR(change(m, NAME, &e), KV_E_BUSY,
              "cannot change \"" NAME
              "\" in place: another process has it open; waited 3 s for it");
    check_holds(m->a, m->bytes);
    checkpoint_close(c);
    CHECK_OK(change(m, NAME, &e));
}

TEST(in_place_writer_waits_for_a_writer)
{
    SMALL_CHANGE();
    in_place *j, *second;
    put_file(NAME, m->a, m->bytes);
    CHECK_OK(in_place_open(&j, NAME, &e));
    CHECK_ERR(in_place_open(&second, NAME, &e), KV_E_BUSY,
              "\"" NAME "\" is being changed in place by another process; waited 3 s for it");
    in_place_abandon(j);
    check_alone();
    CHECK_OK(in_place_open(&second, NAME, &e));
    in_place_abandon(second);
}

/* A session locks the file of its store, and reads it itself: nothing waits for that, and a change
 * that was cut short is ended. */
TEST(in_place_file_of_a_session)
{
    SMALL_CHANGE();
    put_state(m, half);
    pid_t pid = hold(NAME, LOCK_EX, NULL);
    int64_t before = clock_ms();
    CHECK_OK(read_it(NAME, &e));
    CHECK_OK(read_it(NAME, &e));
    CHECK(clock_ms() - before < IN_PLACE_WAIT_MS);
    check_holds(m->b, m->bytes);
    CHECK_ERR(change(m, NAME, &e), KV_E_BUSY,
              "cannot change \"" NAME
              "\" in place: another process has it open; waited 3 s for it");
    let_go(pid);
    own_checkpoint *c; /* and a session can begin beside a reader */
    CHECK_OK(checkpoint_open(&c, NAME, NULL, &e));
    let_go(hold(NAME, LOCK_EX | LOCK_NB, NULL));
}

#define NOT_BY_ME                                                                                  \
    "cannot read \"" NAME "\": a change of it was cut short, and this user may not end it, which " \
    "is to write the file as \"" JOURNAL "\" says"
#define NOT_BY_ME_HINT                                                                             \
    "let its owner, or the user who changed it, read it once, as with: kvctl ls " NAME

/* A journal that another user put beside the file does nothing. */
TEST(in_place_journal_of_another_user)
{
    SMALL_CHANGE();
    if (geteuid() != 0)
        test_skip("only root can give files away");
    put_state(m, m->a);
    CHECK(chown(JOURNAL, 12345, 0) == 0);
    check_read(m->a, m->bytes);
    CHECK(access(JOURNAL, F_OK) == 0);
    put_file(NAME, half, m->bytes);
    check_refused(KV_E_IO, NOT_BY_ME, NOT_BY_ME_HINT);
    CHECK(holds(NAME, half, m->bytes));
    CHECK(chown(NAME, 12345, 0) == 0); /* of the owner of the file */
    CHECK_OK(read_it(NAME, &e));
    check_holds(m->b, m->bytes);
}

#define AS_ANOTHER(look)                                                                           \
    do {                                                                                           \
        CHECK(seteuid(65534) == 0);                                                                \
        look;                                                                                      \
        CHECK(seteuid(0) == 0);                                                                    \
    } while (0)

/* Readers may read what they may not write, unless it is half changed. */
TEST(in_place_reader_that_may_not_write)
{
    SMALL_CHANGE();
    if (geteuid() != 0)
        test_skip("only root can become another user");
    CHECK(chmod(".", 0755) == 0);
    put_state(m, m->a);
    AS_ANOTHER(CHECK_OK(read_it(NAME, &e)));
    CHECK(holds(NAME, m->a, m->bytes));

    put_file(NAME, half, m->bytes);
    AS_ANOTHER(check_refused(KV_E_IO, NOT_BY_ME, NOT_BY_ME_HINT));
    CHECK(holds(NAME, half, m->bytes));

    /* without the right to remove the journal it stays, and the file is B */
    CHECK(chmod(NAME, 0666) == 0 && chmod(JOURNAL, 0644) == 0);
    AS_ANOTHER(CHECK_OK(read_it(NAME, &e)));
    CHECK(holds(NAME, m->b, m->bytes) && access(JOURNAL, F_OK) == 0);
    CHECK_OK(read_it(NAME, &e));
    check_holds(m->b, m->bytes);
}
