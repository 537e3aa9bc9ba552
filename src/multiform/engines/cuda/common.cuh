// What all kernels share: the machine's instructions under plain names, sums in a fixed order, the draws of the CPU.
//
// The sources are plain C++ but for the names of this first part, so that the tests can also run them without a GPU.
// Compiled for one storage of X and one tiling of q at a time:
//   STORED   bytes of a stored value: 1 (uint8), 2 (half), 4 (float)
//   TILES    q is worked on in pieces of 8 * TILES rows
//   SPLIT    1: a product of two float32 is three products of their tf32 parts; 0: one product of rounded values
#pragma once

#ifndef MULTIFORM_EMULATED

#define DEVICE static __device__ __forceinline__
#define GLOBAL extern "C" __global__ void
#define THREADS(most) __launch_bounds__(most)
#define RESIDENT(threads, blocks) __launch_bounds__(threads, blocks)
#define CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)

using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

extern __shared__ __align__(16) uint8 shared_memory[];

DEVICE void sync_block() { __syncthreads(); }
DEVICE bool sync_block_or(bool value) { return __syncthreads_or(value) != 0; }
template <typename Value>
DEVICE Value shuffle_xor(Value value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename Value>
DEVICE Value shuffle_up(Value value, int distance) {
    return __shfl_up_sync(0xffffffffu, value, distance);
}
template <typename Value>
DEVICE Value shuffle_from(Value value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE void atomic_max(uint64* at, uint64 value) { atomicMax(at, value); }

DEVICE float half_to_float(uint16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
DEVICE uint16 float_to_half(float value) {
    uint16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
DEVICE float reciprocal(float value) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

DEVICE uint32 bits_of(float value) { return __float_as_uint(value); }
DEVICE float from_bits(uint32 bits) { return __uint_as_float(bits); }

// The tensor cores' own format: float32 with a mantissa of 10 bits.
DEVICE float to_tf32(float value) {
    uint32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}
// c (16 x 8) += a (16 x 8) b (8 x 8), spread over the warp as the instruction has it.
DEVICE void multiply_tile(float* c, const float* a, const float* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// A thread's own bytes on their way into shared memory; nobody else reads them, so no barrier is needed.
template <int bytes>
DEVICE void copy_async(void* shared, const void* global) {
    const auto address = static_cast<uint32>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(bytes) : "memory");
}
DEVICE void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
DEVICE void wait_async() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#if __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
DEVICE uint32 shared_address(const void* shared) { return static_cast<uint32>(__cvta_generic_to_shared(shared)); }
// A place in the shared memory of some block of the cluster; volatile, or it would be found anew at every use.
using Far = uint32;
DEVICE Far address_in_block(const void* shared, int block) {
    Far there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(shared)), "r"(block));
    return there;
}
DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A channel counts the bytes that other blocks of the cluster have stored here: one barrier, and the data come with it.
DEVICE void open_channel(uint64* channel) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(channel)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void expect_bytes(uint64* channel, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(channel)), "r"(bytes)
                 : "memory");
}
template <typename Value>
DEVICE void send_to_block(Far place, Far channel, Value value) {
    if constexpr (sizeof(Value) == 4)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(place),
                     "r"(__float_as_uint(value)), "r"(channel)
                     : "memory");
    else
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(place),
                     "l"(__double_as_longlong(value)), "r"(channel)
                     : "memory");
}
// `use`: how often the channel was used before. It acquires within the block, in whose own memory the bytes lie: for
// the whole cluster it would empty the first cache every time.
DEVICE void await_bytes(uint64* channel, int use, int) {
    uint32 done;
    do {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(shared_address(channel)), "r"(use & 1)
            : "memory");
    } while (done == 0);
}
#else
#define HAS_CLUSTERS 0
#endif

#endif  // MULTIFORM_EMULATED

#if STORED == 1
using stored_t = uint8;
DEVICE float stored_value(stored_t value) { return static_cast<float>(value); }
#elif STORED == 2
using stored_t = uint16;
DEVICE float stored_value(stored_t value) { return half_to_float(value); }
#else
using stored_t = float;
DEVICE float stored_value(stored_t value) { return value; }
#endif

constexpr float kTiny = 1e-30f;
constexpr float kLeftOut = 3e38f;  // no f is that large: a pair that sits a sweep out

