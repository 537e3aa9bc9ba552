#include "cpm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace multiform {

constexpr int64_t kLanes = 16;
constexpr int64_t kTileRows = 256;
constexpr int64_t kMostTiles = 16, kFewestTiles = 4;  // looked at together, whatever the number of threads
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

// Makes room without touching what is there already.
template <typename Value>
void make_room(AlignedVector<Value>& values, int64_t length) {
    if (values.size() < static_cast<size_t>(length)) values.resize(static_cast<size_t>(length));
}

}  // namespace

std::shared_ptr<CpmSweep> SweepPool::take() {
    auto sweep = std::make_unique<CpmSweep>();
    {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            sweep = std::move(free_.back());
            free_.pop_back();
        }
    }
    return {sweep.release(), [pool = shared_from_this()](CpmSweep* over) {
                std::unique_ptr<CpmSweep> sweep(over);
                const std::lock_guard lock(pool->mutex_);
                try {
                    pool->free_.push_back(std::move(sweep));
                } catch (const std::bad_alloc&) {  // no room to keep it: it is freed
                }
            }};
}

CpmMember::CpmMember(const Problem& problem, const Member& member, const CpmSettings& settings, float* steps)
    : problem_(problem),
      member_(member),
      settings_(settings),
      steps_(steps),
      entries_(problem_.rows, member.columns, member.n_features),
      // Exact noise changes the f of every sample with every coordinate, whether the sample has an entry or not.
      sparse_(entries_.few() && settings.frozen_own),
      random_(member.seed),
      pool_(std::make_shared<SweepPool>()) {
    for (int64_t i = 0; i < problem.rows.n_rows; ++i)
        if ((member.sample_weight == nullptr || member.sample_weight[i] > 0) &&
            member.class_weight[problem.target[i]] > 0)
            eligible_.push_back(static_cast<int32_t>(i));
    active_.assign(static_cast<size_t>(problem.rows.n_rows), 1);
    new_f_.resize(static_cast<size_t>(problem.n_classes));
    counts_.resize(new_f_.size());
}

float CpmMember::weight(int32_t sample) const {
    return (member_.sample_weight == nullptr ? 1.0f : member_.sample_weight[sample]) *
           member_.class_weight[problem_.target[sample]];
}

// Whether the first sweep of both keeps the same samples with the same f: all but the weights and the steps.
bool CpmMember::begins_like(const CpmMember& other) const {
    const auto fresh = [](const CpmMember& member) { return member.sweeps_ == 0 && member.next_row_ < 0; };
    const Member &a = member_, &b = other.member_;
    const auto n_weights = problem_.n_classes * a.n_components * a.width();
    return fresh(*this) && fresh(other) && problem_.target == other.problem_.target &&
           problem_.rows.values == other.problem_.rows.values && problem_.rows.center == other.problem_.rows.center &&
           problem_.n_classes == other.problem_.n_classes && problem_.kernels == other.problem_.kernels &&
           a.seed == b.seed && a.alpha == b.alpha && a.noise == b.noise && a.n_components == b.n_components &&
           a.n_features == b.n_features && (a.columns == nullptr) == (b.columns == nullptr) &&
           (a.columns == nullptr || std::equal(a.columns, a.columns + a.n_features, b.columns)) &&
           settings_ == other.settings_ && eligible_ == other.eligible_ &&
           std::equal(a.weights, a.weights + n_weights, b.weights);
}

void CpmMember::share(const std::vector<CpmMember*>& members) {
    std::vector<CpmMember*> different;
    for (CpmMember* member : members) {
        if (member != members[0] && member->pool_ == members[0]->pool_) return;  // has been done
        member->pool_ = members[0]->pool_;
        const auto alike = std::find_if(different.begin(), different.end(),
                                        [&](const CpmMember* other) { return member->begins_like(*other); });
        if (alike == different.end()) {
            different.push_back(member);
            continue;
        }
        if ((*alike)->first_ == nullptr) (*alike)->first_ = std::make_shared<FirstSweep>();
        member->first_ = (*alike)->first_;
    }
}

