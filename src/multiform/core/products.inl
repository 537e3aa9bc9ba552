// The two matrix products of a step, compiled once per instruction set that can fuse a multiply with an add.
// One accumulator an entry, summed in the order of the inner index: the bits depend on no block size, no thread and
// no register width. Nothing is packed: the weights stand by feature (see problem.hpp), so that both products read
// whole vectors of outputs, and one number of x is spread over them.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"

namespace multiform::MULTIFORM_ISA {

// A block of kRows x 3 vectors fills the registers: 24 of 32 with AVX-512, 12 of 16 with AVX2.
#if defined(__AVX512F__)
constexpr int kBytes = 64, kRows = 8;
#else
constexpr int kBytes = 32, kRows = 4;
#endif
constexpr int kVectors = 3;
constexpr int64_t kWidth = kBytes / sizeof(float);
constexpr int64_t kInner = 96;  // of the inner index at a time: the panel of b that they need stays in the first cache

typedef float Vector __attribute__((vector_size(kBytes)));

static inline Vector load_vector(const float* at) {
    Vector vector;
    std::memcpy(&vector, at, sizeof vector);
    return vector;
}

// Whether any of V vectors' bits are set.
template <int V>
static inline bool any(const float* at) {
#if defined(__AVX512F__)
    __m512i bits = _mm512_loadu_si512(at);
    for (int v = 1; v < V; ++v) bits = _mm512_or_si512(bits, _mm512_loadu_si512(at + v * kWidth));
    return _mm512_test_epi32_mask(bits, bits) != 0;
#else
    const auto load_bits = [at](int v) { return _mm256_loadu_si256((const __m256i*)(at + v * kWidth)); };
    __m256i bits = load_bits(0);
    for (int v = 1; v < V; ++v) bits = _mm256_or_si256(bits, load_bits(v));
    return !_mm256_testz_si256(bits, bits);
#endif
}

// out[i, :] (+)= sum over the n inner indices k of a(i, k) b[k, :]   for R rows i and V vectors of columns,
// where a(i, k) = a[i * a_stride + k] and k runs from 0, or with `Transposed` a[k * a_stride + i] for the listed k.
template <int R, int V, bool Transposed>
static inline void block(const float* a, int64_t a_stride, int64_t n, const int32_t* listed, const float* b,
                         int64_t b_stride, float* out, int64_t out_stride, bool more) {
    Vector sum[R][V];
    for (int i = 0; i < R; ++i)
        for (int v = 0; v < V; ++v) sum[i][v] = more ? load_vector(out + i * out_stride + v * kWidth) : Vector{};
    for (int64_t at = 0; at < n; ++at) {
        const int64_t k = Transposed ? listed[at] : at;
        Vector row[V];
        for (int v = 0; v < V; ++v) row[v] = load_vector(b + k * b_stride + v * kWidth);
        for (int i = 0; i < R; ++i) {
            const float value = Transposed ? a[k * a_stride + i] : a[i * a_stride + k];
            for (int v = 0; v < V; ++v) sum[i][v] += row[v] * value;
        }
    }
    for (int i = 0; i < R; ++i)
        for (int v = 0; v < V; ++v) std::memcpy(out + i * out_stride + v * kWidth, &sum[i][v], sizeof(Vector));
}

// A sample whose pairs with these classes are all separated has no slope for them: a row of zeros, which adds nothing
// to a sum, to the last bit. `Transposed` leaves it out.
template <int V, bool Transposed>
static void panel(const float* a, int64_t a_stride, int64_t n_rows, int64_t n, const float* b, int64_t b_stride,
                  float* out, int64_t out_stride, bool more) {
    int32_t listed[kInner];
    if (Transposed) {
        const int64_t all = n;
        n = 0;
        for (int64_t k = 0; k < all; ++k) {
            listed[n] = static_cast<int32_t>(k);
            n += any<V>(b + k * b_stride);
        }
    }
    for (int64_t i = 0; i < n_rows; i += kRows) {
        const float* from = a + i * (Transposed ? 1 : a_stride);
        float* to = out + i * out_stride;
        if (n_rows - i > kRows / 2)
            block<kRows, V, Transposed>(from, a_stride, n, listed, b, b_stride, to, out_stride, more);
        else
            block<kRows / 2, V, Transposed>(from, a_stride, n, listed, b, b_stride, to, out_stride, more);
    }
}

template <bool Transposed>
static void product(const float* a, int64_t a_stride, int64_t n_rows, int64_t n_inner, const float* b, int64_t b_stride,
                    int64_t n_columns, float* out, int64_t out_stride) {
    for (int64_t k = 0; k < n_inner; k += kInner) {
        const float* part = a + k * (Transposed ? a_stride : 1);
        const int64_t count = std::min(kInner, n_inner - k);
        for (int64_t c = 0, vectors; c < n_columns; c += vectors * kWidth) {
            vectors = std::min<int64_t>(kVectors, (n_columns - c) / kWidth);
            const auto multiply = vectors == 3   ? panel<3, Transposed>
                                  : vectors == 2 ? panel<2, Transposed>
                                                 : panel<1, Transposed>;
            multiply(part, a_stride, n_rows, count, b + k * b_stride + c, b_stride, out + c, out_stride, k > 0);
        }
    }
}

void residuals(const Residuals& of) {
    product<false>(of.x, of.x_stride, of.n_rows, of.width, of.weights, of.n_outputs, of.n_outputs, of.z, of.n_outputs);
}

void gradient(const Gradient& of) {
    product<true>(of.x, of.x_stride, of.n_features, of.n_rows, of.z, of.z_stride, of.n_outputs, of.out, of.n_outputs);
}

}  // namespace multiform::MULTIFORM_ISA
