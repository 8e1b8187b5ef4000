/* What a thread's stack has left. tests/cli/limits.bats has what recursions do then. */
#include "base/stack.h"

#include <stdlib.h>
#include <ucontext.h>

#include "test.h"

static ucontext_t outside, inside;
static bool low;
static size_t room;

static void look(void)
{
    low = stack_runs_low();
    room = stack_room();
    swapcontext(&inside, &outside);
}

/* A program may run us on a stack that it made itself: of that nothing is known. */
TEST(stack_of_a_coroutine)
{
    size_t size = 256 << 10;
    char *own = malloc(size);
    CHECK(own && !stack_runs_low() && stack_room() < SIZE_MAX);
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = own;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, look, 0);
    low = true;
    CHECK(swapcontext(&outside, &inside) == 0);
    CHECK(!low && room == SIZE_MAX);
    CHECK(stack_room() < SIZE_MAX);
    free(own);
}
