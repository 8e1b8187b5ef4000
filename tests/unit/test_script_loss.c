/* Whether a job has lost a host: who is silent, for how long, and who is named. */

#include "base/clock.h"
#include "launch/launch_attempt.h"
#include "test.h"

enum { RANKS = 12 };

typedef struct scene {
    launch_options o;
    rank ranks[RANKS];
    job j;
} scene;

/* Ranks in turns on two hosts, heard just now; the deadline is 10 s. */
static void begin(scene *s, int n)
{
    *s = (scene){.o = {.deadline = 10}};
    s->j = (job){.o = &s->o, .n = n, .ranks = s->ranks};
    for (int i = 0; i < n; i++) {
        s->ranks[i].pid = 1;
        s->ranks[i].heard_ms = clock_ms();
        memcpy(s->ranks[i].host, i % 2 ? "n2" : "n1", sizeof "n1");
    }
}

static void hear_n2(scene *s, int64_t ms_ago)
{
    for (int i = 1; i < s->j.n; i += 2)
        s->ranks[i].heard_ms = clock_ms() - ms_ago;
}

TEST(loss_by_silence)
{
    scene s;
    begin(&s, 6);
    hear_n2(&s, 2000);
    CHECK(!loss_is_host(&s.j, 3));
    hear_n2(&s, 6000);
    CHECK(loss_is_host(&s.j, 3) && !loss_is_host(&s.j, 2));
    CHECK(!loss_is_host(&s.j, -1) && !loss_is_host(&s.j, 6));
    CHECK_INT(loss_find(&s.j), -1);
    s.j.ssh_ended = true;
    CHECK_INT(loss_find(&s.j), 1);
    s.j.ssh_ended = false;
    hear_n2(&s, 16000);
    CHECK_INT(loss_find(&s.j), 1);
    s.ranks[1].ended = true;
    CHECK_INT(loss_find(&s.j), 3);
    s.ranks[1].heard_ms = clock_ms(); /* its watcher stays: those of ranks 3 and 5 are lost alone */
    CHECK_INT(loss_find(&s.j), 3);
    CHECK(!loss_is_host(&s.j, 3));
    s.ranks[3].heard_ms = s.ranks[5].heard_ms = clock_ms() - 14000;
    CHECK_INT(loss_find(&s.j), -1);
}

TEST(loss_of_a_watcher)
{
    scene s;
    char why[512];
    begin(&s, 6);
    s.ranks[3].heard_ms = clock_ms() - 16000;
    CHECK_INT(loss_find(&s.j), 3);
    CHECK(!loss_is_host(&s.j, 3));
    loss_name_silent(&s.j, 3, "rank 3 (worker) on n2", why, sizeof why);
    CHECK(strcmp(why, "rank 3 (worker) on n2 has not been heard for 16 s") == 0);
    s.j.ssh_ended = true;
    CHECK_INT(loss_find(&s.j), 3);
    s.ranks[3].ended = true;
    CHECK_INT(loss_find(&s.j), -1);
}

/* Messages were not read yet, or launch itself was stopped. */
TEST(loss_of_nobody)
{
    scene s;
    begin(&s, 6);
    hear_n2(&s, 16000);
    s.j.looked_ms = clock_ms();
    loss_tick(&s.j, true);
    CHECK_INT(loss_find(&s.j), -1);
    s.j.unheard_ms = 0;
    loss_tick(&s.j, false);
    CHECK_INT(loss_find(&s.j), 1);
    s.j.looked_ms = clock_ms() - 6000;
    loss_tick(&s.j, false);
    CHECK_INT(loss_find(&s.j), -1);
    s.j.unheard_ms = 0;
    CHECK(loss_is_host(&s.j, 3));
}

/* A host is not lost where launch runs: its watcher is stopped, or mpirun is. */
TEST(loss_on_this_host)
{
    scene s;
    char why[128];
    begin(&s, 6);
    hear_n2(&s, 16000);
    s.j.is_local = true;
    CHECK_INT(loss_find(&s.j), 1);
    CHECK(!loss_is_host(&s.j, 3));
    loss_name_silent(&s.j, 1, "rank 1 (worker)", why, sizeof why);
    CHECK(strncmp(why, "mpirun has not been heard for ", 30) == 0);
    s.j.ranks[3].heard_ms = clock_ms();
    loss_name_silent(&s.j, 1, "rank 1 (worker)", why, sizeof why);
    CHECK(strncmp(why, "the watcher of rank 1 (worker) has not been heard for ", 54) == 0);
}

TEST(loss_names_the_ranks)
{
    static const struct {
        int n;
        const char *text;
    } cases[] = {{2, "host n2 is lost, with rank 1"},
                 {4, "host n2 is lost, with ranks 1 and 3"},
                 {6, "host n2 is lost, with ranks 1, 3 and 5"}};
    scene s;
    char why[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(&s, cases[i].n);
        loss_name_host(&s.j, 1, why, sizeof why);
        CHECK_TEXT(why, cases[i].text);
    }
    begin(&s, RANKS);
    for (int i = 0; i < RANKS; i++)
        memcpy(s.ranks[i].host, "n1", sizeof "n1");
    s.ranks[2].ended = true;
    loss_name_host(&s.j, 1, why, sizeof why);
    CHECK_TEXT(why, "host n1 is lost, with ranks 0, 1, 3, 4, 5, 6, 7, 8 and 3 more");
    loss_end_host(&s.j, 1);
    CHECK_INT(loss_find(&s.j), -1);
    CHECK(s.ranks[11].ended);
}