DEVICE int lane_of_thread() { return threadIdx.x & 31; }
DEVICE int warp_of_thread() { return threadIdx.x >> 5; }
DEVICE int warps_of_block() { return (blockDim.x + 31) >> 5; }
template <typename Value>
DEVICE Value smaller(Value a, Value b) {
    return a < b ? a : b;
}
template <typename Value>
DEVICE Value larger(Value a, Value b) {
    return a > b ? a : b;
}

// ------------------------------------------------------------------------------------- sums in a fixed order

// Sum of the earlier threads' values; `total` is the whole block's. `scratch` holds one value a warp.
DEVICE int sum_before(int value, int* scratch, int& total) {
    int inclusive = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = shuffle_up(inclusive, distance);
        if (lane_of_thread() >= distance) inclusive += other;
    }
    if (lane_of_thread() == 31) scratch[warp_of_thread()] = inclusive;
    sync_block();
    int before = 0;
    total = 0;
    for (int warp = 0; warp < warps_of_block(); ++warp) {
        if (warp == warp_of_thread()) before = total;
        total += scratch[warp];
    }
    sync_block();
    return before + inclusive - value;
}

// The whole block's sum, the same bits in every thread.
DEVICE double sum_of_block(double value, double* scratch) {
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    if (lane_of_thread() == 0) scratch[warp_of_thread()] = value;
    sync_block();
    double total = 0;
    for (int warp = 0; warp < warps_of_block(); ++warp) total += scratch[warp];
    sync_block();
    return total;
}

// --------------------------------------------------------------------------- SplitMix64, draw by its number