void CpmMember::begin_sweep(Team& team) {
    if (first_ == nullptr) {
        sweep_ = choose(team);
    } else {
        {
            const std::lock_guard lock(first_->mutex);
            if (first_->sweep == nullptr) first_->sweep = choose(team);
            sweep_ = first_->sweep;
        }
        first_.reset();
    }
    random_ = sweep_->random;
    f_.assign(sweep_->f.begin(), sweep_->f.end());
    weight_.clear();
    for (const int32_t sample : sweep_->samples) weight_.push_back(weight(sample));
    double loss = 0, total_weight = 0;
    for (size_t i = 0; i < sweep_->looked.size(); ++i) {
        const int32_t sample = sweep_->looked[i];
        const auto w = static_cast<double>(weight(sample));
        loss += w * static_cast<double>(sweep_->looked_loss[i]);
        total_weight += w;
        active_[sample] = sweep_->looked_active[i];
    }
    losses_.push_back(total_weight > 0 ? loss / total_weight : 0.0);
    std::fill(counts_.begin(), counts_.end(), Counts{});
}

// Looks at the samples in order until the sweep is full, and keeps those with a pair above slack * alpha.
std::shared_ptr<const CpmSweep> CpmMember::choose(Team& team) {
    const int64_t m = problem_.n_classes, q = member_.n_components, outputs = m * q;
    const int64_t width = member_.width(), stride = padded(width), z_stride = padded(outputs);
    const std::shared_ptr<CpmSweep> sweep = pool_->take();
    auto& order = sweep->looked;
    order.clear();
    sweep->random = random_;
    for (const int32_t i : eligible_)
        if (active_[i] || settings_.revisit >= 1 || sweep->random.uniform() < settings_.revisit) order.push_back(i);
    if (settings_.max_entries > 0) sweep->random.shuffle(order);
    std::vector<float> energy(static_cast<size_t>(m));
    noise_energy(member_, m, energy.data());
    if (settings_.frozen_own) by_feature(member_.weights, outputs, width, sweep->by_feature);

    sweep->looked_loss.clear();
    sweep->looked_active.clear();
    sweep->samples.clear();
    sweep->target.clear();
    sweep->f.clear();
    sweep->classes.resize(static_cast<size_t>(m));
    for (auto& set : sweep->classes) {
        set.own.clear();
        set.other.clear();
        set.own_residuals.clear();
        set.other_residuals.clear();
    }
    make_room(sweep->tile_x, sparse_ ? 0 : team.size() * kTileRows * stride);
    make_room(sweep->tile_z, kMostTiles * kTileRows * z_stride);
    make_room(sweep->tile_f, kMostTiles * kTileRows * m);
    const int64_t most = settings_.max_entries > 0
                             ? settings_.max_entries * std::min(sweeps_ + 1, settings_.ramp) / settings_.ramp
                             : std::numeric_limits<int64_t>::max();
    const float threshold = settings_.slack * member_.alpha;
    const auto n = static_cast<int64_t>(order.size());
    std::vector<int32_t> rows;  // of a tile, of the samples kept
    int64_t entries = 0, begin = 0;
    while (begin < n && entries < most) {
        // A sample fills at most m entries, so at least so many are needed.
        const int64_t n_tiles = std::clamp((most - entries) / m / kTileRows + 1, kFewestTiles, kMostTiles);
        const int64_t end = std::min(n, begin + n_tiles * kTileRows);
        team.each((end - begin + kTileRows - 1) / kTileRows, [&](int64_t tile, int thread) {
            const int64_t first = begin + tile * kTileRows, last = std::min(end, first + kTileRows);
            float* x = sweep->tile_x.data() + thread * kTileRows * stride;
            float* z = sweep->tile_z.data() + tile * kTileRows * z_stride;
            if (sparse_) {
                std::vector<int32_t> features;
                std::vector<float> values;
                for (int64_t i = first; i < last; ++i, z += z_stride) {
                    features.assign(1, static_cast<int32_t>(member_.n_features));
                    values.assign(1, -1.0f);
                    entries_.read(order[i], features, values);
                    problem_.kernels->sum_rows({features.data(), values.data(), static_cast<int64_t>(values.size()),
                                                sweep->by_feature.data(), z_stride, z});
                }
                z = sweep->tile_z.data() + tile * kTileRows * z_stride;
            } else {
                problem_.kernels->gather(problem_.rows, {order.data() + first, last - first, member_.columns,
                                                         member_.n_features, 0, width, x, stride});
                if (settings_.frozen_own)
                    problem_.kernels->residuals(
                        {problem_.sgemm, x, stride, last - first, width, sweep->by_feature.data(), z_stride, z});
                else
                    exact_residuals(x, stride, last - first, member_.weights, outputs, width, z, z_stride);
            }
            problem_.kernels->member_values(z, z_stride, last - first, m, q,
                                            sweep->tile_f.data() + tile * kTileRows * m);
        });
        const auto n_before = static_cast<int64_t>(sweep->samples.size());
        rows.clear();
        int64_t i = begin;
        for (; i < end && entries < most; ++i) {
            const int32_t sample = order[i];
            const int32_t y = problem_.target[sample];
            float* f = sweep->tile_f.data() + (i - begin) * m;
            for (int64_t k = 0; k < m; ++k) f[k] = std::max(f[k] + energy[k], kTiny);
            float loss = 0;
            int64_t pairs = 0;
            const auto place = static_cast<int32_t>(sweep->samples.size());
            for (int64_t j = 0; j < m; ++j) {
                if (j == y) continue;
                const float ratio = f[y] / f[j];
                loss += std::max(member_.alpha, ratio);
                if (threshold <= 0 || ratio > threshold) {
                    sweep->classes[j].other.push_back(place);
                    ++pairs;
                } else {
                    f[j] = kLeftOut;
                }
            }
            sweep->looked_loss.push_back(loss);
            sweep->looked_active.push_back(pairs > 0);
            if (pairs == 0) continue;
            sweep->classes[y].own.push_back(place);
            sweep->samples.push_back(sample);
            sweep->target.push_back(y);
            sweep->f.insert(sweep->f.end(), f, f + m);
            rows.push_back(static_cast<int32_t>(i - begin));
            entries += pairs + 1;
        }
        begin = i;
        // A row of A_k moves only in its own turn, so these are the residuals that its turn begins with.
        team.each(m, [&](int64_t k, int) {
            const auto append = [&](const std::vector<int32_t>& places, std::vector<float>& residuals) {
                for (size_t at = residuals.size() / static_cast<size_t>(q); at < places.size(); ++at) {
                    const float* z = sweep->tile_z.data() + rows[places[at] - n_before] * z_stride + k * q;
                    residuals.insert(residuals.end(), z, z + q);
                }
            };
            append(sweep->classes[k].own, sweep->classes[k].own_residuals);
            append(sweep->classes[k].other, sweep->classes[k].other_residuals);
        });
    }
    order.resize(static_cast<size_t>(begin));
    team.each(m, [&](int64_t k, int) { lay_out(*sweep, sweep->classes[k]); });
    sweep->by_size.resize(static_cast<size_t>(m));
    std::iota(sweep->by_size.begin(), sweep->by_size.end(), 0);
    std::stable_sort(sweep->by_size.begin(), sweep->by_size.end(),
                     [&](int64_t a, int64_t b) { return sweep->classes[a].n_lanes > sweep->classes[b].n_lanes; });
    return sweep;
}

