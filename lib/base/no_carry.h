/* NO_CARRY in front of a loop says that no pass of it needs the result of another one, which the
 * compiler cannot see where the destination may be an operand: vectors are right all the same. */
#ifndef BASE_NO_CARRY_H
#define BASE_NO_CARRY_H

#if defined(__clang__)
/* It warns of loops for which it has no vectors, such as those that call a function. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define NO_CARRY _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define NO_CARRY _Pragma("GCC ivdep")
#else
#define NO_CARRY
#endif

#endif
