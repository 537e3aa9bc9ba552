// Minibatch Adam on the ratio loss (the paper's reference Chang 2021), visiting mostly the samples that matter.
#pragma once

#include <atomic>
#include <vector>

#include "problem.hpp"
#include "random.hpp"

namespace multiform {

struct AdamSettings {
    int64_t batch_size;
    int64_t n_passes;  // the length of the cosine schedule
    float learning_rate, beta1, beta2, epsilon;
    float revisit;     // chance that a sample without an active pair is visited in a pass; 1 visits all
    float final_rate;  // the learning rate at the end of the schedule, as a share of the first
};

class AdamMember {
   public:
    // `steps` counts those that the moments have seen already.
    AdamMember(const Problem& problem, const Member& member, const AdamSettings& settings, float* first, float* second,
               int64_t steps);
    virtual ~AdamMember() = default;

    // Goes on to the end of pass `until`, or stops between two steps once `deadline` (seconds, steady clock) is past.
    virtual void train(Team& team, int64_t until, double deadline);

    int64_t passes() const { return passes_; }
    int64_t visits() const { return visits_; }
    int64_t steps() const { return steps_; }
    const std::vector<double>& losses() const { return losses_; }

   protected:
    // Tiles are fixed by the problem alone, so the number of threads never changes a bit of the result.
    static constexpr int64_t kTileRows = 32;

    struct Step {
        const int32_t* samples;
        int64_t n;
    };

    virtual void begin_pass();
    void run(Team& team, int64_t until, double deadline);
    virtual void step(Team& team, int64_t begin, int64_t end);
    void loss(const Step& now, int64_t tile, int thread);
    void count(const Step& now, int64_t n_tiles);
    double class_slope(int64_t k, int64_t n_tiles) const;
    float learning_rate() const;
    void reserve_loss(int n_threads);

    Problem problem_;
    Member member_;
    AdamSettings settings_;
    float *first_, *second_;  // by output, as the weights; the copies of a call stand by feature
    Random random_;
    std::vector<int32_t> eligible_, order_;
    std::vector<uint8_t> active_;
    int64_t steps_, passes_ = 0, batch_ = 0, n_batches_ = 0, visits_ = 0;
    int64_t n_groups_, group_;  // of features: how many, and how wide (a multiple of 16)
    double pass_loss_ = 0, pass_weight_ = 0;
    std::vector<double> losses_;
    // scratch of one step
    AlignedVector<float> z_, decay_;
    std::vector<float> scratch_, energy_, row_weight_;
    std::vector<int32_t> row_target_;
    std::vector<uint8_t> row_active_;
    std::vector<double> tile_loss_, tile_slope_;

   private:
    void forward(const Step& now, int64_t tile, int64_t group);
    void update(const Step& now, float rate, int64_t group, int64_t from, int64_t o0, float* norm, int thread);
    void reserve(int n_threads);

    AlignedVector<float> moving_, moving_first_, moving_second_;
    AlignedVector<float> x_, gradient_, tile_norm_;  // scratch of one step
    std::vector<std::atomic<int64_t>> parts_left_;   // of a tile's residuals
};

}  // namespace multiform
