/* The lines of several ranks: joined where they are equal, each rank's in its order. stdout and
 * stderr go into files meanwhile. */
#include <unistd.h>

#include "launch/launch_attempt.h"
#include "test.h"

enum { WORKERS = 3, SERVERS = 2 };

typedef struct scene {
    launch_output o;
    buf done; /* what output_done has called */
    FILE *file;
    int before;
} scene;

static void note_done(void *arg, int number, int rc)
{
    scene *s = arg;
    fflush(s->file);
    buf_printf(&s->done, "%d:%d at %ld;", number, rc, lseek(fileno(s->file), 0, SEEK_END));
}

static void begin(scene *s)
{
    *s = (scene){.file = tmpfile(), .before = dup(STDERR_FILENO)};
    fflush(stderr);
    dup2(fileno(s->file), STDERR_FILENO);
    CHECK_OK(output_begin(&s->o, WORKERS, SERVERS, &e));
    s->o.done = note_done;
    s->o.arg = s;
    s->o.join_ms = INT64_MAX; /* however slow this machine is */
}

static void say(scene *s, int number, const char *text)
{
    output_take(&s->o, number, true, text, strlen(text));
}

/* All that came to stderr so far. */
static const char *shown(scene *s)
{
    static char text[4096];
    fflush(stderr);
    ssize_t n = pread(fileno(s->file), text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static void end(scene *s, const char *want)
{
    output_release(&s->o);
    const char *text = shown(s);
    dup2(s->before, STDERR_FILENO);
    close(s->before);
    fclose(s->file);
    CHECK_TEXT(text, want);
    buf_release(&s->done);
}

TEST(output_of_all_ranks_once)
{
    scene s;
    begin(&s);
    say(&s, 1, "a mistake\n  its place\n");
    say(&s, 0, "a mistake\n  its");
    say(&s, 2, "a mistake\n");
    say(&s, 2, "  its place\n");
    say(&s, 0, " place\n");
    bool at_once = strcmp(shown(&s), "[0..2] a mistake\n[0..2]   its place\n") == 0;
    end(&s, "[0..2] a mistake\n[0..2]   its place\n");
    CHECK(at_once);
}

TEST(output_of_some_ranks)
{
    scene s;
    begin(&s);
    say(&s, 0, "a\n");
    say(&s, 2, "a\n");
    say(&s, 1, "b\n"); /* in front of a */
    say(&s, 3, "a\n");
    say(&s, 4, "a\n");
    end(&s, "[1] b\n[s0..1] a\n[0 2] a\n");
}

/* The lines of one rank stay in order: what it wrote before does not keep an equal line apart. */
TEST(output_in_the_order_of_each_rank)
{
    scene s;
    begin(&s);
    for (int i = 0; i < WORKERS; i++) {
        char own[32];
        snprintf(own, sizeof own, "loss %d\n", i);
        say(&s, i, own);
        say(&s, i, "fails\nhere\n");
    }
    end(&s, "[2] loss 2\n[1] loss 1\n[0] loss 0\n[0..2] fails\n[0..2] here\n");
    begin(&s);
    say(&s, 0, "a\nb\n");
    say(&s, 1, "b\na\n");
    say(&s, 0, "a\n");
    end(&s, "[0] a\n[0..1] b\n[0..1] a\n");
}

TEST(output_waits_for_no_rank_that_has_ended)
{
    scene s;
    begin(&s);
    say(&s, 0, "a\n");
    say(&s, 1, "a\n");
    CHECK_TEXT(shown(&s), "");
    say(&s, 2, "rest");
    output_ended(&s.o, 2);
    bool waited = strcmp(shown(&s), "[2] rest\n[0..1] a\n") == 0;
    end(&s, "[2] rest\n[0..1] a\n");
    CHECK(waited);
}

TEST(output_waits_for_a_while)
{
    scene s;
    begin(&s);
    say(&s, 0, "a\n");
    output_look(&s.o, false);
    CHECK_TEXT(shown(&s), "");
    s.o.join_ms = 0;
    say(&s, 1, "b\n"); /* in front of a, whose time is up */
    say(&s, 2, "a\n");
    end(&s, "[1] b\n[0] a\n[2] a\n");
}

TEST(output_comes_before_the_end_of_an_entry)
{
    scene s;
    begin(&s);
    say(&s, 0, "a\n");
    output_done(&s.o, 0, 3);
    CHECK_TEXT(buf_text(&s.done), "");
    say(&s, 1, "a\n");
    say(&s, 2, "a\n");
    bool done = strcmp(buf_text(&s.done), "0:3 at 9;") == 0;
    end(&s, "[0..2] a\n");
    CHECK(done);
}
