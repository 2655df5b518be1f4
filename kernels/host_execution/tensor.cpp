// What the tensor cores do for a warp: loads of matrices, and products with sums. Products are
// exact; each sum is computed in double precision and rounded once.

#include "runtime.h"

using namespace host_execution;

namespace {

struct HalfTable {
    float values[1 << 16];
    HalfTable() {
        for (unsigned code = 0; code < 1 << 16; ++code) {
            values[code] = host_from_half(code);
        }
    }
};
const HalfTable halves;

template <typename To>
To loaded(const void *from, size_t place) {
    To value;
    std::memcpy(&value, static_cast<const char *>(from) + place * sizeof value, sizeof value);
    return value;
}

// The number at a place among elements of one type.
double number_at(HostOperand type, const void *from, size_t place) {
    switch (type) {
        case HOST_F16:
            return halves.values[loaded<uint16_t>(from, place)];
        case HOST_BF16: {
            const uint32_t bits = loaded<uint16_t>(from, place) << 16;
            return loaded<float>(&bits, 0);
        }
        case HOST_TF32: {  // what is below 11 digits is cut off
            const uint32_t bits = loaded<uint32_t>(from, place) & ~0x1fffu;
            return loaded<float>(&bits, 0);
        }
        case HOST_S8:
            return loaded<int8_t>(from, place);
        case HOST_U8:
            return loaded<uint8_t>(from, place);
        case HOST_F64:
            return loaded<double>(from, place);
    }
    return 0;
}

// Gives something to all 32 lanes, which must take part.
void meet_warp(const Gift &gift, void *caller) {
    const Fiber &fiber = meet(~0u, gift, false, caller);
    if (fiber.together == ~0u) return;
    stop(fault_at(PARTIAL_WARP, code_address(*worker, caller), 0, __builtin_ctz(~fiber.together)));
}

}  // namespace

// Each lane loads a row of 16 bytes; the matrices of 8 rows go to all lanes, as PTX's ldmatrix.
extern "C" void host_load_matrices(unsigned row, unsigned count, int transposed, unsigned *words) {
    void *const caller = __builtin_return_address(0);
    const Worker &w = *worker;
    Gift gift = {};
    if (w.lane < 8 * count) {
        const void *const address = host_shared_address(row);
        check_access(address, 16, false, true, caller);
        std::memcpy(&gift, address, 16);
    }
    meet_warp(gift, caller);
    const uint32_t first = w.lane / 4, second = w.lane % 4;
    for (uint32_t matrix = 0; matrix < count; ++matrix) {
        const Gift *rows = &w.received[8 * matrix];
        words[matrix] = transposed ? loaded<uint16_t>(&rows[2 * second], first) |
                                         loaded<uint16_t>(&rows[2 * second + 1], first) << 16
                                   : loaded<uint32_t>(&rows[first], second);
    }
}

// The reverse, as PTX's stmatrix: each lane stores a row of 16 bytes.
extern "C" void host_store_matrices(unsigned row, unsigned count, int transposed,
                                    const unsigned *words) {
    void *const caller = __builtin_return_address(0);
    const Worker &w = *worker;
    Gift gift = {};
    std::memcpy(&gift, words, WORD_BYTES * count);
    meet_warp(gift, caller);
    if (w.lane >= 8 * count) return;
    const uint32_t matrix = w.lane / 8, line = w.lane % 8;
    uint16_t elements[8];
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t first = transposed ? i : line, second = transposed ? line : i;
        const Gift &from = w.received[4 * first + second / 2];
        elements[i] = loaded<uint16_t>(&from, 2 * matrix + second % 2);
    }
    void *const address = host_shared_address(row);
    check_access(address, sizeof elements, true, true, caller);
    std::memcpy(address, elements, sizeof elements);
}

