#include "starts.hpp"

#include <algorithm>
#include <vector>

#include "aligned.hpp"
#include "cholesky.hpp"

namespace multiform {

constexpr double kLeastRidge = 1e-12;  // of the largest variance
constexpr int64_t kBlock = 256;        // samples at a time: a starved machine has room for them

void class_scatter(const Scatter& s) {
    const int64_t p = s.p;
    AlignedVector<float> rows(static_cast<size_t>(kBlock * p));
    AlignedVector<double> residuals(static_cast<size_t>(kBlock * p)), scratch(kBlock);
    std::vector<double> share(kBlock), total(static_cast<size_t>(s.m), 0.0), part(static_cast<size_t>(p * p));
    const auto each_block = [&](auto&& work) {
        for (int64_t first = 0; first < s.n; first += kBlock) {
            const int32_t* samples = s.samples + first;
            const int64_t count = std::min(kBlock, s.n - first);
            s.kernels.gather(s.rows, {samples, count, s.columns, p, 0, p, rows.data(), p});
            for (int64_t i = 0; i < count; ++i)
                share[i] = s.weight == nullptr ? 1.0 : static_cast<double>(s.weight[samples[i]]);
            work(samples, count);
        }
    };
    std::fill_n(s.means, s.m * p, 0.0);
    std::fill_n(s.covariance, p * p, 0.0);
    each_block([&](const int32_t* samples, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            const int32_t k = s.target[samples[i]];
            total[k] += share[i];
            for (int64_t c = 0; c < p; ++c) s.means[k * p + c] += share[i] * static_cast<double>(rows[i * p + c]);
        }
    });
    double all = 0;
    for (int64_t k = 0; k < s.m; ++k) {
        all += total[k];
        for (int64_t c = 0; c < p && total[k] > 0; ++c) s.means[k * p + c] /= total[k];
    }
    each_block([&](const int32_t* samples, int64_t count) {
        for (int64_t c = 0; c < p; ++c)
            for (int64_t i = 0; i < count; ++i)
                residuals[c * count + i] = static_cast<double>(rows[i * p + c]) - s.means[s.target[samples[i]] * p + c];
        s.kernels.weighted_products(residuals.data(), share.data(), count, p, scratch.data(), part.data());
        for (int64_t c = 0; c < p; ++c)
            for (int64_t d = 0; d <= c; ++d) s.covariance[c * p + d] += part[c * p + d];
    });
    for (int64_t c = 0; c < p; ++c)
        for (int64_t d = 0; d <= c; ++d) s.covariance[d * p + c] = s.covariance[c * p + d] /= all;
}

void whiten(const double* covariance, double ridge, int64_t p, int64_t m, double* columns) {
    std::vector<double> inner(covariance, covariance + p * p);
    double largest = 0;
    for (int64_t c = 0; c < p; ++c) largest = std::max(largest, inner[c * p + c]);
    // Beside variances in which it would be rounded away the ridge is as large as need be: columns may repeat others.
    for (int64_t c = 0; c < p; ++c) inner[c * p + c] += std::max(ridge, kLeastRidge * largest);
    solve(inner.data(), p, columns, m);
}

}  // namespace multiform