DEVICE uint64 draw(uint64 seed, uint64 number) {
    uint64 z = seed + number * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
DEVICE float draw_uniform(uint64 seed, uint64 number) {
    return static_cast<float>(draw(seed, number) >> 40) * 5.9604644775390625e-8f;
}
DEVICE int draw_below(uint64 seed, uint64 number, int bound) {
    return static_cast<int>(((draw(seed, number) >> 32) * static_cast<uint64>(bound)) >> 32);
}

// The samples that a pass visits: those with an active pair, and each of the others with a chance; in the order of
// their index. Returns how many, and moves `drawn` on as many draws as the CPU has made.
template <typename Eligible, typename Active>
DEVICE int choose_samples(int n, Eligible eligible, Active active, float revisit, bool draw_always, uint64 seed,
                          uint64& drawn, int* order, int* scratch) {
    int count = 0;
    for (int first = 0; first < n; first += blockDim.x) {
        const int i = first + threadIdx.x;
        const bool here = i < n && eligible(i);
        const bool asked = here && !active(i) && (draw_always || revisit < 1);
        int n_draws, n_chosen;
        const int before = sum_before(asked, scratch, n_draws);
        const bool chosen = here && (!asked || draw_uniform(seed, drawn + before + 1) < revisit);
        const int place = count + sum_before(chosen, scratch, n_chosen);
        if (chosen) order[place] = i;
        drawn += n_draws;
        count += n_chosen;
    }
    sync_block();
    return count;
}

// The shuffle of Fisher and Yates: i runs from n down to 2 and swaps items[i - 1] with items[below(i)]. A step waits
// only for earlier ones that touch the same two places; all others go at the same time (deterministic reservations:
// Shun, Gu, Blelloch, Fineman, Gibbons 2015), about log n rounds. The result is the sequential one. `holder` and
// `pending` have n places.
DEVICE void shuffle_items(int* items, int n, uint64 seed, uint64& drawn, uint64* holder, int* pending) {
    const int threads = blockDim.x;
    for (int i = threadIdx.x; i < n; i += threads) holder[i] = 0;
    int mine = 0;
    for (int i = n - static_cast<int>(threadIdx.x); i >= 2; i -= threads) pending[threadIdx.x + threads * mine++] = i;
    sync_block();
    for (uint64 round = 1; sync_block_or(mine > 0); ++round) {
        for (int at = 0; at < mine; ++at) {
            const int i = pending[threadIdx.x + threads * at];
            const int j = draw_below(seed, drawn + static_cast<uint64>(n - i + 1), i);
            const uint64 claim = (round << 32) | static_cast<uint64>(i);  // earlier steps have the larger i
            atomic_max(holder + i - 1, claim);
            atomic_max(holder + j, claim);
        }
        sync_block();
        int left = 0;
        for (int at = 0; at < mine; ++at) {
            const int i = pending[threadIdx.x + threads * at];
            const int j = draw_below(seed, drawn + static_cast<uint64>(n - i + 1), i);
            const uint64 claim = (round << 32) | static_cast<uint64>(i);
            if (holder[i - 1] == claim && holder[j] == claim) {
                const int item = items[i - 1];
                items[i - 1] = items[j];
                items[j] = item;
            } else {
                pending[threadIdx.x + threads * left++] = i;
            }
        }
        mine = left;
    }
    if (n > 1) drawn += static_cast<uint64>(n - 1);
}

// ------------------------------------------------------------------------------------------- the rows of X

// X with rows of `pitch` values. x = (stored - center) * unit; column p is 0 everywhere with center 1 and unit 1, so
// that it reads as -1: its weight is the offset b. Column p + 1 reads as 0.
struct Rows {
    const stored_t* values;
    int64 pitch;
    const float* center;
    const float* unit;
    const int* columns;  // which columns to read, in turn; null: 0, 1, 2, ...
};

struct alignas(16) Four {
    float at[4];
};

// What the kernels of values, Adam and CPM are given. Python fills these structures by the names of their fields
// (device.py), those of the base first; a base has no hole at its end: its floats come in pairs.

// R = A_k x - b_k: X, and the separators of all members.
struct Product {
    const stored_t* rows;  // all of X, or what a launch needs of it
    int64 pitch;
    const float* center;
    const float* unit;
    const int* columns;  // (B, width), or null
    float* weights;      // (B, m, q, width): A_k, b_k in column n_features, then zeros
    int64 n_classes;
    int64 n_components;
    int64 width;
};

// The members of a batch on their way.
struct Members : Product {
    int64 n_features;     // of the widest member
    const int* selected;  // (B,) features of each
    int64 n_samples;
    const int* target;
    const float* sample_weight;  // (B, n), (n,) when weight_stride is 0, or null
    int64 weight_stride;
    const float* class_weight;  // (B, m)
    const float* noise;         // (B,) sigma^2
    const uint64* seed;         // (B,)
    uint64* drawn;              // (B,) numbers so far
    uint8* active;              // (B, n) whether a sample has an active pair
    float alpha;
    float revisit;
};

DEVICE Rows rows_of_member(const Product& a, int member) {
    return {a.rows, a.pitch, a.center, a.unit, a.columns == nullptr ? nullptr : a.columns + member * a.width};
}

// w of a sample of class y
DEVICE float weight_of_sample(const Members& a, int member, int sample, int y) {
    const float weight = a.sample_weight == nullptr ? 1.0f : a.sample_weight[member * a.weight_stride + sample];
    return weight * a.class_weight[member * a.n_classes + y];
}

// Stored values of a row on their way into registers, and what they are. `first` is a multiple of `count`, 4 or 8.
template <int count>
struct alignas(count * sizeof(stored_t) > 16 ? 16 : count * sizeof(stored_t)) Stored {
    stored_t at[count];
};

template <int count>
DEVICE Stored<count> fetch_values(const Rows& rows, int64 row, int first) {
    const stored_t* values = rows.values + row * rows.pitch;
    if (rows.columns == nullptr) return *reinterpret_cast<const Stored<count>*>(values + first);
    Stored<count> piece;
    for (int i = 0; i < count; ++i) piece.at[i] = values[rows.columns[first + i]];
    return piece;
}

template <int count>
DEVICE void scale_values(const Rows& rows, const Stored<count>& piece, int first, float* x) {
    if (rows.columns != nullptr) {
        for (int i = 0; i < count; ++i) {
            const int c = rows.columns[first + i];
            x[i] = (stored_value(piece.at[i]) - rows.center[c]) * rows.unit[c];
        }
        return;
    }
    for (int four = 0; four < count; four += 4) {
        const Four center = *reinterpret_cast<const Four*>(rows.center + first + four);
        const Four unit = *reinterpret_cast<const Four*>(rows.unit + first + four);
        for (int i = 0; i < 4; ++i) x[four + i] = (stored_value(piece.at[four + i]) - center.at[i]) * unit.at[i];
    }
}

// ------------------------------------------------------------------------------------------- matrix products

// The high part of a float32 as the tensor cores read it, without its last 13 bits; the rest is exact in float32.
DEVICE float high_part(float value) { return from_bits(bits_of(value) & 0xffffe000u); }

// c += a b in float32's accuracy: a = high + low, b likewise; the product of the low parts is below rounding.
DEVICE void multiply(float* c, const float* a, const float* b) {
    float a_high[4], b_high[2];
#if SPLIT
    float a_low[4], b_low[2];
    for (int i = 0; i < 4; ++i) a_high[i] = high_part(a[i]), a_low[i] = a[i] - a_high[i];
    for (int i = 0; i < 2; ++i) b_high[i] = high_part(b[i]), b_low[i] = b[i] - b_high[i];
    multiply_tile(c, a_low, b_high);
    multiply_tile(c, a_high, b_low);
#else
    for (int i = 0; i < 4; ++i) a_high[i] = to_tf32(a[i]);
    for (int i = 0; i < 2; ++i) b_high[i] = to_tf32(b[i]);
#endif
    multiply_tile(c, a_high, b_high);
}

// ||A_k||^2 of one member's separator, the same bits in every thread of the block.
DEVICE double squared_norm(const Members& a, int member, int k, double* scratch) {
    const float* weights = a.weights + (member * a.n_classes + k) * a.n_components * a.width;
    double sum = 0;
    for (int64 at = threadIdx.x; at < a.n_components * a.width; at += blockDim.x)
        if (at % a.width < a.n_features) sum += static_cast<double>(weights[at]) * static_cast<double>(weights[at]);
    return sum_of_block(sum, scratch);
}

constexpr int kRowsTile = 32;      // samples of a block
constexpr int kPiece = 8 * TILES;  // rows of A_k that a block works on

// R = A_k x - b_k for 32 samples and one piece of A_k's rows, and the sum of its squares.
// Warps share the columns out; their parts are added in the order of the warps.
//   row_of(i): the row of sample i of the tile, negative when there is none
//   keep(i, r, R), keep_square(i, sum): what becomes of the results
//   parts: warps * 32 * kPiece floats of shared memory
template <typename RowOf, typename Keep, typename KeepSquare>
DEVICE void residual_tile(const Rows& rows, RowOf row_of, const float* weights, int n_rows_of_a, int width,
                          float* parts, Keep keep, KeepSquare keep_square) {
    const int group = lane_of_thread() >> 2, slot = lane_of_thread() & 3;
    float sums[2][TILES][4] = {};
    int64 row[4];
    for (int i = 0; i < 4; ++i) row[i] = row_of(group + 8 * i);
    for (int start = 32 * warp_of_thread(); start < width; start += 32 * warps_of_block()) {
        const int first = start + 8 * slot;
        float x[4][8], w[TILES][8];
        for (int i = 0; i < 4; ++i) {
            if (row[i] >= 0)
                scale_values<8>(rows, fetch_values<8>(rows, row[i], first), first, x[i]);
            else
                for (int c = 0; c < 8; ++c) x[i][c] = 0;
        }
        for (int tile = 0; tile < TILES; ++tile) {
            const int r = 8 * tile + group;
            const Four none = {}, *at = reinterpret_cast<const Four*>(weights + int64(r) * width + first);
            const Four low = r < n_rows_of_a ? at[0] : none, high = r < n_rows_of_a ? at[1] : none;
            for (int c = 0; c < 4; ++c) w[tile][c] = low.at[c], w[tile][4 + c] = high.at[c];
        }
        // The order of the columns does not matter to a product: lane `slot` holds columns 8 slot, ..., 8 slot + 7.
        for (int step = 0; step < 8; step += 2)
            for (int half = 0; half < 2; ++half) {
                const float a[4] = {x[2 * half][step], x[2 * half + 1][step], x[2 * half][step + 1],
                                    x[2 * half + 1][step + 1]};
                for (int tile = 0; tile < TILES; ++tile) {
                    const float b[2] = {w[tile][step], w[tile][step + 1]};
                    multiply(sums[half][tile], a, b);
                }
            }
    }
    float* mine = parts + warp_of_thread() * kRowsTile * kPiece;
    for (int half = 0; half < 2; ++half)
        for (int tile = 0; tile < TILES; ++tile)
            for (int i = 0; i < 4; ++i)
                mine[(16 * half + group + (i & 2) * 4) * kPiece + 8 * tile + 2 * slot + (i & 1)] = sums[half][tile][i];
    sync_block();
    for (int at = threadIdx.x; at < kRowsTile * kPiece; at += blockDim.x) {
        float residual = 0;
        for (int warp = 0; warp < warps_of_block(); ++warp) residual += parts[warp * kRowsTile * kPiece + at];
        parts[at] = residual;
        if (at % kPiece < n_rows_of_a) keep(at / kPiece, at % kPiece, residual);
    }
    sync_block();
    for (int i = threadIdx.x; i < kRowsTile; i += blockDim.x) {
        float sum = 0;
        for (int r = 0; r < n_rows_of_a; ++r) sum += parts[i * kPiece + r] * parts[i * kPiece + r];
        keep_square(i, sum);
    }
}
