/* Elements on the device: the dtypes, conversions between them, sums, and packs of elements.
 *
 * Each function gives the bits of its counterpart for the CPU, lib/cpu/half.c and convert.c, which
 * say why it is so. Nothing may be contracted to fused multiplications and additions. The text of
 * this file is also put before each generated rule, so it includes nothing that a compiler at run
 * time would lack.
 */
#ifndef CUDA_KERNEL_ELEMENT_CUH
#define CUDA_KERNEL_ELEMENT_CUH

#define KV_DEVICE static __device__ __forceinline__

/* Stands behind each kernel. Where kernels are compiled for the CPU it gives them a second name. */
#ifndef KV_KERNEL
#define KV_KERNEL(name)
#endif

/* A float32 that arithmetic or a conversion made. Where it is not a number a GPU gives 0x7fffffff, and a
 * CPU other bits: where kernels are compiled for the CPU, this makes them the GPU's. */
#ifndef KV_MADE
#define KV_MADE(x) (x)
#endif

typedef unsigned char kv_u8;
typedef signed char kv_i8;
typedef unsigned short kv_u16;
typedef long long kv_i64;
typedef unsigned long long kv_u64;

/* Numbers of the dtypes, as in kv_array.h. */
enum {
    KV_F32 = 0,
    KV_F64 = 1,
    KV_F16 = 2,
    KV_U8 = 3,
    KV_I32 = 4,
    KV_I8 = 5,
    KV_I64 = 6,
    KV_B8 = 7,
    KV_BF16 = 12
};

/* ---- Bits ---- */

union kv_word {
    float f;
    unsigned u;
};

union kv_wide {
    double d;
    kv_i64 i;
};

KV_DEVICE unsigned kv_bits(float x)
{
    kv_word w;
    w.f = x;
    return w.u;
}

KV_DEVICE float kv_float(unsigned u)
{
    kv_word w;
    w.u = u;
    return w.f;
}

/* ---- Half types ---- */

KV_DEVICE float kv_widen_f16(kv_u16 h)
{
    unsigned sign = (unsigned)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    float finite = kv_float(magnitude << 13) * 5192296858534827628530496329220096.0f; /* 2^112 */
    unsigned quiet = magnitude > 0x7c00 ? 0x00400000 : 0;
    unsigned special = 0x7f800000 | (magnitude & 0x3ff) << 13 | quiet;
    return kv_float(sign | (magnitude < 0x7c00 ? kv_bits(finite) : special));
}

