#include "cpm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace multiform {

constexpr int64_t kLanes = 16;
constexpr int64_t kTileRows = 256;
constexpr int64_t kTiles = 16;  // looked at together, whatever the number of threads
constexpr float kTiny = 1e-30f;
constexpr float kLeftOut = std::numeric_limits<float>::infinity();

namespace {

// As the kernels' residuals, but in double: a row's result does not depend on its place in the tile, which BLAS does
// not promise. The weights stand by output.
void exact_residuals(const float* x, int64_t stride, int64_t n, const float* w, int64_t rows, int64_t width, float* z,
                     int64_t z_stride) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t r = 0; r < rows; ++r) {
            double sum = 0;
            for (int64_t c = 0; c < width; ++c)
                sum += static_cast<double>(x[i * stride + c]) * static_cast<double>(w[r * width + c]);
            z[i * z_stride + r] = static_cast<float>(sum);
        }
}

}  // namespace

CpmMember::CpmMember(const Problem& problem, const Member& member, const CpmSettings& settings, float* steps)
    : problem_(problem), member_(member), settings_(settings), steps_(steps), random_(member.seed) {
    for (int64_t i = 0; i < problem.rows.n_rows; ++i)
        if ((member.sample_weight == nullptr || member.sample_weight[i] > 0) &&
            member.class_weight[problem.target[i]] > 0)
            eligible_.push_back(static_cast<int32_t>(i));
    active_.assign(static_cast<size_t>(problem.rows.n_rows), 1);
    energy_.resize(static_cast<size_t>(problem.n_classes));
    sets_.resize(static_cast<size_t>(problem.n_classes));
    by_size_.resize(sets_.size());
}

float CpmMember::weight(int64_t place) const {
    const int32_t sample = kept_[place];
    return (member_.sample_weight == nullptr ? 1.0f : member_.sample_weight[sample]) *
           member_.class_weight[problem_.target[sample]];
}