// Own samples, then the others, each padded to whole blocks of lanes; a column is contiguous.
void CpmMember::lay_out(const CpmSweep& sweep, ClassSamples& set) const {
    const int64_t p = member_.n_features, stride = padded(p + 1);
    set.own_lanes = padded(static_cast<int64_t>(set.own.size()));
    set.n_lanes = set.own_lanes + padded(static_cast<int64_t>(set.other.size()));
    if (sparse_) return lay_out_entries(sweep, set);
    const int64_t n_blocks = set.n_lanes / kLanes;
    set.column_stride = (n_blocks | 1) * kLanes;  // odd: the columns of a block fall into different sets of a cache
    const bool raw = problem_.rows.kind == RowKind::uint8;
    if (raw)
        make_room(set.bytes, (p + 1) * set.column_stride);
    else
        make_room(set.columns, (p + 1) * set.column_stride);
    std::vector<float> block(raw ? 0 : static_cast<size_t>(kLanes * stride));
    std::vector<uint8_t> present(static_cast<size_t>(n_blocks * stride), 0);
    for (int64_t b = 0; b < n_blocks; ++b) {
        int32_t samples[kLanes];
        int64_t count = 0;
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const int64_t at = b * kLanes + lane;
            const auto& list = at < set.own_lanes ? set.own : set.other;
            const int64_t index = at < set.own_lanes ? at : at - set.own_lanes;
            if (index < static_cast<int64_t>(list.size())) samples[count++] = sweep.samples[list[index]];
        }
        uint8_t* any = present.data() + b * stride;
        if (raw) {
            const uint8_t* rows[kLanes];
            for (int64_t lane = 0; lane < count; ++lane)
                rows[lane] =
                    static_cast<const uint8_t*>(problem_.rows.values) + samples[lane] * problem_.rows.row_stride;
            for (int64_t c = 0; c < p; ++c) {
                uint8_t* out = set.bytes.data() + c * set.column_stride + b * kLanes;
                const int64_t column = member_.columns == nullptr ? c : member_.columns[c];
                any[c] = problem_.rows.center[column] != 0.0f;
                for (int64_t lane = 0; lane < count; ++lane) any[c] |= out[lane] = rows[lane][column];
                for (int64_t lane = count; lane < kLanes; ++lane) out[lane] = 0;
            }
            for (int64_t lane = 0; lane < kLanes; ++lane)
                set.bytes[p * set.column_stride + b * kLanes + lane] = lane < count;
            any[p] = 1;
        } else {
            problem_.kernels->gather(problem_.rows,
                                     {samples, count, member_.columns, p, 0, p + 1, block.data(), stride});
            std::fill(block.begin() + count * stride, block.end(), 0.0f);
            for (int64_t lane = 0; lane < count; ++lane)
                for (int64_t c = 0; c < stride; ++c) any[c] |= block[lane * stride + c] != 0.0f;
            for (int64_t c = 0; c <= p; ++c) {
                float* out = set.columns.data() + c * set.column_stride + b * kLanes;
                for (int64_t lane = 0; lane < kLanes; ++lane) out[lane] = block[lane * stride + c];
            }
        }
    }
    set.block_list.clear();
    set.block_start.assign(1, 0);
    for (int64_t c = 0; c <= p; ++c) {
        for (int64_t b = 0; b < n_blocks; ++b)
            if (present[b * stride + c] || (!settings_.frozen_own && member_.noise > 0))
                set.block_list.push_back(static_cast<int32_t>(b));
        set.block_start.push_back(static_cast<int64_t>(set.block_list.size()));
    }
}

