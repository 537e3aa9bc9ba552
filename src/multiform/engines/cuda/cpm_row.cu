// One row of every A_k, coordinate by coordinate: the coordinate perturbation method's moves (paper, 2.3).
//
// A group of up to eight blocks of one thread-block cluster (one block before compute capability 9.0) has one
// separator; the other blocks of the cluster have others. Each thread keeps its samples in registers. At a coordinate,
// both nearby points are tried on all samples at once; each block sends its sums to all blocks of its group, and
// whoever has received all of them adds them in the same order and comes to the same decision: one exchange a
// coordinate.
//
//   SLOTS    samples of a thread that stand in registers; 0: in memory, any number of them
//   FROZEN   1: the own class's terms are one multiplication for the length of a row; 0: exact
#include "common.cuh"

struct Row {
    float* weights;  // (B, m, q, width)
    float* steps;    // (B, m, q, width)
    const float* center;
    const float* unit;
    const int* columns;
    int64 n_classes;
    int64 n_components;
    int64 n_features;
    int64 width;
    const int* target;
    const float* sample_weight;
    int64 weight_stride;
    const float* class_weight;
    const float* noise;
    const int* selected;
    const int* kept;
    const int* places;
    const int* n_own;
    const int* n_set;
    int64 capacity;
    const stored_t* lanes;
    const int64* lanes_at;
    const int64* lane_start;
    const float* residual;  // (B, capacity, m, q), as the sweep began; a row moves only in its own turn
    float* f;               // two sides that take turns: what the others see, and what comes out
    float* f_next;
    float* memory;           // (lanes, 6), for SLOTS == 0
    const int* block_set;    // which separator a block has, -1: none
    const int* block_rank;   // its number in the group
    const int* block_group;  // blocks of the group
    int64* tried;            // (B * m,)
    int64* accepted;
    float alpha;
    float grow;
    float shrink;
    float smallest;  // in units of 1 / sqrt(features)
    float largest;
    float largest_offset;
};

// A sample as one separator sees it: f_k = rest + residual^2.
struct Lane {
    float residual, rest;
    float target;  // other classes: w f_y (exact: f_y)
    float floor;   // other classes: w alpha (exact: w, of the own class too)
    float loss;
    float slope;  // own class: w sum over active j of 1 / f_j
};

// What a move of one coordinate needs to know, found for many of them at once.
struct alignas(16) Coordinate {
    float center, d;           // of the stored values; the step in their units
    float lift_up, lift_down;  // what a move adds to sigma^2 ||A_k||^2; frozen: to the loss by way of it
    float weight, step;
    float energy_up, energy_down;
};

constexpr int kStays = 0, kUp = 1, kDown = 2;  // what was decided
constexpr int kAhead = 4;                      // columns on their way to shared memory
constexpr int kCoordinates = 512;              // whose weights stand in shared memory
constexpr int kSlots = SLOTS > 0 ? SLOTS : 1;
#if FROZEN
using Sum = float;
#else
using Sum = double;
#endif

using Piece = Stored<kSlots>;
constexpr int kBlocksOfCluster = 8;

// The blocks that share one separator, and how their sums meet. Sides take turns, so that nobody overwrites what is
// still read.
struct Group {
    int rank, blocks;  // of this one
    int base;          // the first one's number in the cluster
    uint64* channels;  // (2,)
    Sum* of_warps;     // (2, warps, 4)
    Sum* of_blocks;    // (2, kBlocksOfCluster, 4)
    int use;           // exchanges so far
};

