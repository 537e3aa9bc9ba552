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
//   PAIRS    1: the next coordinate is tried along with each, where there are few blocks and exchanges take the time
#include "cpm.cuh"

struct Row : Sweep {
    float* steps;            // (B, m, q, width)
    const float* residual;   // (B, capacity, m, q), as the sweep began; a row moves only in its own turn
    float* memory;           // (lanes, 6), for SLOTS == 0
    const int* block_set;    // which separator a block has, -1: none
    const int* block_rank;   // its number in the group
    const int* block_group;  // blocks of the group
    int64* tried;            // (B * m,)
    int64* accepted;
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
constexpr int kBlocksOfCluster = 8;
constexpr int kMostWarps = 16;  // of a block
constexpr int kSlots = SLOTS > 0 ? SLOTS : 1;
constexpr bool kInPairs = PAIRS && FROZEN && SLOTS == 4;  // more slots have no registers for it
#if FROZEN
using Sum = float;
#else
using Sum = double;
#endif

using Piece = Stored<kSlots>;

// ------------------------------------------------------------------------------- the blocks of one separator

// The blocks that share one separator, and how their sums meet. Sides take turns, so that nobody overwrites what is
// still read.
struct Group {
    int rank, blocks;  // of this one
    uint64* channels;  // (2,)
    Sum* of_warps;     // (2, kMostWarps, 4), 0 for those that there are not
    Sum* of_blocks;    // (2, kBlocksOfCluster, 4), likewise
    int use;           // exchanges so far
#if HAS_CLUSTERS
    Far place, channel;  // where this thread of the first warp sends one of the sums: to block `lane / 4`, for side 0
#endif
};

// What else of shared memory a row is worked on in.
struct Workspace {
    double* scratch;          // (32,)
    Coordinate* coordinates;  // (kCoordinates,)
    int* decisions;           // (kCoordinates,)
    Piece* ring;              // (kAhead, threads): this thread's samples in the next columns
};

template <bool clustered>
DEVICE Group begin_group(const Row& a) {
    uint64* channels = reinterpret_cast<uint64*>(shared_memory);
    Sum* of_warps = reinterpret_cast<Sum*>(channels + 2);
    Sum* of_blocks = of_warps + 2 * kMostWarps * 4;
    for (int i = threadIdx.x; i < 2 * (kMostWarps + kBlocksOfCluster) * 4; i += blockDim.x) of_warps[i] = 0;
    sync_block();
    Group group{a.block_rank[blockIdx.x], a.block_group[blockIdx.x], channels, of_warps, of_blocks, 0};
    if constexpr (clustered) {
#if HAS_CLUSTERS
        const int lane = lane_of_thread(), first = static_cast<int>(blockIdx.x % kBlocksOfCluster) - group.rank;
        const int block = first + smaller(lane >> 2, group.blocks - 1);
        group.place = address_in_block(of_blocks + group.rank * 4 + (lane & 3), block);
        group.channel = address_in_block(channels, block);
        if (threadIdx.x < 2) open_channel(channels + threadIdx.x);
        sync_cluster();  // all blocks must have begun before one sends to another
#endif
    }
    return group;
}

DEVICE Workspace workspace_behind(const Group& group) {
    double* scratch = reinterpret_cast<double*>(group.of_blocks + 2 * kBlocksOfCluster * 4);
    Coordinate* coordinates = reinterpret_cast<Coordinate*>(scratch + 32);
    int* decisions = reinterpret_cast<int*>(coordinates + kCoordinates);
    return {scratch, coordinates, decisions, reinterpret_cast<Piece*>(decisions + kCoordinates)};
}

// Four sums over all threads of the group, the same bits everywhere: each lane ends up with one of the four of its
// warp, then warps are added in their order, then blocks in theirs. In two steps, so that a thread has something to do
// while they are on their way.
template <bool clustered>
DEVICE bool is_alone(const Group& group) {
    return !clustered || group.blocks == 1;
}

DEVICE Sum sum_of_warps(const Sum* of_warps) {
    const int lane = lane_of_thread();
    Sum sum = of_warps[lane] + of_warps[lane + 32];
    for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    return sum;
}

template <bool clustered>
DEVICE void send_sums(const Sum* v, Group& group) {
    const int lane = lane_of_thread(), side = group.use & 1;
    const bool odd = lane & 1, high = lane & 2;
    const Sum a = (odd ? v[1] : v[0]) + shuffle_xor(odd ? v[0] : v[1], 1);
    const Sum b = (odd ? v[3] : v[2]) + shuffle_xor(odd ? v[2] : v[3], 1);
    Sum sum = (high ? b : a) + shuffle_xor(high ? a : b, 2);
    for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    Sum* of_warps = group.of_warps + side * kMostWarps * 4;
    if (lane < 4) of_warps[warp_of_thread() * 4 + lane] = sum;
#if HAS_CLUSTERS
    if (is_alone<clustered>(group)) return;
    constexpr int bytes = static_cast<int>(sizeof(Sum));
    if (threadIdx.x == 0) expect_bytes(group.channels + side, group.blocks * 4 * bytes);
    sync_block();
    if (warp_of_thread() > 0) return;
    sum = sum_of_warps(of_warps);
    if (lane < 4 * group.blocks)
        send_to_block(group.place + side * kBlocksOfCluster * 4 * bytes,
                      group.channel + side * static_cast<int>(sizeof(uint64)), sum);
#endif
}

template <bool clustered>
DEVICE void receive_sums(Sum* v, Group& group) {
    const int lane = lane_of_thread(), side = group.use & 1;
    Sum sum;
    if (is_alone<clustered>(group)) {
        sync_block();
        sum = sum_of_warps(group.of_warps + side * kMostWarps * 4);
    } else {
#if HAS_CLUSTERS
        await_bytes(group.channels + side, group.use >> 1, group.blocks * 4 * static_cast<int>(sizeof(Sum)));
        sum = group.of_blocks[side * kBlocksOfCluster * 4 + lane];
        for (int mask = 4; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
#endif
    }
    ++group.use;
    for (int i = 0; i < 4; ++i) v[i] = shuffle_from(sum, i);
}

// -------------------------------------------------------------------------- the samples, as the row begins

// The separator that a block has, and the samples of it that are this thread's.
struct Part {
    int k, member;
    int64 n, n_own;            // samples that the separator can affect; its own class's stand first
    int64 n_lanes;             // n in whole blocks of 16
    int64 first;               // of this thread's samples
    int count, stride;         // of them, where they stand in memory
    bool has_own, has_others;  // a warp whose samples are all of one kind need not do the other kind's work
    const float* f;            // (capacity, m) of this member, as the others see it
    const int* places;         // (n,) of its samples
    const stored_t* columns;   // (features + 1, n_lanes)
    const stored_t* coming;    // of this thread's samples, in the next column that sets out
    float* weights;            // (width,) row r of A_k
    float* steps;
    int n_features;
    Lane lanes[kSlots];
    Lane* memory;
};

DEVICE Part part_of_thread(const Row& a, const Group& group, int64 set, int64 r, const float* f_now) {
    const int64 m = a.n_classes;
    Part part;
    part.k = static_cast<int>(set % m), part.member = static_cast<int>(set / m);
    part.n = a.n_set[set], part.n_own = a.n_own[set];
    part.n_lanes = (part.n + 15) / 16 * 16;
    const int threads = blockDim.x;
    part.stride = group.blocks * threads;
    part.first = int64(group.rank * threads + threadIdx.x) * kSlots;
    part.count = part.first < part.n ? static_cast<int>((part.n - 1 - part.first) / part.stride) + 1 : 0;
    const int64 warp_first = int64(group.rank * threads + 32 * warp_of_thread()) * kSlots;
    part.has_own = SLOTS == 0 || warp_first < part.n_own;
    part.has_others = SLOTS == 0 || !FROZEN || (warp_first < part.n && warp_first + 32 * kSlots > part.n_own);
    part.f = f_now + part.member * a.capacity * m;
    part.places = a.places + set * a.capacity;
    part.columns = a.lanes + a.lanes_at[set];
    part.coming = part.columns + part.first;
    part.memory = reinterpret_cast<Lane*>(a.memory) + a.lane_start[set];
    const int64 row = (set * a.n_components + r) * a.width;
    part.weights = a.weights + row, part.steps = a.steps + row;
    part.n_features = a.selected[part.member];
    return part;
}

DEVICE int count_of(const Part& part) { return SLOTS > 0 ? kSlots : part.count; }
DEVICE int64 sample_of(const Part& part, int i) {
    return SLOTS > 0 ? part.first + i : part.first + int64(i) * part.stride;
}
DEVICE Lane& lane_of(Part& part, int i) { return SLOTS > 0 ? part.lanes[i] : part.memory[sample_of(part, i)]; }
DEVICE const Lane& lane_of(const Part& part, int i) {
    return SLOTS > 0 ? part.lanes[i] : part.memory[sample_of(part, i)];
}

// max(alpha, f_k / f_j) over the pairs of an own sample that take part
DEVICE float own_terms(const float* f, float value, int k, int64 m, float alpha) {
    float sum = 0;
    for (int j = 0; j < m; ++j)
        if (j != k && f[j] != kLeftOut) sum += larger(alpha, value * (1.0f / f[j]));
    return sum;
}

// One sample as the row begins; `noise_slope` gets what it adds to d loss / d f_k:
//   own class       w sum over active j of 1 / f_j
//   other classes   - w f_y / f_k^2 where f_y / f_k > alpha
DEVICE Lane begin_lane(const Row& a, const Part& part, int64 at, int64 r, float& noise_slope) {
    Lane lane{0, 1, 0, 0, 0, 0};
    if (at >= part.n) return lane;
    const int64 m = a.n_classes, place = part.places[at];
    const int k = part.k, sample = a.kept[part.member * a.capacity + place], y = a.target[sample];
    const float* f = part.f + place * m;
    const float w = weight_of_sample(a, part.member, sample, y);
    lane.residual = a.residual[((part.member * a.capacity + place) * m + k) * a.n_components + r];
    lane.rest = larger(f[k] - lane.residual * lane.residual, kTiny);
    if (at < part.n_own) {
#pragma unroll 4
        for (int j = 0; j < m; ++j) {
            const float rival = f[j];
            if (j != k && rival != kLeftOut && f[k] / rival > a.alpha) lane.slope += w / rival;
        }
        noise_slope += lane.slope;
#if !FROZEN
        lane.floor = w;
        lane.loss = own_terms(f, lane.rest + lane.residual * lane.residual, k, m, a.alpha);
#endif
    } else {
        if (f[y] > a.alpha * f[k]) noise_slope -= w * f[y] / (f[k] * f[k]);
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
    return lane;
}

// All samples of this thread; returns d loss / d f_k, summed over the samples of the group: what the noise energy of a
// move, the same for all of them, costs.
template <bool clustered>
DEVICE double begin_lanes(const Row& a, Part& part, Group& group, int64 r) {
    float noise_slope = 0;
#pragma unroll
    for (int i = 0; i < count_of(part); ++i) lane_of(part, i) = begin_lane(a, part, sample_of(part, i), r, noise_slope);
    Sum v[4] = {static_cast<Sum>(noise_slope), 0, 0, 0};
    send_sums<clustered>(v, group);
    receive_sums<clustered>(v, group);
    return static_cast<double>(v[0]);
}

// ---------------------------------------------------------------------------------- the columns, on their way

DEVICE Piece* slot_of(const Workspace& work, int c) {
    return work.ring + static_cast<unsigned>(c) % kAhead * blockDim.x + threadIdx.x;
}

// This thread's part of column c sets out for shared memory: of one after the other.
DEVICE void fetch_column(Part& part, const Workspace& work, int c) {
    if (part.first < part.n_lanes && c <= part.n_features) {
        constexpr int bytes = kSlots * static_cast<int>(sizeof(stored_t));
        Piece* to = slot_of(work, c);
        if constexpr (bytes <= 16) {
            if constexpr (bytes >= 4) copy_async<bytes>(to, part.coming);
        } else {
            for (int at = 0; at < bytes; at += 16)
                copy_async<16>(reinterpret_cast<uint8*>(to) + at, reinterpret_cast<const uint8*>(part.coming) + at);
        }
        part.coming += part.n_lanes;
    }
    commit_async();
}

DEVICE void fetch_first_columns(Part& part, const Workspace& work) {
    if (SLOTS == 0) return;
    if (part.first >= part.n_lanes)  // these are read, too
        for (int i = 0; i < kAhead; ++i)
            for (int s = 0; s < kSlots; ++s) work.ring[i * blockDim.x + threadIdx.x].at[s] = 0;
    for (int c = 0; c + 1 < kAhead; ++c) fetch_column(part, work, c);
}

// ------------------------------------------------------------------------------------------- one coordinate

// A coordinate and this thread's samples in its column.
struct Trial {
    int c;
    float center, d, lift_up, lift_down;
    float x[kSlots];  // stored - center
};

// The losses of this thread's samples after either move.
struct Losses {
    float up[kSlots], down[kSlots];
};

DEVICE float x_of(const Part& part, const Trial& trial, int i) {
    if (SLOTS > 0) return trial.x[i];
    return stored_value(part.columns[trial.c * part.n_lanes + sample_of(part, i)]) - trial.center;
}

// A move by d changes sigma^2 ||A_k||^2 by sigma^2 (2 d A_k[r, c] + d^2); the offset is no part of A_k.
DEVICE Coordinate coordinate_of(const Row& a, const Part& part, int c, double noise_slope) {
    const int64 at = c == part.n_features ? a.n_features : c;  // where the offset stands
    const int64 from = a.columns == nullptr ? at : a.columns[part.member * a.width + at];
    Coordinate one;
    one.weight = part.weights[at];
    one.step = part.steps[at];
    one.center = a.center[from];
    one.d = one.step * a.unit[from];
    const float factor = c == part.n_features ? 0.0f : a.noise[part.member];
    one.energy_up = factor * (2.0f * one.step * one.weight + one.step * one.step);
    one.energy_down = factor * (-2.0f * one.step * one.weight + one.step * one.step);
    one.lift_up = FROZEN ? static_cast<float>(noise_slope * static_cast<double>(one.energy_up)) : one.energy_up;
    one.lift_down = FROZEN ? static_cast<float>(noise_slope * static_cast<double>(one.energy_down)) : one.energy_down;
    return one;
}

DEVICE Trial begin_trial(Part& part, const Workspace& work, const Coordinate* one, int c) {
    const Four read = *reinterpret_cast<const Four*>(one);
    Trial trial;
    trial.c = c;
    trial.center = read.at[0], trial.d = read.at[1], trial.lift_up = read.at[2], trial.lift_down = read.at[3];
    if (SLOTS > 0) {
        wait_async<kAhead - 2>();
        const Piece piece = *slot_of(work, c);
        for (int i = 0; i < kSlots; ++i) trial.x[i] = stored_value(piece.at[i]) - trial.center;
        fetch_column(part, work, c + kAhead - 1);
    }
    return trial;
}

// The loss of sample i after its f_k has become `value`:
//   frozen   other classes: max(w alpha, w f_y / f_k)
//   exact    other classes: max(alpha, f_y / f_k),   own class: sum over j of max(alpha, f_k / f_j)
DEVICE float loss_after(const Row& a, const Part& part, const Lane& lane, int i, float value) {
#if FROZEN
    return fmaxf(lane.floor, lane.target * reciprocal(value));
#else
    const int64 at = sample_of(part, i);
    if (at >= part.n) return 0.0f;
    if (at >= part.n_own) return larger(a.alpha, lane.target / value);
    return own_terms(part.f + part.places[at] * a.n_classes, value, part.k, a.n_classes, a.alpha);
#endif
}

// What sample i becomes with a move: R_r +- d x_c. The exact terms take the noise energy along, the frozen ones do so
// once the row is done.
DEVICE Lane moved_lane(const Row& a, const Part& part, const Trial& trial, const Losses& losses, int i, bool up) {
    Lane lane = lane_of(part, i);
    lane.residual += (up ? trial.d : -trial.d) * x_of(part, trial, i);
#if !FROZEN
    lane.rest += up ? trial.lift_up : trial.lift_down;
#endif
    if (SLOTS == 0)
        lane.loss = loss_after(a, part, lane, i, lane.rest + lane.residual * lane.residual);
    else if (part.has_others)
        lane.loss = up ? losses.up[i] : losses.down[i];
    return lane;
}

// Both points of a coordinate, with the samples as `lane_now` says. A move by d takes R_r to R_r + d x_c and so f_k to
// rest + (R_r + d x_c)^2, and one by -d likewise; the frozen own class's loss is linear in f_k,
//   slope (f_k after - f_k now)  =  d^2 slope x^2 + d 2 slope x R_r,   and down   d^2 slope x^2 - d 2 slope x R_r
// changes[0], changes[1]: what the losses change by, up and down.
template <typename LaneNow>
DEVICE Losses try_coordinate(const Row& a, const Part& part, const Trial& trial, LaneNow lane_now, Sum* changes) {
    Losses losses;
    if (part.has_others) {
#pragma unroll
        for (int i = 0; i < count_of(part); ++i) {
            const Lane lane = lane_now(i);
            const float moved = trial.d * x_of(part, trial, i), above = lane.residual + moved,
                        below = lane.residual - moved;
#if FROZEN
            const float up = loss_after(a, part, lane, i, lane.rest + above * above);
            const float down = loss_after(a, part, lane, i, lane.rest + below * below);
            changes[0] += up - lane.loss;
            changes[1] += down - lane.loss;
#else
            const float up = loss_after(a, part, lane, i, lane.rest + above * above + trial.lift_up);
            const float down = loss_after(a, part, lane, i, lane.rest + below * below + trial.lift_down);
            changes[0] += static_cast<double>(lane.floor) * static_cast<double>(up - lane.loss);
            changes[1] += static_cast<double>(lane.floor) * static_cast<double>(down - lane.loss);
#endif
            if (SLOTS > 0) losses.up[i] = up, losses.down[i] = down;
        }
    }
#if FROZEN
    if (part.has_own) {
        float linear = 0, square = 0;
#pragma unroll
        for (int i = 0; i < count_of(part); ++i) {
            const Lane lane = lane_now(i);
            const float weighted = lane.slope * x_of(part, trial, i);
            linear += weighted * lane.residual;
            square += weighted * x_of(part, trial, i);
        }
        changes[0] += trial.d * (trial.d * square + 2.0f * linear);
        changes[1] += trial.d * (trial.d * square - 2.0f * linear);
    }
#endif
    return losses;
}

// Up if the loss falls there, else down if it falls there. The changes are those of the group.
DEVICE int decide(const Trial& trial, const Sum* changes) {
    const float lift_up = FROZEN ? trial.lift_up : 0.0f, lift_down = FROZEN ? trial.lift_down : 0.0f;
    return changes[0] + lift_up < 0 ? kUp : changes[1] + lift_down < 0 ? kDown : kStays;
}

DEVICE void settle(const Row& a, Part& part, const Trial& trial, const Losses& losses, int decision, int* note) {
    if (threadIdx.x == 0) *note = decision;
    if (decision == kStays) return;
#pragma unroll
    for (int i = 0; i < count_of(part); ++i) lane_of(part, i) = moved_lane(a, part, trial, losses, i, decision == kUp);
}

// Some coordinates, one after the other. Half of them move up; so the next one is tried along with each, as if that had
// moved up, and one exchange decides both if it does. Later columns are read while the sums are on their way.
template <bool clustered>
DEVICE void move_coordinates(const Row& a, Part& part, Group& group, const Workspace& work, int start, int end) {
    const auto begin = [&](int c) { return begin_trial(part, work, work.coordinates + (c - start), c); };
    Trial first = begin(start), second = first, third = first;
    if (kInPairs && start + 1 < end) second = begin(start + 1);
    for (int c = start; c < end;) {
        const bool pair = kInPairs && c + 1 < end;
        Sum changes[4] = {0, 0, 0, 0};
        Losses second_losses;
        const Losses losses = try_coordinate(a, part, first, [&](int i) { return lane_of(part, i); }, changes);
        if (pair)
            second_losses = try_coordinate(
                a, part, second, [&](int i) { return moved_lane(a, part, first, losses, i, true); }, changes + 2);
        send_sums<clustered>(changes, group);
        const int later = c + (kInPairs ? 2 : 1);
        if (later < end) third = begin(later);
        receive_sums<clustered>(changes, group);
        const int decision = decide(first, changes);
        settle(a, part, first, losses, decision, work.decisions + (c - start));
        if (pair && decision == kUp) {
            settle(a, part, second, second_losses, decide(second, changes + 2), work.decisions + (c + 1 - start));
            first = third;
            if (c + 3 < end) second = begin(c + 3);
            c += 2;
        } else {
            first = kInPairs ? second : third;
            second = third;
            ++c;
        }
    }
}

// ------------------------------------------------------------------------------- what follows from the decisions

struct Tally {
    double energy = 0;  // change of ||A_k||^2
    int64 tried = 0, accepted = 0;
};

// A coordinate's step grows after a move, and has its sign; it shrinks where neither point was lower. The first block
// of the group writes them.
DEVICE void settle_coordinate(const Row& a, const Part& part, const Group& group, const Coordinate& one, int decision,
                              int c, Tally& tally) {
    const float unit_step = 1.0f / sqrtf(static_cast<float>(part.n_features));
    const float size = one.step < 0 ? -one.step : one.step, by = decision == kUp ? one.step : -one.step;
    const bool offset = c == part.n_features;
    tally.tried += decision == kUp ? 1 : 2;
    tally.accepted += decision != kStays;
    float weight = one.weight, step = one.step;
    if (decision != kStays) {
        const float grown = smaller(size * a.grow, offset ? a.largest_offset : a.largest * unit_step);
        if (!offset) tally.energy += static_cast<double>(2.0f * by * weight + by * by);
        weight += by;
        step = by < 0 ? -grown : grown;
    } else {
        const float shrunk = larger(size * a.shrink, a.smallest * unit_step);
        step = step < 0 ? -shrunk : shrunk;
    }
    if (group.rank > 0) return;
    const int64 at = offset ? a.n_features : c;
    part.weights[at] = weight;
    part.steps[at] = step;
}

// f_k = rest + R_r^2. The exact terms have moved `rest` along with the noise energy; the frozen ones do it here.
DEVICE void write_values(const Row& a, Part& part, float* f_then, double moved_energy) {
    const float shift = FROZEN ? a.noise[part.member] * static_cast<float>(moved_energy) : 0.0f;
#pragma unroll
    for (int i = 0; i < count_of(part); ++i) {
        const int64 at = sample_of(part, i);
        if (at >= part.n) continue;
        const Lane& lane = lane_of(part, i);
        f_then[(part.member * a.capacity + part.places[at]) * a.n_classes + part.k] =
            larger(lane.rest + lane.residual * lane.residual + shift, kTiny);
    }
}

// alone: separators move one after the other, each sees what the last one has become
template <bool clustered>
DEVICE void move_row(const Row& a, int64 r, bool alone, int64 flip) {
    Group group = begin_group<clustered>(a);
    const int64 set = a.block_set[blockIdx.x];
    if (set < 0) return;
    const Workspace work = workspace_behind(group);
    Part part = part_of_thread(a, group, set, r, flip ? a.f_next : a.f);
    const double noise_slope = begin_lanes<clustered>(a, part, group, r);
    const int n_features = part.n_features;
    fetch_first_columns(part, work);
    Tally tally;
    for (int start = 0; start <= n_features; start += kCoordinates) {
        const int end = smaller(start + kCoordinates, n_features + 1);
        for (int c = start + threadIdx.x; c < end; c += blockDim.x)
            work.coordinates[c - start] = coordinate_of(a, part, c, noise_slope);
        sync_block();
        move_coordinates<clustered>(a, part, group, work, start, end);
        sync_block();
        for (int c = start + threadIdx.x; c < end; c += blockDim.x)
            settle_coordinate(a, part, group, work.coordinates[c - start], work.decisions[c - start], c, tally);
        sync_block();
    }
    write_values(a, part, alone == (flip != 0) ? a.f_next : a.f, sum_of_block(tally.energy, work.scratch));
    const double tried = sum_of_block(static_cast<double>(tally.tried), work.scratch);
    const double accepted = sum_of_block(static_cast<double>(tally.accepted), work.scratch);
    if (group.rank == 0 && threadIdx.x == 0) {
        a.tried[set] += static_cast<int64>(tried);
        a.accepted[set] += static_cast<int64>(accepted);
    }
}

// flip: which of the two sides of f is read
GLOBAL THREADS(512) cpm_row(Row a, int64 r, int64 alone, int64 flip) { move_row<false>(a, r, alone != 0, flip); }
#if HAS_CLUSTERS
GLOBAL THREADS(512) CLUSTER(8) cpm_row_in_clusters_of_8(Row a, int64 r, int64 alone, int64 flip) {
    move_row<true>(a, r, alone != 0, flip);
}
#endif