// Looks at the samples in order until the sweep is full, and keeps those with a pair above slack * alpha.
void CpmMember::begin_sweep(Team& team) {
    const int64_t m = problem_.n_classes, q = member_.n_components, outputs = m * q;
    const int64_t width = member_.width(), stride = padded(width), z_stride = padded(outputs);
    order_.clear();
    for (const int32_t i : eligible_)
        if (active_[i] || settings_.revisit >= 1 || random_.uniform() < settings_.revisit) order_.push_back(i);
    if (settings_.max_entries > 0) random_.shuffle(order_);
    noise_energy(member_, m, energy_.data());
    if (settings_.frozen_own) by_feature(member_.weights, outputs, width, by_feature_);

    kept_.clear();
    f_.clear();
    for (auto& set : sets_) {
        set.own.clear();
        set.other.clear();
        set.tried = set.accepted = set.looked = 0;
    }
    tile_x_.resize(static_cast<size_t>(team.size() * kTileRows * stride));
    tile_z_.resize(static_cast<size_t>(team.size() * kTileRows * z_stride));
    tile_f_.resize(static_cast<size_t>(kTiles * kTileRows * m));
    const int64_t most = settings_.max_entries > 0
                             ? settings_.max_entries * std::min(sweeps_ + 1, settings_.ramp) / settings_.ramp
                             : std::numeric_limits<int64_t>::max();
    const float threshold = settings_.slack * member_.alpha;
    int64_t entries = 0;
    double loss = 0, looked = 0;
    const int64_t n = static_cast<int64_t>(order_.size());
    for (int64_t begin = 0; begin < n && entries < most; begin += kTiles * kTileRows) {
        const int64_t end = std::min(n, begin + kTiles * kTileRows);
        team.each((end - begin + kTileRows - 1) / kTileRows, [&](int64_t tile, int thread) {
            const int64_t first = begin + tile * kTileRows, last = std::min(end, first + kTileRows);
            float* x = tile_x_.data() + thread * kTileRows * stride;
            float* z = tile_z_.data() + thread * kTileRows * z_stride;
            problem_.kernels->gather(problem_.rows, {order_.data() + first, last - first, member_.columns,
                                                     member_.n_features, 0, width, x, stride});
            if (settings_.frozen_own)
                problem_.kernels->residuals(
                    {problem_.sgemm, x, stride, last - first, width, by_feature_.data(), z_stride, z});
            else
                exact_residuals(x, stride, last - first, member_.weights, outputs, width, z, z_stride);
            problem_.kernels->member_values(z, z_stride, last - first, m, q, tile_f_.data() + tile * kTileRows * m);
        });
        for (int64_t i = begin; i < end && entries < most; ++i) {
            const int32_t sample = order_[i];
            const int32_t y = problem_.target[sample];
            float* f = tile_f_.data() + (i - begin) * m;
            for (int64_t k = 0; k < m; ++k) f[k] = std::max(f[k] + energy_[k], kTiny);
            float sample_loss = 0;
            int64_t pairs = 0;
            const auto place = static_cast<int32_t>(kept_.size());
            for (int64_t j = 0; j < m; ++j) {
                if (j == y) continue;
                const float ratio = f[y] / f[j];
                sample_loss += std::max(member_.alpha, ratio);
                if (threshold <= 0 || ratio > threshold) {
                    sets_[j].other.push_back(place);
                    ++pairs;
                } else {
                    f[j] = kLeftOut;
                }
            }
            const float w =
                (member_.sample_weight == nullptr ? 1.0f : member_.sample_weight[sample]) * member_.class_weight[y];
            loss += static_cast<double>(w) * static_cast<double>(sample_loss);
            looked += static_cast<double>(w);
            active_[sample] = pairs > 0;
            if (pairs == 0) continue;
            sets_[y].own.push_back(place);
            kept_.push_back(sample);
            f_.insert(f_.end(), f, f + m);
            entries += pairs + 1;
        }
    }
    losses_.push_back(looked > 0 ? loss / looked : 0.0);
    team.each(m, [&](int64_t k, int) { lay_out(sets_[k]); });
    std::iota(by_size_.begin(), by_size_.end(), 0);
    std::stable_sort(by_size_.begin(), by_size_.end(),
                     [&](int64_t a, int64_t b) { return sets_[a].n_lanes > sets_[b].n_lanes; });
}

