// The vector kernels, compiled once per instruction set in the namespace MULTIFORM_ISA.
// Sixteen lanes everywhere, sums folded in one fixed order: the bits do not depend on the registers.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels.hpp"

namespace multiform::MULTIFORM_ISA {

void residuals(const Residuals&);  // products.inl, or BLAS
void gradient(const Gradient&);

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t Whole __attribute__((vector_size(64)));
typedef float Four __attribute__((vector_size(16)));  // what is left of a row that sixteen do not fill
typedef int32_t WholeFour __attribute__((vector_size(16)));

static inline Lanes load(const float* at) {
    Lanes lanes;
    std::memcpy(&lanes, at, sizeof lanes);
    return lanes;
}

// Widening bytes is the one thing that compilers do badly in portable vectors; the result is exact either way.
static inline Lanes load(const uint8_t* at) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)at)));
#else
    float lanes[kLanes];
#if defined(__AVX2__)
    for (int half = 0; half < 2; ++half)
        _mm256_storeu_ps(lanes + 8 * half,
                         _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(at + 8 * half)))));
#else
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = static_cast<float>(at[lane]);
#endif
    return load(lanes);
#endif
}

static inline void store(float* at, Lanes lanes) { std::memcpy(at, &lanes, sizeof lanes); }

static inline Four load_four(const float* at) {
    Four four;
    std::memcpy(&four, at, sizeof four);
    return four;
}

static inline Four load_four(const uint8_t* at) {
    return Four{static_cast<float>(at[0]), static_cast<float>(at[1]), static_cast<float>(at[2]),
                static_cast<float>(at[3])};
}

static inline void store(float* at, Four four) { std::memcpy(at, &four, sizeof four); }

static inline Lanes splat(float value) { return Lanes{} + value; }

static inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

// Lane i meets lane i + 8, then i + 4, i + 2, i + 1.
template <typename Sum>
static inline Sum total(Lanes lanes) {
    Sum sums[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] = static_cast<Sum>(lanes[lane]);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    return sums[0];
}

// ---------------------------------------------------------------------------------------- rows into a batch

template <typename Value>
static void gather_dense(const Rows& rows, const Value* row, const Gathered& g, int64_t last, float* out) {
    const float *center = rows.center, *inverse = rows.inverse_scale;
    if (g.columns != nullptr) {
        for (int64_t c = g.first; c < last; ++c) {
            const int32_t column = g.columns[c];
            *out++ = (static_cast<float>(row[column]) - center[column]) * inverse[column];
        }
        return;
    }
    const int64_t width = last - g.first;
    row += g.first, center += g.first, inverse += g.first;
    int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes) store(out + c, (load(row + c) - load(center + c)) * load(inverse + c));
    const auto four = [=](int64_t at) {
        store(out + at, (load_four(row + at) - load_four(center + at)) * load_four(inverse + at));
    };
    for (; c + 4 <= width; c += 4) four(c);
    if (c < width && width >= 4) four(width - 4);  // some of them once more
    for (; c < width && width < 4; ++c) out[c] = (static_cast<float>(row[c]) - center[c]) * inverse[c];
}

// Stored values stand in ascending columns, and so do the selected ones.
static void gather_sparse(const Rows& rows, int64_t sample, const Gathered& g, int64_t last, float* out) {
    const auto column_at = [&](int64_t c) { return g.columns == nullptr ? static_cast<int32_t>(c) : g.columns[c]; };
    const float* values = static_cast<const float*>(rows.values);
    const int64_t end = rows.indptr[sample + 1];
    int64_t at = g.first == last
                     ? end
                     : std::lower_bound(rows.indices + rows.indptr[sample], rows.indices + end, column_at(g.first)) -
                           rows.indices;
    for (int64_t c = g.first; c < last; ++c) {
        const int32_t column = column_at(c);
        while (at < end && rows.indices[at] < column) ++at;
        const float value = at < end && rows.indices[at] == column ? values[at] : 0.0f;
        *out++ = (value - rows.center[column]) * rows.inverse_scale[column];
    }
}

// Four of the eight numbers of a and b.
template <int32_t... Places>
static inline Four picked(Four a, Four b) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, Places...);
#else
    return __builtin_shuffle(a, b, WholeFour{Places...});
#endif
}