// The same from the entries of sparse rows: of a column, the blocks in which a sample has one.
void CpmMember::lay_out_entries(const CpmSweep& sweep, ClassSamples& set) const {
    const int64_t p = member_.n_features, n_blocks = set.n_lanes / kLanes;
    std::vector<int64_t> start(static_cast<size_t>(set.n_lanes) + 1, 0);
    std::vector<int32_t> features;
    std::vector<float> values;
    for (int64_t at = 0; at < set.n_lanes; ++at) {
        const auto& list = at < set.own_lanes ? set.own : set.other;
        const int64_t index = at < set.own_lanes ? at : at - set.own_lanes;
        if (index < static_cast<int64_t>(list.size())) {
            entries_.read(sweep.samples[list[index]], features, values);
            features.push_back(static_cast<int32_t>(p));
            values.push_back(-1.0f);
        }
        start[at + 1] = static_cast<int64_t>(features.size());
    }
    // First how many blocks each column has, then which and what is in them.
    std::vector<int64_t> last(static_cast<size_t>(p) + 1, -1);
    const auto each = [&](auto&& found) {
        for (int64_t b = 0; b < n_blocks; ++b)
            for (int64_t e = start[b * kLanes]; e < start[(b + 1) * kLanes]; ++e) found(b, e);
    };
    set.block_start.assign(static_cast<size_t>(p) + 2, 0);
    each([&](int64_t b, int64_t e) {
        if (last[features[e]] == b) return;
        last[features[e]] = b;
        ++set.block_start[features[e] + 1];
    });
    for (int64_t c = 0; c <= p; ++c) set.block_start[c + 1] += set.block_start[c];
    set.block_list.resize(static_cast<size_t>(set.block_start[p + 1]));
    make_room(set.columns, set.block_start[p + 1] * kLanes);
    std::fill_n(set.columns.begin(), set.block_start[p + 1] * kLanes, 0.0f);
    std::vector<int64_t> next(set.block_start.begin(), set.block_start.end());
    last.assign(last.size(), -1);
    int64_t at = 0;
    each([&](int64_t b, int64_t e) {
        while (start[at + 1] <= e) ++at;  // whose entry this is
        const int32_t c = features[e];
        if (last[c] != b) {
            last[c] = b;
            set.block_list[next[c]++] = static_cast<int32_t>(b);
        }
        set.columns[(next[c] - 1) * kLanes + at % kLanes] = values[e];
    });
    set.column_stride = 0;
}

