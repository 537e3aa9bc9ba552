// A GPU of one fiber a thread: runs the kernels' own sources on the CPU, so that their logic is tested where there is
// no GPU. Threads of a cluster take turns at barriers and at exchanges within a warp; nothing runs at the same time,
// and a read outside of an array is one for the address sanitizer.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#define DEVICE static inline
#define GLOBAL void
#define THREADS(most)
#define CLUSTER(blocks)
#define RESIDENT(threads, blocks)
#define HAS_CLUSTERS 1

using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

namespace emulator {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

struct Barrier {
    int expected = 0, arrived = 0, generation = 0;
};

struct Warp {
    Barrier barrier;
    double values[32][6];
};

struct Block {
    Index index;
    std::vector<uint8> memory;
    uint8* shared = nullptr;
    Barrier barrier;
    std::vector<Warp> warps;
    std::vector<uint8> votes;
};

struct Cluster {
    std::vector<std::unique_ptr<Block>> blocks;
    Barrier barrier;
};

struct Fiber {
    ucontext_t context;  // to begin; later turns jump, which costs no system call
    jmp_buf place;
    bool begun = false;
    std::vector<char> stack;
    Index thread;
    Block* block = nullptr;
    bool done = false;
};

inline Fiber* now = nullptr;
inline Cluster* cluster = nullptr;
inline ucontext_t outside;
inline jmp_buf scheduler;
inline Index block_size, grid_size;
inline void (*body)(void**) = nullptr;
inline void** arguments = nullptr;

inline void give_way() {
    if (_setjmp(now->place) == 0) _longjmp(scheduler, 1);
}

inline void wait(Barrier& barrier) {
    const int generation = barrier.generation;
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.generation;
    }
    while (barrier.generation == generation) give_way();
}

inline Warp& warp() { return now->block->warps[now->thread.x / 32]; }

template <typename Value>
Value exchange(Value value, int source) {
    static_assert(sizeof(Value) <= sizeof(double));
    Warp& own = warp();
    std::memcpy(own.values[now->thread.x % 32], &value, sizeof(Value));
    wait(own.barrier);
    Value result;
    std::memcpy(&result, own.values[source & 31], sizeof(Value));
    wait(own.barrier);
    return result;
}

inline void enter() {
    body(arguments);
    now->done = true;
    give_way();
}

inline void resume(Fiber& fiber) {
    now = &fiber;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    swapcontext(&outside, &fiber.context);
}

template <typename... Arguments, size_t... at>
void call(void (*kernel)(Arguments...), void** values, std::index_sequence<at...>) {
    kernel(*static_cast<std::remove_cv_t<Arguments>*>(values[at])...);
}

template <typename... Arguments>
void call(void (*kernel)(Arguments...), void** values) {
    call(kernel, values, std::index_sequence_for<Arguments...>{});
}

inline int run(unsigned grid[3], unsigned threads, unsigned blocks_of_cluster, size_t shared_bytes) {
    block_size = {threads, 1, 1};
    grid_size = {grid[0], grid[1], grid[2]};
    static std::vector<std::unique_ptr<Fiber>> pool;  // their stacks are kept for the next launch
    while (pool.size() < threads * blocks_of_cluster) {
        pool.push_back(std::make_unique<Fiber>());
        pool.back()->stack.resize(1 << 16);
    }
    const std::vector<Fiber*> fibers = [&] {
        std::vector<Fiber*> chosen;
        for (size_t i = 0; i < threads * blocks_of_cluster; ++i) chosen.push_back(pool[i].get());
        return chosen;
    }();
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; x += blocks_of_cluster) {
                Cluster group;
                cluster = &group;
                group.barrier.expected = static_cast<int>(fibers.size());
                for (unsigned b = 0; b < blocks_of_cluster; ++b) {
                    group.blocks.push_back(std::make_unique<Block>());
                    Block& block = *group.blocks.back();
                    block.index = {x + b, y, z};
                    block.memory.assign(shared_bytes + 16, 0xAB);  // poison
                    block.shared =
                        block.memory.data() + (16 - reinterpret_cast<uintptr_t>(block.memory.data()) % 16) % 16;
                    block.barrier.expected = static_cast<int>(threads);
                    block.warps.resize(threads / 32);
                    for (auto& warp : block.warps) warp.barrier.expected = 32;
                    block.votes.assign(threads, 0);
                    for (unsigned t = 0; t < threads; ++t) {
                        Fiber& fiber = *fibers[b * threads + t];
                        fiber.thread = {t, 0, 0};
                        fiber.block = &block;
                        fiber.done = fiber.begun = false;
                        getcontext(&fiber.context);
                        fiber.context.uc_stack.ss_sp = fiber.stack.data();
                        fiber.context.uc_stack.ss_size = fiber.stack.size();
                        fiber.context.uc_link = nullptr;
                        makecontext(&fiber.context, enter, 0);
                    }
                }
                for (size_t left = fibers.size(); left > 0;) {
                    for (Fiber* fiber : fibers) {
                        if (fiber->done) continue;
                        resume(*fiber);
                        left -= fiber->done;
                    }
                }
            }
    return 0;
}

}  // namespace emulator

