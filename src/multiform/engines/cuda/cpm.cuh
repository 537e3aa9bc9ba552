// The coordinate perturbation method (paper, 2.3): what the choice of the samples (cpm_sets.cu) hands to the moves
// (cpm_row.cu).
#pragma once
#include "common.cuh"

struct Sweep : Members {
    int64 capacity;  // samples that a sweep keeps at most
    int* kept;       // (B, capacity) samples
    float* f;        // (B, capacity, m), kLeftOut where a pair sits out: two sides that take turns, what the others see
    float* f_next;   // and what comes out
    int* places;     // (B, m, capacity) of `kept`: own samples, then the others
    int* n_own;      // (B, m)
    int* n_set;      // (B, m)
    const int64* lane_start;  // (B * m,) first lane of each set, over all sets
    stored_t* lanes;          // column by column, (features + 1, lanes) of each set
    const int64* lanes_at;    // (B * m,) where a set's columns begin
};
