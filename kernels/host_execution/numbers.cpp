// Conversions to and from numbers of 16 bits, which kernels call (half.h).

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda.h"

namespace {

template <typename To, typename From>
To bits_as(From from) {
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// The code of a number with so many binary digits, whose exponents are between two limits.
template <int DIGITS, int LEAST, int MOST>
unsigned code_of(double value, HostRounding rounding) {
    constexpr unsigned INFINITE = (MOST - LEAST + 2) << (DIGITS - 1);
    const auto bits = bits_as<uint64_t>(value);
    const unsigned sign = bits >> 48 & 0x8000;
    if (value != value) return 0x7fff;
    const int exponent = std::max(LEAST, static_cast<int>(bits >> 52 & 2047) - 1023);
    const bool grows = rounding == (sign ? HOST_DOWN : HOST_UP);
    if (exponent > MOST) {
        const bool is_infinite = grows || rounding == HOST_NEAREST || exponent == 1024;
        return sign | (INFINITE - !is_infinite);
    }
    const double unit = bits_as<double>(uint64_t(1023 + DIGITS - 1 - exponent) << 52);
    const double scaled = __builtin_fabs(value) * unit;
    const double whole = rounding == HOST_NEAREST ? __builtin_rint(scaled)
                         : grows                  ? __builtin_ceil(scaled)
                                                  : __builtin_floor(scaled);
    // The first digit, which is not stored, adds one to the exponent.
    return sign | (((exponent - LEAST) << (DIGITS - 1)) + static_cast<unsigned>(whole));
}

// a * b + c, which may need more than 53 bits: rounded to odd, so that rounding again is right.
double fused_sum(double a, double b, double c) {
    const double product = a * b, sum = product + c, rest = sum - product;
    const double error = (product - (sum - rest)) + (c - rest);
    const auto bits = bits_as<uint64_t>(sum);
    if (error == 0 || error != error || bits & 1) return sum;
    return bits_as<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

float from_bfloat16(unsigned code) {
    return bits_as<float>(code << 16);
}

}  // namespace

extern "C" unsigned host_to_half(double value, HostRounding rounding) {
    return code_of<11, -14, 15>(value, rounding);
}

extern "C" unsigned host_to_bfloat16(double value, HostRounding rounding) {
    return code_of<8, -126, 127>(value, rounding);
}

extern "C" float host_from_half(unsigned half) {
    const unsigned exponent = half >> 10 & 31, sign = (half & 0x8000) << 16;
    if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * static_cast<int>(half & 0x3ff);
    const unsigned more = exponent == 31 ? 0x70000000 : 0x38000000;  // infinity stays what it is
    return bits_as<float>(sign | (((half & 0x7fff) << 13) + more));
}

extern "C" unsigned host_half_fused_sum(unsigned a, unsigned b, unsigned c) {
    return host_to_half(fused_sum(host_from_half(a), host_from_half(b), host_from_half(c)));
}

extern "C" unsigned host_bfloat16_fused_sum(unsigned a, unsigned b, unsigned c) {
    return host_to_bfloat16(fused_sum(from_bfloat16(a), from_bfloat16(b), from_bfloat16(c)));
}
