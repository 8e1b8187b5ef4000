/* The formulas. `EACH` goes over the elements that an update of present rows reads and writes; in
 * the others a missing row is a row of zeros. */
#include "formulas.h"

#include <string.h>

#include "base/philox.h"

enum { BLOCK = 4096 /* of sums */ };

const char *const truth_strategies[5] = {"linear", "power2", "sqrt", "lars", "none of these"};

#define EACH(i, lazy)                                                                              \
    for (int64_t i = 0; i < k->n; i++)                                                             \
        if (!(lazy) || !k->present || k->present[i / k->row])

/* A parameter where it meets elements. */
static bounded num(const truth_update *u, truth_param which)
{
    return number(u->p[which], u->type);
}

static bounded to_type(const truth_update *u, bounded host)
{
    return narrowed(host, u->type);
}

static bool is_set(const truth_update *u, truth_param which)
{
    return !isnan(u->p[which]) && u->p[which] != 0;
}

/* Fused operators clip by a number above 0, array arithmetic by any that is set. */
static bounded fused_clip(const truth_update *u, bounded g)
{
    double c = u->p[TP_CLIP_GRADIENT];
    return c > 0 ? clipped(g, number(c, u->type)) : g;
}

static bounded array_clip(const truth_update *u, bounded g)
{
    double c = u->p[TP_CLIP_GRADIENT];
    return isnan(c) ? g : clipped(g, number(c, u->type));
}

static bounded one_minus(bounded x)
{
    return sub(exactly(1), x);
}

static bounded square(bounded x)
{
    return mul(x, x);
}

/* In element order within blocks of 4096, then the blocks from left to right. */
static bounded sum_squares(const bounded *x, int64_t n)
{
    bounded total = exactly(0);
    for (int64_t at = 0; at < n; at += BLOCK) {
        bounded block = exactly(0);
        for (int64_t i = at; i < n && i < at + BLOCK; i++)
            block = add(block, square(x[i]));
        total = add(total, block);
    }
    return total;
}

static bounded norm_of(const bounded *x, int64_t n)
{
    return root_of_squares(sum_squares(x, n));
}

static void in_binary64(void)
{
    bounded_type = rounding_of(KV_FLOAT64);
}

static void in_type(const truth_update *u)
{
    bounded_type = rounding_of(u->type);
}

/* powf: of numbers of the type, in binary64, rounded to the type. */
static bounded type_power(const truth_update *u, truth_param which, int64_t t)
{
    return to_type(u, power64((double)num(u, which).v, (double)t));
}

/* ---- Stochastic gradient descent and its kin ---- */

/* lr*clip(r*g, c), or (lr*r)*g without c. */
static bounded plain_step(const truth_update *u, bounded lr, bounded g)
{
    bounded r = num(u, TP_RESCALE_GRAD);
    return u->p[TP_CLIP_GRADIENT] > 0 ? mul(lr, fused_clip(u, mul(r, g))) : mul(mul(lr, r), g);
}

static void multi_sgd(const truth_update *u, truth_key *k, bounded lr, bounded mu, bool lazy)
{
    bounded wd = number(u->wd, u->type);
    bounded *mom = k->state[0];
    bool has = u->p[TP_MOMENTUM] > 0;
    EACH(i, lazy)
    {
        bounded a = has ? mul(mu, mom[i]) : exactly(0);
        bounded b = sub(a, mul(mul(lr, wd), k->w[i]));
        bounded m = sub(b, plain_step(u, lr, k->g[i]));
        if (has)
            mom[i] = m;
        k->w[i] = add(k->w[i], m);
    }
}

/* The kernels for one array. */
static void single_sgd(const truth_update *u, truth_key *k, bounded lr, bool momentum, bool lazy)
{
    bounded wd = number(u->wd, u->type), mu = num(u, TP_MOMENTUM), *mom = k->state[0];
    EACH(i, lazy)
    {
        bounded step = plain_step(u, lr, k->g[i]);
        if (momentum) {
            mom[i] = sub(sub(mul(mu, mom[i]), mul(mul(lr, wd), k->w[i])), step);
            k->w[i] = add(k->w[i], mom[i]);
        } else {
            k->w[i] = sub(mul(one_minus(mul(lr, wd)), k->w[i]), step);
        }
    }
}