// Four rows of four numbers become columns.
static inline void turn(Four (&rows)[4]) {
    const Four left = picked<0, 4, 1, 5>(rows[0], rows[1]), left_too = picked<0, 4, 1, 5>(rows[2], rows[3]);
    const Four right = picked<2, 6, 3, 7>(rows[0], rows[1]), right_too = picked<2, 6, 3, 7>(rows[2], rows[3]);
    rows[0] = picked<0, 1, 4, 5>(left, left_too);
    rows[1] = picked<2, 3, 6, 7>(left, left_too);
    rows[2] = picked<0, 1, 4, 5>(right, right_too);
    rows[3] = picked<2, 3, 6, 7>(right, right_too);
}

// The same from columns: 16 of them and 16 samples at a time, whole vectors where these follow each other.
template <typename Value>
static void gather_columns(const Rows& rows, const Gathered& g, int64_t last) {
    const Value* values = static_cast<const Value*>(rows.values);
    for (int64_t first = g.first; first < last; first += kLanes) {
        const int64_t width = std::min(kLanes, last - first);
        for (int64_t begin = 0; begin < g.n_samples; begin += kLanes) {
            const int32_t* samples = g.samples + begin;
            const int64_t count = std::min(kLanes, g.n_samples - begin);
            bool follow = count == kLanes;
            for (int64_t i = 1; i < count; ++i) follow &= samples[i] == samples[0] + i;
            float block[kLanes * kLanes];
            for (int64_t c = 0; c < width; ++c) {
                const int64_t column = g.columns == nullptr ? first + c : g.columns[first + c];
                const Value* from = values + column * rows.column_stride;
                const float center = rows.center[column], inverse = rows.inverse_scale[column];
                float* to = block + c * kLanes;
                // Each column is a page of its own, which the processor does not foresee.
                if (column + kLanes < rows.n_columns)
                    __builtin_prefetch(from + kLanes * rows.column_stride + samples[0]);
                if (follow)
                    store(to, (load(from + samples[0]) - splat(center)) * splat(inverse));
                else
                    for (int64_t i = 0; i < count; ++i)
                        to[i] = (static_cast<float>(from[samples[i]]) - center) * inverse;
            }
            float* out = g.out + begin * g.stride + first - g.first;
            if (count == kLanes && width == kLanes)
                for (int64_t i = 0; i < kLanes; i += 4)
                    for (int64_t c = 0; c < kLanes; c += 4) {
                        Four square[4];
                        for (int64_t k = 0; k < 4; ++k) square[k] = load_four(block + (c + k) * kLanes + i);
                        turn(square);
                        for (int64_t k = 0; k < 4; ++k) store(out + (i + k) * g.stride + c, square[k]);
                    }
            else
                for (int64_t i = 0; i < count; ++i)
                    for (int64_t c = 0; c < width; ++c) out[i * g.stride + c] = block[c * kLanes + i];
        }
    }
}

static void gather_rows(const Rows& rows, const Gathered& g, int64_t last) {
    for (int64_t i = 0; i < g.n_samples; ++i) {
        const int64_t sample = g.samples[i];
        float* out = g.out + i * g.stride;
        switch (rows.kind) {
            case RowKind::float32:
                gather_dense(rows, static_cast<const float*>(rows.values) + sample * rows.row_stride, g, last, out);
                break;
            case RowKind::uint8:
                gather_dense(rows, static_cast<const uint8_t*>(rows.values) + sample * rows.row_stride, g, last, out);
                break;
            case RowKind::csr:
                gather_sparse(rows, sample, g, last, out);
                break;
        }
    }
}

static void gather(const Rows& rows, const Gathered& g) {
    const int64_t last = std::min(g.last, g.n_features);
    if (!rows.by_column())
        gather_rows(rows, g, last);
    else if (rows.kind == RowKind::uint8)
        gather_columns<uint8_t>(rows, g, last);
    else
        gather_columns<float>(rows, g, last);
    for (int64_t i = 0; i < g.n_samples; ++i) {
        float* out = g.out + i * g.stride;
        if (g.last > g.n_features) out[g.n_features - g.first] = -1.0f;
        for (int64_t c = g.last - g.first; c < g.stride; ++c) out[c] = 0.0f;
    }
}

