// What unseen samples say of a model's scores: temperatures, and offsets of classes. `prediction.py` says what for.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned.hpp"
#include "kernels.hpp"

namespace multiform {

// The scores of unseen samples, by class and less each sample's best one, so that no chance overflows.
class Unseen {
   public:
    // scores (n, m); target, weight (n)
    Unseen(const Kernels& kernels, const double* scores, const int32_t* target, const double* weight, int64_t n,
           int64_t m);

    // log 1/T of the temperature T with the least log loss, labels softened by 1 / (n + 2).
    double log_sharpness() const;

    // -sum_i w_i log p_i at 1/T.
    double log_loss(double sharpness) const;

    // log 1/T of the temperature at which the mean chance of the answers is the share of right ones.
    double log_sharpness_in_the_mean() const;

    // b that minimises -sum_i w_i log p_i + |b|^2 / (2 s^2), p = softmax(scores + b): (m)
    void class_offsets(double deviation, double* offsets) const;

   private:
    struct Moments {
        double expected, spread;  // sum_i w_i E_p[score], sum_i w_i Var_p[score]
        double largest, rise;     // sum_i w_i max p, and its slope by the sharpness
    };

    Moments moments(double sharpness) const;
    double judged(const std::vector<double>& offsets, AlignedVector<double>& chances) const;

    const Kernels& kernels_;
    const double* weight_;
    int64_t n_, m_;
    AlignedVector<double> below_;  // (m, n)
    std::vector<double> counts_;   // weight of each class
    double own_ = 0, softened_labels_ = 0, right_ = 0, wrong_ = 0;
};

}  // namespace multiform