static void sgd(const truth_update *u, truth_key *k)
{
    multi_sgd(u, k, number(u->lr, u->type), num(u, TP_MOMENTUM), u->p[TP_LAZY_UPDATE] != 0);
}

static void nag(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), mu = num(u, TP_MOMENTUM);
    bounded r = num(u, TP_RESCALE_GRAD), *mom = k->state[0];
    if (u->p[TP_MOMENTUM] == 0) {
        single_sgd(u, k, lr, false, true);
        return;
    }
    EACH(i, false)
    {
        bounded g = fused_clip(u, mul(r, k->g[i])), w = k->w[i];
        mom[i] = mul(mu, mom[i]);
        k->w[i] =
            add(sub(w, mom[i]), mul(add(mu, exactly(1)), sub(mom[i], mul(lr, add(g, mul(wd, w))))));
        mom[i] = sub(mom[i], mul(lr, add(g, mul(wd, k->w[i])))); /* of the new weight */
    }
}

static void signum(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), mu = num(u, TP_MOMENTUM);
    bounded q = one_minus(mu), lh = num(u, TP_WD_LH), *mom = k->state[0];
    bool has = u->p[TP_MOMENTUM] != 0;
    EACH(i, false)
    {
        if (has) {
            mom[i] = sub(sub(mul(mu, mom[i]), mul(mul(q, wd), k->w[i])), plain_step(u, q, k->g[i]));
            k->w[i] = add(mul(one_minus(mul(lr, lh)), k->w[i]), mul(lr, sign_of(mom[i])));
        } else {
            k->w[i] = sub(mul(one_minus(mul(lr, wd)), k->w[i]), mul(lr, sign_of(k->g[i])));
        }
    }
}

/* What normal(1) draws, by the formula; the bound of float32 is that of lib/vm/noise.h. */
static bounded noise(const truth_update *u, const truth_key *k, int64_t i)
{
    uint64_t draw = (uint64_t)k->count * 4; /* a rule draws up to four times */
    uint64_t block = (uint64_t)(i / 64 * 16 + i % 16);
    int quarter = (int)(i / 16 % 4), first = quarter / 2 * 2;
    if (u->type == KV_FLOAT64)
        return exactly(philox_normal(philox_at(k->noise, PHILOX_RULES, draw, (uint64_t)i)));
    philox p = philox_at(k->noise, PHILOX_RULES, draw, block);
    float u_of_word = (float)(p.word[first] >> 1) * 0x1p-31f + 0x1p-32f;
    long double r = sqrtl(-2 * logl((long double)u_of_word));
    long double t = 6.283185307179586476925L * p.word[first + 1] / 0x1p32L;
    return (bounded){r * (quarter % 2 ? sinl(t) : cosl(t)), r * 0x1p-22L};
}

static void sgld(const truth_update *u, truth_key *k)
{
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type);
    bounded half = number(-u->lr / 2, u->type);
    in_binary64();
    bounded sigma = to_type(u, root(exactly(u->lr)));
    in_type(u);
    EACH(i, false)
    {
        bounded g = array_clip(u, mul(k->g[i], r));
        k->w[i] = add(k->w[i], mul(add(g, mul(k->w[i], wd)), half));
        k->w[i] = add(k->w[i], mul(noise(u, k, i), sigma));
    }
}

