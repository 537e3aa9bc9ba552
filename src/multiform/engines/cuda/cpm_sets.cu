// The coordinate perturbation method (paper, 2.3), before the moves: which samples a sweep looks at, which of their
// pairs take part, and the columns of X for each separator. Settings and order of the samples are those of
// core/cpm.cpp.
#include "common.cuh"

struct Sets {
    const stored_t* rows;  // all of X, or the kept samples member by member
    int64 pitch;
    const float* center;
    const float* unit;
    const int* columns;    // (B, width), or null
    const float* weights;  // (B, m, q, width)
    int64 n_classes;
    int64 n_components;
    int64 n_features;
    int64 width;
    int64 n_samples;
    const int* target;
    const float* sample_weight;
    int64 weight_stride;
    const float* class_weight;
    const uint64* seed;
    const float* noise;
    const int* selected;  // (B,) features of each member
    uint64* drawn;
    uint8* active;  // (B, n)
    int* order;     // (B, n)
    uint64* holder;
    int* pending;
    int* ordered;         // (B,) samples in `order`
    float* energy;        // (B, m)
    const float* values;  // (B, look, m) of the positions looked at
    int64 first;          // the first of them
    int64 look;
    int64 most;      // entries of this sweep, over all classes; negative: all
    int64* entries;  // (B,) so far
    double* sums;    // (B, 2) loss and weight of the samples looked at
    int* n_kept;     // (B,)
    int* kept;       // (B, capacity) samples
    float* f;        // (B, capacity, m); kLeftOut where a pair sits out
    float* f_next;
    int64 capacity;
    int* places;              // (B, m, capacity) of `kept`: own samples, then the others
    int* n_own;               // (B, m)
    int* n_set;               // (B, m)
    const int64* lane_start;  // (B * m,) first lane of each set, over all sets
    stored_t* lanes;          // column by column, (features + 1, lanes) of each set
    const int64* lanes_at;    // (B * m,) where a set's columns begin
    int64 streamed;           // whether `rows` holds the kept samples only
    float threshold;          // slack * alpha
    float alpha;
    float revisit;
};

DEVICE float weight_of_sample(const Sets& a, int member, int sample) {
    const float weight = a.sample_weight == nullptr ? 1.0f : a.sample_weight[member * a.weight_stride + sample];
    return weight * a.class_weight[member * a.n_classes + a.target[sample]];
}

// sigma^2 ||A_k||^2: what input noise of deviation sigma adds to the expected f_k
GLOBAL THREADS(256) cpm_energy(Sets a) {
    const int k = blockIdx.x, member = blockIdx.z;
    const float* weights = a.weights + (member * a.n_classes + k) * a.n_components * a.width;
    double sum = 0;
    if (a.noise[member] > 0)
        for (int64 at = threadIdx.x; at < a.n_components * a.width; at += blockDim.x)
            if (at % a.width < a.n_features) sum += static_cast<double>(weights[at]) * static_cast<double>(weights[at]);
    sum = sum_of_block(sum, reinterpret_cast<double*>(shared_memory));
    if (threadIdx.x == 0) a.energy[member * a.n_classes + k] = a.noise[member] * static_cast<float>(sum);
}

GLOBAL THREADS(1024) cpm_order(Sets a) {
    const int member = blockIdx.x, n = static_cast<int>(a.n_samples);
    int* scratch = reinterpret_cast<int*>(shared_memory);
    const uint8* active = a.active + int64(member) * n;
    int* order = a.order + int64(member) * n;
    uint64 drawn = a.drawn[member];
    const int count = choose_samples(
        n, [&](int i) { return weight_of_sample(a, member, i) > 0; }, [&](int i) { return active[i] != 0; }, a.revisit,
        false, a.seed[member], drawn, order, scratch);
    if (a.most >= 0)
        shuffle_items(order, count, a.seed[member], drawn, a.holder + int64(member) * n, a.pending + int64(member) * n);
    sync_block();
    if (threadIdx.x == 0) {
        a.drawn[member] = drawn;
        a.ordered[member] = count;
        a.entries[member] = 0;
        a.n_kept[member] = 0;
        a.sums[2 * member] = a.sums[2 * member + 1] = 0;
    }
}

