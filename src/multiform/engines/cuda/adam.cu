// Minibatch Adam for many members at once: three kernels per step.
//
//   forward   R = A_k x - b_k and ||R||^2, for a tile of the batch's samples and one class
//   slopes    of the loss by f_k, for one class: a list of the samples that have one
//   update    the gradient of a tile of A_k's columns over that list, and Adam's step on it
//
// Each member has its own batch. A graph of steps is launched as one; a step whose batch a member does not have does
// nothing.
#include "adam.cuh"

struct Adam : Descent {
    int* order;           // (B, n)
    uint64* holder;       // (B, n)
    int* pending;         // (B, n)
    int* visited;         // (B,) samples of this pass
    int64 streamed;       // rows that stand ready for each member; 0: X is all there
    int64* clock;         // pass, batch
    float* residual;      // (B, capacity, m, q)
    float* squares;       // (B, pieces, capacity, m)
    int* n_listed;        // (B, m) samples of the batch with a slope by f_k
    int* listed;          // (B, m, capacity) which they are
    int* listed_row;      // (B, m, capacity) where X has them
    float* listed_slope;  // (B, m, capacity)
    float* scaled;        // (B, m, capacity, pieces * kPiece) 2 slope R_k
    double* slope_sum;    // (B, m)
    double* norms;        // (B, m, pieces * column tiles) of ||A_k||^2
    float* rate;          // (B, most_batches) of each step of the pass
    int64 most_batches;
    double* pass_sums;  // (B, 2) loss and weight
};

constexpr int kUpdateThreads = 128;
constexpr int kColumnsTile = kUpdateThreads;  // columns of an update: 32 a warp
constexpr int kAtOnce = 32;                   // samples of an update whose loads are on their way together

DEVICE int pieces_of(const Adam& a) { return static_cast<int>((a.n_components + kPiece - 1) / kPiece); }
DEVICE int column_tiles_of(const Adam& a) { return static_cast<int>((a.width + kColumnsTile - 1) / kColumnsTile); }

// The part of a member's order that one step works on.
struct Batch {
    int64 begin, end;  // positions in the order
    int64 ready;       // position of the first row that stands ready, when X is streamed
};

DEVICE bool batch_of_step(const Adam& a, int member, int64 step, Batch& batch) {
    const int64 n = a.visited[member], n_batches = (n + a.batch_size - 1) / a.batch_size;
    const int64 at = a.clock[1] + step;
    if (at >= n_batches) return false;
    batch.begin = at * n / n_batches;
    batch.end = (at + 1) * n / n_batches;
    batch.ready = a.clock[1] * n / n_batches;
    return true;
}

DEVICE int64 row_of_position(const Adam& a, int member, const Batch& batch, int64 position) {
    return a.streamed > 0 ? member * a.streamed + position - batch.ready : a.order[member * a.n_samples + position];
}

GLOBAL THREADS(1024) adam_begin_pass(Adam a, int64 pass) {
    const int member = blockIdx.x;
    const int64 all = member * a.n_samples;
    uint64 drawn = a.drawn[member];
    const int64 before = a.visited[member];  // of the pass that is over
    const int count = begin_pass(a, member, a.active + all, drawn, a.order + all, a.holder + all, a.pending + all,
                                 reinterpret_cast<int*>(shared_memory));
    const int64 steps = a.steps[member] + (before + a.batch_size - 1) / a.batch_size;
    const int64 n_batches = (count + a.batch_size - 1) / a.batch_size;
    for (int64 batch = threadIdx.x; batch < n_batches; batch += blockDim.x)
        a.rate[member * a.most_batches + batch] = rate_of_step(a, member, pass, batch, n_batches, steps);
    sync_block();
    if (threadIdx.x == 0) {
        a.drawn[member] = drawn;
        a.visited[member] = count;
        a.steps[member] = steps;
        a.pass_sums[2 * member] = a.pass_sums[2 * member + 1] = 0;
        if (member == 0) a.clock[0] = pass, a.clock[1] = 0;
    }
}

// After the steps of a graph.
GLOBAL adam_tick(Adam a, int64 n_steps) { a.clock[1] += n_steps; }

// sigma^2 ||A_k||^2 of the weights that a member starts from; later the update keeps account.
GLOBAL THREADS(256) adam_norms(Adam a) {
    const int k = blockIdx.y, member = blockIdx.z, n_parts = pieces_of(a) * column_tiles_of(a);
    const double sum = squared_norm(a, member, k, reinterpret_cast<double*>(shared_memory));
    double* norms = a.norms + (member * a.n_classes + k) * n_parts;
    for (int part = threadIdx.x; part < n_parts; part += blockDim.x) norms[part] = part == 0 ? sum : 0.0;
}