// Coordinates A_k[r, :] and b_k[r], one after the other, against the f of the last exchange.
void CpmMember::move_row(int64_t k, int64_t r, RowScratch& scratch) {
    const ClassSamples& set = sweep_->classes[k];
    if (set.n_lanes == 0) return;
    const int64_t m = problem_.n_classes, q = member_.n_components, p = member_.n_features;
    const bool raw = problem_.rows.kind == RowKind::uint8, frozen = settings_.frozen_own;
    float* weights = member_.weights + (k * q + r) * (p + 1);
    const float alpha = member_.alpha;
    for (auto* values : {&scratch.residual, &scratch.rest, &scratch.loss, &scratch.trial, &scratch.weight,
                         &scratch.scaled_target, &scratch.floor, &scratch.own_slope, &new_f_[k]})
        make_room(*values, set.n_lanes);
    if (!frozen) scratch.inverse_rival.assign(static_cast<size_t>(m * set.own_lanes), 0.0f);

    // The loss now is computed as the kernel will, from rest + R_r^2: what does not move then changes by exactly 0.
    double noise_slope = 0;
    const auto n_own = static_cast<int64_t>(set.own.size()), n_other = static_cast<int64_t>(set.other.size());
    for (int64_t i = 0; i < n_own; ++i) {
        const float* f = f_.data() + set.own[i] * m;
        const float w = weight_[set.own[i]], residual = set.own_residuals[i * q + r];
        float slope = 0;
        for (int64_t j = 0; j < m; ++j)  // an infinite f_j adds nothing
            slope += j != k && f[k] / f[j] > alpha ? w / f[j] : 0.0f;
        scratch.own_slope[i] = slope;
        scratch.residual[i] = residual;
        scratch.rest[i] = std::max(f[k] - residual * residual, kTiny);
        noise_slope += static_cast<double>(slope);
        if (frozen) continue;
        const float value = scratch.rest[i] + residual * residual;
        float loss = 0;
        for (int64_t j = 0; j < m; ++j) {
            if (j == k || f[j] == kLeftOut) continue;
            const float inverse = 1.0f / f[j];
            loss += std::max(alpha, value * inverse);
            scratch.inverse_rival[j * set.own_lanes + i] = inverse;
        }
        scratch.weight[i] = w;
        scratch.loss[i] = loss;
    }
    for (int64_t i = 0; i < n_other; ++i) {
        const float* f = f_.data() + set.other[i] * m;
        const int64_t at = set.own_lanes + i;
        const int32_t y = sweep_->target[set.other[i]];
        const float w = weight_[set.other[i]], applied = frozen ? w : 1.0f, residual = set.other_residuals[i * q + r];
        scratch.weight[at] = w;
        scratch.scaled_target[at] = applied * f[y];
        scratch.floor[at] = applied * alpha;
        scratch.residual[at] = residual;
        scratch.rest[at] = std::max(f[k] - residual * residual, kTiny);
        scratch.loss[at] =
            std::max(scratch.floor[at], scratch.scaled_target[at] / (scratch.rest[at] + residual * residual));
        if (member_.noise > 0 && f[y] > alpha * f[k]) noise_slope -= static_cast<double>(w * f[y] / (f[k] * f[k]));
    }
    const auto pad = [&](int64_t first, int64_t last) {
        for (int64_t at = first; at < last; ++at) {
            scratch.residual[at] = scratch.loss[at] = scratch.weight[at] = 0.0f;
            scratch.own_slope[at] = scratch.scaled_target[at] = scratch.floor[at] = 0.0f;
            scratch.rest[at] = 1.0f;
        }
    };
    pad(n_own, set.own_lanes);
    pad(set.own_lanes + n_other, set.n_lanes);

    CpmRow row{};
    row.n_features = p;
    row.bytes = raw;
    row.packed = sparse_;
    row.columns = raw ? static_cast<const void*>(set.bytes.data()) : static_cast<const void*>(set.columns.data());
    row.column_stride = set.column_stride;
    row.n_lanes = set.n_lanes;
    row.own_blocks = set.own_lanes / kLanes;
    row.center = problem_.rows.center;
    row.inverse_scale = problem_.rows.inverse_scale;
    row.selected = member_.columns;
    row.block_list = set.block_list.data();
    row.block_start = set.block_start.data();
    row.weights = weights;
    row.steps = steps_ + (k * q + r) * (p + 1);
    row.residual = scratch.residual.data();
    row.rest = scratch.rest.data();
    row.own_slope = frozen ? scratch.own_slope.data() : nullptr;
    row.weight = scratch.weight.data();
    row.scaled_target = scratch.scaled_target.data();
    row.floor = scratch.floor.data();
    row.loss = scratch.loss.data();
    row.trial = scratch.trial.data();
    row.n_classes = m;
    row.inverse_rival = scratch.inverse_rival.data();
    row.alpha = alpha;
    row.noise = member_.noise;
    const double before = frozen ? std::inner_product(weights, weights + p, weights, 0.0) : 0.0;
    row.noise_slope = noise_slope;
    row.grow = settings_.grow;
    row.shrink = settings_.shrink;
    row.smallest = settings_.smallest;
    row.largest = settings_.largest;
    row.largest_offset = settings_.largest_offset;
    problem_.kernels->cpm_row(row);
    counts_[k].tried += row.tried;
    counts_[k].accepted += row.accepted;
    counts_[k].looked += row.looked;

    // The exact path has moved `rest` along with the noise energy; the frozen one does it here, once per row.
    float shift = 0;
    if (frozen && member_.noise > 0) {
        const double after = std::inner_product(weights, weights + p, weights, 0.0);
        shift = member_.noise * static_cast<float>(after - before);
    }
    for (int64_t at = 0; at < set.n_lanes; ++at)
        new_f_[k][at] = std::max(scratch.rest[at] + scratch.residual[at] * scratch.residual[at] + shift, kTiny);
}

