// What a solver is given and does not change, and the product that both solvers share.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"
#include "team.hpp"

namespace multiform {

// BLAS's own signature (column-major, everything by pointer), as SciPy hands it out.
using Sgemm = void (*)(char* transa, char* transb, int* m, int* n, int* k, float* alpha, float* a, int* lda, float* b,
                       int* ldb, float* beta, float* c, int* ldc);

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

// Z (n, rows) = X (n, width) W^T, W (rows, width): all row-major.
inline void residuals(Sgemm sgemm, const float* x, int64_t stride, int64_t n, const float* w, int64_t rows,
                      int64_t width, float* z) {
    char yes = 'T', no = 'N';
    float one = 1, zero = 0;
    int m_ = static_cast<int>(rows), n_ = static_cast<int>(n), k_ = static_cast<int>(width);
    int ldx = static_cast<int>(stride), ldw = k_, ldz = m_;
    sgemm(&yes, &no, &m_, &n_, &k_, &one, const_cast<float*>(w), &ldw, const_cast<float*>(x), &ldx, &zero, z, &ldz);
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