template <typename Value>
static void moments_dense(const Rows& rows, int64_t first, int64_t last, const double* mean, double* sum, float* least,
                          float* most) {
    for (int64_t i = first; i < last; ++i) {
        const Value* row = static_cast<const Value*>(rows.values) + i * rows.row_stride;
        if (mean == nullptr)
            for (int64_t c = 0; c < rows.n_columns; ++c) {
                const float value = static_cast<float>(row[c]);
                sum[c] += static_cast<double>(value);
                least[c] = value < least[c] ? value : least[c];
                most[c] = value > most[c] ? value : most[c];
            }
        else
            for (int64_t c = 0; c < rows.n_columns; ++c) {
                const double deviation = static_cast<double>(row[c]) - mean[c];
                sum[c] += deviation * deviation;
            }
    }
}

static void moments(const Rows& rows, int64_t first, int64_t last, const double* mean, double* sum, float* least,
                    float* most) {
    if (rows.kind == RowKind::uint8)
        moments_dense<uint8_t>(rows, first, last, mean, sum, least, most);
    else
        moments_dense<float>(rows, first, last, mean, sum, least, most);
}

// ------------------------------------------------------------------------------------------ the ratio loss

static void add(const float* part, int64_t length, float* sum) {
    for (int64_t at = 0; at < length; at += kLanes) store(sum + at, load(sum + at) + load(part + at));
}

static inline float sum_of_squares(const float* values, int64_t length) {
    float sum = 0;
    int64_t c = 0;
    if (length >= kLanes) {
        Lanes lanes = {};
        for (; c + kLanes <= length; c += kLanes) {
            const Lanes value = load(values + c);
            lanes += value * value;
        }
        sum = total<float>(lanes);
    }
    Four rest = {};  // four chains, so that one addition need not wait for the last
    for (; c + 4 <= length; c += 4) {
        const Four value = load_four(values + c);
        rest += value * value;
    }
    for (; c < length; ++c) rest[0] += values[c] * values[c];
    return sum + ((rest[0] + rest[1]) + (rest[2] + rest[3]));
}

// Those of four rows that are `stride` apart, a lane each: the same sums to the bit.
static inline Four sums_of_squares(const float* rows, int64_t stride, int64_t length) {
    Four sum = {}, parts[4];
    int64_t c = 0;
    if (length >= kLanes) {
        Lanes lanes[4] = {};
        for (; c + kLanes <= length; c += kLanes)
            for (int i = 0; i < 4; ++i) lanes[i] += load(rows + i * stride + c) * load(rows + i * stride + c);
        for (int i = 0; i < 4; ++i) {
            Four four[4];
            std::memcpy(four, &lanes[i], sizeof four);
            parts[i] = (four[0] + four[2]) + (four[1] + four[3]);
        }
        turn(parts);
        sum = (parts[0] + parts[2]) + (parts[1] + parts[3]);
        if (c == length) return sum;
    }
    for (int i = 0; i < 4; ++i) parts[i] = Four{};
    for (; c + 4 <= length; c += 4)
        for (int i = 0; i < 4; ++i) parts[i] += load_four(rows + i * stride + c) * load_four(rows + i * stride + c);
    turn(parts);
    for (; c < length; ++c) {
        const Four value = {rows[c], rows[stride + c], rows[2 * stride + c], rows[3 * stride + c]};
        parts[0] += value * value;
    }
    return sum + ((parts[0] + parts[1]) + (parts[2] + parts[3]));
}

static void member_values(const float* residuals, int64_t stride, int64_t n_rows, int64_t n_classes,
                          int64_t n_components, float* out) {
    for (int64_t i = 0; i < n_rows; ++i)
        for (int64_t k = 0; k < n_classes; ++k)
            out[i * n_classes + k] = sum_of_squares(residuals + i * stride + k * n_components, n_components);
}

// values * factor; 0 where the factor is 0, whatever they are.
template <typename Values>
static inline Values scaled(Values values, float factor) {
    const Values by = Values{} + factor;
    return by == 0.0f ? Values{} : values * by;
}

