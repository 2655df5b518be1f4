// CUDA's numbers of 16 bits for g++: `__half` and `__nv_bfloat16`, their pairs and functions. Each
// result is computed in double precision and rounded once, to nearest even, as on a GPU.

#pragma once

#include "functions.h"

struct HostHalf {
    static __forceinline__ unsigned code(double value, HostRounding rounding = HOST_NEAREST) {
        return host_to_half(value, rounding);
    }
    static __forceinline__ float value(unsigned code) {
        return host_from_half(code);
    }
    static __forceinline__ unsigned fused_sum(unsigned a, unsigned b, unsigned c) {
        return host_half_fused_sum(a, b, c);
    }
};

struct HostBfloat16 {
    static __forceinline__ unsigned code(double value, HostRounding rounding = HOST_NEAREST) {
        return host_to_bfloat16(value, rounding);
    }
    static __forceinline__ float value(unsigned code) {
        return __int_as_float(code << 16);
    }
    static __forceinline__ unsigned fused_sum(unsigned a, unsigned b, unsigned c) {
        return host_bfloat16_fused_sum(a, b, c);
    }
};

#define HOST_SHORT_1(NAME, RESULT)                       \
    friend __forceinline__ HostShort NAME(HostShort a) { \
        return HostShort(RESULT);                        \
    }
#define HOST_SHORT_2(NAME, RESULT)                                    \
    friend __forceinline__ HostShort NAME(HostShort a, HostShort b) { \
        return HostShort(RESULT);                                     \
    }
#define HOST_SHORT_3(NAME, RESULT)                                                 \
    friend __forceinline__ HostShort NAME(HostShort a, HostShort b, HostShort c) { \
        return HostShort(RESULT);                                                  \
    }
#define HOST_SHORT_ASSIGN(OPERATOR)                                      \
    __forceinline__ HostShort &operator OPERATOR## = (HostShort other) { \
        return *this = *this OPERATOR other;                             \
    }
// Ordered, and true also of what is no number.
#define HOST_SHORT_COMPARE(NAME, OPERATOR)                                    \
    friend __forceinline__ bool __h##NAME(HostShort a, HostShort b) {         \
        return float(a) OPERATOR float(b);                                    \
    }                                                                         \
    friend __forceinline__ bool __h##NAME##u(HostShort a, HostShort b) {      \
        return __hisnan(a) || __hisnan(b) || float(a) OPERATOR float(b);      \
    }                                                                         \
    friend __forceinline__ bool operator OPERATOR(HostShort a, HostShort b) { \
        return float(a) OPERATOR float(b);                                    \
    }

template <typename Format>
struct HostShort {
    unsigned short bits;

    HostShort() = default;  // zero behind `{}`, as in CUDA
    template <typename Number, typename = decltype(double(Number()))>
    __forceinline__ HostShort(Number value) : bits(Format::code(value)) {
    }
    static __forceinline__ HostShort of_bits(unsigned bits) {
        HostShort made;
        made.bits = bits;
        return made;
    }
    __forceinline__ operator float() const {
        return Format::value(bits);
    }
    __forceinline__ HostShort operator-() const {
        return of_bits(bits ^ 0x8000);
    }
    HOST_SHORT_ASSIGN(+)
    HOST_SHORT_ASSIGN(-)
    HOST_SHORT_ASSIGN(*)
    HOST_SHORT_ASSIGN(/)