void CpmMember::publish(int64_t k) {
    const int64_t m = problem_.n_classes;
    const ClassSamples& set = sweep_->classes[k];
    const AlignedVector<float>& f = new_f_[k];
    for (size_t i = 0; i < set.own.size(); ++i) f_[set.own[i] * m + k] = f[i];
    for (size_t i = 0; i < set.other.size(); ++i) f_[set.other[i] * m + k] = f[set.own_lanes + i];
}

bool CpmMember::sweep(Team& team, double deadline) {
    const auto late = [deadline] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() > deadline;
    };
    const int64_t m = problem_.n_classes, q = member_.n_components;
    if (scratch_.size() < static_cast<size_t>(team.size())) scratch_.resize(static_cast<size_t>(team.size()));
    if (next_row_ < 0) {
        begin_sweep(team);
        next_row_ = 0;
        if (late()) return false;
    }
    const int64_t n_units = settings_.synchronous ? q : m * q;
    for (; next_row_ < n_units;) {
        if (settings_.synchronous) {
            const int64_t r = next_row_;
            team.each(m, [&](int64_t at, int thread) { move_row(sweep_->by_size[at], r, scratch_[thread]); });
            team.each(m, [&](int64_t k, int) { publish(k); });
        } else {
            move_row(next_row_ / q, next_row_ % q, scratch_[0]);
            publish(next_row_ / q);
        }
        ++next_row_;
        if (late() && next_row_ < n_units) return false;
    }
    for (const auto& counts : counts_) {
        tried_ += counts.tried;
        accepted_ += counts.accepted;
        looked_ += counts.looked;
    }
    sweep_.reset();
    next_row_ = -1;
    ++sweeps_;
    return true;
}

}  // namespace multiform