// Own samples, then the others, each padded to whole blocks of lanes; a column is contiguous.
void CpmMember::lay_out(ClassSet& set) {
    const int64_t m = problem_.n_classes, p = member_.n_features, stride = padded(p + 1);
    set.own_lanes = padded(static_cast<int64_t>(set.own.size()));
    set.n_lanes = set.own_lanes + padded(static_cast<int64_t>(set.other.size()));
    const int64_t n_blocks = set.n_lanes / kLanes;
    const bool raw = problem_.rows.kind == RowKind::uint8;
    if (raw)
        set.bytes.assign(static_cast<size_t>((p + 1) * set.n_lanes), 0);
    else
        set.columns.assign(static_cast<size_t>((p + 1) * set.n_lanes), 0.0f);
    std::vector<float> block(raw ? 0 : static_cast<size_t>(kLanes * stride));
    std::vector<uint8_t> present(static_cast<size_t>((p + 1) * n_blocks), 0);
    for (int64_t b = 0; b < n_blocks; ++b) {
        int32_t samples[kLanes];
        int64_t count = 0;
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const int64_t at = b * kLanes + lane;
            const auto& list = at < set.own_lanes ? set.own : set.other;
            const int64_t index = at < set.own_lanes ? at : at - set.own_lanes;
            if (index < static_cast<int64_t>(list.size())) samples[count++] = kept_[list[index]];
        }
        if (raw) {
            const uint8_t* rows[kLanes];
            for (int64_t lane = 0; lane < count; ++lane)
                rows[lane] =
                    static_cast<const uint8_t*>(problem_.rows.values) + samples[lane] * problem_.rows.row_stride;
            for (int64_t c = 0; c < p; ++c) {
                uint8_t* out = set.bytes.data() + c * set.n_lanes + b * kLanes;
                const int64_t column = member_.columns == nullptr ? c : member_.columns[c];
                uint8_t any = problem_.rows.center[column] != 0.0f;
                for (int64_t lane = 0; lane < count; ++lane) any |= out[lane] = rows[lane][column];
                present[c * n_blocks + b] = any;
            }
            for (int64_t lane = 0; lane < count; ++lane) set.bytes[p * set.n_lanes + b * kLanes + lane] = 1;
            present[p * n_blocks + b] = 1;
        } else {
            problem_.kernels->gather(problem_.rows,
                                     {samples, count, member_.columns, p, 0, p + 1, block.data(), stride});
            for (int64_t c = 0; c <= p; ++c) {
                float* out = set.columns.data() + c * set.n_lanes + b * kLanes;
                bool any = false;
                for (int64_t lane = 0; lane < count; ++lane) any |= (out[lane] = block[lane * stride + c]) != 0.0f;
                present[c * n_blocks + b] = any;
            }
        }
    }
    set.block_list.clear();
    set.block_start.assign(1, 0);
    for (int64_t c = 0; c <= p; ++c) {
        for (int64_t b = 0; b < n_blocks; ++b)
            if (present[c * n_blocks + b] || (!settings_.frozen_own && member_.noise > 0))
                set.block_list.push_back(static_cast<int32_t>(b));
        set.block_start.push_back(static_cast<int64_t>(set.block_list.size()));
    }
    const auto lanes = static_cast<size_t>(set.n_lanes);
    for (auto* values : {&set.residual, &set.loss, &set.trial, &set.scaled_target, &set.floor, &set.f})
        values->assign(lanes, 0.0f);
    set.rest.assign(lanes, 1.0f);
    // Never empty, also when no sample of the own class takes part: the kernel reads a null slope as `not frozen`.
    set.own_slope.assign(static_cast<size_t>(set.own_lanes + kLanes), 0.0f);
    if (!settings_.frozen_own) {
        set.weight.assign(lanes, 0.0f);
        set.inverse_rival.assign(static_cast<size_t>(m * set.own_lanes), 0.0f);
    }
}

