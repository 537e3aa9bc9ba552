// Adam for small problems in bulk: one thread block has one member, all of it in shared memory, for as many passes as
// asked for. The same steps as adam.cu, by plain float32 products.
#include "common.cuh"

struct Small {
    const stored_t* rows;
    int64 pitch;
    const float* center;
    const float* unit;
    const int* columns;
    float* weights;  // (B, m, q, width)
    float* first;
    float* second;
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
    int64* steps;   // (B,)
    double* sums;   // (B, n_passes, 2) loss and weight of each pass
    int64* visits;  // (B,)
    int64 batch_size;
    int64 capacity;  // rows of a batch at most
    const float* learning_rate;
    int64 n_passes;
    float alpha;
    float beta1;
    float beta2;
    float epsilon;
    float revisit;
    float final_rate;
};

GLOBAL THREADS(256) small_adam(Small a, int64 pass_begin, int64 pass_end) {
    const int member = blockIdx.x, n = static_cast<int>(a.n_samples), threads = blockDim.x, thread = threadIdx.x;
    const int m = static_cast<int>(a.n_classes), q = static_cast<int>(a.n_components), outputs = m * q;
    const int n_features = a.selected[member], stride = (n_features + 1) | 1;  // odd: no two rows in one bank
    const int capacity = static_cast<int>(a.capacity),
              most_batches = static_cast<int>((n + a.batch_size - 1) / a.batch_size);
    const int width = n_features + 1;

    double* scratch = reinterpret_cast<double*>(shared_memory);
    uint64* holder = reinterpret_cast<uint64*>(scratch + 32);
    float* x = reinterpret_cast<float*>(holder + n);  // (n, stride), the last column -1
    float* weights = x + n * stride;                  // (m q, stride)
    float* first = weights + outputs * stride;
    float* second = first + outputs * stride;
    float* residual = second + outputs * stride;  // (capacity, m q)
    float* f = residual + capacity * outputs;     // (capacity, m)
    float* slope = f + capacity * m;              // (capacity, m)
    float* row_weight = slope + capacity * m;
    float* rate = row_weight + capacity;  // of each batch of the pass
    float* energy = rate + most_batches;
    int* counts = reinterpret_cast<int*>(energy + m);
    int* order = counts + 32;
    int* pending = order + n;
    int* row_target = pending + n;
    uint8* active = reinterpret_cast<uint8*>(row_target + capacity);

    // What stands in global memory: rows of A_k with the offset in column n_features of the widest member.
    const int64 base = int64(member) * outputs * a.width;
    const auto place_of = [&](int at) {
        const int c = at % width;
        return base + int64(at / width) * a.width + (c == n_features ? a.n_features : c);
    };
    for (int at = thread; at < outputs * width; at += threads) {
        const int to = at / width * stride + at % width;
        const int64 from = place_of(at);
        weights[to] = a.weights[from], first[to] = a.first[from], second[to] = a.second[from];
    }
    for (int at = thread; at < n * width; at += threads) {
        const int i = at / width, c = at % width;
        const int64 column = c == n_features ? a.n_features : c;
        const int64 source = a.columns == nullptr ? column : a.columns[member * a.width + column];
        x[i * stride + c] = (stored_value(a.rows[i * a.pitch + source]) - a.center[source]) * a.unit[source];
    }
    for (int i = thread; i < n; i += threads) active[i] = a.active[int64(member) * n + i];
    const float* sample_weight = a.sample_weight == nullptr ? nullptr : a.sample_weight + member * a.weight_stride;
    const float* class_weight = a.class_weight + member * m;
    const float noise = a.noise[member];
    uint64 drawn = a.drawn[member];
    int64 steps = a.steps[member], visits = 0;
    sync_block();

    // sigma^2 ||A_k||^2: a warp has a class
    const auto find_energy = [&] {
        for (int k = warp_of_thread(); k < m; k += warps_of_block()) {
            double norm = 0;
            if (noise > 0)
                for (int at = lane_of_thread(); at < q * n_features; at += 32) {
                    const float weight = weights[(k * q + at / n_features) * stride + at % n_features];
                    norm += static_cast<double>(weight) * static_cast<double>(weight);
                }
            for (int mask = 16; mask > 0; mask /= 2) norm += shuffle_xor(norm, mask);
            if (lane_of_thread() == 0) energy[k] = noise * static_cast<float>(norm);
        }
    };
    find_energy();

    for (int64 pass = pass_begin; pass < pass_end; ++pass) {
        const int visited = choose_samples(
            n,
            [&](int i) { return (sample_weight == nullptr || sample_weight[i] > 0) && class_weight[a.target[i]] > 0; },
            [&](int i) { return active[i] != 0; }, a.revisit, true, a.seed[member], drawn, order, counts);
        shuffle_items(order, visited, a.seed[member], drawn, holder, pending);
        const int n_batches = static_cast<int>((visited + a.batch_size - 1) / a.batch_size);
        // Learning rate: cosine from 1 to final_rate over the planned passes, with Adam's bias corrections.
        for (int batch = thread; batch < n_batches; batch += threads) {
            const double progress = smaller(1.0, (static_cast<double>(pass) + static_cast<double>(batch) / n_batches) /
                                                     static_cast<double>(a.n_passes));
            const double fade = a.final_rate + (1.0 - a.final_rate) * 0.5 * (1.0 + cos(3.141592653589793 * progress));
            const double t = static_cast<double>(steps + batch + 1);
            const double correction =
                sqrt(1.0 - pow(static_cast<double>(a.beta2), t)) / (1.0 - pow(static_cast<double>(a.beta1), t));
            rate[batch] = static_cast<float>(a.learning_rate[member] * fade * correction);
        }
        double loss_sum = 0, weight_sum = 0;
        sync_block();
        for (int batch = 0; batch < n_batches; ++batch) {
            const int begin = static_cast<int>(int64(batch) * visited / n_batches);
            const int rows = static_cast<int>(int64(batch + 1) * visited / n_batches) - begin;
            const float scale = 1.0f / static_cast<float>(rows);
            // R = A x - b
            for (int at = thread; at < rows * outputs; at += threads) {
                const float* row = x + order[begin + at / outputs] * stride;
                const float* weight = weights + at % outputs * stride;
                float sum = 0;
                for (int c = 0; c < width; ++c) sum += row[c] * weight[c];
                residual[at] = sum;
            }
            for (int i = thread; i < rows; i += threads) {
                const int sample = order[begin + i];
                row_target[i] = a.target[sample];
                row_weight[i] = (sample_weight == nullptr ? 1.0f : sample_weight[sample]) * class_weight[row_target[i]];
            }
            sync_block();
            for (int at = thread; at < rows * m; at += threads) {
                const float* r = residual + at / m * outputs + at % m * q;
                float sum = 0;
                for (int c = 0; c < q; ++c) sum += r[c] * r[c];
                f[at] = larger(sum + energy[at % m], kTiny);
            }
            sync_block();
            // loss(x) = w sum over j != y of max(alpha, f_y / f_j), and its slope by each f         (paper, 2.2)
            for (int i = thread; i < rows; i += threads) {
                const int y = row_target[i];
                const float own = f[i * m + y], weight = row_weight[i];
                float own_slope = 0, loss = 0;
                for (int j = 0; j < m; ++j) {
                    if (j == y) continue;
                    const float inverse = 1.0f / f[i * m + j], ratio = own * inverse;
                    const bool above = ratio > a.alpha;
                    slope[i * m + j] = above ? weight * scale * (-ratio * inverse) : 0.0f;
                    own_slope += above ? inverse : 0.0f;
                    loss += larger(a.alpha, ratio);
                }
                slope[i * m + y] = weight * scale * own_slope;
                active[order[begin + i]] = own_slope > 0;
                loss_sum += static_cast<double>(weight) * static_cast<double>(loss);
                weight_sum += static_cast<double>(weight);
            }
            sync_block();
            // Adam (Kingma and Ba 2015); noise adds 2 sigma^2 A_k times the slope, and does not touch the offset
            for (int at = thread; at < outputs * width; at += threads) {
                const int o = at / width, c = at % width, k = o / q, place = o * stride + c;
                float gradient = 0, slopes = 0;
                for (int i = 0; i < rows; ++i) {
                    const float s = slope[i * m + k];
                    gradient += 2.0f * s * residual[i * outputs + o] * x[order[begin + i] * stride + c];
                    slopes += s;
                }
                if (c < n_features) gradient += 2.0f * noise * slopes * weights[place];
                first[place] = a.beta1 * first[place] + (1.0f - a.beta1) * gradient;
                second[place] = a.beta2 * second[place] + (1.0f - a.beta2) * (gradient * gradient);
                weights[place] -= rate[batch] * first[place] / (sqrtf(second[place]) + a.epsilon);
            }
            sync_block();
            find_energy();
            sync_block();
        }
        steps += n_batches;
        visits += visited;
        loss_sum = sum_of_block(loss_sum, scratch);
        weight_sum = sum_of_block(weight_sum, scratch);
        if (thread == 0) {
            a.sums[2 * (member * a.n_passes + pass)] = loss_sum;
            a.sums[2 * (member * a.n_passes + pass) + 1] = weight_sum;
        }
    }
    for (int at = thread; at < outputs * width; at += threads) {
        const int from = at / width * stride + at % width;
        const int64 to = place_of(at);
        a.weights[to] = weights[from], a.first[to] = first[from], a.second[to] = second[from];
    }
    for (int i = thread; i < n; i += threads) a.active[int64(member) * n + i] = active[i];
    if (thread == 0) {
        a.drawn[member] = drawn;
        a.steps[member] = steps;
        a.visits[member] += visits;
    }
}