    HOST_SHORT_2(operator+, double(a) + double(b))
    HOST_SHORT_2(operator-, double(a) - double(b))
    HOST_SHORT_2(operator*, double(a) * double(b))
    HOST_SHORT_2(operator/, double(a) / double(b))
    HOST_SHORT_2(__hadd, a + b)
    HOST_SHORT_2(__hsub, a - b)
    HOST_SHORT_2(__hmul, a *b)
    HOST_SHORT_2(__hdiv, a / b)
    HOST_SHORT_2(__hadd_rn, a + b)
    HOST_SHORT_2(__hsub_rn, a - b)
    HOST_SHORT_2(__hmul_rn, a *b)
    HOST_SHORT_2(__hadd_sat, __saturatef(a + b))
    HOST_SHORT_2(__hsub_sat, __saturatef(a - b))
    HOST_SHORT_2(__hmul_sat, __saturatef(a *b))
    HOST_SHORT_2(__hmin, fminf(a, b))
    HOST_SHORT_2(__hmax, fmaxf(a, b))
    HOST_SHORT_2(__hmin_nan, __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b))
    HOST_SHORT_2(__hmax_nan, __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b))
    friend __forceinline__ HostShort __hfma(HostShort a, HostShort b, HostShort c) {
        return of_bits(Format::fused_sum(a.bits, b.bits, c.bits));
    }
    HOST_SHORT_3(__hfma_relu, __hmax(__hfma(a, b, c), HostShort(0)))
    HOST_SHORT_3(__hfma_sat, __saturatef(__hfma(a, b, c)))
    HOST_SHORT_1(__hneg, -a)
    HOST_SHORT_1(__habs, fabsf(a))
    HOST_SHORT_1(hsqrt, sqrt(double(a)))
    HOST_SHORT_1(hrsqrt, rsqrt(double(a)))
    HOST_SHORT_1(hrcp, 1 / double(a))
    HOST_SHORT_1(hexp, exp(double(a)))
    HOST_SHORT_1(hexp2, exp2(double(a)))
    HOST_SHORT_1(hexp10, exp10(double(a)))
    HOST_SHORT_1(hlog, log(double(a)))
    HOST_SHORT_1(hlog2, log2(double(a)))
    HOST_SHORT_1(hlog10, log10(double(a)))
    HOST_SHORT_1(hsin, sin(double(a)))
    HOST_SHORT_1(hcos, cos(double(a)))
    HOST_SHORT_1(htanh, tanh(double(a)))
    HOST_SHORT_1(hfloor, floorf(a))
    HOST_SHORT_1(hceil, ceilf(a))
    HOST_SHORT_1(htrunc, truncf(a))
    HOST_SHORT_1(hrint, rintf(a))
    friend __forceinline__ bool __hisnan(HostShort a) {
        return __builtin_isnan(float(a));
    }
    friend __forceinline__ int __hisinf(HostShort a) {
        return __builtin_isinf_sign(float(a));
    }
    HOST_SHORT_COMPARE(eq, ==)
    HOST_SHORT_COMPARE(ne, !=)
    HOST_SHORT_COMPARE(lt, <)
    HOST_SHORT_COMPARE(le, <=)
    HOST_SHORT_COMPARE(gt, >)
    HOST_SHORT_COMPARE(ge, >=)
};

typedef HostShort<HostHalf> __half, half, __nv_half;
typedef HostShort<HostBfloat16> __nv_bfloat16, nv_bfloat16;

// ---- Pairs

#define HOST_PAIR_1(NAME, OF_ONE)                      \
    friend __forceinline__ HostPair NAME(HostPair a) { \
        return {OF_ONE(a.x), OF_ONE(a.y)};             \
    }
#define HOST_PAIR_2(NAME, OF_ONE)                                  \
    friend __forceinline__ HostPair NAME(HostPair a, HostPair b) { \
        return {OF_ONE(a.x, b.x), OF_ONE(a.y, b.y)};               \
    }
#define HOST_PAIR_3(NAME, OF_ONE)                                              \
    friend __forceinline__ HostPair NAME(HostPair a, HostPair b, HostPair c) { \
        return {OF_ONE(a.x, b.x, c.x), OF_ONE(a.y, b.y, c.y)};                 \
    }
#define HOST_PAIR_OPERATOR(OPERATOR, OF_ONE)                                            \
    HOST_PAIR_2(operator OPERATOR, OF_ONE)                                              \
    friend __forceinline__ HostPair &operator OPERATOR## = (HostPair & a, HostPair b) { \
        return a = a OPERATOR b;                                                        \
    }
#define HOST_PAIR_COMPARE(NAME)                                         \
    HOST_PAIR_2(__h##NAME##2, __h##NAME)                                \
    friend __forceinline__ bool __hb##NAME##2(HostPair a, HostPair b) { \
        return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y);              \
    }

template <typename Number>
struct __align__(4) HostPair {
    Number x, y;

