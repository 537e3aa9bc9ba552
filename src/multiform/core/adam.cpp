#include "adam.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

namespace multiform {

// Tiles are fixed by the problem alone, so the number of threads never changes a bit of the result.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 400;

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
        static_cast<size_t>(std::min<int64_t>(settings_.batch_size, static_cast<int64_t>(eligible_.size())));
    const auto outputs = static_cast<size_t>(problem_.n_classes * member_.n_components);
    const auto width = static_cast<size_t>(member_.width());
    const auto tiles = rows / kTileRows + 1;
    x_.resize(rows * static_cast<size_t>(padded(member_.width())));
    z_.resize(rows * outputs);
    gradient_.resize(outputs * width);
    scratch_.resize(static_cast<size_t>(n_threads * apart(2 * problem_.n_classes)));
    row_weight_.resize(rows);
    row_target_.resize(rows);
    row_active_.resize(rows);
    tile_loss_.resize(tiles);
    tile_slope_.resize(tiles * static_cast<size_t>(apart(problem_.n_classes)));
}

void AdamMember::train(Team& team, int64_t until, double deadline) {
    const auto now = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    reserve(team.size());
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
    const int64_t outputs = m * q, width = member_.width(), stride = padded(width);
    const Kernels& kernels = *problem_.kernels;
    const int32_t* samples = order_.data() + begin;

    // Forward, loss and its slope: tiles of rows.
    const int64_t n_row_tiles = (n + kTileRows - 1) / kTileRows;
    const float scale = 1.0f / static_cast<float>(n);
    std::fill(tile_slope_.begin(), tile_slope_.end(), 0.0);
    team.each_in_place(n_row_tiles, [&](int64_t tile, int thread) {
        const int64_t first = tile * n / n_row_tiles, last = (tile + 1) * n / n_row_tiles;
        kernels.gather(problem_.rows, samples + first, last - first, member_.columns, member_.n_features,
                       x_.data() + first * stride, stride);
        residuals(problem_.sgemm, x_.data() + first * stride, stride, last - first, member_.weights, outputs, width,
                  z_.data() + first * outputs);
        for (int64_t i = first; i < last; ++i) {
            row_target_[i] = problem_.target[samples[i]];
            if (member_.sample_weight != nullptr) row_weight_[i] = member_.sample_weight[samples[i]];
        }
        float* scratch = scratch_.data() + thread * apart(2 * m);
        const LossTile loss{z_.data() + first * outputs,
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
        for (int64_t i = first; i < last; ++i) active_[samples[i]] = row_active_[i];
    });
    for (int64_t tile = 0; tile < n_row_tiles; ++tile) pass_loss_ += tile_loss_[tile];
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

    // Gradient and update: tiles of the longer side of the weights, (outputs, width).
    const bool by_column = width >= outputs;
    const int64_t long_side = by_column ? width : m;
    const int64_t tile_length = by_column ? kTileColumns : std::max<int64_t>(1, kTileColumns / q);
    const int64_t n_tiles = (long_side + tile_length - 1) / tile_length;
    tile_norm_.assign(static_cast<size_t>(n_tiles * apart(m)), 0.0);
    team.each_in_place(n_tiles, [&](int64_t tile, int) {
        const int64_t first = tile * long_side / n_tiles, last = (tile + 1) * long_side / n_tiles;
        const int64_t c0 = by_column ? first : 0, c1 = by_column ? last : width;
        const int64_t k0 = by_column ? 0 : first, k1 = by_column ? m : last;
        char yes = 'T', no = 'N';
        float one = 1, zero = 0;
        int m_ = static_cast<int>(c1 - c0), n_ = static_cast<int>((k1 - k0) * q), k_ = static_cast<int>(n);
        int ldx = static_cast<int>(stride), ldz = static_cast<int>(outputs), ldg = static_cast<int>(width);
        problem_.sgemm(&no, &yes, &m_, &n_, &k_, &one, x_.data() + c0, &ldx, z_.data() + k0 * q, &ldz, &zero,
                       gradient_.data() + k0 * q * width + c0, &ldg);
        const int64_t inner = std::min(c1, member_.n_features) - c0;
        for (int64_t k = k0; k < k1; ++k) {
            double slope = 0;
            for (int64_t t_ = 0; t_ < n_row_tiles; ++t_) slope += tile_slope_[t_ * apart(m) + k];
            const float decay = 2.0f * member_.noise * static_cast<float>(slope);
            for (int64_t row = k * q; row < (k + 1) * q; ++row) {
                const int64_t at = row * width + c0;
                AdamSlice slice{
                    member_.weights + at, first_ + at,     second_ + at, gradient_.data() + at, inner, decay,
                    settings_.beta1,      settings_.beta2, rate,         settings_.epsilon};
                kernels.adam(slice);
                if (c1 == width) {  // the offset, which noise does not touch
                    const int64_t end_ = row * width + width - 1;
                    kernels.adam({member_.weights + end_, first_ + end_, second_ + end_, gradient_.data() + end_, 1,
                                  0.0f, settings_.beta1, settings_.beta2, rate, settings_.epsilon});
                }
                if (member_.noise > 0) {
                    float norm = 0;
                    kernels.member_values(member_.weights + at, 1, 1, inner, &norm);
                    tile_norm_[tile * apart(m) + k] += static_cast<double>(norm);
                }
            }
        }
    });
    if (member_.noise > 0)
        for (int64_t k = 0; k < m; ++k) {
            double norm = 0;
            for (int64_t tile = 0; tile < n_tiles; ++tile) norm += tile_norm_[tile * apart(m) + k];
            energy_[k] = member_.noise * static_cast<float>(norm);
        }
}

}  // namespace multiform