static void dcasgd(const truth_update *u, truth_key *k)
{
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type), mu = num(u, TP_MOMENTUM);
    bounded lamda = num(u, TP_LAMDA), lr = number(-u->lr, u->type);
    bounded *prev = k->state[0], *mom = k->state[1];
    EACH(i, false)
    {
        if (!k->began)
            prev[i] = k->w[i];
        bounded g = array_clip(u, mul(k->g[i], r)), w = k->w[i];
        bounded d = mul(add(add(g, mul(w, wd)), mul(mul(mul(g, lamda), g), sub(w, prev[i]))), lr);
        prev[i] = w;
        if (u->p[TP_MOMENTUM] != 0)
            d = mom[i] = add(mul(mom[i], mu), d);
        k->w[i] = add(w, d);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void lars(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type);
    double mu = u->p[TP_MOMENTUM];
    if (u->p[TP_MOMENTUM_CORRECTION] != 0 && *u->last_lr != 0)
        mu = mu * (u->base_lr / *u->last_lr);
    *u->last_lr = u->base_lr;
    if (!ends_with(k->name, "gamma") && !ends_with(k->name, "beta") &&
        !ends_with(k->name, "bias")) {
        bounded wn = norm_of(k->w, k->n), gn = norm_of(k->g, k->n);
        if (wn.v > 0 && gn.v > 0)
            lr = quo(mul(mul(lr, num(u, TP_ETA)), wn),
                     add(add(mul(gn, num(u, TP_RESCALE_GRAD)), mul(wd, wn)), num(u, TP_EPS)));
    }
    multi_sgd(u, k, lr, number(mu, u->type), u->p[TP_LAZY_UPDATE] != 0);
}

/* How LBSGD's rate warms up; n gradients of N were seen, B make a step. */
static double warmed_up(const truth_update *u, double n)
{
    double N = u->p[TP_WARMUP_EPOCHS] * u->p[TP_UPDATES_PER_EPOCH], B = u->p[TP_BATCH_SCALE];
    const char *how = truth_strategies[(int)u->p[TP_WARMUP_STRATEGY]];
    return n >= N                       ? B
           : N <= 1                     ? 1
           : strcmp(how, "linear") == 0 ? 1 + (B - 1) * n / N
           : strcmp(how, "power2") == 0 ? 1 + (B - 1) * (n * n) / (N * N)
           : strcmp(how, "sqrt") == 0   ? 1 + (B - 1) * sqrt(n / N)
                                        : 1;
}

static void lbsgd(const truth_update *u, truth_key *k)
{
    bounded *batch = k->state[1], B = num(u, TP_BATCH_SCALE), rate;
    if (!k->began)
        k->seen = (int64_t)(u->p[TP_BEGIN_EPOCH] * u->p[TP_UPDATES_PER_EPOCH]);
    k->seen++;
    EACH(i, false) batch[i] = add(batch[i], k->g[i]);
    if (k->seen % (int64_t)u->p[TP_BATCH_SCALE] != 0)
        return;
    EACH(i, false)
    {
        k->g[i] = quo(batch[i], B);
        batch[i] = exactly(0);
    }
    if (strcmp(truth_strategies[(int)u->p[TP_WARMUP_STRATEGY]], "lars") == 0) {
        bounded W = sum_squares(k->w, k->n), Q = sum_squares(k->g, k->n);
        /* what is made from a sum over elements is computed in the type, operation by operation */
        bounded below = add(add(Q, mul(number(u->wd, u->type), W)), number(1e-18, u->type));
        rate = larger(smaller(root_of_squares(quo(W, below)), exactly(100)), number(0.01, u->type));
        rate = mul(number(u->lr, u->type), rate);
    } else {
        rate = number(u->lr * warmed_up(u, (double)k->seen), u->type);
    }
    single_sgd(u, k, rate, u->p[TP_MOMENTUM] > 0, u->p[TP_BATCH_SCALE] == 1);
}

