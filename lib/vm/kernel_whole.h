/* The loops of whole_list.h, a part of kernel_loops.h: a function of one element behind the other,
 * with the numbers of the instruction, k[0] of the first. */
#ifdef KERNEL_TABLE

#include "vm/whole_list.h"

#define R(...) WHOLE_R(__VA_ARGS__)
#define A(...) WHOLE_A(__VA_ARGS__)
#define WHOLE_VALUE(loop, x, y, z)                                                                 \
    loop##_at_f32(x, y, z, k[step][0], k[step][1], k[step][2], k[step][3]);                        \
    step++;
#define WHOLE_R(reg, number, loop, x, y, z)  const float reg = WHOLE_VALUE(loop, x, y, z)
#define WHOLE_A(slot, number, loop, x, y, z) p##slot[i] = a##slot = WHOLE_VALUE(loop, x, y, z)

#define WHOLE_ELEMENTS(gradient, steps)                                                            \
    NO_CARRY for (int64_t i = 0; i < n; i++)                                                       \
    {                                                                                              \
        float a0 = p0[i], a1 = gradient, a2 = p2[i], a3 = p3[i], a4 = p4[i];                       \
        int step = 0;                                                                              \
        steps;                                                                                     \
        (void)step, (void)a0, (void)a1, (void)a2, (void)a3, (void)a4;                              \
    }

/* The numbers are copied, since no store to an array can change a copy. */
#define WHOLE_LOOP(name, steps)                                                                    \
    static void whole_##name(float *const *array, const float *more, const float *const *numbers,  \
                             int count, int64_t n)                                                 \
    {                                                                                              \
        float *p0 = array[0], *p1 = array[1], *p2 = array[2], *p3 = array[3], *p4 = array[4];      \
        float k[WHOLE_STEPS][KERNEL_CONSTANTS] = {{0}};                                            \
        const float no = 0;                                                                        \
        (void)no, (void)p1, (void)p2, (void)p3, (void)p4;                                          \
        for (int i = 0; i < count; i++)                                                            \
            for (int j = 0; j < KERNEL_CONSTANTS; j++)                                             \
                k[i][j] = numbers[i][j];                                                           \
        if (more)                                                                                  \
            WHOLE_ELEMENTS(p1[i] + more[i], steps)                                                 \
        else                                                                                       \
            WHOLE_ELEMENTS(p1[i], steps)                                                           \
    }

WHOLE_PROGRAMS(WHOLE_LOOP)

static kernel_whole *const whole_loops[] = {
#define WHOLE_ENTRY(name, ...) whole_##name,
    WHOLE_PROGRAMS(WHOLE_ENTRY)
#undef WHOLE_ENTRY
};

#endif