// Four rows that are `stride` apart times a factor each.
static inline void scale(float* rows, int64_t stride, int64_t length, Four factor) {
    if (length < 4) {
        for (int i = 0; i < 4; ++i)
            for (int64_t c = i * stride; c < i * stride + length; ++c)
                rows[c] = factor[i] == 0.0f ? 0.0f : rows[c] * factor[i];
        return;
    }
    Four last[4];  // it may overlap what comes before, and so is read first
    for (int i = 0; i < 4; ++i) last[i] = scaled(load_four(rows + i * stride + length - 4), factor[i]);
    int64_t c = 0;
    for (; c + kLanes <= length; c += kLanes)
        for (int i = 0; i < 4; ++i) store(rows + i * stride + c, scaled(load(rows + i * stride + c), factor[i]));
    for (; c + 4 < length; c += 4)
        for (int i = 0; i < 4; ++i) store(rows + i * stride + c, scaled(load_four(rows + i * stride + c), factor[i]));
    if (c < length)
        for (int i = 0; i < 4; ++i) store(rows + i * stride + length - 4, last[i]);
}

// loss(x) = w sum over j != y of max(alpha, f_y / f_j)                                           (paper, 2.2)
// d loss / d f_y = w sum over active j of 1 / f_j,   d loss / d f_j = - w f_y / f_j^2,   d f_k / d R_k = 2 R_k
//
// Four rows stand side by side, a lane each; a sum over rows goes row by row. A lane beyond the last row has no weight.
static double ratio_loss(const LossTile& tile) {
    const int64_t m = tile.n_classes, q = tile.n_components;
    const Four alpha = Four{} + tile.alpha, zero = {}, tiny = zero + 1e-30f;  // where a separator meets a sample: f = 0
    double loss = 0;
    for (int64_t first = 0; first < tile.n_rows; first += 4) {
        const int64_t n = std::min<int64_t>(4, tile.n_rows - first);
        float* residuals = tile.residuals + first * tile.stride;
        for (int64_t k = 0; k < m; ++k) {
            const Four f = sums_of_squares(residuals + k * q, tile.stride, q) + tile.noise_energy[k];
            store(tile.member_values + 4 * k, f < tiny ? tiny : f);
        }
        WholeFour target = {};
        Four weight = {}, own = {}, own_slope = {}, losses = {};
        for (int64_t i = 0; i < n; ++i) {
            const int32_t y = tile.target[first + i];
            target[i] = y;
            weight[i] = (tile.weight == nullptr ? 1.0f : tile.weight[first + i]) * tile.class_weight[y];
            own[i] = tile.member_values[4 * y + i];
        }
        const Four factor = weight * tile.scale;
        for (int64_t j = 0; j < m; ++j) {
            const Four inverse = 1.0f / load_four(tile.member_values + 4 * j), ratio = own * inverse;
            const WholeFour rival = target != static_cast<int32_t>(j), above = rival & (ratio > alpha);
            store(tile.slope + 4 * j, factor * (above ? -ratio * inverse : zero));
            own_slope += above ? inverse : zero;
            losses += rival ? (ratio > alpha ? ratio : alpha) : zero;
        }
        const Four own_factor = factor * own_slope;
        for (int64_t i = 0; i < n; ++i) {
            loss += static_cast<double>(weight[i]) * static_cast<double>(losses[i]);
            tile.active[first + i] = own_slope[i] > 0;
        }
        for (int64_t k = 0; k < m; ++k) {
            const Four slope = target == static_cast<int32_t>(k) ? own_factor : load_four(tile.slope + 4 * k);
            for (int64_t i = 0; i < n; ++i) tile.class_slope[k] += static_cast<double>(slope[i]);
            scale(residuals + k * q, tile.stride, q, 2.0f * slope);
        }
    }
    return loss;
}

// -------------------------------------------------------------------------------------------------- Adam

// Number by number, without a sum: compilers make vectors of it themselves, and better ones than of sixteen lanes.
template <bool Noisy>
static void adam_slice(float* __restrict weights, float* __restrict first, float* __restrict second,
                       float* __restrict norm, const float* __restrict slope, const float* __restrict decay,
                       const AdamSlice& slice) {
    const float beta1 = slice.beta1, beta2 = slice.beta2, step = slice.step, epsilon = slice.epsilon;
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const int64_t length = slice.length / kLanes * kLanes;  // it is a multiple, which the compiler is to know
    for (int64_t at = 0; at < length; ++at) {
        const float gradient = Noisy ? slope[at] + decay[at] * weights[at] : slope[at];
        const float mean = beta1 * first[at] + rest1 * gradient;
        const float square = beta2 * second[at] + rest2 * (gradient * gradient);
        const float moved = weights[at] - step * mean / (std::sqrt(square) + epsilon);
        first[at] = mean;
        second[at] = square;
        weights[at] = moved;
        if (Noisy) norm[at] += moved * moved;
    }
}

