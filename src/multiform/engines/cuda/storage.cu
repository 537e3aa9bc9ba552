// X in its narrowest exact type.
#include "common.cuh"

struct Narrowing {
    const float* wide;
    stored_t* narrow;  // STORED == 2
    int64 length;
    int64* inexact;  // becomes 1 where half precision is not enough
};

GLOBAL THREADS(256) to_half(Narrowing a) {
#if STORED == 2
    for (int64 at = int64(blockIdx.x) * blockDim.x + threadIdx.x; at < a.length; at += int64(gridDim.x) * blockDim.x) {
        const float value = a.wide[at];
        const stored_t bits = float_to_half(value);
        a.narrow[at] = bits;
        if (!(half_to_float(bits) == value)) *a.inexact = 1;
    }
#endif
}