// Coordinates A_k[r, :] and b_k[r], one after the other, against the f of the last exchange.
void CpmMember::move_row(int64_t k, int64_t r) {
    ClassSet& set = sets_[k];
    if (set.n_lanes == 0) return;
    const int64_t m = problem_.n_classes, p = member_.n_features;
    const bool raw = problem_.rows.kind == RowKind::uint8;
    float* weights = member_.weights + (k * member_.n_components + r) * (p + 1);
    const float alpha = member_.alpha;

    CpmRow row{};
    row.n_features = p;
    row.bytes = raw;
    row.columns = raw ? static_cast<const void*>(set.bytes.data()) : static_cast<const void*>(set.columns.data());
    row.n_lanes = set.n_lanes;
    row.own_blocks = set.own_lanes / kLanes;
    row.center = problem_.rows.center;
    row.inverse_scale = problem_.rows.inverse_scale;
    row.selected = member_.columns;
    row.block_list = set.block_list.data();
    row.block_start = set.block_start.data();
    row.weights = weights;
    row.steps = steps_ + (k * member_.n_components + r) * (p + 1);
    row.residual = set.residual.data();
    row.rest = set.rest.data();
    row.own_slope = settings_.frozen_own ? set.own_slope.data() : nullptr;
    row.weight = set.weight.data();
    row.scaled_target = set.scaled_target.data();
    row.floor = set.floor.data();
    row.loss = set.loss.data();
    row.trial = set.trial.data();
    row.n_classes = m;
    row.inverse_rival = set.inverse_rival.data();
    row.alpha = alpha;
    row.noise = member_.noise;
    problem_.kernels->cpm_residual(row);

    double noise_slope = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(set.own.size()); ++i) {
        const float* f = f_.data() + set.own[i] * m;
        const float w = weight(set.own[i]);
        float slope = 0, loss = 0;
        for (int64_t j = 0; j < m; ++j) {
            if (j == k || f[j] == kLeftOut) continue;
            const float ratio = f[k] / f[j];
            if (ratio > alpha) slope += w / f[j];
            loss += std::max(alpha, ratio);
            if (!settings_.frozen_own) set.inverse_rival[j * set.own_lanes + i] = 1.0f / f[j];
        }
        if (!settings_.frozen_own) set.weight[i] = w;
        set.own_slope[i] = slope;
        set.loss[i] = loss;
        set.rest[i] = std::max(f[k] - set.residual[i] * set.residual[i], kTiny);
        noise_slope += static_cast<double>(slope);
    }
    for (int64_t i = 0; i < static_cast<int64_t>(set.other.size()); ++i) {
        const float* f = f_.data() + set.other[i] * m;
        const int64_t at = set.own_lanes + i;
        const int32_t y = problem_.target[kept_[set.other[i]]];
        const float w = weight(set.other[i]), applied = settings_.frozen_own ? w : 1.0f;
        set.scaled_target[at] = applied * f[y];
        set.floor[at] = applied * alpha;
        set.loss[at] = std::max(applied * alpha, applied * f[y] / f[k]);
        if (!settings_.frozen_own) set.weight[at] = w;
        set.rest[at] = std::max(f[k] - set.residual[at] * set.residual[at], kTiny);
        if (f[y] > alpha * f[k]) noise_slope -= static_cast<double>(w * f[y] / (f[k] * f[k]));
    }

    const double before = settings_.frozen_own ? std::inner_product(weights, weights + p, weights, 0.0) : 0.0;
    row.noise_slope = noise_slope;
    row.grow = settings_.grow;
    row.shrink = settings_.shrink;
    row.smallest = settings_.smallest;
    row.largest = settings_.largest;
    row.largest_offset = settings_.largest_offset;
    problem_.kernels->cpm_row(row);
    set.tried += row.tried;
    set.accepted += row.accepted;
    set.looked += row.looked;

    // The exact path has moved `rest` along with the noise energy; the frozen one does it here, once a row.
    float shift = 0;
    if (settings_.frozen_own && member_.noise > 0) {
        const double after = std::inner_product(weights, weights + p, weights, 0.0);
        shift = member_.noise * static_cast<float>(after - before);
    }
    for (int64_t at = 0; at < set.n_lanes; ++at)
        set.f[at] = std::max(set.rest[at] + set.residual[at] * set.residual[at] + shift, kTiny);
}

void CpmMember::publish(int64_t k) {
    const int64_t m = problem_.n_classes;
    const ClassSet& set = sets_[k];
    for (size_t i = 0; i < set.own.size(); ++i) f_[set.own[i] * m + k] = set.f[i];
    for (size_t i = 0; i < set.other.size(); ++i) f_[set.other[i] * m + k] = set.f[set.own_lanes + i];
}

bool CpmMember::sweep(Team& team, double deadline) {
    const auto late = [deadline] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() > deadline;
    };
    const int64_t m = problem_.n_classes, q = member_.n_components;
    if (next_row_ < 0) {
        begin_sweep(team);
        next_row_ = 0;
        if (late()) return false;
    }
    const int64_t n_units = settings_.synchronous ? q : m * q;
    for (; next_row_ < n_units;) {
        if (settings_.synchronous) {
            const int64_t r = next_row_;
            team.each(m, [&](int64_t at, int) { move_row(by_size_[at], r); });
            team.each(m, [&](int64_t k, int) { publish(k); });
        } else {
            move_row(next_row_ / q, next_row_ % q);
            publish(next_row_ / q);
        }
        ++next_row_;
        if (late() && next_row_ < n_units) return false;
    }
    for (const auto& set : sets_) {
        tried_ += set.tried;
        accepted_ += set.accepted;
        looked_ += set.looked;
    }
    next_row_ = -1;
    ++sweeps_;
    return true;
}

}  // namespace multiform