static void adam(const AdamSlice& slice) {
    const auto move = slice.decay == nullptr ? adam_slice<false> : adam_slice<true>;
    move(slice.weights, slice.first, slice.second, slice.norm, slice.gradient, slice.decay, slice);
}

// ------------------------------------------------------------------------------------------- sparse rows

// V vectors of the sum stay in registers; every entry is added in its turn.
template <int V>
static void sum_stretch(const SumOfRows& of, int64_t from) {
    Lanes sum[V] = {};
    for (int64_t e = 0; e < of.n; ++e) {
        const float* row = of.rows + of.index[e] * of.length + from;
        const Lanes value = splat(of.value[e]);
        for (int v = 0; v < V; ++v) sum[v] += value * load(row + v * kLanes);
    }
    for (int v = 0; v < V; ++v) store(of.out + from + v * kLanes, sum[v]);
}

static void sum_rows(const SumOfRows& of) {
    int64_t at = 0;
    for (; at + 4 * kLanes <= of.length; at += 4 * kLanes) sum_stretch<4>(of, at);
    for (; at + 2 * kLanes <= of.length; at += 2 * kLanes) sum_stretch<2>(of, at);
    for (; at < of.length; at += kLanes) sum_stretch<1>(of, at);
}

static void add_products(const float* slope, const float* weights, int64_t length, float* squares, float* products) {
    for (int64_t at = 0; at < length; at += kLanes) {
        const Lanes one = load(slope + at);
        store(squares + at, load(squares + at) + one * one);
        store(products + at, load(products + at) + one * load(weights + at));
    }
}

static void descend(const float* slope, const float* step, int64_t length, float* weights) {
    for (int64_t at = 0; at < length; at += kLanes)
        store(weights + at, load(weights + at) - load(step + at) * load(slope + at));
}

// --------------------------------------------------------------------------------------------------- CPM

// How a column of this row is read: x = (stored - center) * unit. The offset b_k[r] is the coordinate of a column
// that is -1 everywhere; it stands last. Of sparse rows the listed blocks alone are there (`Packed`).
template <typename Value, bool Packed>
struct Column {
    const Value* values;
    const int32_t* blocks;  // those with a value that is not 0
    int64_t n_blocks, stride;
    float center, unit;

    Column(const CpmRow& row, int64_t c)
        : values(static_cast<const Value*>(row.columns) +
                 (Packed ? row.block_start[c] * kLanes : c * row.column_stride)),
          blocks(row.block_list + row.block_start[c]),
          n_blocks(row.block_start[c + 1] - row.block_start[c]),
          stride(row.column_stride),
          center(0.0f),
          unit(1.0f) {
        if (!row.bytes) return;
        const int64_t source = row.selected == nullptr || c == row.n_features ? c : row.selected[c];
        center = c == row.n_features ? 0.0f : row.center[source];
        unit = c == row.n_features ? -1.0f : row.inverse_scale[source];
    }

    Lanes block(int64_t b) const { return load(values + (Packed ? b : blocks[b]) * kLanes); }

    // Lets the next column come nearer while this one is looked at: all columns together are too many for the cache.
    void fetch_next(int64_t at) const {
        if constexpr (!Packed) __builtin_prefetch(values + stride + at, 0, 2);
    }
};

// Moving A_k[r, c] by d moves R_r by d x_c and so f_k = rest + R_r^2; nothing else changes.
//   other classes:            max(w alpha, w f_y / f_k)
//   own class, exact terms:   w sum_j max(alpha, f_k / f_j)
//   own class, frozen terms:  w sum_j 1/f_j * (2 d x R + d^2 x^2), and the noise energy by its frozen slope
template <typename Value, bool Packed>
struct RowPass {
    CpmRow& row;
    const Column<Value, Packed>& column;
    float d;      // in units of the stored values
    float shift;  // change of the noise energy, where it is exact