static void ftml(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), r = num(u, TP_RESCALE_GRAD);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), eps = num(u, TP_EPSILON);
    bounded *d = k->state[0], *v = k->state[1], *z = k->state[2];
    bounded c1 = one_minus(type_power(u, TP_BETA1, k->count));
    bounded c2 = one_minus(type_power(u, TP_BETA2, k->count));
    EACH(i, false)
    {
        bounded g = fused_clip(u, add(mul(r, k->g[i]), mul(wd, k->w[i])));
        v[i] = add(mul(b2, v[i]), mul(one_minus(b2), square(g)));
        bounded next = mul(quo(c1, lr), add(root_of_squares(quo(v[i], c2)), eps));
        z[i] =
            sub(add(mul(b1, z[i]), mul(one_minus(b1), g)), mul(sub(next, mul(b1, d[i])), k->w[i]));
        d[i] = next;
        k->w[i] = quo(neg(z[i]), next);
    }
}

/* ---- Adam and its kin ---- */

/* lr * sqrt(1 - beta2^t) / (1 - beta1^t) in binary64, the quotient first or last. */
static bounded corrected_rate(const truth_update *u, int64_t t, bool quotient_first)
{
    in_binary64();
    bounded above = root(one_minus(power64(u->p[TP_BETA2], (double)t)));
    bounded below = one_minus(power64(u->p[TP_BETA1], (double)t)), lr = exactly(u->lr);
    bounded rate = quotient_first ? mul(lr, quo(above, below)) : quo(mul(lr, above), below);
    in_type(u);
    return to_type(u, rate);
}

static void adam(const truth_update *u, truth_key *k)
{
    bounded rate = corrected_rate(u, k->count, true), wd = number(u->wd, u->type);
    bounded r = num(u, TP_RESCALE_GRAD), eps = num(u, TP_EPSILON);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), *m = k->state[0], *v = k->state[1];
    EACH(i, u->p[TP_LAZY_UPDATE] != 0)
    {
        bounded g = fused_clip(u, add(mul(k->g[i], r), mul(k->w[i], wd)));
        m[i] = add(mul(b1, m[i]), mul(one_minus(b1), g));
        v[i] = add(mul(b2, v[i]), mul(mul(one_minus(b2), g), g));
        k->w[i] = sub(k->w[i], quo(mul(rate, m[i]), add(root_of_squares(v[i]), eps)));
    }
}

static bounded adamw_rate(const truth_update *u, int64_t t)
{
    return u->p[TP_CORRECT_BIAS] != 0 ? corrected_rate(u, t, false) : number(u->lr, u->type);
}

/* Updates with these rescale_grad are left out; the count goes on. */
static bool is_left_out(const truth_update *u)
{
    return u->p[TP_RESCALE_GRAD] == 0 || !isfinite(u->p[TP_RESCALE_GRAD]);
}

static void adamw(const truth_update *u, truth_key *k)
{
    bounded rate = adamw_rate(u, k->count), wd = number(u->wd, u->type);
    bounded r = num(u, TP_RESCALE_GRAD), eps = num(u, TP_EPSILON);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), *m = k->state[0], *v = k->state[1];
    EACH(i, false)
    {
        if (is_left_out(u))
            break;
        bounded g = fused_clip(u, mul(r, k->g[i]));
        m[i] = add(mul(b1, sub(m[i], g)), g);
        v[i] = add(mul(b2, sub(v[i], square(g))), square(g));
        bounded step = quo(m[i], add(root_of_squares(v[i]), eps));
        k->w[i] = sub(k->w[i], mul(rate, add(step, mul(wd, k->w[i]))));
    }
}

static void adabelief(const truth_update *u, truth_key *k)
{
    bounded rate = adamw_rate(u, k->count), wd = number(u->wd, u->type);
    bounded r = num(u, TP_RESCALE_GRAD), eps = num(u, TP_EPSILON);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), *m = k->state[0], *v = k->state[1];
    EACH(i, false)
    {
        if (is_left_out(u))
            break;
        bounded g = fused_clip(u, add(mul(r, k->g[i]), mul(wd, k->w[i])));
        m[i] = add(mul(b1, sub(m[i], g)), g);
        bounded a = square(sub(m[i], g));
        v[i] = add(add(mul(b2, sub(v[i], a)), a), eps);
        k->w[i] = sub(k->w[i], mul(rate, quo(m[i], add(root(v[i]), eps))));
    }
}