// Four sums over all threads of the group, the same bits everywhere: each lane ends up with one of the four of its
// warp, then warps are added in their order, then blocks in theirs.
template <bool clustered>
DEVICE void sum_of_group(Sum* v, Group& group) {
    const int lane = lane_of_thread(), warps = warps_of_block(), side = group.use & 1;
    const bool odd = lane & 1, high = lane & 2, alone = !clustered || group.blocks == 1;
    const Sum a = (odd ? v[1] : v[0]) + shuffle_xor(odd ? v[0] : v[1], 1);
    const Sum b = (odd ? v[3] : v[2]) + shuffle_xor(odd ? v[2] : v[3], 1);
    Sum sum = (high ? b : a) + shuffle_xor(high ? a : b, 2);
    for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    Sum* of_warps = group.of_warps + side * warps * 4;
    if (lane < 4) of_warps[warp_of_thread() * 4 + lane] = sum;
#if HAS_CLUSTERS
    const int bytes = group.blocks * 4 * static_cast<int>(sizeof(Sum));
    if (!alone && threadIdx.x == 0) expect_bytes(group.channels + side, bytes);
#endif
    sync_block();
    if (alone || warp_of_thread() == 0) {
        sum = lane < 4 * warps ? of_warps[lane] : Sum(0);
        if (lane + 32 < 4 * warps) sum += of_warps[lane + 32];
        for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    }
#if HAS_CLUSTERS
    if (!alone) {
        Sum* of_blocks = group.of_blocks + side * kBlocksOfCluster * 4;
        if (threadIdx.x < 4 * group.blocks)
            send_to_block(of_blocks + group.rank * 4 + (lane & 3), group.channels + side, group.base + (lane >> 2),
                          sum);
        await_bytes(group.channels + side, group.use >> 1, bytes);
        sum = lane < 4 * group.blocks ? of_blocks[lane] : Sum(0);
        for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    }
#endif
    ++group.use;
    for (int i = 0; i < 4; ++i) v[i] = shuffle_from(sum, i);
}

// max(alpha, f_k / f_j) over the pairs of an own sample that take part
DEVICE float own_terms(const float* f, float value, int k, int64 m, float alpha) {
    float sum = 0;
    for (int j = 0; j < m; ++j)
        if (j != k && f[j] != kLeftOut) sum += larger(alpha, value * (1.0f / f[j]));
    return sum;
}

