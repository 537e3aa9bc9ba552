// The border between the solvers and the vector kernels: plain structs and one table of functions.
//
// kernels.inl is compiled once per instruction set, each time in a namespace of its own; dispatch.cpp picks
// one table at run time. Every kernel works on lanes of 16 floats whatever the registers hold, and no
// compilation fuses multiplies with adds, so all instruction sets give the same bits. The exception are the two
// matrix products (products.inl): they fuse, the same way for AVX2 and AVX-512; without those they are BLAS's.
#pragma once

#include <cstdint>

namespace multiform {

// BLAS's own signature (column-major, everything by pointer), as SciPy hands it out.
using Sgemm = void (*)(char* transa, char* transb, int* m, int* n, int* k, float* alpha, float* a, int* lda, float* b,
                       int* ldb, float* beta, float* c, int* ldc);

enum class RowKind { float32, uint8, csr };

// The caller's X, never copied: a row is read as (x - center) * inverse_scale.
struct Rows {
    RowKind kind = RowKind::float32;
    const void* values = nullptr;      // dense: by row or by column; csr: the stored values, float32
    const int64_t* indptr = nullptr;   // csr only
    const int32_t* indices = nullptr;  // csr only
    int64_t n_rows = 0;
    int64_t n_columns = 0;
    int64_t row_stride = 0;     // in elements, dense only
    int64_t column_stride = 1;  // likewise; where it is not 1, row_stride is
    const float* center = nullptr;
    const float* inverse_scale = nullptr;