static void adamax(const truth_update *u, truth_key *k)
{
    in_binary64();
    bounded rate =
        to_type(u, quo(exactly(u->lr), one_minus(power64(u->p[TP_BETA1], (double)k->count))));
    in_type(u);
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type), b1 = num(u, TP_BETA1);
    bounded rest = number(1 - u->p[TP_BETA1], u->type), b2 = num(u, TP_BETA2);
    bounded *m = k->state[0], *most = k->state[1];
    EACH(i, false)
    {
        bounded g = array_clip(u, add(mul(k->g[i], r), mul(k->w[i], wd)));
        m[i] = add(mul(m[i], b1), mul(g, rest));
        most[i] = larger(mul(most[i], b2), magnitude(g));
        k->w[i] = sub(k->w[i], quo(mul(m[i], rate), most[i]));
    }
}

static bounded nadam_mu(const truth_update *u, int64_t t)
{
    bounded p = power64(0.96, (double)t * u->p[TP_SCHEDULE_DECAY]);
    return mul(exactly(u->p[TP_BETA1]), one_minus(mul(exactly(0.5), p)));
}

static void nadam(const truth_update *u, truth_key *k)
{
    in_binary64();
    bounded mu = nadam_mu(u, k->count), next = nadam_mu(u, k->count + 1);
    bounded M = *u->m_schedule = mul(*u->m_schedule, mu), N = mul(M, next);
    bounded c1 = to_type(u, one_minus(M)), c2 = to_type(u, one_minus(N));
    bounded c3 = to_type(u, one_minus(power64(u->p[TP_BETA2], (double)k->count)));
    bounded rest = to_type(u, one_minus(mu));
    in_type(u);
    next = to_type(u, next);
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type), lr = number(u->lr, u->type);
    bounded b1 = num(u, TP_BETA1), a1 = number(1 - u->p[TP_BETA1], u->type);
    bounded b2 = num(u, TP_BETA2), a2 = number(1 - u->p[TP_BETA2], u->type);
    bounded eps = num(u, TP_EPSILON), *m = k->state[0], *v = k->state[1];
    EACH(i, false)
    {
        bounded g = array_clip(u, add(mul(k->g[i], r), mul(k->w[i], wd)));
        m[i] = add(mul(m[i], b1), mul(g, a1));
        v[i] = add(mul(v[i], b2), mul(mul(g, a2), g));
        bounded b = add(mul(quo(g, c1), rest), mul(quo(m[i], c2), next));
        k->w[i] = sub(k->w[i], quo(mul(b, lr), add(root_of_squares(quo(v[i], c3)), eps)));
    }
}

/* The norm of the weight between its bounds. */
static bounded bounded_norm(const truth_update *u, bounded r1)
{
    if (is_set(u, TP_LOWER_BOUND))
        r1 = larger(r1, num(u, TP_LOWER_BOUND));
    if (is_set(u, TP_UPPER_BOUND))
        r1 = smaller(r1, num(u, TP_UPPER_BOUND));
    return r1;
}

static bounded trust_ratio(bounded r1, bounded r2)
{
    if (is_zero(r1) || is_zero(r2))
        return exactly(1);
    if (is_nan(r1) || is_nan(r2))
        return exactly(NAN);
    return r1.v > r1.e ? quo(r1, r2) : (bounded){0, INFINITY}; /* 1 if it is 0 */
}

