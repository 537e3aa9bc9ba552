// Class means of some of the samples, from which a member starts.
#include "common.cuh"

struct Means {
    const stored_t* rows;
    int64 pitch;
    const float* center;
    const float* unit;
    const int* samples;  // class by class, member by member
    const float* share;  // their weights, or null
    const int64* first;  // (B, m + 1) where a class begins in `samples`
    int64 n_classes;
    int64 n_features;
    float* means;  // (B, m, p)
};

GLOBAL THREADS(128) class_means(Means a) {
    const int64 k = blockIdx.y, member = blockIdx.z, c = int64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c >= a.n_features) return;
    const int64* first = a.first + member * (a.n_classes + 1) + k;
    double sum = 0, total = 0;
#pragma unroll 4
    for (int64 at = first[0]; at < first[1]; ++at) {
        const float x = (stored_value(a.rows[a.samples[at] * a.pitch + c]) - a.center[c]) * a.unit[c];
        const double share = a.share == nullptr ? 1.0 : static_cast<double>(a.share[at]);
        sum += share * static_cast<double>(x);
        total += share;
    }
    a.means[(member * a.n_classes + k) * a.n_features + c] = static_cast<float>(total > 0 ? sum / total : 0.0);
}