// Looks at the samples in order until the sweep is full, and keeps those with a pair above slack * alpha.
GLOBAL THREADS(1024) cpm_select(Sets a) {
    const int member = blockIdx.x;
    const int64 m = a.n_classes, end = smaller<int64>(a.look, a.ordered[member] - a.first);
    double* scratch = reinterpret_cast<double*>(shared_memory);
    int* counts = reinterpret_cast<int*>(scratch + 32);
    int64 entries = a.entries[member];
    int n_kept = a.n_kept[member];
    double loss_sum = 0, weight_sum = 0;
    for (int64 start = 0; start < end && (a.most < 0 || entries < a.most); start += blockDim.x) {
        const int64 i = start + threadIdx.x;
        const float* f = a.values + (member * a.look + i) * m;
        int sample = 0, y = 0, pairs = 0;
        float loss = 0;
        if (i < end) {
            sample = a.order[member * a.n_samples + a.first + i];
            y = a.target[sample];
            const float own = f[y];
#pragma unroll 4
            for (int j = 0; j < m; ++j) {
                const float ratio = own / f[j];
                if (j == y) continue;
                loss += larger(a.alpha, ratio);
                pairs += a.threshold <= 0 || ratio > a.threshold;
            }
        }
        int added, kept_here;
        const int before = sum_before(pairs > 0 ? pairs + 1 : 0, counts, added);
        const bool looked = i < end && (a.most < 0 || entries + before < a.most);
        const bool keeps = looked && pairs > 0;
        const int place = n_kept + sum_before(keeps, counts, kept_here);
        if (looked) {
            const float weight = weight_of_sample(a, member, sample);
            loss_sum += static_cast<double>(weight) * static_cast<double>(loss);
            weight_sum += static_cast<double>(weight);
            a.active[member * a.n_samples + sample] = pairs > 0;
        }
        if (keeps) {
            a.kept[member * a.capacity + place] = sample;
            const int64 to = (member * a.capacity + place) * m;
            for (int j = 0; j < m; ++j) {
                const bool stays = j == y || a.threshold <= 0 || f[y] / f[j] > a.threshold;
                a.f[to + j] = a.f_next[to + j] = stays ? f[j] : kLeftOut;
            }
        }
        entries += added;  // where it counts too much, the sweep is full all the same
        n_kept += kept_here;
    }
    loss_sum = sum_of_block(loss_sum, scratch);
    weight_sum = sum_of_block(weight_sum, scratch);
    if (threadIdx.x == 0) {
        a.entries[member] = entries;
        a.n_kept[member] = n_kept;
        a.sums[2 * member] += loss_sum;
        a.sums[2 * member + 1] += weight_sum;
    }
}

// The samples that one separator can affect: its own, then those of other classes whose pair with it takes part.
GLOBAL THREADS(1024) cpm_sets(Sets a) {
    const int k = blockIdx.x, member = blockIdx.z, n = a.n_kept[member];
    const int64 m = a.n_classes, set = member * m + k;
    int* scratch = reinterpret_cast<int*>(shared_memory);
    int* places = a.places + set * a.capacity;
    int count = 0;
    for (int turn = 0; turn < 2; ++turn) {
        for (int start = 0; start < n; start += blockDim.x) {
            const int i = start + threadIdx.x;
            bool in = false;
            if (i < n) {
                const bool own = a.target[a.kept[member * a.capacity + i]] == k;
                in = turn == 0 ? own : !own && a.f[(member * a.capacity + i) * m + k] != kLeftOut;
            }
            int added;
            const int place = count + sum_before(in, scratch, added);
            if (in) places[place] = i;
            count += added;
        }
        if (threadIdx.x == 0) (turn == 0 ? a.n_own : a.n_set)[set] = count;
    }
}

constexpr int kLayoutTile = 32;

// Rows become columns: 32 samples by 32 columns at a time, through shared memory.
GLOBAL THREADS(256) cpm_lay_out(Sets a) {
    const int k = blockIdx.y % static_cast<int>(a.n_classes), member = blockIdx.y / static_cast<int>(a.n_classes);
    const int64 set = member * a.n_classes + k, n = a.n_set[set], lanes = (n + 15) / 16 * 16;
    const int n_features = a.selected[member];
    const int first_column = blockIdx.z * kLayoutTile;
    if (first_column > n_features) return;
    stored_t* tile = reinterpret_cast<stored_t*>(shared_memory);  // (32, 33)
    const int x = threadIdx.x % kLayoutTile;
    for (int64 first = int64(blockIdx.x) * kLayoutTile; first < lanes; first += int64(gridDim.x) * kLayoutTile) {
        for (int y = threadIdx.x / kLayoutTile; y < kLayoutTile; y += blockDim.x / kLayoutTile) {
            const int c = first_column + x;
            stored_t value = 0;
            if (first + y < n && c <= n_features) {
                const int place = a.places[set * a.capacity + first + y];
                const int64 row = a.streamed ? member * a.capacity + place : a.kept[member * a.capacity + place];
                const int64 at = c == n_features ? a.n_features : c;  // where the offset stands
                value = a.rows[row * a.pitch + (a.columns == nullptr ? at : a.columns[member * a.width + at])];
            }
            tile[x * (kLayoutTile + 1) + y] = value;
        }
        sync_block();
        for (int y = threadIdx.x / kLayoutTile; y < kLayoutTile; y += blockDim.x / kLayoutTile)
            if (first_column + y <= n_features && first + x < lanes)
                a.lanes[a.lanes_at[set] + (first_column + y) * lanes + first + x] = tile[y * (kLayoutTile + 1) + x];
        sync_block();
    }
}