static void lamb(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), r = num(u, TP_RESCALE_GRAD);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), eps = num(u, TP_EPSILON);
    bounded c1 = one_minus(type_power(u, TP_BETA1, k->count));
    bounded c2 = one_minus(type_power(u, TP_BETA2, k->count));
    bounded *m = k->state[0], *v = k->state[1], *step = k->state[2];
    bounded r1 = norm_of(k->w, k->n);
    EACH(i, false)
    {
        bounded g = fused_clip(u, mul(k->g[i], r));
        m[i] = add(mul(b1, m[i]), mul(one_minus(b1), g));
        v[i] = add(mul(b2, v[i]), mul(mul(one_minus(b2), g), g));
        bool bias = u->p[TP_BIAS_CORRECTION] != 0;
        bounded mh = bias ? quo(m[i], c1) : m[i], vh = bias ? quo(v[i], c2) : v[i];
        bounded decay = mul(wd, k->w[i]);
        in_binary64(); /* this line alone */
        step[i] = add(quo(mh, add(root_of_squares(vh), eps)), decay);
        in_type(u);
        step[i] = bounded_round(step[i].v, step[i].e);
    }
    bounded ratio = trust_ratio(bounded_norm(u, r1), norm_of(step, k->n));
    EACH(i, false) k->w[i] = sub(k->w[i], mul(mul(lr, ratio), step[i]));
}

static void lans(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), r = num(u, TP_RESCALE_GRAD);
    bounded b1 = num(u, TP_BETA1), b2 = num(u, TP_BETA2), eps = num(u, TP_EPSILON);
    bounded c1 = one_minus(type_power(u, TP_BETA1, k->count));
    bounded c2 = one_minus(type_power(u, TP_BETA2, k->count));
    bounded *m = k->state[0], *v = k->state[1], *M = k->state[2], *U = k->g;
    bounded r1 = bounded_norm(u, norm_of(k->w, k->n));
    EACH(i, false) k->g[i] = mul(k->g[i], r);
    bounded gn = norm_of(k->g, k->n);
    EACH(i, false)
    {
        bounded g = fused_clip(u, quo(k->g[i], gn));
        m[i] = add(mul(b1, m[i]), mul(one_minus(b1), g));
        v[i] = add(mul(b2, v[i]), mul(mul(one_minus(b2), g), g));
        bounded q = add(root_of_squares(quo(v[i], c2)), eps), s = mul(wd, k->w[i]);
        M[i] = add(quo(quo(m[i], c1), q), s);
        U[i] = add(quo(g, q), s);
    }
    bounded am = mul(trust_ratio(r1, norm_of(M, k->n)), b1);
    bounded au = mul(trust_ratio(r1, norm_of(U, k->n)), one_minus(b1));
    EACH(i, false)
    k->w[i] = sub(k->w[i], add(mul(mul(lr, am), M[i]), mul(mul(lr, au), U[i])));
}

/* ---- Adaptive rates ---- */

static void adagrad(const truth_update *u, truth_key *k)
{
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type), lr = number(-u->lr, u->type);
    bounded eps = num(u, TP_EPS), *h = k->state[0];
    EACH(i, true)
    {
        bounded g = array_clip(u, mul(k->g[i], r));
        h[i] = add(h[i], square(g));
        bounded step = quo(g, root_of_squares(add(h[i], eps)));
        k->w[i] = add(k->w[i], mul(add(step, mul(k->w[i], wd)), lr));
    }
}

static void groupadagrad(const truth_update *u, truth_key *k)
{
    bounded r = num(u, TP_RESCALE_GRAD), lr = number(u->lr, u->type), eps = num(u, TP_EPS);
    bounded *h = k->state[0]; /* one a row, at its first element */
    EACH(i, true)
    {
        int64_t first = i - i % k->row;
        if (i == first) {
            bounded *g = &k->g[i];
            for (int64_t j = 0; j < k->row; j++)
                g[j] = array_clip(u, mul(g[j], r));
            h[i] = add(h[i], quo(sum_squares(g, k->row), number((double)k->row, u->type)));
        }
        bounded below = root_of_squares(add(h[first], eps));
        k->w[i] = sub(k->w[i], quo(mul(k->g[i], lr), below));
    }
}

