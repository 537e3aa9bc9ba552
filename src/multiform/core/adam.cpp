#include "adam.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

namespace multiform {

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
    order_.resize(eligible_.size());
    size_t n_visited = 0;
    for (const int32_t i : eligible_) {
        order_[n_visited] = i;
        n_visited += active_[static_cast<size_t>(i)] || random_.uniform() < settings_.revisit;
    }
    order_.resize(n_visited);
    random_.shuffle(order_);
    batch_ = 0;
    const int64_t n = static_cast<int64_t>(order_.size());
    n_batches_ = (n + settings_.batch_size - 1) / settings_.batch_size;
    pass_loss_ = pass_weight_ = 0;
}

void AdamMember::reserve(int n_threads) {
    reserve_loss(n_threads);
    x_.resize(row_target_.size() * static_cast<size_t>(n_groups_ * group_), 0.0f);
    gradient_.resize(static_cast<size_t>(n_threads * kTileFeatures * kTileOutputs), 0.0f);
    parts_left_ = std::vector<std::atomic<int64_t>>(tile_loss_.size());
}

void AdamMember::reserve_loss(int n_threads) {
    const auto rows =
        static_cast<size_t>(padded(std::min<int64_t>(settings_.batch_size, static_cast<int64_t>(eligible_.size()))));
    const auto outputs = static_cast<size_t>(padded(problem_.n_classes * member_.n_components));
    const auto tiles = rows / kTileRows + 1;
    z_.resize(rows * outputs * static_cast<size_t>(n_groups_), 0.0f);
    scratch_.resize(static_cast<size_t>(n_threads * apart(2 * LossTile::kAtOnce * problem_.n_classes)));
    decay_.resize(outputs, 0.0f);
    row_weight_.resize(rows);
    row_target_.resize(rows);
    row_active_.resize(rows);
    tile_loss_.resize(tiles);
    tile_slope_.resize(tiles * static_cast<size_t>(apart(problem_.n_classes)));
}