    // sum over the samples of (loss after the move - loss now); the losses after it are left in `trial`.
    double other_change(int64_t first, int64_t last) const {
        const float* __restrict residual = row.residual;
        const float* __restrict rest = row.rest;
        const float* __restrict floor = row.floor;
        const float* __restrict scaled_target = row.scaled_target;
        const float* __restrict loss = row.loss;
        float* __restrict trial = row.trial;
        const Lanes center = splat(column.center), step = splat(d), lift = splat(shift);
        Lanes sum = {};
        for (int64_t b = first; b < last; ++b) {
            const int64_t at = column.blocks[b] * kLanes;
            column.fetch_next(at);
            const Lanes moved = load(residual + at) + step * (column.block(b) - center);
            const Lanes f = load(rest + at) + moved * moved + lift;
            const Lanes after = larger(load(floor + at), load(scaled_target + at) / f);
            sum += after - load(loss + at);
            store(trial + at, after);
        }
        return total<double>(sum);
    }

    // The same with exact own terms and weights.
    double exact_change(int64_t first, int64_t last) const {
        const Lanes center = splat(column.center), step = splat(d), lift = splat(shift), alpha = splat(row.alpha);
        double sum = 0;
        for (int64_t b = first; b < last; ++b) {
            const int64_t at = column.blocks[b] * kLanes;
            const Lanes moved = load(row.residual + at) + step * (column.block(b) - center);
            const Lanes f = load(row.rest + at) + moved * moved + lift;
            Lanes after = {};
            if (column.blocks[b] < row.own_blocks)
                for (int64_t j = 0; j < row.n_classes; ++j) {
                    const Lanes inverse = load(row.inverse_rival + j * row.own_blocks * kLanes + at);
                    after += inverse > 0.0f ? larger(alpha, f * inverse) : Lanes{};
                }
            else
                after = larger(load(row.floor + at), load(row.scaled_target + at) / f);
            const Lanes change = after - load(row.loss + at);
            for (int lane = 0; lane < kLanes; ++lane)
                sum += static_cast<double>(row.weight[at + lane]) * static_cast<double>(change[lane]);
            store(row.trial + at, after);
        }
        return sum;
    }

    void accept(int64_t first, int64_t last, bool keep_loss) const {
        float* __restrict residual = row.residual;
        const Lanes center = splat(column.center), step = splat(d);
        for (int64_t b = first; b < last; ++b) {
            const int64_t at = column.blocks[b] * kLanes;
            store(residual + at, load(residual + at) + step * (column.block(b) - center));
            if (keep_loss) store(row.loss + at, load(row.trial + at));
            if (shift != 0.0f) store(row.rest + at, load(row.rest + at) + shift);
        }
    }
};

template <typename Value, bool Packed>
static void move_row(CpmRow& row) {
    const bool frozen = row.own_slope != nullptr;
    row.tried = row.accepted = row.looked = 0;
    for (int64_t c = 0; c <= row.n_features; ++c) {
        const Column<Value, Packed> column(row, c);
        int64_t n_own = 0;  // own-class blocks stand first
        while (n_own < column.n_blocks && column.blocks[n_own] < row.own_blocks) ++n_own;
        double linear = 0, square = 0;  // own class, frozen: change = 2 d linear + d^2 square
        if (frozen) {
            const float* __restrict own_slope = row.own_slope;
            const float* __restrict residual = row.residual;
            const Lanes center = splat(column.center);
            Lanes linear_lanes = {}, square_lanes = {};
            for (int64_t b = 0; b < n_own; ++b) {
                const int64_t at = column.blocks[b] * kLanes;
                column.fetch_next(at);
                const Lanes x = column.block(b) - center;
                const Lanes weighted = load(own_slope + at) * x;
                linear_lanes += weighted * load(residual + at);
                square_lanes += weighted * x;
            }
            linear = total<double>(linear_lanes);
            square = total<double>(square_lanes);
        }
        const float step = row.steps[c];
        for (int attempt = 0; attempt < 2; ++attempt) {
            const float d = attempt == 0 ? step : -step;
            const float energy = c == row.n_features ? 0.0f : row.noise * (2.0f * d * row.weights[c] + d * d);
            const RowPass<Value, Packed> pass{row, column, d * column.unit, frozen ? 0.0f : energy};
            const double own_d = static_cast<double>(pass.d);
            const double change = frozen ? pass.other_change(n_own, column.n_blocks) +
                                               own_d * (2.0 * linear + own_d * square) +
                                               row.noise_slope * static_cast<double>(energy)
                                         : pass.exact_change(0, column.n_blocks);
            ++row.tried;
            row.looked += column.n_blocks * kLanes;
            if (change < 0) {
                ++row.accepted;
                // Where the column has no block of zeros, every loss is new.
                const bool all = column.n_blocks * kLanes == row.n_lanes;
                if (all) std::swap(row.loss, row.trial);
                pass.accept(0, n_own, !frozen && !all);
                pass.accept(n_own, column.n_blocks, !all);
                row.weights[c] += d;
                const float limit = c == row.n_features ? row.largest_offset : row.largest;
                row.steps[c] = std::copysign(std::min(std::abs(d) * row.grow, limit), d);
                break;
            }
            if (attempt == 1) row.steps[c] = std::copysign(std::max(std::abs(step) * row.shrink, row.smallest), step);
        }
    }
}