#define threadIdx (emulator::now->thread)
#define blockIdx (emulator::now->block->index)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)
#define shared_memory (emulator::now->block->shared)

DEVICE void sync_block() { emulator::wait(emulator::now->block->barrier); }
DEVICE bool sync_block_or(bool value) {
    auto& block = *emulator::now->block;
    block.votes[threadIdx.x] = value;
    sync_block();
    bool any = false;
    for (const auto vote : block.votes) any |= vote != 0;
    sync_block();
    return any;
}
template <typename Value>
DEVICE Value shuffle_xor(Value value, int mask) {
    return emulator::exchange(value, static_cast<int>(threadIdx.x % 32) ^ mask);
}
template <typename Value>
DEVICE Value shuffle_up(Value value, int distance) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return emulator::exchange(value, lane >= distance ? lane - distance : lane);
}
template <typename Value>
DEVICE Value shuffle_from(Value value, int lane) {
    return emulator::exchange(value, lane);
}
DEVICE void atomic_max(uint64* at, uint64 value) { *at = *at > value ? *at : value; }
DEVICE float half_to_float(uint16 bits) {
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return static_cast<float>(value);
}
DEVICE uint16 float_to_half(float value) {
    const auto half = static_cast<_Float16>(value);
    uint16 bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}
DEVICE float reciprocal(float value) { return 1.0f / value; }
DEVICE uint32 bits_of(float value) {
    uint32 bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
DEVICE float from_bits(uint32 bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
DEVICE float to_tf32(float value) { return from_bits((bits_of(value) + 0x1000u) & ~0x1fffu); }
// The tensor cores do not look at the last 13 bits.
DEVICE float tensor_operand(double value) { return from_bits(bits_of(static_cast<float>(value)) & 0xffffe000u); }
DEVICE void multiply_tile(float* c, const float* a, const float* b) {
    auto& warp = emulator::warp();
    const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, slot = lane % 4;
    for (int i = 0; i < 4; ++i) warp.values[lane][i] = a[i];
    for (int i = 0; i < 2; ++i) warp.values[lane][4 + i] = b[i];
    emulator::wait(warp.barrier);
    for (int i = 0; i < 4; ++i) {
        const int row = i / 2, column = 2 * slot + i % 2;
        for (int k = 0; k < 8; ++k)
            c[i] += tensor_operand(warp.values[4 * group + k % 4][row + 2 * (k / 4)]) *
                    tensor_operand(warp.values[4 * column + k % 4][4 + k / 4]);
    }
    emulator::wait(warp.barrier);
}
template <int bytes>
DEVICE void copy_async(void* shared, const void* global) {
    std::memcpy(shared, global, bytes);
}
DEVICE void commit_async() {}
template <int pending>
DEVICE void wait_async() {}
DEVICE void sync_cluster() { emulator::wait(emulator::cluster->barrier); }
DEVICE void open_channel(uint64* channel) { *channel = 0; }
DEVICE void expect_bytes(uint64*, int) {}
using Far = uint8*;
DEVICE Far address_in_block(const void* shared, int block) {
    const auto* here = emulator::now->block->shared;
    return emulator::cluster->blocks.at(block)->shared + (static_cast<const uint8*>(shared) - here);
}
template <typename Value>
DEVICE void send_to_block(Far place, Far channel, Value value) {
    std::memcpy(place, &value, sizeof(Value));
    *reinterpret_cast<uint64*>(channel) += sizeof(Value);
}
DEVICE void await_bytes(uint64* channel, int use, int bytes) {  // all bytes ever, not those of one use
    while (*channel < static_cast<uint64>(use + 1) * static_cast<uint64>(bytes)) emulator::give_way();
}
