/* Programs that have one loop for all their instructions: those of the optimizers, as prog_select.c
 * makes them of src/optimizers, with and without clip_gradient. Such a loop reads and writes every
 * array once, and its divisions and roots run while it waits for memory; block by block, one
 * instruction after the other, they do not.
 *
 * A line is an instruction: R(register, operation, operands) or A(slot, operation, operands). a0 is
 * the weight, a1 the gradient, which may be the sum of two arrays, then the states in the order of
 * the rule. As in a program, an array that was written is read with its new contents. Each register
 * is written once. The same lines are the pattern that prog_run.c compares a program with, and
 * the loop of kernel_whole.h, so the two cannot differ. Where a rule changes, and with it its
 * program, its lines here must follow, or it is run block by block again: TEST(whole_optimizers) of
 * tests/unit/test_whole.c fails then.
 */
#ifndef VM_WHOLE_LIST_H
#define VM_WHOLE_LIST_H

enum { WHOLE_ARRAYS = 5, WHOLE_STEPS = 20 };

/* clang-format off */
#define GRADIENT(X) R(X, LIN2, a1, a0, no)  /* rescale_grad * input + wd * stored */
#define CLIPPED     GRADIENT(h) R(g, CLIPK, h, no, no)
#define CLIP_INPUT  R(g, CLIPK, a1, no, no)

#define STEPS_MOMENTUM(G) \
    A(2, LIN3, a2, a0, G) \
    A(0, ADD, a0, a2, no)

#define STEPS_NAG(G) \
    R(r0, LIN1, a2, no, no) \
    R(r1, LIN2, G, a0, no) \
    R(r2, LIN2, r0, r1, no) \
    A(0, LIN3, a0, r0, r2) \
    R(r3, LIN2, G, a0, no) \
    A(2, LIN2, r0, r3, no)

#define STEPS_SGLD(G) \
    R(r0, LIN2, G, a0, no) \
    A(0, LIN3, a0, r0, a2)

#define STEPS_SIGNUM(G) \
    A(2, LIN3, a2, a0, G) \
    R(r0, SIGN, a2, no, no) \
    A(0, LIN2, a0, r0, no)

#define OLD_WEIGHT R(r0, COPY, a0, no, no)
#define STEPS_DCASGD(G) \
    R(r1, LIN2, G, r0, no) \
    R(r2, SCALEMUL, G, G, no) \
    R(r3, SUB, r0, a2, no) \
    R(r4, MULADD, r1, r3, r2) \
    A(0, LIN2, r0, r4, no) \
    A(2, COPY, r0, no, no)

#define STEPS_FTML(G) \
    R(r0, MUL, G, G, no) \
    A(3, LIN2, a3, r0, no) \
    R(r1, DIVK, a3, no, no) \
    R(r2, ROOT, r1, no, no) \
    R(r3, LIN1, r2, no, no) \
    R(r4, LIN2, a4, G, no) \
    R(r5, LIN2, r3, a2, no) \
    A(4, MULADD, r4, r5, a0) \
    A(0, SCALEDIV, a4, r3, no) \
    A(2, COPY, r3, no, no)

#define STEPS_ADAM(G) \
    A(2, LIN2, a2, G, no) \
    A(3, MULADD, a3, G, G) \
    A(0, ROOTDIVADD, a0, a2, a3)

#define STEPS_ADAMW(G) \
    R(r0, SUB, a2, G, no) \
    A(2, LIN2, G, r0, no) \
    R(r1, MUL, G, G, no) \
    R(r2, SUB, a3, r1, no) \
    A(3, LIN2, r1, r2, no) \
    R(r3, ROOTDIVADD, a0, a2, a3) \
    A(0, LIN2, a0, r3, no)

#define STEPS_ADABELIEF(G) \
    R(r0, SUB, a2, G, no) \
    A(2, LIN2, G, r0, no) \
    R(r1, SUB, a2, G, no) \
    R(r2, MUL, r1, r1, no) \
    R(r3, SUB, a3, r2, no) \
    R(r4, LIN2, r2, r3, no) \
    A(3, LIN1, r4, no, no) \
    R(r5, ROOTDIV, a2, a3, no) \
    A(0, LIN2, a0, r5, no)

#define STEPS_ADAGRAD(G) \
    A(2, MULADD, a2, G, G) \
    R(r0, ROOTDIVADD, a0, G, a2) \
    A(0, LIN2, a0, r0, no)

#define STEPS_ADADELTA(G) \
    A(2, MULADD, a2, G, G) \
    R(r0, ROOT, a3, no, no) \
    R(r1, ROOTDIV, r0, a2, no) \
    R(r2, MUL, G, r1, no) \
    A(3, MULADD, a3, r2, r2) \
    R(r3, LIN2, r2, a0, no) \
    A(0, SUB, a0, r3, no)

#define STEPS_RMSPROP(G) \
    R(r0, MUL, G, G, no) \
    A(2, LIN2, r0, a2, no) \
    R(r1, ROOTDIV, G, a2, no) \
    A(0, LIN2, a0, r1, no)

#define STEPS_CENTERED(G) \
    R(r0, LIN1, G, no, no) \
    A(2, MULADD, a2, r0, G) \
    A(3, LIN2, r0, a3, no) \
    R(r1, MULADD, a2, a3, a3) \
    A(4, ROOTDIVADD, a4, G, r1) \
    A(0, ADD, a0, a4, no)

