#include "calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "cholesky.hpp"

namespace multiform {

constexpr double kMost = 5.0;        // a temperature stays within exp(-5) and exp(5)
constexpr double kMostFactor = 2.0;  // between the temperatures of the least log loss and of the right mean
constexpr double kPrecise = 1e-10;
constexpr int64_t kBlock = 256;  // samples at a time, what is known of them stays in the first cache
constexpr int kSteps = 20;       // of Newton's for offsets at most: five or so find them

// Where a rising function is 0: Newton's steps, and half of what is left where they lead out of it; an end where the
// sign stays. `at` gives its value and its slope.
template <typename At>
static double root(double least, double most, double now, At&& at) {
    auto [value, slope] = at(now);
    const double end = value < 0 ? most : least;
    if (value == 0) return now;
    if (at(end).first * value >= 0) return end;
    while (true) {
        (value < 0 ? least : most) = now;
        const double step = slope > 0 ? value / slope : std::numeric_limits<double>::infinity();
        const bool inside = least <= now - step && now - step <= most;
        const double last = now;
        now = inside ? now - step : (least + most) / 2;
        if (!(std::abs(now - last) >= kPrecise)) return now;
        std::tie(value, slope) = at(now);
    }
}

Unseen::Unseen(const Kernels& kernels, const double* scores, const int32_t* target, const double* weight, int64_t n,
               int64_t m)
    : kernels_(kernels),
      weight_(weight),
      n_(n),
      m_(m),
      below_(static_cast<size_t>(n * m)),
      counts_(static_cast<size_t>(m), 0.0) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += weight[i];
    const double softened = 1 / (sum + 2);
    for (int64_t i = 0; i < n; ++i) {
        const double* row = scores + i * m;
        const int64_t best = std::max_element(row, row + m) - row;
        double mean = 0;
        for (int64_t k = 0; k < m; ++k) mean += below_[k * n + i] = row[k] - row[best];
        (best == target[i] ? right_ : wrong_) += weight[i];
        counts_[target[i]] += weight[i];
        const double own = weight[i] * below_[target[i] * n + i];
        own_ += own;
        softened_labels_ += (1 - softened) * own + softened * weight[i] * mean / static_cast<double>(m);
    }
}

Unseen::Moments Unseen::moments(double sharpness) const {
    double chances[kBlock], total[kBlock], first[kBlock], second[kBlock];
    Moments sums{};
    for (int64_t from = 0; from < n_; from += kBlock) {
        const int64_t count = std::min(kBlock, n_ - from);
        for (double* sum : {total, first, second}) std::fill_n(sum, count, 0.0);
        for (int64_t k = 0; k < m_; ++k) {
            const double* scores = below_.data() + k * n_ + from;
            for (int64_t i = 0; i < count; ++i) chances[i] = sharpness * scores[i];
            kernels_.exponentials(chances, count, chances);
            for (int64_t i = 0; i < count; ++i) {
                const double product = chances[i] * scores[i];
                total[i] += chances[i];
                first[i] += product;
                second[i] += product * scores[i];
            }
        }
        const double* weight = weight_ + from;
        for (int64_t i = 0; i < count; ++i) {
            const double largest = 1 / total[i], expected = first[i] * largest;
            sums.expected += weight[i] * expected;
            sums.spread += weight[i] * (second[i] * largest - expected * expected);
            sums.largest += weight[i] * largest;
            sums.rise -= weight[i] * largest * expected;
        }
    }
    return sums;
}

// The log loss is convex in the sharpness: its slope there is sum w (E_p[score] - labelled), and that one's slope by
// the logarithm is s sum w Var_p[score].
double Unseen::log_sharpness() const {
    return root(-kMost, kMost, 0.0, [this](double logarithm) {
        const double sharpness = std::exp(logarithm);
        const Moments sums = moments(sharpness);
        return std::pair(sums.expected - softened_labels_, sharpness * sums.spread);
    });
}