// The product of PTX's mma.sync with 8 columns. The registers of A and of B follow each other; the
// sums are those of this lane, before and after.
extern "C" void host_multiply_warp(HostWarpProduct shape, const unsigned *registers, double *sums) {
    const Worker &w = *worker;
    const uint32_t halves_of_a = shape.rows / 8, of_a = halves_of_a * shape.steps;
    Gift gift = {};
    std::memcpy(&gift, registers, WORD_BYTES * (of_a + shape.steps));
    meet_warp(gift, __builtin_return_address(0));
    const uint32_t group = w.lane / 4, elements = WORD_BYTES / shape.bytes;
    for (uint32_t i = 0; i < 2 * halves_of_a; ++i) {
        const uint32_t column = 2 * (w.lane % 4) + i % 2;
        double sum = sums[i];
        for (uint32_t step = 0; step < shape.steps; ++step) {
            const uint32_t in_a = halves_of_a * step + i / 2, in_b = of_a + step;
            for (uint32_t lane = 0; lane < 4; ++lane) {
                const Gift &left = w.received[4 * group + lane];
                const Gift &right = w.received[4 * column + lane];
                for (uint32_t e = 0; e < elements; ++e) {
                    sum += number_at(shape.a, &left, elements * in_a + e) *
                           number_at(shape.b, &right, elements * in_b + e);
                }
            }
        }
        sums[i] = sum;
    }
}

// ---- Fragments of nvcuda::wmma

namespace {

struct Place {
    uint32_t row, column;
};

// CUDA leaves open where the elements of a fragment are. Sums of 16 x 16 are where GPUs have them.
Place place_of(const HostFragment &fragment, uint32_t lane, uint32_t i) {
    if (fragment.is_sum && fragment.rows == 16 && fragment.columns == 16) {
        return {lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
    }
    const uint32_t index = (lane * fragment.count + i) % (fragment.rows * fragment.columns);
    return {index / fragment.columns, index % fragment.columns};
}

// The element of A or B at a row and a column, among what the lanes gave.
double element(const HostFragment &fragment, uint32_t begin, uint32_t row, uint32_t column) {
    const uint32_t index = row * fragment.columns + column;
    const char *gift = reinterpret_cast<const char *>(&worker->received[index / fragment.count]);
    return number_at(fragment.type, gift + begin, index % fragment.count);
}

// CUDA demands that the stride is a multiple of 16 bytes, and the address aligned.
void transfer(const HostFragment &fragment, char *memory, uint32_t stride, bool in_columns,
              char *elements, bool is_store, void *caller) {
    const uint32_t bytes = fragment.bytes;
    if (stride * bytes % 16 && !(fragment.type == HOST_F64 && bytes == 8)) {
        stop(fault_at(FRAGMENT_STRIDE, code_address(*worker, caller), stride * bytes));
    }
    check_alignment(memory, 16, is_store, caller);
    for (uint32_t i = 0; i < fragment.count; ++i) {
        const Place place = place_of(fragment, worker->lane, i);
        const size_t index = in_columns ? size_t(place.column) * stride + place.row
                                        : size_t(place.row) * stride + place.column;
        char *const address = memory + index * bytes;
        check_access(address, bytes, is_store, false, caller);
        std::memcpy(is_store ? address : elements + i * bytes,
                    is_store ? elements + i * bytes : address, bytes);
    }
}

}  // namespace

extern "C" void host_fragment_load(HostFragment fragment, void *elements, const void *from,
                                   unsigned stride, int in_columns) {
    void *const caller = __builtin_return_address(0);
    meet_warp({}, caller);
    transfer(fragment, static_cast<char *>(const_cast<void *>(from)), stride, in_columns,
             static_cast<char *>(elements), false, caller);
}

extern "C" void host_fragment_store(HostFragment fragment, const void *elements, void *to,
                                    unsigned stride, int in_columns) {
    void *const caller = __builtin_return_address(0);
    meet_warp({}, caller);
    transfer(fragment, static_cast<char *>(to), stride, in_columns,
             static_cast<char *>(const_cast<void *>(elements)), true, caller);
}

extern "C" void host_fragment_multiply(HostFragment a, HostFragment b, HostFragment c,
                                       const void *of_a, const void *of_b, double *sums) {
    Gift gift = {};
    const uint32_t begin = a.count * a.bytes;
    std::memcpy(&gift, of_a, begin);
    std::memcpy(reinterpret_cast<char *>(&gift) + begin, of_b, b.count * b.bytes);
    meet_warp(gift, __builtin_return_address(0));
    for (uint32_t i = 0; i < c.count; ++i) {
        const Place place = place_of(c, worker->lane, i);
        for (uint32_t k = 0; k < a.columns; ++k) {
            sums[i] += element(a, 0, place.row, k) * element(b, begin, k, place.column);
        }
    }
}