    constexpr HostPair() {
    }
    __forceinline__ HostPair(Number x, Number y) : x(x), y(y) {
    }
    HOST_PAIR_OPERATOR(+, __hadd)
    HOST_PAIR_OPERATOR(-, __hsub)
    HOST_PAIR_OPERATOR(*, __hmul)
    HOST_PAIR_OPERATOR(/, __hdiv)
    HOST_PAIR_1(operator-, __hneg)
    HOST_PAIR_2(__hadd2, __hadd)
    HOST_PAIR_2(__hsub2, __hsub)
    HOST_PAIR_2(__hmul2, __hmul)
    HOST_PAIR_2(__hadd2_rn, __hadd)
    HOST_PAIR_2(__hsub2_rn, __hsub)
    HOST_PAIR_2(__hmul2_rn, __hmul)
    HOST_PAIR_2(__h2div, __hdiv)
    HOST_PAIR_2(__hadd2_sat, __hadd_sat)
    HOST_PAIR_2(__hsub2_sat, __hsub_sat)
    HOST_PAIR_2(__hmul2_sat, __hmul_sat)
    HOST_PAIR_2(__hmin2, __hmin)
    HOST_PAIR_2(__hmax2, __hmax)
    HOST_PAIR_3(__hfma2, __hfma)
    HOST_PAIR_3(__hfma2_relu, __hfma_relu)
    HOST_PAIR_3(__hfma2_sat, __hfma_sat)
    HOST_PAIR_1(__hneg2, __hneg)
    HOST_PAIR_1(__habs2, __habs)
    HOST_PAIR_1(h2sqrt, hsqrt)
    HOST_PAIR_1(h2rsqrt, hrsqrt)
    HOST_PAIR_1(h2rcp, hrcp)
    HOST_PAIR_1(h2exp, hexp)
    HOST_PAIR_1(h2exp2, hexp2)
    HOST_PAIR_1(h2log, hlog)
    HOST_PAIR_1(h2tanh, htanh)
    HOST_PAIR_COMPARE(eq)
    HOST_PAIR_COMPARE(ne)
    HOST_PAIR_COMPARE(lt)
    HOST_PAIR_COMPARE(le)
    HOST_PAIR_COMPARE(gt)
    HOST_PAIR_COMPARE(ge)
    friend __forceinline__ float __low2float(HostPair a) {
        return a.x;
    }
    friend __forceinline__ float __high2float(HostPair a) {
        return a.y;
    }
    friend __forceinline__ HostPair __lowhigh2highlow(HostPair a) {
        return {a.y, a.x};
    }
};

typedef HostPair<__half> __half2, half2;
typedef HostPair<__nv_bfloat16> __nv_bfloat162, nv_bfloat162;

HOST_FUNCTION(__half2, make_half2, (__half x, __half y), {x, y})
HOST_FUNCTION(__nv_bfloat162, make_bfloat162, (__nv_bfloat16 x, __nv_bfloat16 y), {x, y})

// ---- Conversions, by the names of each type: its own, in floats2..., and of its pair

#define HOST_FROM_ROUNDED(SHORT, NAME, SUFFIX, ROUNDING, FROM)            \
    HOST_INLINE SHORT __##FROM##2##NAME##SUFFIX(HOST_TYPE_##FROM value) { \
        return SHORT::of_bits(HOST_FORMAT_##NAME::code(value, ROUNDING)); \
    }                                                                     \
    HOST_INLINE HOST_TYPE_##FROM __##NAME##2##FROM##SUFFIX(SHORT value) { \
        return HOST_WHOLE_##SUFFIX(float(value));                         \
    }
#define HOST_FORMAT_half HostHalf
#define HOST_FORMAT_bfloat16 HostBfloat16
#define HOST_TYPE_int int
#define HOST_TYPE_uint unsigned
#define HOST_TYPE_short short
#define HOST_TYPE_ushort unsigned short
#define HOST_TYPE_ll long long
#define HOST_TYPE_ull unsigned long long
#define HOST_WHOLE__rn rintf
#define HOST_WHOLE__rz truncf
#define HOST_WHOLE__ru ceilf
#define HOST_WHOLE__rd floorf
#define HOST_FROM_WHOLE(SHORT, NAME, FROM)                  \
    HOST_FROM_ROUNDED(SHORT, NAME, _rn, HOST_NEAREST, FROM) \
    HOST_FROM_ROUNDED(SHORT, NAME, _rz, HOST_TO_ZERO, FROM) \
    HOST_FROM_ROUNDED(SHORT, NAME, _ru, HOST_UP, FROM)      \
    HOST_FROM_ROUNDED(SHORT, NAME, _rd, HOST_DOWN, FROM)
