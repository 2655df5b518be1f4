// CUDA's functions on numbers for g++: the pages on single and double precision, type casting,
// integer and SIMD intrinsics of CUDA's math API. `functions.txt` of the tests lists them.

#pragma once

#include "cuda.h"

// ---- Forms that the C++ library lacks or gives other types

#define HOST_FLOAT(NAME) HOST_FUNCTION(float, NAME, (float x), NAME##f(x))
HOST_EACH(HOST_FLOAT, exp10, j0, j1, y0, y1)

HOST_FUNCTION(float, jn, (int n, float x), jnf(n, x))
HOST_FUNCTION(float, yn, (int n, float x), ynf(n, x))
HOST_FUNCTION(float, pow, (float x, int n), powf(x, n))

// Results that go to memory are stored by the kernel's code, so that they are checked.
#define HOST_STORING(NAME, STORED, PARAMETERS, ...)         \
    template <typename Real>                                \
    HOST_INLINE Real host_##NAME PARAMETERS {               \
        STORED second;                                      \
        const Real first = std::NAME(__VA_ARGS__, &second); \
        *to = second;                                       \
        return first;                                       \
    }
HOST_STORING(frexp, int, (Real x, int *to), x)
HOST_STORING(modf, Real, (Real x, Real *to), x)
HOST_STORING(remquo, int, (Real x, Real y, int *to), x, y)
#define HOST_STORING_BOTH(NAME, SINE, COSINE)                 \
    template <typename Real>                                  \
    HOST_INLINE void NAME(Real x, Real *sine, Real *cosine) { \
        *sine = SINE(x);                                      \
        *cosine = COSINE(x);                                  \
    }
HOST_STORING_BOTH(host_sincos, sin, cos)
#define frexp host_frexp
#define frexpf host_frexp<float>
#define modf host_modf
#define modff host_modf<float>
#define remquo host_remquo
#define remquof host_remquo<float>
#define sincos host_sincos
#define sincosf host_sincos<float>
#define __sincosf host_sincos<float>

// ---- Functions that only CUDA has: in double precision, rounded for float

constexpr double HOST_PI = 3.14159265358979323846, HOST_ROOT_2 = 1.41421356237309504880;