double Unseen::log_loss(double sharpness) const {
    double chances[kBlock], total[kBlock], loss = -sharpness * own_;
    for (int64_t from = 0; from < n_; from += kBlock) {
        const int64_t count = std::min(kBlock, n_ - from);
        std::fill_n(total, count, 0.0);
        for (int64_t k = 0; k < m_; ++k) {
            for (int64_t i = 0; i < count; ++i) chances[i] = sharpness * below_[k * n_ + from + i];
            kernels_.exponentials(chances, count, chances);
            for (int64_t i = 0; i < count; ++i) total[i] += chances[i];
        }
        for (int64_t i = 0; i < count; ++i) loss += weight_[from + i] * std::log(total[i]);
    }
    return loss;
}

double Unseen::log_sharpness_in_the_mean() const {
    const double guess = log_sharpness(), reach = std::log(kMostFactor);
    const double share = right_ * (right_ + 1) / (right_ + 2) + wrong_ / (wrong_ + 2);
    return root(guess - reach, guess + reach, guess, [this, share](double logarithm) {
        const double sharpness = std::exp(logarithm);
        const Moments sums = moments(sharpness);
        return std::pair(sums.largest - share, sharpness * sums.rise);
    });
}

// The chances at these offsets (m, n), and the loss without its prior, up to a constant.
double Unseen::judged(const std::vector<double>& offsets, AlignedVector<double>& chances) const {
    const double most = *std::max_element(offsets.begin(), offsets.end());  // no chance overflows
    double loss = 0;
    for (int64_t k = 0; k < m_; ++k) loss += counts_[k] * (most - offsets[k]);
    double total[kBlock];
    for (int64_t from = 0; from < n_; from += kBlock) {
        const int64_t count = std::min(kBlock, n_ - from);
        std::fill_n(total, count, 0.0);
        for (int64_t k = 0; k < m_; ++k) {
            double* chance = chances.data() + k * n_ + from;
            for (int64_t i = 0; i < count; ++i) chance[i] = below_[k * n_ + from + i] + (offsets[k] - most);
            kernels_.exponentials(chance, count, chance);
            for (int64_t i = 0; i < count; ++i) total[i] += chance[i];
        }
        for (int64_t i = 0; i < count; ++i) loss += weight_[from + i] * std::log(total[i]);
        for (int64_t k = 0; k < m_; ++k)
            for (int64_t i = 0; i < count; ++i) chances[k * n_ + from + i] /= total[i];
    }
    return loss;
}

void Unseen::class_offsets(double deviation, double* offsets) const {
    const double prior = 1 / (deviation * deviation);
    const auto m = static_cast<size_t>(m_);
    std::vector<double> found(m, 0.0), trial(m), step(m), bend(m * m);
    AlignedVector<double> chances(below_.size()), scratch(static_cast<size_t>(n_));
    const auto loss_at = [&](const std::vector<double>& b) {
        double square = 0;
        for (const double one : b) square += one * one;
        return judged(b, chances) + square * prior / 2;
    };
    double loss = loss_at(found);
    for (int turn = 0; turn < kSteps; ++turn) {
        kernels_.weighted_products(chances.data(), weight_, n_, m_, scratch.data(), bend.data());
        for (size_t k = 0; k < m; ++k) {
            double expected = 0;  // sum over j of p_k p_j is p_k
            for (size_t j = 0; j < m; ++j) expected += bend[std::max(k, j) * m + std::min(k, j)];
            step[k] = expected - counts_[k] + found[k] * prior;
            trial[k] = expected + prior;
        }
        for (size_t k = 0; k < m; ++k)
            for (size_t j = 0; j <= k; ++j) bend[j * m + k] = (j == k ? trial[k] : 0.0) - bend[k * m + j];
        solve(bend.data(), m_, step.data(), 1);
        double size = 0, at;
        for (const double one : step) size = std::max(size, std::abs(one));
        while (true) {
            for (size_t k = 0; k < m; ++k) trial[k] = found[k] - step[k];
            at = loss_at(trial);
            if (!(at > loss && size > kPrecise)) break;
            for (double& one : step) one /= 2;  // too far
            size /= 2;
        }
        if (!(at <= loss)) break;
        found = trial, loss = at;
        if (size <= kPrecise) break;
    }
    std::copy(found.begin(), found.end(), offsets);
}

}  // namespace multiform
