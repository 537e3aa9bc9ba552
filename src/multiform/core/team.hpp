// A few threads that live as long as one call of a solver. None exists before it, none after.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "aligned.hpp"

namespace multiform {

class Team {
   public:
    // At most so many threads, the caller's included: a machine that has no more to give gets the same answer later.
    explicit Team(int n_threads) : next_(static_cast<size_t>(n_threads)) {
        workers_.reserve(next_.size());
        if (n_threads < 2) return;
        try {
            AlignedVector<char> for_the_work;  // held back meanwhile: memory is worth more to it than one stack more
            for_the_work.reserve(kHeldBack);
            for (int id = 1; id < n_threads; ++id) workers_.emplace_back([this, id] { work(id); });
        } catch (const std::system_error&) {  // a limit on threads, or no room for a stack
        } catch (const std::bad_alloc&) {
        }
    }

    ~Team() {
        leaving_.store(true);
        round_.fetch_add(1);
        round_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // task(index, thread) for every index. Thread t begins with the tasks t, t + size(), ..., so that what a task has
    // touched is still in the cache of the core that touches it next, and then helps the others with theirs. Once a
    // task throws no other is begun, and what the first one threw is thrown here.
    template <typename Task>
    void each(int64_t n_tasks, Task&& task) {
        if (workers_.empty() || n_tasks <= 1) {
            for (int64_t index = 0; index < n_tasks; ++index) task(index, 0);
            return;
        }
        context_ = const_cast<void*>(static_cast<const void*>(&task));
        invoke_ = [](void* context, int64_t index, int thread) {
            (*static_cast<std::remove_reference_t<Task>*>(context))(index, thread);
        };
        n_tasks_ = n_tasks;
        for (auto& own : next_) own.round.store(0, std::memory_order_relaxed);
        busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        take(0);
        for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins)
            spins < kSpins ? relax() : std::this_thread::yield();
        if (failed_.exchange(false)) std::rethrow_exception(std::exchange(error_, nullptr));
    }

   private:
    static constexpr size_t kHeldBack = 64 << 20;
    // Tens of microseconds: longer than the wait for a colleague within a step, shorter than anything a user notices.
    static constexpr int kSpins = 2000;

    static void relax() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    void take(int thread) {
        for (int help = 0; help < size(); ++help) {
            const int owner = (thread + help) % size();
            for (int64_t index;
                 (index = next_[owner].round.fetch_add(1, std::memory_order_relaxed) * size() + owner) < n_tasks_;)
                attempt(index, thread);
        }
    }

    void attempt(int64_t index, int thread) {
        if (failed_.load(std::memory_order_relaxed)) return;
        try {
            invoke_(context_, index, thread);
        } catch (...) {
            if (!failed_.exchange(true)) error_ = std::current_exception();
        }
    }

    void work(int id) {
        uint32_t seen = 0;
        while (true) {
            for (int spins = 0; round_.load(std::memory_order_acquire) == seen && spins < kSpins; ++spins) relax();
            round_.wait(seen, std::memory_order_acquire);
            seen = round_.load(std::memory_order_acquire);
            if (leaving_.load()) return;
            take(id);
            busy_.fetch_sub(1, std::memory_order_release);
        }
    }

    // How many of its own tasks of this call have been taken; each count on a cache line of its own.
    struct alignas(64) Taken {
        std::atomic<int64_t> round{0};
    };

    std::vector<Taken> next_;
    std::vector<std::thread> workers_;
    std::atomic<uint32_t> round_{0};
    std::atomic<int> busy_{0};
    std::atomic<bool> leaving_{false}, failed_{false};
    std::exception_ptr error_;  // of the first task that failed
    void* context_ = nullptr;
    void (*invoke_)(void*, int64_t, int) = nullptr;
    int64_t n_tasks_ = 0;
};

}  // namespace multiform
