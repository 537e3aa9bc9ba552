// SplitMix64 (Steele, Lea, Flood 2014): a seed, a counter, no state to get wrong. The NumPy twin has the same.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace multiform {

class Random {
   public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    // A number in 0..bound-1, by the high half of a product (Lemire 2019, without the rejection step: the bias
    // is below bound / 2^32).
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

    float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

    void shuffle(std::vector<int32_t>& items) {
        for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(static_cast<uint32_t>(i))]);
    }

   private:
    uint64_t state_;
};

}  // namespace multiform
