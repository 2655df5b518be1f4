// Tensor cores for g++: nvcuda::wmma, and the operands of PTX's mma.sync (ptx.h).

#pragma once

#include "half.h"

HOST_INLINE size_t __cvta_generic_to_shared(const void *address) {
    return host_shared_number(address);
}
HOST_INLINE void *__cvta_shared_to_generic(size_t number) {
    return host_shared_address(number);
}

// A sum as the type of an accumulator.
HOST_INLINE void host_round(double sum, float &to) {
    to = static_cast<float>(sum);
}
HOST_INLINE void host_round(double sum, double &to) {
    to = sum;
}
HOST_INLINE void host_round(double sum, __half &to) {
    to = sum;
}
HOST_INLINE void host_round(double sum, int &to) {
    to = static_cast<int>(static_cast<long long>(sum));
}

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

// Of the elements' types: how they are stored, and multiplied.
template <typename T>
struct host_storage {
    typedef T type;
    static constexpr HostOperand operand = HOST_F64;
};
template <typename T, HostOperand OPERAND>
struct host_stored {
    typedef T type;
    static constexpr HostOperand operand = OPERAND;
};
template <>
struct host_storage<__half> : host_stored<__half, HOST_F16> {};
template <>
struct host_storage<__nv_bfloat16> : host_stored<__nv_bfloat16, HOST_BF16> {};
template <>
struct host_storage<precision::tf32> : host_stored<float, HOST_TF32> {};
template <>
struct host_storage<signed char> : host_stored<signed char, HOST_S8> {};
template <>
struct host_storage<char> : host_stored<signed char, HOST_S8> {};
template <>
struct host_storage<unsigned char> : host_stored<unsigned char, HOST_U8> {};

template <typename Use>
constexpr bool host_is_sum = __is_same(Use, accumulator);
template <typename Use>
constexpr bool host_is_a = __is_same(Use, matrix_a);
template <typename Layout>
constexpr bool host_in_columns = __is_same(Layout, col_major);

// Each lane of a GPU has 16 elements of a half operand, some of them as other lanes have.
template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment {
    typedef typename host_storage<T>::type element_type;
    typedef element_type storage_element_type;
    static constexpr int rows = host_is_a<Use> || host_is_sum<Use> ? M : K;
    static constexpr int columns = host_is_a<Use> ? K : N;
    static constexpr bool has_copies = !host_is_sum<Use> && host_storage<T>::operand == HOST_F16;
    static constexpr int num_elements = has_copies ? 16 : rows * columns / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];

    static __forceinline__ HostFragment described() {
        return {host_storage<T>::operand, sizeof(element_type), num_elements, rows, columns,
                host_is_sum<Use>};
    }
};

template <typename Use, int M, int N, int K, typename T, typename Layout, typename Value>
HOST_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout> &to, Value value) {
    for (int i = 0; i < to.num_elements; ++i)
        to.x[i] = value;
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
HOST_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to,
                                  const typename host_storage<T>::type *from, unsigned stride) {
    host_fragment_load(to.described(), to.x, from, stride, host_in_columns<Layout>);
}

template <int M, int N, int K, typename T>
HOST_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from,
                                  unsigned stride, layout_t layout) {
    host_fragment_load(to.described(), to.x, from, stride, layout == mem_col_major);
}

template <int M, int N, int K, typename T>
HOST_INLINE void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from,
                                   unsigned stride, layout_t layout) {
    host_fragment_store(from.described(), from.x, to, stride, layout == mem_col_major);
}

template <int M, int N, int K, typename A, typename B, typename LayoutA, typename LayoutB,
          typename C, typename D>
HOST_INLINE void mma_sync(fragment<accumulator, M, N, K, D> &d,
                          const fragment<matrix_a, M, N, K, A, LayoutA> &a,
                          const fragment<matrix_b, M, N, K, B, LayoutB> &b,
                          const fragment<accumulator, M, N, K, C> &c, bool = false) {
    double sums[c.num_elements];
    for (int i = 0; i < c.num_elements; ++i)
        sums[i] = c.x[i];
    host_fragment_multiply(a.described(), b.described(), c.described(), a.x, b.x, sums);
    for (int i = 0; i < c.num_elements; ++i)
        host_round(sums[i], d.x[i]);
}

using ::__float_to_tf32;

}  // namespace wmma
}  // namespace nvcuda
