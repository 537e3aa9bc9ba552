// Small systems of equations: L L^T x = b (Cholesky), in double precision.
#pragma once

#include <cmath>
#include <cstdint>

namespace multiform {

// In place: the lower half of the positive definite matrix (n, n) becomes L, and each of the `count` rows b its x.
inline void solve(double* matrix, int64_t n, double* rows, int64_t count) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j <= i; ++j) {
            double sum = matrix[i * n + j];
            for (int64_t k = 0; k < j; ++k) sum -= matrix[i * n + k] * matrix[j * n + k];
            matrix[i * n + j] = i == j ? std::sqrt(sum) : sum / matrix[j * n + j];
        }
    for (double* x = rows; x < rows + count * n; x += n) {
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t k = 0; k < i; ++k) x[i] -= matrix[i * n + k] * x[k];
            x[i] /= matrix[i * n + i];
        }
        for (int64_t i = n - 1; i >= 0; --i) {
            x[i] /= matrix[i * n + i];
            for (int64_t k = 0; k < i; ++k) x[k] -= matrix[i * n + k] * x[i];
        }
    }
}

}  // namespace multiform