// Exact at multiples of a half.
HOST_INLINE double sinpi(double x) {
    const double rest = x - 2 * rint(x / 2);
    if (fabs(rest) == 1) return copysign(0.0, x);
    return fabs(rest) <= 0.25  ? sin(HOST_PI * rest)
           : fabs(rest) < 0.75 ? copysign(cos(HOST_PI * (0.5 - fabs(rest))), rest)
                               : copysign(sin(HOST_PI * (1 - fabs(rest))), rest);
}
HOST_FUNCTION(double, cospi, (double x), sinpi(0.5 - fabs(x - 2 * rint(x / 2))))
HOST_FUNCTION(double, rsqrt, (double x), 1 / sqrt(x))
HOST_FUNCTION(double, rcbrt, (double x), 1 / cbrt(x))
HOST_FUNCTION(double, normcdf, (double x), 0.5 * erfc(-x / HOST_ROOT_2))
// From 20 on, erfc(x) is near the smallest numbers: by its asymptotic series.
static inline double erfcx(double x) {
    if (x < 20) return exp(x * x) * erfc(x);
    const double part = 0.5 / (x * x);
    return (1 - part * (1 - 3 * part * (1 - 5 * part))) / (x * sqrt(HOST_PI));
}
// Newton's method for erfc(y) = x, from the asymptotic form.
static inline double erfcinv(double x) {
    if (!(x >= 0 && x <= 2)) return __builtin_nan("");
    if (x == 0 || x == 2) return x == 0 ? __builtin_inf() : -__builtin_inf();
    if (x > 1) return -erfcinv(2 - x);
    double y = x > 0.5 ? (1 - x) * sqrt(HOST_PI) / 2 : sqrt(-log(x));
    for (int i = 0; i < 60; ++i) {
        const double step = (erfc(y) - x) / (-2 / sqrt(HOST_PI) * exp(-y * y));
        y -= step / (1 + y * step);
        if (fabs(step) <= 1e-16 * fabs(y)) break;
    }
    return y;
}
static inline double erfinv(double x) {
    if (fabs(x) > 0.5) return copysign(erfcinv(1 - fabs(x)), x);
    double y = x * sqrt(HOST_PI) / 2;
    for (int i = 0; i < 60; ++i) {
        const double step = (erf(y) - x) / (2 / sqrt(HOST_PI) * exp(-y * y));
        y -= step;
        if (fabs(step) <= 1e-16 * fabs(y)) break;
    }
    return y;
}
HOST_FUNCTION(double, normcdfinv, (double x), -HOST_ROOT_2 *erfcinv(2 * x))
// The power series of the modified Bessel functions, all of whose terms are positive.
static inline double host_bessel(double x, int order) {
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; k < 2000 && fabs(term) > 1e-17 * fabs(sum); ++k) {
        term *= x * x / 4 / k / (k + order);
        sum += term;
    }
    return sum;
}
HOST_FUNCTION(double, cyl_bessel_i0, (double x), host_bessel(x, 0))
HOST_FUNCTION(double, cyl_bessel_i1, (double x), host_bessel(x, 1))
#define HOST_ROUNDED(NAME)                                    \
    HOST_FUNCTION(float, NAME##f, (float x), NAME(double(x))) \
    HOST_FLOAT(NAME)
HOST_EACH(HOST_ROUNDED, sinpi, cospi, rsqrt, rcbrt, normcdf, erfcx, erfcinv, erfinv, normcdfinv)
HOST_EACH(HOST_ROUNDED, cyl_bessel_i0, cyl_bessel_i1)
HOST_STORING_BOTH(sincospi, sinpi, cospi)
#define sincospif sincospi<float>

#define HOST_NORMS(REAL, SUFFIX)                                                                \
    HOST_INLINE REAL norm##SUFFIX(int count, const REAL *x) {                                   \
        double sum = 0;                                                                         \
        for (int i = 0; i < count; ++i)                                                         \
            sum = hypot(sum, double(x[i]));                                                     \
        return sum;                                                                             \
    }                                                                                           \
    HOST_FUNCTION(REAL, norm3d##SUFFIX, (double x, double y, double z), hypot(hypot(x, y), z))  \
    HOST_FUNCTION(REAL, norm4d##SUFFIX, (double x, double y, double z, double w),               \
                  hypot(hypot(x, y), hypot(z, w)))                                              \
    HOST_FUNCTION(REAL, rnorm##SUFFIX, (int count, const REAL *x), 1 / norm##SUFFIX(count, x))  \
    HOST_FUNCTION(REAL, rnorm3d##SUFFIX, (REAL x, REAL y, REAL z), 1 / norm3d##SUFFIX(x, y, z)) \
    HOST_FUNCTION(REAL, rnorm4d##SUFFIX, (REAL x, REAL y, REAL z, REAL w),                      \
                  1 / norm4d##SUFFIX(x, y, z, w))                                               \
    HOST_FUNCTION(REAL, rhypot##SUFFIX, (double x, double y), 1 / hypot(x, y))
HOST_NORMS(double, )
HOST_NORMS(float, f)

// Fast forms: a GPU rounds otherwise, within the error bounds of the page on intrinsics.
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __fdividef fdividef
HOST_FUNCTION(float, fdividef, (float x, float y), x / y)
HOST_FUNCTION(double, fdivide, (double x, double y), x / y)
HOST_FUNCTION(float, __saturatef, (float x), x > 0 ? (x < 1 ? x : 1.0f) : 0.0f)

// ---- Minimum and maximum

// The other one, if one is NaN.
template <typename T>
HOST_INLINE T host_smallest(T a, T b) {
    return a < b || b != b ? a : b;
}
template <typename T>
HOST_INLINE T host_largest(T a, T b) {
    return a > b || b != b ? a : b;
}
#define HOST_EXTREMES(MIN, MAX, RESULT, A, B)                           \
    HOST_FUNCTION(RESULT, MIN, (A a, B b), host_smallest<RESULT>(a, b)) \
    HOST_FUNCTION(RESULT, MAX, (A a, B b), host_largest<RESULT>(a, b))
#define HOST_EXTREMES_OF(A, B)       \
    HOST_EXTREMES(min, max, A, A, A) \
    HOST_EXTREMES(min, max, B, B, B) \
    HOST_EXTREMES(min, max, B, A, B) \
    HOST_EXTREMES(min, max, B, B, A)
HOST_EXTREMES_OF(int, unsigned)
HOST_EXTREMES_OF(long, unsigned long)
HOST_EXTREMES_OF(long long, unsigned long long)
HOST_EXTREMES_OF(float, double)
HOST_EXTREMES(umin, umax, unsigned, unsigned, unsigned)
HOST_EXTREMES(llmin, llmax, long long, long long, long long)
HOST_EXTREMES(ullmin, ullmax, unsigned long long, unsigned long long, unsigned long long)

// ---- Bits

#define HOST_BITS(NAME, TO, FROM) HOST_FUNCTION(TO, NAME, (FROM x), __builtin_bit_cast(TO, x))
HOST_BITS(__float_as_int, int, float)
HOST_BITS(__int_as_float, float, int)
HOST_BITS(__float_as_uint, unsigned, float)
HOST_BITS(__uint_as_float, float, unsigned)
HOST_BITS(__double_as_longlong, long long, double)
HOST_BITS(__longlong_as_double, double, long long)

HOST_FUNCTION(int, __double2hiint, (double x), __double_as_longlong(x) >> 32)
HOST_FUNCTION(int, __double2loint, (double x), __double_as_longlong(x))
HOST_FUNCTION(double, __hiloint2double, (int high, int low),
              __longlong_as_double(static_cast<uint64_t>(high) << 32 | unsigned(low)))

// ---- Rounding: SSE's mode is set around each operation

constexpr unsigned HOST_RN = 0, HOST_RD = 0x2000, HOST_RU = 0x4000, HOST_RZ = 0x6000;

template <typename Result, typename Operation, typename... Operands>
HOST_INLINE Result host_rounded(unsigned mode, Operation operation, volatile Operands... operands) {
    unsigned before, during;
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    during = (before & ~HOST_RZ) | mode;
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    volatile Result result = operation(operands...);
    __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
    return result;
}

#define HOST_ROUND(NAME, MODE, RESULT, PARAMETERS, EXPRESSION, ...)            \
    HOST_INLINE RESULT NAME PARAMETERS {                                       \
        const auto operation = [] PARAMETERS -> RESULT { return EXPRESSION; }; \
        return host_rounded<RESULT>(MODE, operation, __VA_ARGS__);             \
    }
#define HOST_ROUND_ALL(NAME, ...)               \
    HOST_ROUND(NAME##_rn, HOST_RN, __VA_ARGS__) \
    HOST_ROUND(NAME##_rd, HOST_RD, __VA_ARGS__) \
    HOST_ROUND(NAME##_ru, HOST_RU, __VA_ARGS__) \
    HOST_ROUND(NAME##_rz, HOST_RZ, __VA_ARGS__)
#define HOST_ROUND_REAL(REAL, PREFIX, FMA)                           \
    HOST_ROUND_ALL(PREFIX##add, REAL, (REAL a, REAL b), a + b, a, b) \
    HOST_ROUND_ALL(PREFIX##sub, REAL, (REAL a, REAL b), a - b, a, b) \
    HOST_ROUND_ALL(PREFIX##mul, REAL, (REAL a, REAL b), a *b, a, b)  \
    HOST_ROUND_ALL(PREFIX##div, REAL, (REAL a, REAL b), a / b, a, b) \
    HOST_ROUND_ALL(PREFIX##rcp, REAL, (REAL a), 1 / a, a)            \
    HOST_ROUND_ALL(PREFIX##sqrt, REAL, (REAL a), sqrt(a), a)         \
    HOST_ROUND_ALL(FMA, REAL, (REAL a, REAL b, REAL c), fma(a, b, c), a, b, c)
HOST_ROUND_REAL(float, __f, __fmaf)
HOST_ROUND_REAL(double, __d, __fma)
HOST_ROUND_ALL(__double2float, float, (double a), a, a)
HOST_ROUND_ALL(__ll2double, double, (long long a), a, a)
HOST_ROUND_ALL(__ull2double, double, (unsigned long long a), a, a)
HOST_ROUND_ALL(__fmaf_ieee, float, (float a, float b, float c), fma(a, b, c), a, b, c)
HOST_FUNCTION(float, __frsqrt_rn, (float x), 1 / sqrt(double(x)))
HOST_FUNCTION(double, __int2double_rn, (int x), x)
HOST_FUNCTION(double, __uint2double_rn, (unsigned x), x)

template <typename Integer, typename Number>
HOST_INLINE Integer host_limited(Number x) {
    constexpr unsigned bits = 8 * sizeof(Integer);
    constexpr Integer least = Integer(Integer(-1) < Integer(1) ? 1ull << (bits - 1) : 0);
    constexpr Integer most = Integer(~least);
    return x >= most ? most : x <= least ? least : Integer(x);
}
// As PTX converts a whole number: what is no number gives a fixed value.
template <typename Integer, typename Real>
HOST_INLINE Integer host_integer(Real whole) {
    constexpr unsigned bits = 8 * sizeof(Integer);
    if (whole == whole) return host_limited<Integer>(whole);
    return sizeof(Real) == 8 || bits == 64 ? Integer(1ull << (bits - 1)) : Integer(0);
}
#define HOST_CONVERT(NAME, INTEGER, REAL)                                        \
    HOST_FUNCTION(INTEGER, NAME##_rn, (REAL x), host_integer<INTEGER>(rint(x)))  \
    HOST_FUNCTION(INTEGER, NAME##_rd, (REAL x), host_integer<INTEGER>(floor(x))) \
    HOST_FUNCTION(INTEGER, NAME##_ru, (REAL x), host_integer<INTEGER>(ceil(x)))  \
    HOST_FUNCTION(INTEGER, NAME##_rz, (REAL x), host_integer<INTEGER>(trunc(x)))
#define HOST_CONVERT_ALL(NAME, INTEGER)                        \
    HOST_ROUND_ALL(__##NAME##2float, float, (INTEGER a), a, a) \
    HOST_CONVERT(__float2##NAME, INTEGER, float)               \
    HOST_CONVERT(__double2##NAME, INTEGER, double)
HOST_CONVERT_ALL(int, int)
HOST_CONVERT_ALL(uint, unsigned)
HOST_CONVERT_ALL(ll, long long)
HOST_CONVERT_ALL(ull, unsigned long long)

// ---- Integers

// Of 24 bits of each factor.
HOST_FUNCTION(int, __mul24, (int a, int b),
              int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8)))
HOST_FUNCTION(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffff) * (b & 0xffffff))
HOST_FUNCTION(int, __mulhi, (int a, int b), static_cast<long long>(a) * b >> 32)
HOST_FUNCTION(unsigned, __umulhi, (unsigned a, unsigned b), static_cast<uint64_t>(a) * b >> 32)
HOST_FUNCTION(long long, __mul64hi, (long long a, long long b), static_cast<__int128>(a) * b >> 64)
HOST_FUNCTION(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
              static_cast<unsigned __int128>(a) * b >> 64)
HOST_FUNCTION(int, __clz, (int x), x ? __builtin_clz(x) : 32)
HOST_FUNCTION(int, __clzll, (long long x), x ? __builtin_clzll(x) : 64)
HOST_FUNCTION(int, __ffs, (int x), __builtin_ffs(x))
HOST_FUNCTION(int, __ffsll, (long long x), __builtin_ffsll(x))
// Without a call of the compiler's library.
HOST_INLINE int __popcll(unsigned long long x) {
    int count = 0;
    for (; x; x &= x - 1)
        ++count;
    return count;
}
HOST_FUNCTION(int, __popc, (unsigned x), __popcll(x))
HOST_INLINE unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; ++bit)
        reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
HOST_FUNCTION(unsigned, __brev, (unsigned x), __brevll(x) >> 32)
HOST_FUNCTION(int, __hadd, (int a, int b), (static_cast<long long>(a) + b) >> 1)
HOST_FUNCTION(int, __rhadd, (int a, int b), (static_cast<long long>(a) + b + 1) >> 1)
HOST_FUNCTION(unsigned, __uhadd, (unsigned a, unsigned b), (static_cast<uint64_t>(a) + b) >> 1)
HOST_FUNCTION(unsigned, __urhadd, (unsigned a, unsigned b), (static_cast<uint64_t>(a) + b + 1) >> 1)
HOST_FUNCTION(unsigned, __usad, (unsigned a, unsigned b, unsigned c), (a > b ? a - b : b - a) + c)
HOST_FUNCTION(unsigned, __sad, (int a, int b, unsigned c),
              (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a)) + c)
HOST_INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i)
        result |= (bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}
#define HOST_FUNNEL(NAME, SHIFTS)                                             \
    HOST_FUNCTION(unsigned, NAME, (unsigned low, unsigned high, unsigned by), \
                  (static_cast<uint64_t>(high) << 32 | low) SHIFTS)
HOST_FUNNEL(__funnelshift_l, << (by & 31) >> 32)
HOST_FUNNEL(__funnelshift_lc, << (by < 32 ? by : 32) >> 32)
HOST_FUNNEL(__funnelshift_r, >> (by & 31))
HOST_FUNNEL(__funnelshift_rc, >> (by < 32 ? by : 32))

// ---- Several small integers in a word

template <typename Lane, typename Function>
HOST_INLINE unsigned host_lanes(Function function, unsigned x, unsigned y = 0, unsigned z = 0) {
    unsigned result = 0;
    constexpr unsigned width = 8 * sizeof(Lane), mask = ~0u >> (32 - width);
    for (unsigned at = 0; at < 32; at += width)
        result |= (function(Lane(x >> at), Lane(y >> at), Lane(z >> at)) & mask) << at;
    return result;
}
template <typename Lane>
HOST_INLINE unsigned host_sum_of_lanes(unsigned x) {
    unsigned sum = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(Lane))
        sum += Lane(x >> at);
    return sum;
}
#define HOST_LANES(NAME, WORD, LANE, EXPRESSION, PARAMETERS, ...)                            \
    HOST_INLINE WORD NAME PARAMETERS {                                                       \
        typedef LANE Lane;                                                                   \
        const auto function = [](Lane a, Lane b, Lane c) -> unsigned { return EXPRESSION; }; \
        return host_lanes<Lane>(function, __VA_ARGS__);                                      \
    }
#define HOST_SIMD_1(NAME, SIGN, EXPRESSION)                                \
    HOST_LANES(NAME##2, unsigned, SIGN short, EXPRESSION, (unsigned x), x) \
    HOST_LANES(NAME##4, unsigned, SIGN char, EXPRESSION, (unsigned x), x)
#define HOST_SIMD_2(NAME, SIGN, EXPRESSION)                                               \
    HOST_LANES(NAME##2, unsigned, SIGN short, EXPRESSION, (unsigned x, unsigned y), x, y) \
    HOST_LANES(NAME##4, unsigned, SIGN char, EXPRESSION, (unsigned x, unsigned y), x, y)
#define HOST_SIMD_COMPARE(NAME, SIGN, OPERATOR)              \
    HOST_SIMD_2(__vcmp##NAME, SIGN, a OPERATOR b ? ~0u : 0u) \
    HOST_SIMD_2(__vset##NAME, SIGN, a OPERATOR b ? 1u : 0u)
HOST_SIMD_1(__vabs, signed, a < 0 ? -a : a)
HOST_SIMD_1(__vabsss, signed, host_limited<Lane>(a < 0 ? -a : a))
HOST_SIMD_1(__vneg, signed, -a)
HOST_SIMD_1(__vnegss, signed, host_limited<Lane>(-a))
HOST_SIMD_2(__vadd, unsigned, a + b)
HOST_SIMD_2(__vsub, unsigned, a - b)
HOST_SIMD_2(__vhaddu, unsigned, (a + b) >> 1)
HOST_SIMD_COMPARE(eq, unsigned, ==)
HOST_SIMD_COMPARE(ne, unsigned, !=)
#define HOST_SIMD_OF_SIGN(S, SIGN)                                   \
    HOST_SIMD_2(__vadd##S##s, SIGN, host_limited<Lane>(a + b))       \
    HOST_SIMD_2(__vsub##S##s, SIGN, host_limited<Lane>(a - b))       \
    HOST_SIMD_2(__vavg##S, SIGN, (a + b + (a + b >= 0)) >> 1)        \
    HOST_SIMD_2(__vabsdiff##S, SIGN, a > b ? a - b : b - a)          \
    HOST_SIMD_2(__vmax##S, SIGN, a > b ? a : b)                      \
    HOST_SIMD_2(__vmin##S, SIGN, a < b ? a : b)                      \
    HOST_SIMD_COMPARE(ge##S, SIGN, >=)                               \
    HOST_SIMD_COMPARE(gt##S, SIGN, >)                                \
    HOST_SIMD_COMPARE(le##S, SIGN, <=)                               \
    HOST_SIMD_COMPARE(lt##S, SIGN, <)                                \
    HOST_FUNCTION(unsigned, __vsad##S##2, (unsigned a, unsigned b),  \
                  host_sum_of_lanes<ushort>(__vabsdiff##S##2(a, b))) \
    HOST_FUNCTION(unsigned, __vsad##S##4, (unsigned a, unsigned b),  \
                  host_sum_of_lanes<unsigned char>(__vabsdiff##S##4(a, b)))
HOST_SIMD_OF_SIGN(s, signed)
HOST_SIMD_OF_SIGN(u, unsigned)

// Dynamic programming: the same on words and on pairs of 16 bits. Sums wrap around.
#define HOST_DPX(NAME, S, SIGN, RELU, EXPRESSION)                        \
    HOST_INLINE SIGN NAME##_##S##32##RELU(SIGN a, SIGN b, SIGN c) {      \
        typedef SIGN Lane;                                               \
        return EXPRESSION;                                               \
    }                                                                    \
    HOST_LANES(NAME##_##S##16x2##RELU, unsigned, SIGN short, EXPRESSION, \
               (unsigned x, unsigned y, unsigned z), x, y, z)
#define HOST_DPX_ALL(NAME, EXPRESSION)        \
    HOST_DPX(NAME, s, signed, , EXPRESSION)   \
    HOST_DPX(NAME, u, unsigned, , EXPRESSION) \
    HOST_DPX(NAME, s, signed, _relu, host_largest<Lane>(EXPRESSION, 0))
HOST_DPX_ALL(__vimax3, host_largest<Lane>(host_largest<Lane>(a, b), c))
HOST_DPX_ALL(__vimin3, host_smallest<Lane>(host_smallest<Lane>(a, b), c))
HOST_DPX_ALL(__viaddmax, host_largest<Lane>(unsigned(a) + b, c))
HOST_DPX_ALL(__viaddmin, host_smallest<Lane>(unsigned(a) + b, c))
HOST_FUNCTION(int, __vimax_s32_relu, (int a, int b), __vimax3_s32(a, b, 0))
HOST_FUNCTION(int, __vimin_s32_relu, (int a, int b), __vimin3_s32_relu(a, b, b))
HOST_FUNCTION(unsigned, __vimax_s16x2_relu, (unsigned a, unsigned b), __vimax3_s16x2(a, b, 0))
HOST_FUNCTION(unsigned, __vimin_s16x2_relu, (unsigned a, unsigned b), __vimin3_s16x2_relu(a, b, b))
#define HOST_CHOICE(NAME, WORD, HALF, W, H, OPERATOR)                             \
    HOST_INLINE WORD NAME##W(WORD a, WORD b, bool *first) {                       \
        *first = a OPERATOR b;                                                    \
        return *first ? a : b;                                                    \
    }                                                                             \
    HOST_INLINE unsigned NAME##H(unsigned a, unsigned b, bool *high, bool *low) { \
        const unsigned left = NAME##W(HALF(a >> 16), HALF(b >> 16), high);        \
        return left << 16 | ushort(NAME##W(HALF(a), HALF(b), low));               \
    }
HOST_CHOICE(__vibmax, int, short, _s32, _s16x2, >=)
HOST_CHOICE(__vibmax, unsigned, ushort, _u32, _u16x2, >=)
HOST_CHOICE(__vibmin, int, short, _s32, _s16x2, <=)
HOST_CHOICE(__vibmin, unsigned, ushort, _u32, _u16x2, <=)

// Dot products of four or two numbers of 8 bits with as many of 8 or 16 bits.
template <typename A, typename B, int COUNT, int FIRST, typename X, typename Y, typename Sum>
HOST_INLINE Sum host_dot(X x, Y y, Sum c) {
    unsigned a, b, sum = c;
    __builtin_memcpy(&a, &x, sizeof a);
    __builtin_memcpy(&b, &y, sizeof b);
    for (int i = 0; i < COUNT; ++i) {
        sum += unsigned(int(A(a >> (8 * sizeof(A) * i))) * int(B(b >> (8 * (FIRST + i)))));
    }
    return sum;
}
#define HOST_DOT(NAME, RESULT, X, Y, A, B, COUNT, FIRST) \
    HOST_FUNCTION(RESULT, NAME, (X x, Y y, RESULT c), host_dot<A, B, COUNT, FIRST>(x, y, c))
#define HOST_DOT_ALL(NAME, A, COUNT, FIRST)                                               \
    HOST_DOT(NAME, int, int, int, signed A, signed char, COUNT, FIRST)                    \
    HOST_DOT(NAME, unsigned, unsigned, unsigned, unsigned A, unsigned char, COUNT, FIRST) \
    HOST_DOT(NAME, int, A##COUNT, char4, signed A, signed char, COUNT, FIRST)             \
    HOST_DOT(NAME, unsigned, u##A##COUNT, uchar4, unsigned A, unsigned char, COUNT, FIRST)
HOST_DOT_ALL(__dp4a, char, 4, 0)
HOST_DOT_ALL(__dp2a_lo, short, 2, 0)
HOST_DOT_ALL(__dp2a_hi, short, 2, 2)

// ---- Of the C++ library: what nvcc calls on a GPU, with --expt-relaxed-constexpr

namespace std {
template <typename T>
constexpr const T &min(const T &a, const T &b) {
    return b < a ? b : a;
}
template <typename T>
constexpr const T &max(const T &a, const T &b) {
    return a < b ? b : a;
}
template <typename T>
constexpr void swap(T &a, T &b) {
    const T before = a;
    a = b;
    b = before;
}
template <typename T>
constexpr auto &&move(T &&value) {
    return static_cast<__typeof__(value) &&>(value);
}
template <typename A, typename B>
constexpr bool is_same_v = __is_same(A, B);
template <typename A, typename B>
struct is_same {
    static constexpr bool value = is_same_v<A, B>;
};
}  // namespace std
