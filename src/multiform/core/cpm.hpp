// The coordinate perturbation method (paper, 2.3), literal or row-synchronous.
//
// The departures from the literal algorithm, each one a setting:
//   synchronous    row r of every class moves against the other separators frozen, then f is exchanged;
//                  otherwise one class after the other, as the paper has it
//   slack          a pair with f_y / f_j <= slack * alpha is left out of the sweep; 0 keeps every pair
//   max_entries    a sweep uses a fresh random part of the samples: at most so many (sample, class) entries,
//                  fewer in the first `ramp` sweeps
//   revisit        chance that a sample without an active pair is looked at in a sweep; 1 looks at all
//   frozen_own     which own-class terms are active, and their 1 / f_j, are frozen for the length of a row; likewise
//                  the slope of the loss by the noise energy; sums are in single precision
#pragma once

#include <vector>

#include "problem.hpp"
#include "random.hpp"

namespace multiform {

struct CpmSettings {
    bool synchronous, frozen_own;
    float slack, revisit;
    int64_t max_entries;  // 0: all
    int64_t ramp;         // the first sweeps use 1/ramp, 2/ramp, ... of max_entries
    float grow, shrink, smallest, largest, largest_offset;
};

class CpmMember {
   public:
    CpmMember(const Problem& problem, const Member& member, const CpmSettings& settings, float* steps);

    // One sweep over all coordinates, or the part of it until `deadline`; true when the sweep is over.
    bool sweep(Team& team, double deadline);

    int64_t sweeps() const { return sweeps_; }
    const std::vector<double>& losses() const { return losses_; }
    int64_t tried() const { return tried_; }
    int64_t looked() const { return looked_; }
    int64_t accepted() const { return accepted_; }

   private:
    // The samples that one separator can affect, in columns.
    struct ClassSet {
        std::vector<int32_t> own, other;  // places in kept_
        std::vector<float> columns;
        std::vector<uint8_t> bytes;
        std::vector<int32_t> block_list;
        std::vector<int64_t> block_start;
        std::vector<float> residual, rest, loss, trial, own_slope, weight, inverse_rival, scaled_target, floor, f;
        int64_t own_lanes = 0, n_lanes = 0;
        int64_t tried = 0, accepted = 0, looked = 0;
    };

    void begin_sweep(Team& team);
    void lay_out(ClassSet& set);
    void move_row(int64_t k, int64_t r);
    void publish(int64_t k);
    float weight(int64_t place) const;

    Problem problem_;
    Member member_;
    CpmSettings settings_;
    float* steps_;
    Random random_;
    std::vector<int32_t> eligible_, order_;
    std::vector<uint8_t> active_;
    std::vector<int32_t> kept_;  // the samples of this sweep
    std::vector<float> f_;       // (kept, m); infinity where a pair was left out
    std::vector<float> energy_;
    std::vector<ClassSet> sets_;
    std::vector<int64_t> by_size_;
    std::vector<float> by_feature_, tile_x_, tile_z_, tile_f_;
    int64_t sweeps_ = 0, next_row_ = -1, tried_ = 0, accepted_ = 0, looked_ = 0;
    std::vector<double> losses_;
};

}  // namespace multiform