static void adadelta(const truth_update *u, truth_key *k)
{
    bounded r = num(u, TP_RESCALE_GRAD), wd = number(u->wd, u->type), eps = num(u, TP_EPSILON);
    bounded rho = num(u, TP_RHO), rest = number(1 - u->p[TP_RHO], u->type);
    bounded *ag = k->state[0], *ad = k->state[1];
    EACH(i, false)
    {
        bounded g = array_clip(u, mul(k->g[i], r));
        ag[i] = add(mul(ag[i], rho), mul(mul(g, rest), g));
        bounded d = mul(quo(root_of_squares(add(ad[i], eps)), root_of_squares(add(ag[i], eps))), g);
        ad[i] = add(mul(ad[i], rho), mul(mul(d, rest), d));
        k->w[i] = sub(k->w[i], add(d, mul(k->w[i], wd)));
    }
}

static void rmsprop(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), r = num(u, TP_RESCALE_GRAD);
    bounded y = num(u, TP_GAMMA1), q = one_minus(y), mu = num(u, TP_GAMMA2);
    bounded eps = num(u, TP_EPSILON), *n = k->state[0], *gm = k->state[1], *delta = k->state[2];
    EACH(i, false)
    {
        bounded g = fused_clip(u, add(mul(r, k->g[i]), mul(wd, k->w[i]))), w = k->w[i];
        if (u->p[TP_CENTERED] != 0) {
            n[i] = add(mul(mul(q, g), g), mul(y, n[i]));
            gm[i] = add(mul(q, g), mul(y, gm[i]));
            bounded below = root(add(sub(n[i], square(gm[i])), eps));
            delta[i] = sub(mul(mu, delta[i]), quo(mul(lr, g), below));
            w = add(w, delta[i]);
        } else {
            n[i] = add(mul(q, square(g)), mul(y, n[i]));
            w = sub(w, mul(lr, quo(g, root_of_squares(add(n[i], eps)))));
        }
        k->w[i] = is_set(u, TP_CLIP_WEIGHTS) ? clipped(w, num(u, TP_CLIP_WEIGHTS)) : w;
    }
}

/* x where |z| > limit, else 0. */
static bounded where_beyond(bounded z, bounded limit, bounded x)
{
    z = magnitude(z);
    if (bounded_is_unknown(z) || bounded_is_unknown(x))
        return (bounded){x.v, INFINITY};
    if (z.v - z.e > limit.v)
        return x;
    if (z.v + z.e <= limit.v)
        return exactly(0);
    return between(fminl(0, x.v - x.e), fmaxl(0, x.v + x.e));
}

static void ftrl(const truth_update *u, truth_key *k)
{
    bounded lr = number(u->lr, u->type), wd = number(u->wd, u->type), r = num(u, TP_RESCALE_GRAD);
    bounded l1 = num(u, TP_LAMDA1), beta = num(u, TP_BETA), *z = k->state[0], *n = k->state[1];
    EACH(i, k->sparse)
    {
        bounded g = fused_clip(u, mul(k->g[i], r)), more = add(n[i], square(g));
        bounded grown = sub(root_of_squares(more), root_of_squares(n[i]));
        z[i] = add(z[i], sub(g, quo(mul(grown, k->w[i]), lr)));
        n[i] = more;
        bounded above = sub(mul(sign_of(z[i]), l1), z[i]);
        bounded below = add(quo(add(beta, root_of_squares(n[i])), lr), wd);
        k->w[i] = where_beyond(z[i], l1, quo(above, below));
    }
}

static void test(const truth_update *u, truth_key *k)
{
    EACH(i, false)
    {
        k->w[i] = add(k->w[i], mul(k->g[i], num(u, TP_RESCALE_GRAD)));
        k->state[0][i] = k->w[i];
    }
}

#define BETAS(one, two, e)                                                                         \
    {TP_BETA1, one}, {TP_BETA2, two},                                                              \
    {                                                                                              \
        TP_EPSILON, e                                                                              \
    }

