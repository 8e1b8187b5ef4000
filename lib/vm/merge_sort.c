/* Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M, which takes any n. */
#include "vm/merge_sort.h"

void merge_sort(int n, void (*exchange)(void *arg, int i, int j), void *arg)
{
    int top = 1;
    while (top < n)
        top *= 2;
    for (int p = top / 2; p > 0; p /= 2) {
        int q = top / 2, r = 0, d = p;
        for (;;) {
            for (int i = 0; i + d < n; i++)
                if ((i & p) == r)
                    exchange(arg, i, i + d);
            if (q == p)
                break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
}
