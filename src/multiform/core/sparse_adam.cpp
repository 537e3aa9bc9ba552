#include "sparse_adam.hpp"

#include <algorithm>
#include <cmath>

namespace multiform {

constexpr int64_t kPartFeatures = 64;  // whose gradient is one task; fixed, as the tiles of rows are
// What one step's decay may take of a row, and how far its factor may go before it is multiplied out.
constexpr float kLeast = 0.5f, kFar = 1e4f;

static AdamSettings without_first_moment(AdamSettings settings) {
    settings.beta1 = 0;
    return settings;
}

SparseAdamMember::SparseAdamMember(const Problem& problem, const Member& member, const AdamSettings& settings,
                                   float* second, int64_t steps)
    : AdamMember(problem, member, without_first_moment(settings), nullptr, nullptr, steps),
      entries_(problem_.rows, member.columns, member.n_features),
      outputs_(padded(problem.n_classes * member.n_components)),
      second_(second) {
    n_groups_ = 1;
}

void SparseAdamMember::train(Team& team, int64_t until, double deadline) {
    if (passes_ >= until) return;  // done, while others of its batch are not
    if (stored_.empty()) lay_out();
    reserve_loss(team.size());
    run(team, until, deadline);
    if (passes_ >= until) write_back();
    if (passes_ >= settings_.n_passes) AlignedVector<float>().swap(stored_);
}

void SparseAdamMember::lay_out() {
    const int64_t count = problem_.n_classes * member_.n_components, width = member_.width();
    by_feature(member_.weights, count, width, stored_);
    offset_.assign(stored_.begin() + member_.n_features * outputs_, stored_.begin() + width * outputs_);
    slot_.assign(static_cast<size_t>(member_.n_features), -1);
    factor_.assign(static_cast<size_t>(outputs_), 1.0f);
    norm_.resize(static_cast<size_t>(outputs_));
    move_.resize(static_cast<size_t>(outputs_));
}

void SparseAdamMember::write_back() {
    renew();
    const int64_t count = problem_.n_classes * member_.n_components, width = member_.width();
    std::copy(offset_.begin(), offset_.end(), stored_.begin() + member_.n_features * outputs_);
    by_output(stored_, count, width, member_.weights);
}

// Multiplies the factors out, and takes the norms anew.
void SparseAdamMember::renew() {
    std::fill(norm_.begin(), norm_.end(), 0.0);
    for (int64_t c = 0; c < member_.n_features; ++c) {
        float* weights = stored_.data() + c * outputs_;
        for (int64_t o = 0; o < outputs_; ++o) {
            weights[o] *= factor_[o];
            norm_[o] += static_cast<double>(weights[o]) * static_cast<double>(weights[o]);
        }
    }
    std::fill(factor_.begin(), factor_.end(), 1.0f);
}

void SparseAdamMember::begin_pass() {
    AdamMember::begin_pass();
    renew();
}

// The entries of the batch by row, and by feature in the order of their first appearance.
void SparseAdamMember::read_batch(const Step& now) {
    row_start_.assign(1, 0);
    row_feature_.clear();
    row_value_.clear();
    for (int64_t i = 0; i < now.n; ++i) {
        entries_.read(now.samples[i], row_feature_, row_value_);
        row_start_.push_back(static_cast<int64_t>(row_feature_.size()));
    }
    features_.clear();
    feature_start_.assign(1, 0);
    for (const int32_t feature : row_feature_) {
        if (slot_[feature] < 0) {
            slot_[feature] = static_cast<int32_t>(features_.size());
            features_.push_back(feature);
            feature_start_.push_back(0);
        }
        ++feature_start_[slot_[feature] + 1];
    }
    for (size_t at = 1; at < feature_start_.size(); ++at) feature_start_[at] += feature_start_[at - 1];
    feature_row_.resize(row_feature_.size());
    feature_value_.resize(row_feature_.size());
    next_.assign(feature_start_.begin(), feature_start_.end());
    for (int64_t i = 0; i < now.n; ++i)
        for (int64_t at = row_start_[i]; at < row_start_[i + 1]; ++at) {
            const int64_t to = next_[slot_[row_feature_[at]]]++;
            feature_row_[to] = static_cast<int32_t>(i);
            feature_value_[to] = row_value_[at];
        }
    for (const int32_t feature : features_) slot_[feature] = -1;
}

void SparseAdamMember::step(Team& team, int64_t begin, int64_t end) {
    const Step now{order_.data() + begin, end - begin};
    const int64_t m = problem_.n_classes, q = member_.n_components, count_outputs = m * q;
    const Kernels& kernels = *problem_.kernels;
    for (int64_t k = 0; k < m; ++k) {
        double norm = 0;
        for (int64_t o = k * q; o < (k + 1) * q; ++o) norm += norm_[o];
        energy_[k] = member_.noise * static_cast<float>(norm);
    }
    read_batch(now);

    // z = factor * (stored x) - offset, and its slope
    const int64_t n_tiles = (now.n + kTileRows - 1) / kTileRows;
    std::fill(tile_slope_.begin(), tile_slope_.end(), 0.0);
    team.each(n_tiles, [&](int64_t tile, int thread) {
        for (int64_t i = tile * kTileRows; i < std::min(now.n, (tile + 1) * kTileRows); ++i) {
            const int64_t first = row_start_[i];
            float* z = z_.data() + i * outputs_;
            kernels.sum_rows({row_feature_.data() + first, row_value_.data() + first, row_start_[i + 1] - first,
                              stored_.data(), outputs_, z});
            for (int64_t o = 0; o < outputs_; ++o) z[o] = z[o] * factor_[o] - offset_[o];
        }
        loss(now, tile, thread);
    });
    count(now, n_tiles);

    // What x contributes to the gradient, with its squares and its products with the weights.
    const auto n_features = static_cast<int64_t>(features_.size());
    const int64_t n_parts = (n_features + kPartFeatures - 1) / kPartFeatures;
    slopes_.resize(static_cast<size_t>(n_features * outputs_));
    part_squares_.assign(static_cast<size_t>(n_parts * outputs_), 0.0f);
    part_products_.assign(static_cast<size_t>(n_parts * outputs_), 0.0f);
    team.each(n_parts, [&](int64_t part, int) {
        for (int64_t at = part * kPartFeatures; at < std::min(n_features, (part + 1) * kPartFeatures); ++at) {
            const int64_t first = feature_start_[at];
            float* slope = slopes_.data() + at * outputs_;
            kernels.sum_rows({feature_row_.data() + first, feature_value_.data() + first,
                              feature_start_[at + 1] - first, z_.data(), outputs_, slope});
            kernels.add_products(slope, stored_.data() + features_[at] * outputs_, outputs_,
                                 part_squares_.data() + part * outputs_, part_products_.data() + part * outputs_);
        }
    });

    // v and the step of each row. With g from x, d the decay and w = factor * stored:
    //   ||g + d w||^2 = ||g||^2 + 2 d g.w + d^2 ||w||^2,     w <- (1 - step d) w - step g
    const float rate = learning_rate();
    bool far = false;
    for (int64_t o = 0; o < count_outputs; ++o) {
        double squares = 0, products = 0, offset_slope = 0;
        for (int64_t part = 0; part < n_parts; ++part) {
            squares += static_cast<double>(part_squares_[part * outputs_ + o]);
            products += static_cast<double>(part_products_[part * outputs_ + o]);
        }
        for (int64_t i = 0; i < now.n; ++i) offset_slope -= static_cast<double>(z_[i * outputs_ + o]);
        products *= static_cast<double>(factor_[o]);
        const double decay =
            2.0 * static_cast<double>(member_.noise) * (member_.noise > 0 ? class_slope(o / q, n_tiles) : 0.0);
        const double square = squares + 2 * decay * products + decay * decay * norm_[o] + offset_slope * offset_slope;
        const double beta2 = static_cast<double>(settings_.beta2);
        second_[o] = static_cast<float>(beta2 * static_cast<double>(second_[o]) +
                                        (1 - beta2) * square / static_cast<double>(member_.n_features));
        const double step = static_cast<double>(rate) /
                            (std::sqrt(static_cast<double>(second_[o])) + static_cast<double>(settings_.epsilon));
        const double keep = std::max(1 - step * decay, static_cast<double>(kLeast));
        norm_[o] = std::max(keep * keep * norm_[o] - 2 * keep * step * products + step * step * squares, 0.0);
        factor_[o] *= static_cast<float>(keep);
        move_[o] = static_cast<float>(step) / factor_[o];
        offset_[o] -= static_cast<float>(step * offset_slope);
        far |= factor_[o] > kFar || factor_[o] < 1 / kFar;
    }
    team.each(n_parts, [&](int64_t part, int) {
        for (int64_t at = part * kPartFeatures; at < std::min(n_features, (part + 1) * kPartFeatures); ++at)
            kernels.descend(slopes_.data() + at * outputs_, move_.data(), outputs_,
                            stored_.data() + features_[at] * outputs_);
    });
    if (far) renew();
}

}  // namespace multiform
