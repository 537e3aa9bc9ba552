// Arrays for the vector kernels: they begin on a cache line, so that no vector lies across two, and what is made room
// for is not filled first.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace multiform {

template <typename Value>
struct CacheAligned {
    using value_type = Value;
    static constexpr std::align_val_t kLine{64};

    CacheAligned() = default;
    template <typename Other>
    CacheAligned(const CacheAligned<Other>&) {}

    Value* allocate(size_t n) { return static_cast<Value*>(::operator new(n * sizeof(Value), kLine)); }
    void deallocate(Value* values, size_t) { ::operator delete(values, kLine); }

    template <typename Other>
    void construct(Other*) {}  // left as it is
    template <typename Other, typename... Arguments>
    void construct(Other* at, Arguments&&... arguments) {
        ::new (static_cast<void*>(at)) Other(std::forward<Arguments>(arguments)...);
    }

    bool operator==(const CacheAligned&) const { return true; }
};

template <typename Value>
using AlignedVector = std::vector<Value, CacheAligned<Value>>;

}  // namespace multiform
