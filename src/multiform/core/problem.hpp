// What a solver is given and does not change, and how its weights stand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "aligned.hpp"
#include "kernels.hpp"
#include "team.hpp"

namespace multiform {

struct Problem {
    Rows rows;
    const int32_t* target;
    int64_t n_classes;
    const Kernels* kernels;
    Sgemm sgemm;
};

// What one member of a batch has of its own.
struct Member {
    int64_t n_components;
    int64_t n_features;          // of those selected
    const int32_t* columns;      // null: all of them
    const float* sample_weight;  // null: 1
    const float* class_weight;
    float alpha;
    float noise;  // sigma^2
    uint64_t seed;
    float* weights;  // (m, q, n_features + 1): A_k next to b_k

    int64_t width() const { return n_features + 1; }
};

inline int64_t padded(int64_t length) { return (length + 15) / 16 * 16; }

constexpr int64_t kLine = 16;  // numbers of a cache line: whole ones are read, and as many are written side by side

// The engine multiplies by weights that stand by feature: (padded(width), padded(outputs)), 0 where padded, so that a
// vector holds one feature's weights for many outputs. Callers have them by output: (outputs, width).
inline void by_feature(const float* weights, int64_t outputs, int64_t width, AlignedVector<float>& out) {
    const int64_t stride = padded(outputs);
    out.assign(static_cast<size_t>(padded(width) * stride), 0.0f);
    for (int64_t first = 0; first < width; first += kLine)
        for (int64_t o = 0; o < outputs; ++o)
            for (int64_t c = first; c < std::min(width, first + kLine); ++c)
                out[c * stride + o] = weights[o * width + c];
}

inline void by_output(const AlignedVector<float>& weights, int64_t outputs, int64_t width, float* out) {
    const int64_t stride = padded(outputs);
    for (int64_t first = 0; first < width; first += kLine)
        for (int64_t o = 0; o < outputs; ++o)
            for (int64_t c = first; c < std::min(width, first + kLine); ++c)
                out[o * width + c] = weights[c * stride + o];
}

// sigma^2 ||A_k||_F^2: what input noise of deviation sigma adds to the expected f_k.
inline void noise_energy(const Member& member, int64_t n_classes, float* out) {
    const int64_t width = member.width();
    for (int64_t k = 0; k < n_classes; ++k) {
        double sum = 0;
        if (member.noise > 0)
            for (int64_t r = 0; r < member.n_components; ++r) {
                const float* row = member.weights + (k * member.n_components + r) * width;
                for (int64_t c = 0; c < member.n_features; ++c)
                    sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
            }
        out[k] = member.noise * static_cast<float>(sum);
    }
}

}  // namespace multiform
