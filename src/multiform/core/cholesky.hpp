// Small systems of equations by Cholesky: U^T U x = b, in double precision.
#pragma once

#include <cmath>
#include <cstdint>

namespace multiform {

// In place: the upper half of the positive definite matrix (n, n) becomes U, and each of the `count` columns b its x.
inline void solve(double* matrix, int64_t n, double* columns, int64_t count) {
    // to -= factor * from
    const auto subtract = [](double factor, const double* from, int64_t length, double* to) {
        for (int64_t at = 0; at < length; ++at) to[at] -= factor * from[at];
    };
    const auto divide = [](double by, int64_t length, double* what) {
        for (int64_t at = 0; at < length; ++at) what[at] /= by;
    };
    for (int64_t k = 0; k < n; ++k) {
        double* row = matrix + k * n;
        row[k] = std::sqrt(row[k]);
        divide(row[k], n - k - 1, row + k + 1);
        for (int64_t i = k + 1; i < n; ++i) subtract(row[i], row + i, n - i, matrix + i * n + i);
    }
    for (int64_t k = 0; k < n; ++k) {
        divide(matrix[k * n + k], count, columns + k * count);
        for (int64_t i = k + 1; i < n; ++i)
            subtract(matrix[k * n + i], columns + k * count, count, columns + i * count);
    }
    for (int64_t k = n - 1; k >= 0; --k) {
        for (int64_t i = n - 1; i > k; --i)
            subtract(matrix[k * n + i], columns + i * count, count, columns + k * count);
        divide(matrix[k * n + k], count, columns + k * count);
    }
}

}  // namespace multiform
