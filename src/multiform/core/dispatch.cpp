#include <cstring>
#include <initializer_list>

#include "kernels.hpp"

namespace multiform {

const Kernels* kernels_named(const char* name) {
    if (std::strcmp(name, "portable") == 0) return &kernels_portable;
#ifdef MULTIFORM_X86
    if (std::strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kernels_avx2;
    if (std::strcmp(name, "avx512") == 0 && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &kernels_avx512;
#endif
    return nullptr;
}

const Kernels* best_kernels() {
    for (const char* name : {"avx512", "avx2"})
        if (const Kernels* kernels = kernels_named(name)) return kernels;
    return &kernels_portable;
}

}  // namespace multiform