const truth_optimizer truth_optimizers[] = {
    {"sgd", sgd, NAN, .params = {{TP_MOMENTUM, 0}, {TP_LAZY_UPDATE, 1}}, .nparams = 2},
    {"ccsgd", sgd, NAN, .params = {{TP_MOMENTUM, 0}, {TP_LAZY_UPDATE, 1}}, .nparams = 2},
    {"nag", nag, NAN, .params = {{TP_MOMENTUM, 0}}, .nparams = 1},
    {"signum", signum, 0.01, .params = {{TP_MOMENTUM, 0.9}, {TP_WD_LH, 0}}, .nparams = 2},
    {"sgld", sgld, NAN, .nparams = 0},
    {"dcasgd", dcasgd, NAN, .params = {{TP_MOMENTUM, 0}, {TP_LAMDA, 0.04}}, .nparams = 2},
    {"ftml", ftml, NAN, .params = {BETAS(0.6, 0.999, 1e-8)}, .nparams = 3},
    {"lars", lars, NAN, .by_names = true,
     .params = {{TP_MOMENTUM, 0},
                {TP_LAZY_UPDATE, 1},
                {TP_ETA, 0.001},
                {TP_EPS, 0},
                {TP_MOMENTUM_CORRECTION, 1}},
     .nparams = 5},
    {"lbsgd", lbsgd, NAN, .counts_after = true,
     .params = {{TP_MOMENTUM, 0},
                {TP_WARMUP_STRATEGY, 0},
                {TP_WARMUP_EPOCHS, 5},
                {TP_BATCH_SCALE, 1},
                {TP_UPDATES_PER_EPOCH, 32},
                {TP_BEGIN_EPOCH, 0}},
     .nparams = 6},
    {"lamb", lamb, 0.001,
     .params = {BETAS(0.9, 0.999, 1e-6),
                {TP_LOWER_BOUND, NAN},
                {TP_UPPER_BOUND, NAN},
                {TP_BIAS_CORRECTION, 1}},
     .nparams = 6},
    {"lans", lans, 0.001,
     .params = {BETAS(0.9, 0.999, 1e-6), {TP_LOWER_BOUND, NAN}, {TP_UPPER_BOUND, NAN}},
     .nparams = 5},
    {"adam", adam, 0.001, .params = {BETAS(0.9, 0.999, 1e-8), {TP_LAZY_UPDATE, 1}}, .nparams = 4},
    {"adamw", adamw, 0.001, .params = {BETAS(0.9, 0.999, 1e-6), {TP_CORRECT_BIAS, 1}},
     .nparams = 4},
    {"adabelief", adabelief, 0.001, .params = {BETAS(0.9, 0.999, 1e-6), {TP_CORRECT_BIAS, 1}},
     .nparams = 4},
    {"adagrad", adagrad, NAN, .params = {{TP_EPS, 1e-7}}, .nparams = 1},
    {"groupadagrad", groupadagrad, NAN, .no_wd = true, .two_axes = true, .params = {{TP_EPS, 1e-5}},
     .nparams = 1},
    {"adadelta", adadelta, NAN, .params = {{TP_RHO, 0.9}, {TP_EPSILON, 1e-5}}, .nparams = 2},
    {"rmsprop", rmsprop, 0.001,
     .params = {{TP_GAMMA1, 0.9},
                {TP_GAMMA2, 0.9},
                {TP_EPSILON, 1e-8},
                {TP_CENTERED, 0},
                {TP_CLIP_WEIGHTS, NAN}},
     .nparams = 5},
    {"ftrl", ftrl, 0.1, .params = {{TP_LAMDA1, 0.01}, {TP_BETA, 1}}, .nparams = 2},
    {"adamax", adamax, 0.002, .params = {{TP_BETA1, 0.9}, {TP_BETA2, 0.999}}, .nparams = 2},
    {"nadam", nadam, 0.001, .params = {BETAS(0.9, 0.999, 1e-8), {TP_SCHEDULE_DECAY, 0.004}},
     .nparams = 4},
    {"test", test, NAN, .no_count = true},
};

const int truth_noptimizers = (int)(sizeof truth_optimizers / sizeof *truth_optimizers);