void AdamMember::train(Team& team, int64_t until, double deadline) {
    if (passes_ >= until) return;  // done, while others of its batch are not
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

// The features are cut into groups, and thread t works on group t of the forward product and of the gradient: the
// weights and the x of a group then stay with one core, and only z travels. z has a part a group.
void AdamMember::step(Team& team, int64_t begin, int64_t end) {
    const Step now{order_.data() + begin, end - begin};
    const int64_t m = problem_.n_classes, q = member_.n_components;
    const int64_t n_tiles = (now.n + kTileRows - 1) / kTileRows;
    std::fill(tile_slope_.begin(), tile_slope_.end(), 0.0);
    for (int64_t tile = 0; tile < n_tiles; ++tile) parts_left_[tile].store(n_groups_, std::memory_order_relaxed);
    team.each(n_tiles * n_groups_, [&](int64_t task, int thread) {
        const int64_t tile = task / n_groups_;
        forward(now, tile, task % n_groups_);
        // Whoever brings the last part of a tile goes on with its loss.
        if (parts_left_[tile].fetch_sub(1, std::memory_order_acq_rel) == 1) loss(now, tile, thread);
    });
    count(now, n_tiles);

    // sigma^2 ||A_k||^2 pulls at the weights of class k, and is known again once they have moved.
    const bool noisy = member_.noise > 0;
    for (int64_t k = 0; k < m && noisy; ++k)
        std::fill_n(decay_.begin() + k * q, q, 2.0f * member_.noise * static_cast<float>(class_slope(k, n_tiles)));
    const int64_t outputs = padded(m * q), across = (outputs + kTileOutputs - 1) / kTileOutputs;
    const int64_t down = (group_ + kTileFeatures - 1) / kTileFeatures;  // tiles a group
    tile_norm_.assign(static_cast<size_t>(noisy ? n_groups_ * down * outputs : 0), 0.0f);
    const float rate = learning_rate();
    team.each(n_groups_ * down * across, [&](int64_t task, int thread) {
        const int64_t group = task % n_groups_, tile = task / n_groups_;
        float* norm = noisy ? tile_norm_.data() + (group * down + tile / across) * outputs : nullptr;
        update(now, rate, group, tile / across * kTileFeatures, tile % across * kTileOutputs, norm, thread);
    });
    for (int64_t k = 0; k < m && noisy; ++k) {
        double norm = 0;
        for (int64_t tile = 0; tile < n_groups_ * down; ++tile)
            for (int64_t o = k * q; o < (k + 1) * q; ++o) norm += static_cast<double>(tile_norm_[tile * outputs + o]);
        energy_[k] = member_.noise * static_cast<float>(norm);
    }
}

// What a step, after its loss, leaves behind for the pass.
void AdamMember::count(const Step& now, int64_t n_tiles) {
    for (int64_t tile = 0; tile < n_tiles; ++tile) pass_loss_ += tile_loss_[tile];
    for (int64_t i = 0; i < now.n; ++i) active_[now.samples[i]] = row_active_[i];
    for (int64_t i = 0; i < now.n; ++i)
        pass_weight_ += static_cast<double>((member_.sample_weight == nullptr ? 1.0f : row_weight_[i]) *
                                            member_.class_weight[row_target_[i]]);
    ++steps_;
    visits_ += now.n;
}

double AdamMember::class_slope(int64_t k, int64_t n_tiles) const {
    double slope = 0;
    for (int64_t tile = 0; tile < n_tiles; ++tile) slope += tile_slope_[tile * apart(problem_.n_classes) + k];
    return slope;
}

// One group's part of the residuals of a tile of rows.
void AdamMember::forward(const Step& now, int64_t tile, int64_t group) {
    const int64_t outputs = padded(problem_.n_classes * member_.n_components), rows = padded(now.n);
    const int64_t c0 = group * group_, c1 = std::min(member_.width(), c0 + group_);
    const int64_t first = tile * kTileRows, count = std::min(now.n - first, kTileRows);
    float* x = x_.data() + (group * rows + first) * group_;
    problem_.kernels->gather(problem_.rows,
                             {now.samples + first, count, member_.columns, member_.n_features, c0, c1, x, group_});
    problem_.kernels->residuals({problem_.sgemm, x, group_, count, c1 - c0, moving_.data() + c0 * outputs, outputs,
                                 z_.data() + (group * rows + first) * outputs});
}

// The residuals of a tile of rows become the slope of the loss by them.
void AdamMember::loss(const Step& now, int64_t tile, int thread) {
    const int64_t m = problem_.n_classes, q = member_.n_components, outputs = padded(m * q), rows = padded(now.n);
    const int64_t first = tile * kTileRows, last = std::min(now.n, first + kTileRows);
    float* z = z_.data() + first * outputs;
    for (int64_t group = 1; group < n_groups_; ++group)
        problem_.kernels->add(z + group * rows * outputs, (last - first) * outputs, z);
    for (int64_t i = first; i < last; ++i) {
        row_target_[i] = problem_.target[now.samples[i]];
        if (member_.sample_weight != nullptr) row_weight_[i] = member_.sample_weight[now.samples[i]];
    }
    const int64_t values = LossTile::kAtOnce * m;
    float* scratch = scratch_.data() + thread * apart(2 * values);
    tile_loss_[tile] = problem_.kernels->ratio_loss(
        {z, outputs, last - first, m, q, row_target_.data() + first,
         member_.sample_weight == nullptr ? nullptr : row_weight_.data() + first, member_.class_weight, energy_.data(),
         member_.alpha, 1.0f / static_cast<float>(now.n), scratch, scratch + values,
         tile_slope_.data() + tile * apart(m), row_active_.data() + first});
}

// Cosine from 1 to final_rate over the planned passes, with Adam's bias corrections.
float AdamMember::learning_rate() const {
    const double progress =
        std::min(1.0, (static_cast<double>(passes_) + static_cast<double>(batch_) / static_cast<double>(n_batches_)) /
                          static_cast<double>(settings_.n_passes));
    const double fade =
        settings_.final_rate + (1.0 - settings_.final_rate) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    const double t = static_cast<double>(steps_);
    const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(settings_.beta2), t)) /
                              (1.0 - std::pow(static_cast<double>(settings_.beta1), t));
    return static_cast<float>(settings_.learning_rate * fade * correction);
}

// Gradient and step of a tile of features and outputs; `from` is the tile's first feature within its group.
void AdamMember::update(const Step& now, float rate, int64_t group, int64_t from, int64_t o0, float* norm, int thread) {
    const int64_t outputs = padded(problem_.n_classes * member_.n_components);
    const int64_t c0 = group * group_ + from;
    const int64_t c1 = std::min({member_.width(), (group + 1) * group_, c0 + kTileFeatures});
    if (c0 >= c1) return;
    const int64_t count = std::min(outputs - o0, kTileOutputs);
    float* slopes = gradient_.data() + thread * kTileFeatures * kTileOutputs;
    problem_.kernels->gradient({problem_.sgemm, x_.data() + group * padded(now.n) * group_ + from, group_, now.n,
                                c1 - c0, z_.data() + o0, outputs, count, slopes});
    for (int64_t c = c0; c < c1; ++c) {
        const int64_t at = c * outputs + o0;
        const bool noisy = norm != nullptr && c < member_.n_features;  // noise does not touch the offset
        problem_.kernels->adam({moving_.data() + at, moving_first_.data() + at, moving_second_.data() + at,
                                slopes + (c - c0) * count, count, noisy ? decay_.data() + o0 : nullptr,
                                noisy ? norm + o0 : nullptr, settings_.beta1, settings_.beta2, rate,
                                settings_.epsilon});
    }
}

}  // namespace multiform