static void cpm_row(CpmRow& row) {
    const auto move = row.bytes    ? move_row<uint8_t, false>
                      : row.packed ? move_row<float, true>
                                   : move_row<float, false>;
    move(row);
}

// ------------------------------------------------------------------------------------------- calibration

typedef double Eight __attribute__((vector_size(64)));
typedef int64_t WholeEight __attribute__((vector_size(64)));

// exp(x) = 2^n exp(r) with x = n log 2 + r, |r| <= log(2) / 2, by Taylor's series. Beyond +-700 it is that of +-700.
static inline Eight exponential(Eight x) {
    const Eight least = Eight{} - 700.0, most = Eight{} + 700.0;
    x = x < least ? least : x > most ? most : x;
    const double whole = 0x1.8p52;  // a number so large that its last bit is 1
    const Eight shifted = x * 0x1.71547652b82fep0 + whole, n = shifted - whole;
    const Eight r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;  // log 2 in two parts
    constexpr double kTerms[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
    Eight sum = Eight{} + kTerms[0];
    for (int term = 1; term < 14; ++term) sum = sum * r + kTerms[term];
    return (Eight)((WholeEight)sum + ((WholeEight)shifted << 52));
}

static inline Eight load_eight(const double* at) {
    Eight eight;
    std::memcpy(&eight, at, sizeof eight);
    return eight;
}

static void exponentials(const double* of, int64_t length, double* out) {
    int64_t at = 0;
    for (; at + 8 <= length; at += 8) {
        const Eight eight = exponential(load_eight(of + at));
        std::memcpy(out + at, &eight, sizeof eight);
    }
    double rest[8] = {};
    std::copy(of + at, of + length, rest);
    const Eight eight = exponential(load_eight(rest));
    for (int64_t lane = 0; at + lane < length; ++lane) out[at + lane] = eight[lane];
}

// Eight sums side by side, folded at the end; four products share what they read of row k.
static void weighted_products(const double* rows, const double* weight, int64_t n, int64_t m, double* scratch,
                              double* out) {
    for (int64_t k = 0; k < m; ++k) {
        for (int64_t i = 0; i < n; ++i) scratch[i] = weight[i] * rows[k * n + i];
        for (int64_t j = 0; j <= k; j += 4) {
            const int64_t count = std::min<int64_t>(4, k + 1 - j);
            Eight sums[4] = {};
            int64_t i = 0;
            for (; i + 8 <= n; i += 8) {
                const Eight own = load_eight(scratch + i);
                for (int64_t other = 0; other < count; ++other)
                    sums[other] += own * load_eight(rows + (j + other) * n + i);
            }
            for (int64_t other = 0; other < count; ++other) {
                const Eight sum = sums[other];
                double rest = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
                for (int64_t at = i; at < n; ++at) rest += scratch[at] * rows[(j + other) * n + at];
                out[k * m + j + other] = rest;
            }
        }
    }
}

}  // namespace multiform::MULTIFORM_ISA

namespace multiform {
const Kernels MULTIFORM_TABLE = {
    MULTIFORM_NAME,          MULTIFORM_ISA::gather,        MULTIFORM_ISA::residuals,
    MULTIFORM_ISA::gradient, MULTIFORM_ISA::add,           MULTIFORM_ISA::ratio_loss,
    MULTIFORM_ISA::adam,     MULTIFORM_ISA::sum_rows,      MULTIFORM_ISA::add_products,
    MULTIFORM_ISA::descend,  MULTIFORM_ISA::member_values, MULTIFORM_ISA::cpm_row,
    MULTIFORM_ISA::moments,  MULTIFORM_ISA::exponentials,  MULTIFORM_ISA::weighted_products};
}  // namespace multiform