GLOBAL RESIDENT(256, 2) adam_forward(Adam a, int64 step) {
    const int member = blockIdx.z, pieces = pieces_of(a);
    const int k = blockIdx.y / pieces, piece = blockIdx.y % pieces;
    Batch batch;
    if (!batch_of_step(a, member, step, batch)) return;
    const int64 m = a.n_classes, q = a.n_components, first = int64(blockIdx.x) * kRowsTile;
    const int64 n = batch.end - batch.begin, slot = member * a.capacity;
    if (first >= n) return;
    residual_tile(
        rows_of_member(a, member),
        [&](int i) { return first + i < n ? row_of_position(a, member, batch, batch.begin + first + i) : int64(-1); },
        a.weights + ((member * m + k) * q + piece * kPiece) * a.width,
        static_cast<int>(smaller<int64>(q - piece * kPiece, kPiece)), static_cast<int>(a.width),
        reinterpret_cast<float*>(shared_memory),
        [&](int i, int r, float value) {
            if (first + i < n) a.residual[((slot + first + i) * m + k) * q + piece * kPiece + r] = value;
        },
        [&](int i, float sum) {
            if (first + i < n) a.squares[((member * pieces + piece) * a.capacity + first + i) * m + k] = sum;
        });
}

// The slope of the ratio loss by f_k, and what class k's update needs of the samples that have one.
GLOBAL THREADS(256) adam_slopes(Adam a, int64 step) {
    const int k = blockIdx.x, member = blockIdx.z, pieces = pieces_of(a), n_parts = pieces * column_tiles_of(a);
    const int m = static_cast<int>(a.n_classes);
    Batch batch;
    if (!batch_of_step(a, member, step, batch)) return;
    const int n = static_cast<int>(batch.end - batch.begin);
    const float scale = 1.0f / static_cast<float>(n);
    double* scratch = reinterpret_cast<double*>(shared_memory);
    int* counts = reinterpret_cast<int*>(scratch + 32);
    float* energy = reinterpret_cast<float*>(counts + 32);  // (m,) sigma^2 ||A_j||^2, one warp per class
    for (int j = warp_of_thread(); j < m; j += warps_of_block()) {
        double norm = 0;
        if (a.noise[member] > 0)
            for (int part = lane_of_thread(); part < n_parts; part += 32)
                norm += a.norms[(int64(member) * m + j) * n_parts + part];
        for (int mask = 16; mask > 0; mask /= 2) norm += shuffle_xor(norm, mask);
        if (lane_of_thread() == 0) energy[j] = a.noise[member] * static_cast<float>(norm);
    }
    sync_block();
    const auto value_of = [&](int64 i, int j) {  // f_j: ||R||^2 and what the noise adds
        float sum = 0;
        for (int piece = 0; piece < pieces; ++piece)
            sum += a.squares[((member * pieces + piece) * a.capacity + i) * m + j];
        return larger(sum + energy[j], kTiny);
    };
    const int64 list = (int64(member) * m + k) * a.capacity;
    int listed = 0;
    double slope_sum = 0, loss_sum = 0, weight_sum = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + threadIdx.x;
        float slope = 0;
        if (i < n) {
            const int sample = a.order[member * a.n_samples + batch.begin + i], y = a.target[sample];
            const float weight = weight_of_sample(a, member, sample, y), own = value_of(i, y);
            if (k == y || k == 0) {  // class 0 also keeps account
                float own_slope = 0, loss = 0;
#pragma unroll 5
                for (int j = 0; j < m; ++j) {
                    const Pair pair = pair_of(own, value_of(i, j), a.alpha);
                    own_slope += j != y && pair.active ? pair.inverse : 0.0f;
                    loss += j != y ? loss_of(pair, a.alpha) : 0.0f;
                }
                if (k == y) slope = own_slope;
                if (k == 0) {
                    a.active[member * a.n_samples + sample] = own_slope > 0;
                    loss_sum += static_cast<double>(weight) * static_cast<double>(loss);
                    weight_sum += static_cast<double>(weight);
                }
            }
            if (k != y) slope = rival_slope_of(pair_of(own, value_of(i, k), a.alpha));
            slope *= weight * scale;
            slope_sum += static_cast<double>(slope);
        }
        int added;
        const int place = listed + sum_before(slope != 0.0f, counts, added);
        if (slope != 0.0f) {
            a.listed[list + place] = i;
            a.listed_row[list + place] = static_cast<int>(row_of_position(a, member, batch, batch.begin + i));
            a.listed_slope[list + place] = 2.0f * slope;
        }
        listed += added;
    }
    slope_sum = sum_of_block(slope_sum, scratch);
    // d f_k / d R_k = 2 R_k
    const int padded = pieces * kPiece, q = static_cast<int>(a.n_components);
#pragma unroll 4
    for (int at = threadIdx.x; at < listed * padded; at += blockDim.x) {
        const int i = at / padded, r = at % padded;
        const int64 row = (member * a.capacity + a.listed[list + i]) * m + k;
        a.scaled[list * padded + at] = r < q ? a.listed_slope[list + i] * a.residual[row * q + r] : 0.0f;
    }
    if (threadIdx.x == 0) {
        a.n_listed[int64(member) * m + k] = listed;
        a.slope_sum[int64(member) * m + k] = slope_sum;
    }
    if (k == 0) {
        loss_sum = sum_of_block(loss_sum, scratch);
        weight_sum = sum_of_block(weight_sum, scratch);
        if (threadIdx.x == 0) {
            a.pass_sums[2 * member] += loss_sum;
            a.pass_sums[2 * member + 1] += weight_sum;
        }
    }
}

