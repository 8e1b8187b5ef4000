/* The loops of hand.c, for one width of vector: NAME(x) is x with its suffix, V a vector of LANES
 * floats, and the operations on it are those of the instructions. n is a multiple of LANES. */
#ifdef NAME

#define EACH for (int64_t i = 0; i < n; i += LANES)

TARGET static void NAME(adam)(const hand_arrays *a, const float *k, int64_t n)
{
    const V wd = SET(k[0]), b1 = SET(k[1]), a1 = SET(k[2]), b2 = SET(k[3]), a2 = SET(k[4]);
    const V rate = SET(k[5]), epsilon = SET(k[6]);
    EACH
    {
        V w = LOAD(a->w + i), g = ADD(LOAD(a->g + i), MUL(w, wd));
        V m = ADD(MUL(LOAD(a->state[0] + i), b1), MUL(g, a1));
        V v = ADD(MUL(LOAD(a->state[1] + i), b2), MUL(MUL(g, a2), g));
        STORE(a->state[0] + i, m);
        STORE(a->state[1] + i, v);
        STORE(a->w + i, SUB(w, DIV(MUL(m, rate), ADD(ROOT(v), epsilon))));
    }
}

TARGET static void NAME(nadam)(const hand_arrays *a, const float *k, int64_t n)
{
    const V wd = SET(k[0]), b1 = SET(k[1]), a1 = SET(k[2]), b2 = SET(k[3]), a2 = SET(k[4]);
    const V lr = SET(k[5]), epsilon = SET(k[6]), c1 = SET(k[7]), c2 = SET(k[8]), c3 = SET(k[9]);
    const V a3 = SET(k[10]), next = SET(k[11]);
    EACH
    {
        V w = LOAD(a->w + i), g = ADD(LOAD(a->g + i), MUL(w, wd));
        V m = ADD(MUL(LOAD(a->state[0] + i), b1), MUL(g, a1));
        V v = ADD(MUL(LOAD(a->state[1] + i), b2), MUL(MUL(g, a2), g));
        V step = ADD(MUL(DIV(g, c1), a3), MUL(DIV(m, c2), next));
        STORE(a->state[0] + i, m);
        STORE(a->state[1] + i, v);
        STORE(a->w + i, SUB(w, DIV(MUL(step, lr), ADD(ROOT(DIV(v, c3)), epsilon))));
    }
}

TARGET static void NAME(ftrl)(const hand_arrays *a, const float *k, int64_t n)
{
    const V wd = SET(k[0]), lr = SET(k[1]), lamda = SET(k[2]), beta = SET(k[3]), one = SET(1);
    EACH
    {
        V w = LOAD(a->w + i), g = LOAD(a->g + i), n0 = LOAD(a->state[1] + i);
        V n1 = ADD(n0, MUL(g, g)), root = ROOT(n1);
        V z = ADD(SUB(g, DIV(MUL(SUB(root, ROOT(n0)), w), lr)), LOAD(a->state[0] + i));
        V top = SUB(MUL(SIGN(z, one), lamda), z);
        V step = DIV(top, ADD(DIV(ADD(root, beta), lr), wd));
        STORE(a->state[0] + i, z);
        STORE(a->state[1] + i, n1);
        STORE(a->w + i, MUL(step, ABOVE(MAGNITUDE(z), lamda, one)));
    }
}

TARGET static void NAME(ftml)(const hand_arrays *a, const float *k, int64_t n)
{
    const V wd = SET(k[0]), b1 = SET(k[1]), a1 = SET(k[2]), b2 = SET(k[3]), a2 = SET(k[4]);
    const V c2 = SET(k[5]), epsilon = SET(k[6]), rate = SET(k[7]);
    EACH
    {
        V w = LOAD(a->w + i), g = ADD(LOAD(a->g + i), MUL(w, wd));
        V v = ADD(MUL(LOAD(a->state[1] + i), b2), MUL(MUL(g, g), a2));
        V next = MUL(ADD(ROOT(DIV(v, c2)), epsilon), rate);
        V z = ADD(MUL(LOAD(a->state[2] + i), b1), MUL(g, a1));
        z = SUB(z, MUL(SUB(next, MUL(LOAD(a->state[0] + i), b1)), w));
        STORE(a->state[0] + i, next);
        STORE(a->state[1] + i, v);
        STORE(a->state[2] + i, z);
        STORE(a->w + i, DIV(NEGATE(z), next));
    }
}

#undef EACH
#undef NAME
#undef TARGET
#undef V
#undef LANES
#undef SET
#undef LOAD
#undef STORE
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef ROOT
#undef MAGNITUDE
#undef NEGATE
#undef ABOVE
#undef SIGN

#endif