// alone: separators move one after the other, each sees what the last one has become
template <bool clustered>
DEVICE void move_row(const Row& a, int64 r, bool alone, int64 flip) {
    uint64* channels = reinterpret_cast<uint64*>(shared_memory);
    Sum* of_warps = reinterpret_cast<Sum*>(channels + 2);
    Sum* of_blocks = of_warps + 2 * warps_of_block() * 4;
    Group group{a.block_rank[blockIdx.x], a.block_group[blockIdx.x], 0, channels, of_warps, of_blocks, 0};
    if constexpr (clustered) {
#if HAS_CLUSTERS
        group.base = static_cast<int>(blockIdx.x % kBlocksOfCluster) - group.rank;
        if (threadIdx.x < 2) open_channel(group.channels + threadIdx.x);
        sync_cluster();  // all blocks must have begun before one sends to another
#endif
    }
    const int64 set = a.block_set[blockIdx.x], m = a.n_classes;
    if (set < 0) return;
    const int k = static_cast<int>(set % m), member = static_cast<int>(set / m);
    const int64 n = a.n_set[set], n_own = a.n_own[set];
    const int64 n_lanes = (n + 15) / 16 * 16;
    const int threads = blockDim.x, stride = group.blocks * threads;
    const int64 first = int64(group.rank * threads + threadIdx.x) * kSlots;
    const int count = SLOTS > 0 ? kSlots : first < n ? static_cast<int>((n - 1 - first) / stride) + 1 : 0;
    const auto lane_of = [&](int i) { return SLOTS > 0 ? first + i : first + int64(i) * stride; };
    // A warp whose samples are all of one kind need not do the other kind's work.
    const int64 warp_first = int64(group.rank * threads + 32 * warp_of_thread()) * kSlots;
    const bool has_own = SLOTS == 0 || warp_first < n_own;
    const bool has_others = SLOTS == 0 || !FROZEN || (warp_first < n && warp_first + 32 * kSlots > n_own);
    const float* f_now = flip ? a.f_next : a.f;
    float* f_then = alone == (flip != 0) ? a.f_next : a.f;
    const stored_t* columns = a.lanes + a.lanes_at[set];
    const float* f_member = f_now + member * a.capacity * m;

    double* scratch = reinterpret_cast<double*>(of_blocks + 2 * kBlocksOfCluster * 4);
    Coordinate* coordinates = reinterpret_cast<Coordinate*>(scratch + 32);
    int* moves_made = reinterpret_cast<int*>(coordinates + kCoordinates);
    Piece* ring = reinterpret_cast<Piece*>(moves_made + kCoordinates);
    Lane* memory = reinterpret_cast<Lane*>(a.memory) + a.lane_start[set];

    Lane own_lanes[kSlots];
    const auto lane_at = [&](int i) -> Lane& { return SLOTS > 0 ? own_lanes[i] : memory[lane_of(i)]; };
    float noise_slope_part = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        Lane lane{0, 1, 0, 0, 0, 0};
        const int64 at = lane_of(i);
        if (at < n) {
            const int64 place = a.places[set * a.capacity + at];
            const int sample = a.kept[member * a.capacity + place], y = a.target[sample];
            const float* f = f_member + place * m;
            const float w = (a.sample_weight == nullptr ? 1.0f : a.sample_weight[member * a.weight_stride + sample]) *
                            a.class_weight[member * m + y];
            lane.residual = a.residual[((member * a.capacity + place) * m + k) * a.n_components + r];
            lane.rest = larger(f[k] - lane.residual * lane.residual, kTiny);
            if (at < n_own) {
#pragma unroll 4
                for (int j = 0; j < m; ++j) {
                    const float rival = f[j];
                    if (j != k && rival != kLeftOut && f[k] / rival > a.alpha) lane.slope += w / rival;
                }
                noise_slope_part += lane.slope;
#if !FROZEN
                lane.floor = w;
                lane.loss = own_terms(f, lane.rest + lane.residual * lane.residual, k, m, a.alpha);
#endif
            } else {
                if (f[y] > a.alpha * f[k]) noise_slope_part -= w * f[y] / (f[k] * f[k]);
                const float value = lane.rest + lane.residual * lane.residual;
#if FROZEN
                lane.target = w * f[y];
                lane.floor = w * a.alpha;
                lane.loss = larger(lane.floor, lane.target * reciprocal(value));
#else
                lane.target = f[y];
                lane.floor = w;
                lane.loss = larger(a.alpha, f[y] / value);
#endif
            }
        }
        lane_at(i) = lane;
    }
    Sum v[4] = {static_cast<Sum>(noise_slope_part), 0, 0, 0};
    sum_of_group<clustered>(v, group);
    const double noise_slope = static_cast<double>(v[0]);

    // the loss of a sample after its f_k has become `value`
    const auto loss_after = [&](const Lane& lane, int i, float value) {
#if FROZEN
        return larger(lane.floor, lane.target * reciprocal(value));
#else
        const int64 at = lane_of(i);
        if (at >= n) return 0.0f;
        if (at >= n_own) return larger(a.alpha, lane.target / value);
        return own_terms(f_member + a.places[set * a.capacity + at] * m, value, k, m, a.alpha);
#endif
    };

    const int n_features = a.selected[member];
    const float unit_step = 1.0f / sqrtf(static_cast<float>(n_features));
    float* row_weights = a.weights + ((member * m + k) * a.n_components + r) * a.width;
    float* row_steps = a.steps + ((member * m + k) * a.n_components + r) * a.width;
    const float noise = a.noise[member];
    const bool there = SLOTS > 0 && first < n_lanes;
    double moved_energy = 0;
    int64 tried = 0, accepted = 0;
    const auto fetch = [&](int c) {  // this thread's part of a column
        if (there && c <= n_features) {
            const stored_t* from = columns + c * n_lanes + first;
            Piece* to = ring + (c % kAhead) * threads + threadIdx.x;
            constexpr int bytes = kSlots * static_cast<int>(sizeof(stored_t));
            if constexpr (bytes <= 16) {
                if constexpr (bytes >= 4) copy_async<bytes>(to, from);
            } else {
                for (int part = 0; part < bytes; part += 16)
                    copy_async<16>(reinterpret_cast<uint8*>(to) + part, reinterpret_cast<const uint8*>(from) + part);
            }
        }
        commit_async();
    };
    if (SLOTS > 0) {
        if (!there)  // these are read, too
            for (int i = 0; i < kAhead; ++i)
                for (int s = 0; s < kSlots; ++s) ring[i * threads + threadIdx.x].at[s] = 0;
        for (int c = 0; c + 1 < kAhead; ++c) fetch(c);
    }

    for (int start = 0; start <= n_features; start += kCoordinates) {
        const int end = smaller(start + kCoordinates, n_features + 1);
        for (int c = start + threadIdx.x; c < end; c += threads) {
            const int64 at = c == n_features ? a.n_features : c;  // where the offset stands
            const int64 from = a.columns == nullptr ? at : a.columns[member * a.width + at];
            Coordinate one;
            one.weight = row_weights[at];
            one.step = row_steps[at];
            one.center = a.center[from];
            one.d = one.step * a.unit[from];
            const float factor = c == n_features ? 0.0f : noise;
            one.energy_up = factor * (2.0f * one.step * one.weight + one.step * one.step);
            one.energy_down = factor * (-2.0f * one.step * one.weight + one.step * one.step);
            one.lift_up = FROZEN ? static_cast<float>(noise_slope * static_cast<double>(one.energy_up)) : one.energy_up;
            one.lift_down =
                FROZEN ? static_cast<float>(noise_slope * static_cast<double>(one.energy_down)) : one.energy_down;
            coordinates[c - start] = one;
        }
        sync_block();
        for (int c = start; c < end; ++c) {
            const Four read = *reinterpret_cast<const Four*>(coordinates + (c - start));
            const float center = read.at[0], d = read.at[1], lift_up = read.at[2], lift_down = read.at[3];
            float x[kSlots], up[kSlots], down[kSlots];
            if (SLOTS > 0) {
                wait_async<kAhead - 2>();
                const Piece piece = ring[(c % kAhead) * threads + threadIdx.x];
                for (int i = 0; i < kSlots; ++i) x[i] = stored_value(piece.at[i]) - center;
                fetch(c + kAhead - 1);
            }
            const auto x_at = [&](int i) {
                if (SLOTS > 0) return x[i];
                return stored_value(columns[c * n_lanes + lane_of(i)]) - center;
            };
            Sum sums[4] = {0, 0, 0, 0};
            if (has_others) {
#pragma unroll
                for (int i = 0; i < count; ++i) {
                    const Lane lane = lane_at(i);
                    const float moved = d * x_at(i), above = lane.residual + moved, below = lane.residual - moved;
#if FROZEN
                    const float after_up = loss_after(lane, i, lane.rest + above * above);
                    const float after_down = loss_after(lane, i, lane.rest + below * below);
                    sums[0] += after_up - lane.loss;
                    sums[1] += after_down - lane.loss;
#else
                    const float after_up = loss_after(lane, i, lane.rest + above * above + lift_up);
                    const float after_down = loss_after(lane, i, lane.rest + below * below + lift_down);
                    sums[0] += static_cast<double>(lane.floor) * static_cast<double>(after_up - lane.loss);
                    sums[1] += static_cast<double>(lane.floor) * static_cast<double>(after_down - lane.loss);
#endif
                    if (SLOTS > 0) up[i] = after_up, down[i] = after_down;
                }
            }
#if FROZEN
            if (has_own) {
#pragma unroll
                for (int i = 0; i < count; ++i) {
                    const Lane lane = lane_at(i);
                    const float weighted = lane.slope * x_at(i);
                    sums[2] += weighted * lane.residual;
                    sums[3] += weighted * x_at(i);
                }
            }
#endif
            sum_of_group<clustered>(sums, group);
            Sum change_up = sums[0], change_down = sums[1];
#if FROZEN
            // own class: change = 2 d linear + d^2 square
            const float square = d * sums[3], linear = 2.0f * sums[2];
            change_up += lift_up + d * (square + linear);
            change_down += lift_down + d * (square - linear);
#endif
            const bool goes_up = change_up < 0, moves = goes_up || change_down < 0;
            if (moves) {
                const float by = goes_up ? d : -d, lift = FROZEN ? 0.0f : goes_up ? lift_up : lift_down;
#pragma unroll
                for (int i = 0; i < count; ++i) {
                    Lane& lane = lane_at(i);
                    lane.residual += by * x_at(i);
                    lane.rest += lift;
                    if (SLOTS == 0)
                        lane.loss = loss_after(lane, i, lane.rest + lane.residual * lane.residual);
                    else if (has_others)
                        lane.loss = goes_up ? up[i] : down[i];
                }
            }
            if (threadIdx.x == 0) moves_made[c - start] = goes_up ? kUp : moves ? kDown : kStays;
        }
        sync_block();
        // What follows from the decisions, for all coordinates at once.
        for (int c = start + threadIdx.x; c < end; c += threads) {
            const Coordinate one = coordinates[c - start];
            const int made = moves_made[c - start];
            const float size = one.step < 0 ? -one.step : one.step, by = made == kUp ? one.step : -one.step;
            const bool offset = c == n_features;
            tried += made == kUp ? 1 : 2;
            accepted += made != kStays;
            float weight = one.weight, step = one.step;
            if (made != kStays) {
                const float grown = smaller(size * a.grow, offset ? a.largest_offset : a.largest * unit_step);
                if (!offset) moved_energy += static_cast<double>(2.0f * by * weight + by * by);
                weight += by;
                step = by < 0 ? -grown : grown;
            } else {
                const float shrunk = larger(size * a.shrink, a.smallest * unit_step);
                step = step < 0 ? -shrunk : shrunk;
            }
            if (group.rank > 0) continue;
            const int64 at = offset ? a.n_features : c;
            row_weights[at] = weight;
            row_steps[at] = step;
        }
        sync_block();
    }
    moved_energy = sum_of_block(moved_energy, scratch);
    tried = static_cast<int64>(sum_of_block(static_cast<double>(tried), scratch));
    accepted = static_cast<int64>(sum_of_block(static_cast<double>(accepted), scratch));

    // The exact terms have moved `rest` along with the noise energy; the frozen ones do it here, once a row.
    const float shift = FROZEN ? noise * static_cast<float>(moved_energy) : 0.0f;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int64 at = lane_of(i);
        if (at >= n) continue;
        const Lane& lane = lane_at(i);
        const int64 place = a.places[set * a.capacity + at];
        f_then[(member * a.capacity + place) * m + k] =
            larger(lane.rest + lane.residual * lane.residual + shift, kTiny);
    }
    if (group.rank == 0 && threadIdx.x == 0) {
        a.tried[set] += tried;
        a.accepted[set] += accepted;
    }
}

// flip: which of the two sides of f is read
GLOBAL THREADS(512) cpm_row(Row a, int64 r, int64 alone, int64 flip) { move_row<false>(a, r, alone != 0, flip); }
#if HAS_CLUSTERS
GLOBAL THREADS(512) CLUSTER(8) cpm_row_in_clusters_of_8(Row a, int64 r, int64 alone, int64 flip) {
    move_row<true>(a, r, alone != 0, flip);
}
#endif
