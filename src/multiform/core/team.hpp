// A few threads that live as long as one call of a solver. None exists before it, none after.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace multiform {

class Team {
   public:
    explicit Team(int n_threads) {
        for (int id = 1; id < n_threads; ++id) workers_.emplace_back([this, id] { work(id); });
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

    // task(index, thread) for every index, each thread taking the next one that is left.
    template <typename Task>
    void each(int64_t n_tasks, Task&& task) {
        run(n_tasks, false, task);
    }

    // The same with index i on thread i % size() every time, so that what a task has touched is still in the cache
    // of the core that touches it next.
    template <typename Task>
    void each_in_place(int64_t n_tasks, Task&& task) {
        run(n_tasks, true, task);
    }

   private:
    template <typename Task>
    void run(int64_t n_tasks, bool in_place, Task& task) {
        if (workers_.empty() || n_tasks <= 1) {
            for (int64_t index = 0; index < n_tasks; ++index) task(index, 0);
            return;
        }
        context_ = const_cast<void*>(static_cast<const void*>(&task));
        invoke_ = [](void* context, int64_t index, int thread) { (*static_cast<Task*>(context))(index, thread); };
        n_tasks_ = n_tasks;
        in_place_ = in_place;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        take(0);
        for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins)
            spins < kSpins ? relax() : std::this_thread::yield();
    }

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
        if (in_place_) {
            for (int64_t index = thread; index < n_tasks_; index += size()) invoke_(context_, index, thread);
            return;
        }
        for (int64_t index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;)
            invoke_(context_, index, thread);
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

    std::vector<std::thread> workers_;
    std::atomic<uint32_t> round_{0};
    std::atomic<int64_t> next_{0};
    std::atomic<int> busy_{0};
    std::atomic<bool> leaving_{false};
    void* context_ = nullptr;
    void (*invoke_)(void*, int64_t, int) = nullptr;
    int64_t n_tasks_ = 0;
    bool in_place_ = false;
};

}  // namespace multiform