    bool by_column() const { return column_stride != 1; }  // `gather` reads these, and nobody else
};

// out[i] = ((x_s - center) * inverse_scale, -1)[first:last] of the samples s: the -1 makes A x - b one product.
struct Gathered {
    const int32_t* samples;
    int64_t n_samples;
    const int32_t* columns;  // selected ones, ascending; null: all
    int64_t n_features;      // of those selected; the -1 stands at n_features
    int64_t first, last;
    float* out;
    int64_t stride;  // of out; what is beyond last - first becomes 0
};

// z = x weights: (n_rows, width) times (width, n_outputs). All row-major; n_outputs is a multiple of 16, and x and z
// have room for a multiple of 8 rows.
struct Residuals {
    Sgemm sgemm;
    const float* x;
    int64_t x_stride, n_rows, width;
    const float* weights;
    int64_t n_outputs;
    float* z;
};

// out = x^T z: (n_features, n_rows) times (n_rows, n_outputs). x and out have room for a multiple of 8 features.
struct Gradient {
    Sgemm sgemm;
    const float* x;
    int64_t x_stride, n_rows, n_features;
    const float* z;
    int64_t z_stride, n_outputs;
    float* out;
};

// One tile of samples on its way from residuals to the gradient of the ratio loss.
struct LossTile {
    static constexpr int64_t kAtOnce = 4;  // rows
    // In: A x - b, (n_rows, m * q), its rows `stride` apart; out: the gradient of the loss by it. There is room for a
    // multiple of 4 rows, and something in it.
    float* residuals;
    int64_t stride, n_rows, n_classes, n_components;
    const int32_t* target;
    const float* weight;        // per row; null means 1
    const float* class_weight;  // per class
    const float* noise_energy;  // sigma^2 ||A_k||^2 per class, added to f_k
    float alpha;
    float scale;           // of the gradient: 1 / batch
    float* member_values;  // scratch, (n_classes, kAtOnce)
    float* slope;          // likewise
    double* class_slope;   // out: sum over rows of d loss / d f_k
    uint8_t* active;       // out: whether the row still has a pair above alpha
};

// The weights of one feature, for a stretch of outputs.
struct AdamSlice {
    float* weights;
    float* first;
    float* second;
    const float* gradient;
    int64_t length;      // a multiple of 16
    const float* decay;  // closed-form noise: decay * weights is added to the gradient; null: no noise
    float* norm;         // with noise: the squares of the new weights are added here
    float beta1, beta2, step, epsilon;
};

// out = sum over entries of value * rows[index]: a sparse row times the weights, or a sparse column times the slopes.
struct SumOfRows {
    const int32_t* index;
    const float* value;
    int64_t n;
    const float* rows;  // `length` apart
    int64_t length;     // a multiple of 16
    float* out;
};

// One row of A_k (and its offset) against the samples that this class can affect; see cpm.cpp.
struct CpmRow {
    int64_t n_features;
    bool bytes;           // columns are raw uint8 rather than float32
    bool packed;          // columns hold the listed blocks alone, one after the other; float32 only
    const void* columns;  // column-major; own-class samples first
    int64_t column_stride;
    int64_t n_lanes;             // samples, padded to a multiple of 16
    int64_t own_blocks;          // the first own_blocks blocks of 16 hold the own class
    const float* center;         // applied to uint8 columns
    const float* inverse_scale;  // likewise
    const int32_t* selected;     // which columns of center and inverse_scale these are; null: all
    const int32_t* block_list;   // per column, the blocks with a value that is not 0
    const int64_t* block_start;  // n_features + 1
    float* weights;              // in and out: A_k[r, :] then b_k[r]
    float* steps;                // in and out: signed, the sign is the direction to try first
    float* residual;             // in and out: R_r per sample
    float* rest;                 // f_k - R_r^2 per sample
    const float* scaled_target;  // other classes: w f_y
    const float* floor;          // other classes: w alpha
    float* loss;                 // in and out, current loss per sample
    float* trial;                // scratch, n_lanes
    const float* own_slope;      // frozen own terms: w sum over active j of 1 / f_j; null when exact
    // Exact: every term and the noise energy as it is; w is applied in the sum alone, which is in double, so that
    // repeating a sample and weighting it are one and the same.
    const float* weight;         // w per sample; scaled_target, floor and loss are then without it
    const float* inverse_rival;  // 1 / f_j per class and own sample, (n_classes, own_blocks * 16); 0 leaves a pair out
    int64_t n_classes;
    float alpha;
    float noise;         // sigma^2
    double noise_slope;  // frozen: sum over samples of d loss / d f_k
    float grow, shrink;
    float smallest, largest;  // of a perturbation; the offset's limit is largest_offset
    float largest_offset;
    int64_t tried, accepted, looked;  // out: points, moves, (point, sample) pairs
};

struct Kernels {
    const char* name;
    void (*gather)(const Rows&, const Gathered&);
    void (*residuals)(const Residuals&);
    void (*gradient)(const Gradient&);
    void (*add)(const float* part, int64_t length, float* sum);  // a multiple of 16
    double (*ratio_loss)(const LossTile&);
    void (*adam)(const AdamSlice&);
    void (*sum_rows)(const SumOfRows&);
    // Adds slope^2 to squares and slope * weights to products; lengths are multiples of 16.
    void (*add_products)(const float* slope, const float* weights, int64_t length, float* squares, float* products);
    void (*descend)(const float* slope, const float* step, int64_t length, float* weights);  // weights -= step * slope
    // residuals (n_rows, m * q), their rows `stride` apart -> out (n_rows, m)
    void (*member_values)(const float* residuals, int64_t stride, int64_t n_rows, int64_t n_classes,
                          int64_t n_components, float* out);
    void (*cpm_row)(CpmRow&);
    // Adds the rows first..last to sum, or with a mean their squared deviations from it; dense rows only.
    void (*moments)(const Rows&, int64_t first, int64_t last, const double* mean, double* sum, float* least,
                    float* most);
    void (*exponentials)(const double* of, int64_t length, double* out);  // may be the same place
    // out[k, j] = sum_i weight_i rows[k, i] rows[j, i] for j <= k; rows (m, n), out (m, m), scratch (n)
    void (*weighted_products)(const double* rows, const double* weight, int64_t n, int64_t m, double* scratch,
                              double* out);
};

// The tables that exist on this machine; null when the processor lacks the instructions.
const Kernels* kernels_named(const char* name);
const Kernels* best_kernels();

extern const Kernels kernels_portable;
#ifdef MULTIFORM_X86
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

}  // namespace multiform
