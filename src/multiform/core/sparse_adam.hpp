// Adam on sparse rows: a step costs the entries of its batch, and the memory is the model.
//
// Adam keeps two moments of every coefficient, and so moves every column at every step. Here every row r of every A_k
// has ONE second moment, the running mean of its squared gradient a coefficient, and there is no first one:
//
//   v <- beta2 v + (1 - beta2) ||gradient||^2 / p,      w <- w - rate gradient / (sqrt(v) + epsilon)
//
// The step is linear in the gradient then, gradient = sum over the batch of x^T slope + decay w, where the decay (from
// the input noise) is one number a row. A column that the batch does not have is multiplied by the row's
// 1 - rate decay / sqrt(v), like all others, and so the row keeps one factor for all of them: w = factor * stored.
// Nothing is put off and nothing approximated.
#pragma once

#include "adam.hpp"
#include "entries.hpp"

namespace multiform {

class SparseAdamMember : public AdamMember {
   public:
    // `second` has one number a row: (m, q).
    SparseAdamMember(const Problem& problem, const Member& member, const AdamSettings& settings, float* second,
                     int64_t steps);

    void train(Team& team, int64_t until, double deadline) override;

   private:
    void begin_pass() override;
    void step(Team& team, int64_t begin, int64_t end) override;
    void read_batch(const Step& now);
    void lay_out();
    void write_back();
    void renew();

    RowEntries entries_;
    int64_t outputs_;              // padded
    AlignedVector<float> stored_;  // (features, outputs), without the factor; empty between two trainings
    std::vector<float> offset_, factor_, move_;
    std::vector<double> norm_;  // ||w||^2 of each output
    float* second_;
    // the batch by rows, and by the features that it has
    std::vector<int64_t> row_start_, feature_start_, next_;
    std::vector<int32_t> row_feature_, feature_row_, features_, slot_;
    std::vector<float> row_value_, feature_value_;
    std::vector<float> slopes_;                        // (features of the batch, outputs)
    std::vector<float> part_squares_, part_products_;  // per part of the features
};

}  // namespace multiform
