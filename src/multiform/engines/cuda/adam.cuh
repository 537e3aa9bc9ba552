// Adam on the ratio loss: what its two implementations (adam.cu, small_adam.cu) share.
#pragma once
#include "common.cuh"

struct Descent : Members {
    float* first;  // Adam's means of the gradient and of its square, as the weights
    float* second;
    int64* steps;  // (B,) so far
    int64 batch_size;
    int64 capacity;              // rows of a batch at most
    const float* learning_rate;  // (B,)
    int64 n_passes;
    float beta1;
    float beta2;
    float epsilon;
    float final_rate;
};

// The samples of a pass in their order; returns how many.
DEVICE int begin_pass(const Descent& a, int member, const uint8* active, uint64& drawn, int* order, uint64* holder,
                      int* pending, int* scratch) {
    const float* weight = a.sample_weight == nullptr ? nullptr : a.sample_weight + member * a.weight_stride;
    const float* class_weight = a.class_weight + member * a.n_classes;
    const int count = choose_samples(
        static_cast<int>(a.n_samples),
        [&](int i) { return (weight == nullptr || weight[i] > 0) && class_weight[a.target[i]] > 0; },
        [&](int i) { return active[i] != 0; }, a.revisit, true, a.seed[member], drawn, order, scratch);
    shuffle_items(order, count, a.seed[member], drawn, holder, pending);
    return count;
}

// Learning rate: cosine from 1 to final_rate over the planned passes, with Adam's bias corrections.
DEVICE float rate_of_step(const Descent& a, int member, int64 pass, int64 batch, int64 n_batches, int64 steps) {
    const double progress = smaller(
        1.0, (static_cast<double>(pass) + static_cast<double>(batch) / n_batches) / static_cast<double>(a.n_passes));
    const double fade = a.final_rate + (1.0 - a.final_rate) * 0.5 * (1.0 + cos(3.141592653589793 * progress));
    const double t = static_cast<double>(steps + batch + 1);
    const double correction =
        sqrt(1.0 - pow(static_cast<double>(a.beta2), t)) / (1.0 - pow(static_cast<double>(a.beta1), t));
    return static_cast<float>(a.learning_rate[member] * fade * correction);
}

// loss(x) = w sum over j != y of max(alpha, f_y / f_j)                                           (paper, 2.2)
// d loss / d f_y = w sum over active j of 1 / f_j,   d loss / d f_j = - w f_y / f_j^2
struct Pair {
    float inverse, ratio;  // 1 / f_j, f_y / f_j
    bool active;
};

DEVICE Pair pair_of(float own, float rival, float alpha) {
    const float inverse = 1.0f / rival, ratio = own * inverse;
    return {inverse, ratio, ratio > alpha};
}
DEVICE float loss_of(const Pair& pair, float alpha) { return larger(alpha, pair.ratio); }
DEVICE float rival_slope_of(const Pair& pair) { return pair.active ? -pair.ratio * pair.inverse : 0.0f; }

// One weight's step (Kingma and Ba 2015).
DEVICE void adam_step(const Descent& a, float gradient, float rate, float& weight, float& first, float& second) {
    first = a.beta1 * first + (1.0f - a.beta1) * gradient;
    second = a.beta2 * second + (1.0f - a.beta2) * (gradient * gradient);
    weight -= rate * first / (sqrtf(second) + a.epsilon);
}