#define HOST_FROM_FLOAT(SHORT, NAME, SUFFIX, ROUNDING)                    \
    HOST_INLINE SHORT __float2##NAME##SUFFIX(float value) {               \
        return SHORT::of_bits(HOST_FORMAT_##NAME::code(value, ROUNDING)); \
    }
#define HOST_CONVERSIONS(SHORT, NAME, PAIR)                        \
    HOST_FROM_WHOLE(SHORT, NAME, int)                              \
    HOST_FROM_WHOLE(SHORT, NAME, uint)                             \
    HOST_FROM_WHOLE(SHORT, NAME, short)                            \
    HOST_FROM_WHOLE(SHORT, NAME, ushort)                           \
    HOST_FROM_WHOLE(SHORT, NAME, ll)                               \
    HOST_FROM_WHOLE(SHORT, NAME, ull)                              \
    HOST_FROM_FLOAT(SHORT, NAME, , HOST_NEAREST)                   \
    HOST_FROM_FLOAT(SHORT, NAME, _rn, HOST_NEAREST)                \
    HOST_FROM_FLOAT(SHORT, NAME, _rz, HOST_TO_ZERO)                \
    HOST_FROM_FLOAT(SHORT, NAME, _ru, HOST_UP)                     \
    HOST_FROM_FLOAT(SHORT, NAME, _rd, HOST_DOWN)                   \
    HOST_INLINE SHORT __double2##NAME(double value) {              \
        return SHORT(value);                                       \
    }                                                              \
    HOST_INLINE float __##NAME##2float(SHORT value) {              \
        return value;                                              \
    }                                                              \
    HOST_INLINE SHORT __ushort_as_##NAME(unsigned short bits) {    \
        return SHORT::of_bits(bits);                               \
    }                                                              \
    HOST_INLINE SHORT __short_as_##NAME(short bits) {              \
        return SHORT::of_bits(bits);                               \
    }                                                              \
    HOST_INLINE unsigned short __##NAME##_as_ushort(SHORT value) { \
        return value.bits;                                         \
    }                                                              \
    HOST_INLINE short __##NAME##_as_short(SHORT value) {           \
        return value.bits;                                         \
    }                                                              \
    HOST_INLINE PAIR __float2##NAME##2_rn(float value) {           \
        return {value, value};                                     \
    }                                                              \
    HOST_INLINE PAIR __floats2##NAME##2_rn(float x, float y) {     \
        return {x, y};                                             \
    }                                                              \
    HOST_INLINE PAIR __float22##NAME##2_rn(float2 values) {        \
        return {values.x, values.y};                               \
    }                                                              \
    HOST_INLINE float2 __##NAME##22float2(PAIR pair) {             \
        return {pair.x, pair.y};                                   \
    }                                                              \
    HOST_INLINE PAIR __##NAME##2##NAME##2(SHORT value) {           \
        return {value, value};                                     \
    }                                                              \
    HOST_INLINE SHORT __low2##NAME(PAIR pair) {                    \
        return pair.x;                                             \
    }                                                              \
    HOST_INLINE SHORT __high2##NAME(PAIR pair) {                   \
        return pair.y;                                             \
    }                                                              \
    HOST_INLINE PAIR __low2##NAME##2(PAIR pair) {                  \
        return {pair.x, pair.x};                                   \
    }                                                              \
    HOST_INLINE PAIR __high2##NAME##2(PAIR pair) {                 \
        return {pair.y, pair.y};                                   \
    }                                                              \
    HOST_INLINE PAIR __lows2##NAME##2(PAIR a, PAIR b) {            \
        return {a.x, b.x};                                         \
    }                                                              \
    HOST_INLINE PAIR __highs2##NAME##2(PAIR a, PAIR b) {           \
        return {a.y, b.y};                                         \
    }
HOST_CONVERSIONS(__half, half, __half2)
HOST_CONVERSIONS(__nv_bfloat16, bfloat16, __nv_bfloat162)
HOST_FUNCTION(__half2, __halves2half2, (__half x, __half y), {x, y})
HOST_FUNCTION(__nv_bfloat162, __halves2bfloat162, (__nv_bfloat16 x, __nv_bfloat16 y), {x, y})

// TF32 in a float: 11 significant bits, ties away from zero.
HOST_INLINE float __float_to_tf32(float value) {
    return __int_as_float((__float_as_int(value) + 0x1000) & ~0x1fff);
}