#define STEPS_FTRL(G) \
    R(r0, MULADD, a3, G, G) \
    R(r1, SQRT, r0, no, no) \
    R(r2, SQRT, a3, no, no) \
    R(r3, SUB, r1, r2, no) \
    R(r4, MUL, a0, r3, no) \
    R(r5, DIVK, r4, no, no) \
    A(2, LIN3, G, r5, a2) \
    R(r6, SIGN, a2, no, no) \
    R(r7, LIN2, r6, a2, no) \
    R(r8, LIN1, r1, no, no) \
    R(r9, DIVK, r8, no, no) \
    R(r10, LIN1, r9, no, no) \
    R(r11, DIV, r7, r10, no) \
    R(r12, ABS, a2, no, no) \
    R(r13, GTK, r12, no, no) \
    A(0, MUL, r11, r13, no) \
    A(3, COPY, r0, no, no)

#define STEPS_ADAMAX(G) \
    A(2, LIN2, a2, G, no) \
    R(r0, LIN1, a3, no, no) \
    R(r1, ABS, G, no, no) \
    A(3, MAX, r0, r1, no) \
    A(0, DIVADD, a0, a2, a3)

#define STEPS_NADAM(G) \
    A(2, LIN2, a2, G, no) \
    A(3, MULADD, a3, G, G) \
    R(r0, DIVK, G, no, no) \
    R(r1, DIVK, a2, no, no) \
    R(r2, LIN2, r0, r1, no) \
    R(r3, DIVK, a3, no, no) \
    A(0, ROOTDIVADD, a0, r2, r3)

/* A name for each, and its instructions. */
#define WHOLE_PROGRAMS(X) \
    X(sgd_clipped,        CLIP_INPUT A(0, LIN3, a0, g, a0)) \
    X(momentum,           STEPS_MOMENTUM(a1)) \
    X(momentum_clipped,   CLIP_INPUT STEPS_MOMENTUM(g)) \
    X(lbsgd,              R(g, LIN1, a1, no, no) STEPS_MOMENTUM(g)) \
    X(nag,                STEPS_NAG(a1)) \
    X(nag_clipped,        CLIP_INPUT STEPS_NAG(g)) \
    X(sgld,               STEPS_SGLD(a1)) \
    X(sgld_clipped,       CLIP_INPUT STEPS_SGLD(g)) \
    X(signum,             STEPS_SIGNUM(a1)) \
    X(signum_clipped,     CLIP_INPUT STEPS_SIGNUM(g)) \
    X(dcasgd,             OLD_WEIGHT STEPS_DCASGD(a1)) \
    X(dcasgd_clipped,     OLD_WEIGHT CLIP_INPUT STEPS_DCASGD(g)) \
    X(ftml,               GRADIENT(g) STEPS_FTML(g)) \
    X(ftml_clipped,       CLIPPED STEPS_FTML(g)) \
    X(adam,               GRADIENT(g) STEPS_ADAM(g)) \
    X(adam_clipped,       CLIPPED STEPS_ADAM(g)) \
    X(adamw,              STEPS_ADAMW(a1)) \
    X(adamw_clipped,      CLIP_INPUT STEPS_ADAMW(g)) \
    X(adabelief,          GRADIENT(g) STEPS_ADABELIEF(g)) \
    X(adabelief_clipped,  CLIPPED STEPS_ADABELIEF(g)) \
    X(adagrad,            STEPS_ADAGRAD(a1)) \
    X(adagrad_clipped,    CLIP_INPUT STEPS_ADAGRAD(g)) \
    X(adadelta,           STEPS_ADADELTA(a1)) \
    X(adadelta_clipped,   CLIP_INPUT STEPS_ADADELTA(g)) \
    X(rmsprop,            GRADIENT(g) STEPS_RMSPROP(g)) \
    X(rmsprop_clipped,    CLIPPED STEPS_RMSPROP(g)) \
    X(centered,           GRADIENT(g) STEPS_CENTERED(g)) \
    X(centered_clipped,   CLIPPED STEPS_CENTERED(g)) \
    X(ftrl,               STEPS_FTRL(a1)) \
    X(ftrl_clipped,       CLIP_INPUT STEPS_FTRL(g)) \
    X(adamax,             GRADIENT(g) STEPS_ADAMAX(g)) \
    X(adamax_clipped,     CLIPPED STEPS_ADAMAX(g)) \
    X(nadam,              GRADIENT(g) STEPS_NADAM(g)) \
    X(nadam_clipped,      CLIPPED STEPS_NADAM(g))
/* clang-format on */

enum {
#define WHOLE_ENUM(name, ...) WHOLE_##name,
    WHOLE_PROGRAMS(WHOLE_ENUM)
#undef WHOLE_ENUM
        WHOLE_END
};

/* What R and A get for an operation: its number and its loop. */
#define ADD        PROG_ADD, add
#define SUB        PROG_SUB, sub
#define MUL        PROG_MUL, mul
#define DIV        PROG_DIV, div
#define ABS        PROG_ABS, abs
#define SIGN       PROG_SIGN, sign
#define SQRT       PROG_SQRT, sqrt
#define MAX        PROG_MAX, max
#define LIN1       KERNEL_LIN1, lin1
#define LIN2       KERNEL_LIN2, lin2
#define LIN3       KERNEL_LIN3, lin3
#define MULADD     KERNEL_MULADD, muladd
#define DIVADD     KERNEL_DIVADD, divadd
#define SCALEMUL   KERNEL_SCALEMUL, scalemul
#define SCALEDIV   KERNEL_SCALEDIV, scalediv
#define DIVK       KERNEL_DIVK, divk
#define ROOT       KERNEL_ROOT, root
#define ROOTDIV    KERNEL_ROOTDIV, rootdiv
#define ROOTDIVADD KERNEL_ROOTDIVADD, rootdivadd
#define CLIPK      KERNEL_CLIPK, clipk
#define GTK        KERNEL_GTK, gtk
#define COPY       KERNEL_COPY, copy

#endif
