#include "adam.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

namespace multiform {

// Tiles are fixed by the problem alone, so the number of threads never changes a bit of the result.
constexpr int64_t kTileRows = 32;
constexpr int64_t kTileFeatures = 40;
constexpr int64_t kTileOutputs = 192;
constexpr int64_t kGroupFeatures = 400;  // their weights and moments, for 200 outputs, are about a megabyte

// What one tile or thread writes stays two cache lines away from what the next one does.
static int64_t apart(int64_t length) { return (length + 31) / 32 * 32; }

AdamMember::AdamMember(const Problem& problem, const Member& member, const AdamSettings& settings, float* first,
                       float* second, int64_t steps)
    : problem_(problem),
      member_(member),
      settings_(settings),
      first_(first),
      second_(second),
      random_(member.seed),
      steps_(steps) {
    for (int64_t i = 0; i < problem.rows.n_rows; ++i)
        if ((member.sample_weight == nullptr || member.sample_weight[i] > 0) &&
            member.class_weight[problem.target[i]] > 0)
            eligible_.push_back(static_cast<int32_t>(i));
    active_.assign(static_cast<size_t>(problem.rows.n_rows), 1);
    // An even number of nearly equal groups, where there are several.
    const int64_t width = member.width(), pairs = (width + 2 * kGroupFeatures - 1) / (2 * kGroupFeatures);
    const int64_t aim = width <= kGroupFeatures ? 1 : 2 * pairs;
    group_ = padded((width + aim - 1) / aim);
    n_groups_ = (width + group_ - 1) / group_;
    energy_.resize(static_cast<size_t>(problem.n_classes));
    noise_energy(member_, problem.n_classes, energy_.data());
}

void AdamMember::begin_pass() {
    order_.clear();
    for (const int32_t i : eligible_)
        if (active_[static_cast<size_t>(i)] || random_.uniform() < settings_.revisit) order_.push_back(i);
    random_.shuffle(order_);
    batch_ = 0;
    const int64_t n = static_cast<int64_t>(order_.size());
    n_batches_ = (n + settings_.batch_size - 1) / settings_.batch_size;
    pass_loss_ = pass_weight_ = 0;
}

void AdamMember::reserve(int n_threads) {
    const auto rows =
        static_cast<size_t>(padded(std::min<int64_t>(settings_.batch_size, static_cast<int64_t>(eligible_.size()))));
    const auto outputs = static_cast<size_t>(padded(problem_.n_classes * member_.n_components));
    const auto tiles = rows / kTileRows + 1;
    x_.resize(rows * static_cast<size_t>(n_groups_ * group_));
    z_.resize(rows * outputs * static_cast<size_t>(n_groups_));
    gradient_.resize(static_cast<size_t>(n_threads * kTileFeatures * kTileOutputs));
    scratch_.resize(static_cast<size_t>(n_threads * apart(2 * problem_.n_classes)));
    decay_.resize(outputs);
    row_weight_.resize(rows);
    row_target_.resize(rows);
    row_active_.resize(rows);
    tile_loss_.resize(tiles);
    tile_slope_.resize(tiles * static_cast<size_t>(apart(problem_.n_classes)));
}

void AdamMember::train(Team& team, int64_t until, double deadline) {
    const int64_t outputs = problem_.n_classes * member_.n_components, width = member_.width();
    by_feature(member_.weights, outputs, width, moving_);
    by_feature(first_, outputs, width, moving_first_);
    by_feature(second_, outputs, width, moving_second_);
    reserve(team.size());
    run(team, until, deadline);
    by_output(moving_, outputs, width, member_.weights);
    by_output(moving_first_, outputs, width, first_);
    by_output(moving_second_, outputs, width, second_);
}

void AdamMember::run(Team& team, int64_t until, double deadline) {
    const auto now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    while (passes_ < until) {
        if (n_batches_ == 0) begin_pass();
        const int64_t n = static_cast<int64_t>(order_.size());
        for (; batch_ < n_batches_; ++batch_) {
            step(team, batch_ * n / n_batches_, (batch_ + 1) * n / n_batches_);
            if (now() > deadline && batch_ + 1 < n_batches_) {
                ++batch_;
                return;
            }
        }
        losses_.push_back(pass_weight_ > 0 ? pass_loss_ / pass_weight_ : 0.0);
        ++passes_;
        n_batches_ = 0;
        if (now() > deadline) return;
    }
}

void AdamMember::step(Team& team, int64_t begin, int64_t end) {
    const int64_t n = end - begin, m = problem_.n_classes, q = member_.n_components;
    const int64_t outputs = padded(m * q), width = member_.width();
    const Kernels& kernels = *problem_.kernels;
    const int32_t* samples = order_.data() + begin;

    // The features are cut into groups, and thread t works on group t of the forward product and of the gradient: the
    // weights and the x of a group then stay with one core, and only z travels. z has a part a group.
    const int64_t n_row_tiles = (n + kTileRows - 1) / kTileRows;
    const int64_t rows = padded(n), part = rows * outputs;
    team.each(n_row_tiles * n_groups_, [&](int64_t task, int) {
        const int64_t group = task % n_groups_, c0 = group * group_, c1 = std::min(width, c0 + group_);
        const int64_t first = task / n_groups_ * kTileRows, last = std::min(n, first + kTileRows);
        float* x = x_.data() + (group * rows + first) * group_;
        kernels.gather(problem_.rows,
                       {samples + first, last - first, member_.columns, member_.n_features, c0, c1, x, group_});
        kernels.residuals({problem_.sgemm, x, group_, last - first, c1 - c0, moving_.data() + c0 * outputs, outputs,
                           z_.data() + group * part + first * outputs});
    });

    // The loss and its slope: tiles of rows.
    const float scale = 1.0f / static_cast<float>(n);
    std::fill(tile_slope_.begin(), tile_slope_.end(), 0.0);
    team.each(n_row_tiles, [&](int64_t tile, int thread) {
        const int64_t first = tile * kTileRows, last = std::min(n, first + kTileRows);
        float* z = z_.data() + first * outputs;
        for (int64_t group = 1; group < n_groups_; ++group)
            kernels.add(z_.data() + group * part + first * outputs, (last - first) * outputs, z);
        for (int64_t i = first; i < last; ++i) {
            row_target_[i] = problem_.target[samples[i]];
            if (member_.sample_weight != nullptr) row_weight_[i] = member_.sample_weight[samples[i]];
        }
        float* scratch = scratch_.data() + thread * apart(2 * m);
        const LossTile loss{z,
                            outputs,
                            last - first,
                            m,
                            q,
                            row_target_.data() + first,
                            member_.sample_weight == nullptr ? nullptr : row_weight_.data() + first,
                            member_.class_weight,
                            energy_.data(),
                            member_.alpha,
                            scale,
                            scratch,
                            scratch + m,
                            tile_slope_.data() + tile * apart(m),
                            row_active_.data() + first};
        tile_loss_[tile] = kernels.ratio_loss(loss);
    });
    for (int64_t tile = 0; tile < n_row_tiles; ++tile) pass_loss_ += tile_loss_[tile];
    for (int64_t i = 0; i < n; ++i) active_[samples[i]] = row_active_[i];
    for (int64_t i = 0; i < n; ++i)
        pass_weight_ += static_cast<double>((member_.sample_weight == nullptr ? 1.0f : row_weight_[i]) *
                                            member_.class_weight[row_target_[i]]);

    // Learning rate: cosine from 1 to final_rate over the planned passes, with Adam's bias corrections.
    ++steps_;
    visits_ += n;
    const double progress =
        std::min(1.0, (static_cast<double>(passes_) + static_cast<double>(batch_) / static_cast<double>(n_batches_)) /
                          static_cast<double>(settings_.n_passes));
    const double fade =
        settings_.final_rate + (1.0 - settings_.final_rate) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    const double t = static_cast<double>(steps_);
    const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(settings_.beta2), t)) /
                              (1.0 - std::pow(static_cast<double>(settings_.beta1), t));
    const float rate = static_cast<float>(settings_.learning_rate * fade * correction);

    // Gradient and update: tiles of features and outputs.
    const bool noisy = member_.noise > 0;
    for (int64_t k = 0; k < m && noisy; ++k) {
        double slope = 0;
        for (int64_t tile = 0; tile < n_row_tiles; ++tile) slope += tile_slope_[tile * apart(m) + k];
        std::fill_n(decay_.begin() + k * q, q, 2.0f * member_.noise * static_cast<float>(slope));
    }
    const int64_t down = (group_ + kTileFeatures - 1) / kTileFeatures;  // tiles a group
    const int64_t across = (outputs + kTileOutputs - 1) / kTileOutputs;
    tile_norm_.assign(static_cast<size_t>(noisy ? n_groups_ * down * outputs : 0), 0.0f);
    team.each(n_groups_ * down * across, [&](int64_t task, int thread) {
        const int64_t group = task % n_groups_, tile = task / n_groups_ / across,
                      end = std::min(width, (group + 1) * group_);
        const int64_t c0 = group * group_ + tile * kTileFeatures, c1 = std::min(end, c0 + kTileFeatures);
        const int64_t o0 = task / n_groups_ % across * kTileOutputs, count = std::min(outputs - o0, kTileOutputs);
        if (c0 >= c1) return;
        float* slopes = gradient_.data() + thread * kTileFeatures * kTileOutputs;
        kernels.gradient({problem_.sgemm, x_.data() + group * rows * group_ + tile * kTileFeatures, group_, n, c1 - c0,
                          z_.data() + o0, outputs, count, slopes});
        float* norm = noisy ? tile_norm_.data() + (group * down + tile) * outputs + o0 : nullptr;
        for (int64_t c = c0; c < c1; ++c) {
            const int64_t at = c * outputs + o0;
            const float* decay = noisy && c < member_.n_features ? decay_.data() + o0 : nullptr;  // not of the offset
            kernels.adam({moving_.data() + at, moving_first_.data() + at, moving_second_.data() + at,
                          slopes + (c - c0) * count, count, decay, norm, settings_.beta1, settings_.beta2, rate,
                          settings_.epsilon});
        }
    });
    for (int64_t k = 0; k < m && noisy; ++k) {
        double norm = 0;
        for (int64_t tile = 0; tile < n_groups_ * down; ++tile)
            for (int64_t o = k * q; o < (k + 1) * q; ++o) norm += static_cast<double>(tile_norm_[tile * outputs + o]);
        energy_[k] = member_.noise * static_cast<float>(norm);
    }
}

}  // namespace multiform
