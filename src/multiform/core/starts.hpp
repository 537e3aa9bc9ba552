// What a start sees of some samples, where columns are few. `starts.py` says what for.
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace multiform {

struct Scatter {
    const Rows& rows;  // dense
    const Kernels& kernels;
    const int32_t* samples;
    int64_t n;
    const int32_t* columns;  // null: all of them
    int64_t p;               // of those looked at
    const int32_t* target;   // of every row, as the weight
    const float* weight;     // null: 1
    int64_t m;
    double* means;       // out: of the classes (m, p); 0 where one has no sample
    double* covariance;  // out: within the classes (p, p)
};

void class_scatter(const Scatter& scatter);

// (S + ridge I)^-1 b for a covariance S (p, p) and the columns b (p, m), which it replaces.
void whiten(const double* covariance, double ridge, int64_t p, int64_t m, double* columns);

}  // namespace multiform
