// One row of every A_k, coordinate by coordinate: the coordinate perturbation method's moves (paper, 2.3).
//
// A cluster of thread blocks (one block before compute capability 9.0) has one separator. Each thread keeps its samples
// in registers. At a coordinate, both nearby points are tried on all samples at once; the sums of the changes meet in
// shared memory, one barrier a coordinate; then every warp adds them in the same order and comes to the same decision.
//
//   SLOTS    samples of a thread that stand in registers; 0: in memory, any number of them
//   FROZEN   1: the own class's terms are one multiplication for the length of a row; 0: exact
#include "common.cuh"

struct Row {
    float* weights;      // (B, m, q, width)
    float* steps;        // (B, m, q, width)
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
    float* memory;          // (lanes, 6), for SLOTS == 0
    int64* tried;           // (B * m,)
    int64* accepted;
    float alpha;
    float grow;
    float shrink;
    float smallest;         // in units of 1 / sqrt(features)
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

constexpr int kAhead = 4;         // columns on their way to shared memory
constexpr int kCoordinates = 512; // whose weights stand in shared memory
constexpr int kSlots = SLOTS > 0 ? SLOTS : 1;
#if FROZEN
using Sum = float;
#else
using Sum = double;
#endif

struct alignas(kSlots * sizeof(stored_t) >= 16 ? 16 : kSlots * sizeof(stored_t)) Piece {
    stored_t at[kSlots];
};

// Four sums over all threads of the cluster, the same bits everywhere; `side` alternates from call to call, so that one
// barrier is enough. First each lane ends up with one of the four, then warps are added in their order.
template <int blocks>
DEVICE void sum_of_cluster(Sum* v, Sum* slots, int rank, int side) {
    const int lane = lane_of_thread(), warps = warps_of_block();
    const bool odd = lane & 1, high = lane & 2;
    const Sum a = (odd ? v[1] : v[0]) + shuffle_xor(odd ? v[0] : v[1], 1);
    const Sum b = (odd ? v[3] : v[2]) + shuffle_xor(odd ? v[2] : v[3], 1);
    Sum sum = (high ? b : a) + shuffle_xor(high ? a : b, 2);
    for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    Sum* here = slots + side * blocks * warps * 4;
    Sum* place = here + (rank * warps + warp_of_thread()) * 4 + (lane & 3);
    if constexpr (blocks > 1) {
#if defined(MULTIFORM_EMULATED) || __CUDA_ARCH__ >= 900
        if (lane < 4 * blocks) store_in_block(place, lane >> 2, sum);
        sync_cluster();
#endif
    } else {
        if (lane < 4) *place = sum;
        sync_block();
    }
    sum = 0;
    for (int slot = lane >> 2; slot < blocks * warps; slot += 8) sum += here[slot * 4 + (lane & 3)];
    for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    for (int i = 0; i < 4; ++i) v[i] = shuffle_from(sum, i);
}

// max(alpha, f_k / f_j) over the pairs of an own sample that take part
DEVICE float own_terms(const float* f, float value, int k, int64 m, float alpha) {
    float sum = 0;
    for (int j = 0; j < m; ++j)
        if (j != k && f[j] != kLeftOut) sum += larger(alpha, value * (1.0f / f[j]));
    return sum;
}

template <int blocks>
DEVICE void move_row(const Row& a, int64 r, int64 only_class, const float* f_now, float* f_then) {
    const int rank = blockIdx.x % blocks, member = blockIdx.z;
    const int k = only_class >= 0 ? static_cast<int>(only_class) : static_cast<int>(blockIdx.y);
    const int64 m = a.n_classes, set = member * m + k, n = a.n_set[set], n_own = a.n_own[set];
    if (n == 0) return;  // nobody to judge a move
#if defined(MULTIFORM_EMULATED) || __CUDA_ARCH__ >= 900
    if constexpr (blocks > 1) sync_cluster();  // all blocks must have begun before one writes into another
#endif
    const int64 n_lanes = (n + 15) / 16 * 16;
    const int threads = blockDim.x, stride = blocks * threads;
    const int64 first = SLOTS > 0 ? int64(rank * threads + threadIdx.x) * kSlots : rank * threads + threadIdx.x;
    const int count = SLOTS > 0 ? kSlots : first < n ? static_cast<int>((n - 1 - first) / stride) + 1 : 0;
    const auto lane_of = [&](int i) { return SLOTS > 0 ? first + i : first + int64(i) * stride; };
    const stored_t* columns = a.lanes + a.lanes_at[set];
    const float* f_member = f_now + member * a.capacity * m;

    Sum* slots = reinterpret_cast<Sum*>(shared_memory);
    float* weights = reinterpret_cast<float*>(slots + 2 * blocks * warps_of_block() * 4);
    float* steps = weights + kCoordinates;
    float* center = steps + kCoordinates;
    float* unit = center + kCoordinates;
    Piece* ring = reinterpret_cast<Piece*>(unit + kCoordinates);
    Lane* memory = reinterpret_cast<Lane*>(a.memory) + a.lane_start[set];
    int side = 0;

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
    sum_of_cluster<blocks>(v, slots, rank, side);
    side ^= 1;
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
            weights[c - start] = row_weights[at];
            steps[c - start] = row_steps[at];
            center[c - start] = a.center[from];
            unit[c - start] = a.unit[from];
        }
        sync_block();
        for (int c = start; c < end; ++c) {
            const bool offset = c == n_features;
            const float step = steps[c - start], weight = weights[c - start];
            const float column_center = center[c - start], column_unit = unit[c - start];
            float x[kSlots], up[kSlots], down[kSlots];
            if (SLOTS > 0) {
                wait_async<kAhead - 2>();
                const Piece piece = ring[(c % kAhead) * threads + threadIdx.x];
                for (int i = 0; i < kSlots; ++i) x[i] = (stored_value(piece.at[i]) - column_center) * column_unit;
                fetch(c + kAhead - 1);
            }
            const auto x_at = [&](int i) {
                if (SLOTS > 0) return x[i];
                return (stored_value(columns[c * n_lanes + lane_of(i)]) - column_center) * column_unit;
            };
            // what a move by d adds to sigma^2 ||A_k||^2
            const auto energy_of = [&](float d) { return offset ? 0.0f : noise * (2.0f * d * weight + d * d); };
            const float lift_up = FROZEN ? 0.0f : energy_of(step), lift_down = FROZEN ? 0.0f : energy_of(-step);
            Sum sums[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < count; ++i) {
                const Lane lane = lane_at(i);
                const float here = x_at(i);
                const float above = lane.residual + step * here, below = lane.residual - step * here;
                const float after_up = loss_after(lane, i, lane.rest + above * above + lift_up);
                const float after_down = loss_after(lane, i, lane.rest + below * below + lift_down);
                if (SLOTS > 0) up[i] = after_up, down[i] = after_down;
#if FROZEN
                const float weighted = lane.slope * here;
                sums[0] += after_up - lane.loss;
                sums[1] += after_down - lane.loss;
                sums[2] += weighted * lane.residual;
                sums[3] += weighted * here;
#else
                sums[0] += static_cast<double>(lane.floor) * static_cast<double>(after_up - lane.loss);
                sums[1] += static_cast<double>(lane.floor) * static_cast<double>(after_down - lane.loss);
#endif
            }
            sum_of_cluster<blocks>(sums, slots, rank, side);
            side ^= 1;
            // own class, frozen: change = 2 d linear + d^2 square, and the noise energy by its slope
            const auto change_of = [&](float d, Sum others) {
                const double own = static_cast<double>(d), linear = static_cast<double>(sums[2]);
                return static_cast<double>(others) + own * (2.0 * linear + own * static_cast<double>(sums[3])) +
                       (FROZEN ? noise_slope * static_cast<double>(energy_of(d)) : 0.0);
            };
            const bool goes_up = change_of(step, sums[0]) < 0;
            const bool moves = goes_up || change_of(-step, sums[1]) < 0;
            tried += goes_up ? 1 : 2;
            accepted += moves;
            if (moves) {
                const float d = goes_up ? step : -step, lift = goes_up ? lift_up : lift_down;
#pragma unroll
                for (int i = 0; i < count; ++i) {
                    Lane& lane = lane_at(i);
                    lane.residual += d * x_at(i);
                    lane.rest += lift;
                    if (SLOTS > 0)
                        lane.loss = goes_up ? up[i] : down[i];
                    else
                        lane.loss = loss_after(lane, i, lane.rest + lane.residual * lane.residual);
                }
                if (!offset) moved_energy += static_cast<double>(2.0f * d * weight + d * d);
            }
            if (threadIdx.x == 0) {
                const float size = step < 0 ? -step : step;
                if (moves) {
                    const float limit = offset ? a.largest_offset : a.largest * unit_step;
                    const float grown = smaller(size * a.grow, limit);
                    weights[c - start] = weight + (goes_up ? step : -step);
                    steps[c - start] = (step < 0) == goes_up ? -grown : grown;
                } else {
                    const float shrunk = larger(size * a.shrink, a.smallest * unit_step);
                    steps[c - start] = step < 0 ? -shrunk : shrunk;
                }
            }
        }
        sync_block();
        if (rank == 0)
            for (int c = start + threadIdx.x; c < end; c += threads) {
                const int64 at = c == n_features ? a.n_features : c;
                row_weights[at] = weights[c - start];
                row_steps[at] = steps[c - start];
            }
        sync_block();
    }

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
    if (rank == 0 && threadIdx.x == 0) {
        a.tried[set] += tried;
        a.accepted[set] += accepted;
    }
}

// flip: which of the two sides is read; in the literal order of classes (only_class >= 0) it is also written
#define CPM_ROW(blocks)                                                                                        \
    {                                                                                                          \
        float* now = flip ? a.f_next : a.f;                                                                    \
        move_row<blocks>(a, r, only_class, now, only_class >= 0 ? now : flip ? a.f : a.f_next);                \
    }

GLOBAL THREADS(512) cpm_row_in_clusters_of_1(Row a, int64 r, int64 only_class, int64 flip) CPM_ROW(1)
#if defined(MULTIFORM_EMULATED) || __CUDA_ARCH__ >= 900
GLOBAL THREADS(512) CLUSTER(2) cpm_row_in_clusters_of_2(Row a, int64 r, int64 only_class, int64 flip) CPM_ROW(2)
GLOBAL THREADS(512) CLUSTER(4) cpm_row_in_clusters_of_4(Row a, int64 r, int64 only_class, int64 flip) CPM_ROW(4)
GLOBAL THREADS(512) CLUSTER(8) cpm_row_in_clusters_of_8(Row a, int64 r, int64 only_class, int64 flip) CPM_ROW(8)
#endif