KV_DEVICE kv_u16 kv_narrow_f16(float x)
{
    unsigned u = kv_bits(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    unsigned special = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x3ff) : 0x7c00;
    unsigned normal = (m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13;
    unsigned small = kv_bits(kv_float(m < 0x38800000 ? m : 0) + 0.5f) - 0x3f000000;
    unsigned result = m >= 0x47800000 ? special : m >= 0x38800000 ? normal : small;
    return (kv_u16)(sign | result);
}

KV_DEVICE float kv_widen_bf16(kv_u16 h)
{
    return kv_float((unsigned)h << 16);
}

KV_DEVICE kv_u16 kv_narrow_bf16(float x)
{
    unsigned u = kv_bits(x), rounded = u + 0x7fff + (u >> 16 & 1), quiet = u | 0x00400000;
    return (kv_u16)(((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

/* As a float32, rounded to odd, so that narrowing it further rounds only once. */
KV_DEVICE float kv_to_odd(double x)
{
    float near = KV_MADE((float)x);
    int u = (int)kv_bits(near);
    double ax = x < 0 ? -x : x, anear = near < 0 ? -(double)near : (double)near;
    int odd = u + (anear > ax ? -1 : 1);
    return kv_float((unsigned)(anear != ax && !(u & 1) ? odd : u));
}

KV_DEVICE double kv_int_to_odd(kv_i64 x)
{
    kv_i64 odd = (x & ~(kv_i64)0x7ff) | ((x & 0x7ff) ? 0x800 : 0);
    return (double)(x > -((kv_i64)1 << 53) && x < (kv_i64)1 << 53 ? x : odd);
}

/* ---- Float to integer: truncates, saturates, nan is 0 ---- */

KV_DEVICE double kv_clamp(double x, double low, double high)
{
    double y = x < low ? low : x > high ? high : x;
    return x == x ? y : 0;
}

KV_DEVICE kv_i64 kv_saturate(double x)
{
    kv_i64 y = (kv_i64)kv_clamp(x, -9223372036854775808.0, 9223372036854774784.0);
    return x >= 9223372036854775808.0 ? (kv_i64)0x7fffffffffffffffLL : y;
}

/* ---- Dtypes as types ----
 * item: the type in memory. wide(item): a float, double, int or 64-bit integer of the same value.
 * of(wide): the item nearest to it. */

struct kv_t_f32 {
    typedef float item;
    enum { dtype = KV_F32 };
    KV_DEVICE float wide(float x) { return x; }
    KV_DEVICE float of(float w) { return w; }
    template <class W> KV_DEVICE float of(W w) { return KV_MADE((float)w); }
};

struct kv_t_f64 {
    typedef double item;
    enum { dtype = KV_F64 };
    KV_DEVICE double wide(double x) { return x; }
    template <class W> KV_DEVICE double of(W w) { return (double)w; }
};

struct kv_t_f16 {
    typedef kv_u16 item;
    enum { dtype = KV_F16 };
    KV_DEVICE float wide(kv_u16 x) { return kv_widen_f16(x); }
    KV_DEVICE kv_u16 of(float w) { return kv_narrow_f16(w); }
    KV_DEVICE kv_u16 of(double w) { return kv_narrow_f16(kv_to_odd(w)); }
    KV_DEVICE kv_u16 of(int w) { return kv_narrow_f16(kv_to_odd((double)w)); }
    KV_DEVICE kv_u16 of(kv_i64 w) { return kv_narrow_f16(kv_to_odd(kv_int_to_odd(w))); }
};

struct kv_t_bf16 {
    typedef kv_u16 item;
    enum { dtype = KV_BF16 };
    KV_DEVICE float wide(kv_u16 x) { return kv_widen_bf16(x); }
    KV_DEVICE kv_u16 of(float w) { return kv_narrow_bf16(w); }
    KV_DEVICE kv_u16 of(double w) { return kv_narrow_bf16(kv_to_odd(w)); }
    KV_DEVICE kv_u16 of(int w) { return kv_narrow_bf16(kv_to_odd((double)w)); }
    KV_DEVICE kv_u16 of(kv_i64 w) { return kv_narrow_bf16(kv_to_odd(kv_int_to_odd(w))); }
};

struct kv_t_u8 {
    typedef kv_u8 item;
    enum { dtype = KV_U8 };
    KV_DEVICE int wide(kv_u8 x) { return x; }
    KV_DEVICE kv_u8 of(double w) { return (kv_u8)kv_clamp(w, 0, 255); }
    KV_DEVICE kv_u8 of(float w) { return of((double)w); }
    KV_DEVICE kv_u8 of(int w) { return (kv_u8)w; }
    KV_DEVICE kv_u8 of(kv_i64 w) { return (kv_u8)w; }
};

struct kv_t_i8 {
    typedef kv_i8 item;
    enum { dtype = KV_I8 };
    KV_DEVICE int wide(kv_i8 x) { return x; }
    KV_DEVICE kv_i8 of(double w) { return (kv_i8)kv_clamp(w, -128, 127); }
    KV_DEVICE kv_i8 of(float w) { return of((double)w); }
    KV_DEVICE kv_i8 of(int w) { return (kv_i8)w; }
    KV_DEVICE kv_i8 of(kv_i64 w) { return (kv_i8)w; }
};

struct kv_t_i32 {
    typedef int item;
    enum { dtype = KV_I32 };
    KV_DEVICE int wide(int x) { return x; }
    KV_DEVICE int of(double w) { return (int)kv_clamp(w, -2147483648.0, 2147483647.0); }
    KV_DEVICE int of(float w) { return of((double)w); }
    KV_DEVICE int of(int w) { return w; }
    KV_DEVICE int of(kv_i64 w) { return (int)w; }
};

struct kv_t_i64 {
    typedef kv_i64 item;
    enum { dtype = KV_I64 };
    KV_DEVICE kv_i64 wide(kv_i64 x) { return x; }
    KV_DEVICE kv_i64 of(double w) { return kv_saturate(w); }
    KV_DEVICE kv_i64 of(float w) { return kv_saturate((double)w); }
    KV_DEVICE kv_i64 of(int w) { return w; }
    KV_DEVICE kv_i64 of(kv_i64 w) { return w; }
};

struct kv_t_b8 {
    typedef kv_u8 item;
    enum { dtype = KV_B8 };
    KV_DEVICE int wide(kv_u8 x) { return x != 0; }
    template <class W> KV_DEVICE kv_u8 of(W w) { return w != 0; }
};

/* x of one dtype as another. The same dtype keeps the bits, but a bool becomes 0 or 1. */
template <class TO, class FROM> struct kv_convert {
    KV_DEVICE typename TO::item run(typename FROM::item x) { return TO::of(FROM::wide(x)); }
};

template <class T> struct kv_convert<T, T> {
    KV_DEVICE typename T::item run(typename T::item x) { return x; }
};

template <> struct kv_convert<kv_t_b8, kv_t_b8> {
    KV_DEVICE kv_u8 run(kv_u8 x) { return x != 0; }
};

/* Runs X with T standing for each dtype's type in turn, in a switch. */
#define KV_EACH_DTYPE(X)                                                                           \
    X(kv_t_f32) X(kv_t_f64) X(kv_t_f16) X(kv_t_bf16) X(kv_t_u8) X(kv_t_i8) X(kv_t_i32) X(kv_t_i64) \
        X(kv_t_b8)

/* ---- Types of sums ---- */

/* Sums add floats and doubles as they are, the half types in float32, integers so that they wrap,
 * and bool as OR. */

template <class T> struct kv_total;

template <> struct kv_total<kv_t_f32> {
    typedef float type;
    KV_DEVICE float begin(float x) { return x; }
    KV_DEVICE float add(float t, float x) { return KV_MADE(t + x); }
    KV_DEVICE float end(float t) { return t; }
};

template <> struct kv_total<kv_t_f64> {
    typedef double type;
    KV_DEVICE double begin(double x) { return x; }
    KV_DEVICE double add(double t, double x) { return t + x; }
    KV_DEVICE double end(double t) { return t; }
};

#define KV_HALF_TOTAL(T)                                                                           \
    template <> struct kv_total<T> {                                                               \
        typedef float type;                                                                        \
        KV_DEVICE float begin(kv_u16 x) { return T::wide(x); }                                     \
        KV_DEVICE float add(float t, kv_u16 x) { return KV_MADE(t + T::wide(x)); }                 \
        KV_DEVICE kv_u16 end(float t) { return T::of(t); }                                         \
    };

KV_HALF_TOTAL(kv_t_f16)
KV_HALF_TOTAL(kv_t_bf16)

#define KV_INT_TOTAL(T, U)                                                                         \
    template <> struct kv_total<T> {                                                               \
        typedef U type;                                                                            \
        KV_DEVICE U begin(T::item x) { return (U)x; }                                              \
        KV_DEVICE U add(U t, T::item x) { return (U)(t + (U)x); }                                  \
        KV_DEVICE T::item end(U t) { return (T::item)t; }                                          \
    };

KV_INT_TOTAL(kv_t_u8, unsigned)
KV_INT_TOTAL(kv_t_i8, unsigned)
KV_INT_TOTAL(kv_t_i32, unsigned)
KV_INT_TOTAL(kv_t_i64, kv_u64)

template <> struct kv_total<kv_t_b8> {
    typedef unsigned type;
    KV_DEVICE unsigned begin(kv_u8 x) { return x != 0; }
    KV_DEVICE unsigned add(unsigned t, kv_u8 x) { return t | (x != 0); }
    KV_DEVICE kv_u8 end(unsigned t) { return (kv_u8)t; }
};

/* ---- Teams ---- */

KV_DEVICE int kv_lane(void)
{
    return (int)(threadIdx.x % JOB_TEAM);
}

KV_DEVICE long long kv_team(void)
{
    return ((long long)blockIdx.x * blockDim.x + threadIdx.x) / JOB_TEAM;
}

KV_DEVICE long long kv_teams(void)
{
    return (long long)gridDim.x * blockDim.x / JOB_TEAM;
}

/* The job that a tile belongs to: the last one that begins at it or before. It has a place for every
 * tile behind and before it, since no job is without tiles: where all have one, nothing is read. */
KV_DEVICE const job_item *kv_find_job(const job_list &l, long long tile)
{
    const long long before = tile, behind = l.ntiles - tile - 1;
    long long low = behind < l.nitems ? l.nitems - 1 - behind : 0;
    long long high = before < l.nitems ? before + 1 : l.nitems;
    while (high - low > 1) {
        long long middle = low + (high - low) / 2;
        if (l.items[middle].first <= tile)
            low = middle;
        else
            high = middle;
    }
    return &l.items[low];
}

/* p, which a table of the device's memory holds, is an address there too. The compiler does not know
 * that, and would use slower accesses, which find out where an address leads. */
template <class T> KV_DEVICE T *kv_global(T *p)
{
#ifdef __CUDACC__
    __builtin_assume(__isGlobal(p));
#endif
    return p;
}

template <class I> KV_DEVICE const I *kv_source(const job_item *j, kv_i64 s)
{
    return kv_global((const I *)kv_global(j->src)[s]);
}

template <class I> KV_DEVICE I *kv_more(const job_item *j, kv_i64 s)
{
    return kv_global((I *)kv_global(j->more)[s]);
}

/* Goes through the tiles of this thread's team: job j, its elements from `at` on, m of them. */
#define KV_EACH_TILE(l, j, at, m)                                                                  \
    for (long long tile_ = kv_team(); tile_ < (l).ntiles; tile_ += kv_teams())                     \
        if (const job_item *j = kv_find_job(l, tile_))                                             \
            for (long long at = (tile_ - j->first) * (l).tile, once_ = 1,                          \
                           m = j->n - at < (l).tile ? j->n - at : (l).tile;                        \
                 once_; once_ = 0)

/* ---- Packs ---- */

/* N items that are read or written at once: 16 bytes where N says so. */
template <class I, int N> struct __align__(N * sizeof(I)) kv_pack {
    I v[N];
};

KV_DEVICE bool kv_aligned(const void *p)
{
    return (kv_u64)p % 16 == 0;
}

template <int N, class I> KV_DEVICE bool kv_fits(const I *p)
{
    return (kv_u64)p % sizeof(kv_pack<I, N>) == 0;
}

/* The items from i on. WHOLE: all N are there, and packs fit; else the first n, and zeros. */
template <int N, bool WHOLE, class I> KV_DEVICE kv_pack<I, N> kv_load(const I *p, kv_i64 i, int n)
{
    kv_pack<I, N> x;
    if constexpr (WHOLE) {
        x = *(const kv_pack<I, N> *)(p + i);
    } else {
#pragma unroll
        for (int e = 0; e < N; e++)
            x.v[e] = e < n ? p[i + e] : 0;
    }
    return x;
}

template <int N, bool WHOLE, class I>
KV_DEVICE void kv_store(I *p, kv_i64 i, int n, const kv_pack<I, N> &x)
{
    if constexpr (WHOLE) {
        *(kv_pack<I, N> *)(p + i) = x;
    } else {
#pragma unroll
        for (int e = 0; e < N; e++)
            if (e < n)
                p[i + e] = x.v[e];
    }
}

/* The sum of a job's sources, left to right. A single source keeps its bits, unless it is bool. */
template <class T> struct kv_values {
    typedef typename T::item item;
    typedef kv_total<T> total;
    const job_item *j;
    const kv_i64 count = j->nsrc;
    const item *const first = kv_source<item>(j, 0);

    template <int N> __device__ __forceinline__ bool fit() const
    {
        bool all = kv_fits<N>(first);
#pragma unroll 1
        for (kv_i64 s = 1; s < count; s++)
            all &= kv_fits<N>(kv_source<item>(j, s));
        return all;
    }

    template <int N, bool WHOLE>
    __device__ __forceinline__ kv_pack<item, N> load(kv_i64 i, int n) const
    {
        kv_pack<item, N> x = kv_load<N, WHOLE>(first, i, n);
        typename total::type sum[N];
#pragma unroll
        for (int e = 0; e < N; e++) {
            sum[e] = total::begin(x.v[e]);
            x.v[e] = kv_convert<T, T>::run(x.v[e]);
        }
        if (count == 1)
            return x;
#pragma unroll 2
        for (kv_i64 s = 1; s < count; s++) {
            const kv_pack<item, N> y = kv_load<N, WHOLE>(kv_source<item>(j, s), i, n);
#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] = total::add(sum[e], y.v[e]);
        }
#pragma unroll
        for (int e = 0; e < N; e++)
            x.v[e] = total::end(sum[e]);
        return x;
    }
};

/* Goes through a tile in packs of WORK::N elements. */
template <class WORK> KV_DEVICE void kv_tile_packs(const job_item *j, kv_i64 at, kv_i64 m)
{
    enum { N = WORK::N };
    const WORK work = {j};
    for (kv_i64 i = kv_lane() * N; i < m; i += JOB_TEAM * N)
        work.at(at + i, m - i < N ? (int)(m - i) : N);
}

template <class WORK> KV_DEVICE void kv_each_pack(const job_list &l)
{
    KV_EACH_TILE(l, j, at, m)
    kv_tile_packs<WORK>(j, at, m);
}

#endif