// gradient[r, c] = sum over the listed samples of 2 slope R_r x_c. A warp has 32 columns and goes through all samples;
// lane `group` has columns 4 group, ..., 4 group + 3, as 2 tiles of the tensor cores.
GLOBAL RESIDENT(kUpdateThreads, 4) adam_update(Adam a, int64 step) {
    const int member = blockIdx.z, pieces = pieces_of(a);
    const int k = blockIdx.y / pieces, piece = blockIdx.y % pieces;
    Batch batch;
    if (!batch_of_step(a, member, step, batch)) return;
    const int64 m = a.n_classes, q = a.n_components, list = (member * m + k) * a.capacity;
    const int n = a.n_listed[member * m + k];
    const int n_rows_of_a = static_cast<int>(smaller<int64>(q - piece * kPiece, kPiece));
    const int group = lane_of_thread() >> 2, slot = lane_of_thread() & 3;
    const int column = blockIdx.x * kColumnsTile + 32 * warp_of_thread() + 4 * group;
    const bool in_width = column < a.width;

    double* scratch = reinterpret_cast<double*>(shared_memory);
    const int* listed_row = a.listed_row + list;
    const float* scaled = a.scaled + (list * pieces + piece) * kPiece + group;
    const int stride = pieces * kPiece;
    const Rows rows = rows_of_member(a, member);
    float sums[2][TILES][4] = {};
    for (int start = 0; start < n && in_width; start += kAtOnce) {
        // All loads first: 8 rows of X and their scaled residuals for each of the products below.
        int row[kAtOnce / 8][2];
        Stored<4> stored[kAtOnce / 8][2];
        float b[kAtOnce / 8][TILES][2];
#pragma unroll
        for (int u = 0; u < kAtOnce / 8; ++u)
            for (int half = 0; half < 2; ++half) {
                const int at = start + 8 * u + slot + 4 * half;
                row[u][half] = listed_row[at < n ? at : 0];
                for (int tile = 0; tile < TILES; ++tile)
                    b[u][tile][half] = at < n ? scaled[at * stride + 8 * tile] : 0.0f;
            }
#pragma unroll
        for (int u = 0; u < kAtOnce / 8; ++u)
            for (int half = 0; half < 2; ++half) stored[u][half] = fetch_values<4>(rows, row[u][half], column);
#pragma unroll
        for (int u = 0; u < kAtOnce / 8; ++u) {
            if (start + 8 * u >= n) break;
            float x[2][4];
            for (int half = 0; half < 2; ++half) scale_values<4>(rows, stored[u][half], column, x[half]);
            for (int j = 0; j < 2; ++j) {  // columns 4 group + 2 j and the next
                const float x_tile[4] = {x[0][2 * j], x[0][2 * j + 1], x[1][2 * j], x[1][2 * j + 1]};
                for (int tile = 0; tile < TILES; ++tile) multiply(sums[j][tile], x_tile, b[u][tile]);
            }
        }
    }

    // Noise adds 2 sigma^2 A_k times the slope, and does not touch the offset.
    const float decay = 2.0f * a.noise[member] * static_cast<float>(a.slope_sum[member * m + k]);
    const float rate = a.rate[member * a.most_batches + a.clock[1] + step];
    double norm = 0;
    for (int tile = 0; tile < TILES; ++tile)
        for (int i = 0; i < 2; ++i) {
            const int r = 8 * tile + 2 * slot + i;
            if (r >= n_rows_of_a || !in_width) continue;
            const int64 place = ((member * m + k) * q + piece * kPiece + r) * a.width + column;
            Four weight = *reinterpret_cast<Four*>(a.weights + place),
                 first = *reinterpret_cast<Four*>(a.first + place);
            Four second = *reinterpret_cast<Four*>(a.second + place);
            const float gradients[4] = {sums[0][tile][i], sums[0][tile][i + 2], sums[1][tile][i], sums[1][tile][i + 2]};
            for (int c = 0; c < 4; ++c) {
                if (column + c > a.n_features) continue;  // zeros stay zeros
                const bool offset = column + c == a.n_features;
                const float gradient = gradients[c] + (offset ? 0.0f : decay * weight.at[c]);
                adam_step(a, gradient, rate, weight.at[c], first.at[c], second.at[c]);
                if (!offset) norm += static_cast<double>(weight.at[c]) * static_cast<double>(weight.at[c]);
            }
            *reinterpret_cast<Four*>(a.weights + place) = weight;
            *reinterpret_cast<Four*>(a.first + place) = first;
            *reinterpret_cast<Four*>(a.second + place) = second;
        }
    if (a.noise[member] > 0) {
        norm = sum_of_block(norm, scratch);
        const int n_parts = pieces * column_tiles_of(a);
        if (threadIdx.x == 0) a.norms[(member * m + k) * n_parts + piece * column_tiles_of(a) + blockIdx.x] = norm;
    }
}
