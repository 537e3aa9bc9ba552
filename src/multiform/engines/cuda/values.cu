// The member functions of many samples, for one model or a batch.
#include "common.cuh"

struct Values {
    const stored_t* rows;
    int64 pitch;
    const float* center;
    const float* unit;
    const int* columns;    // (B, width), or null
    const float* weights;  // (B, m, q, width)
    int64 n_classes;
    int64 n_components;
    int64 width;
    const int* order;  // (B, order_stride) rows by position; null: the position is the row
    int64 order_stride;
    const int* count;  // (B,) positions that there are; null: all
    int64 first;       // positions first, ..., first + n - 1
    int64 n;
    int64 ready;          // rows that stand ready for each member, from `first` on; 0: X is all there
    float* residual;      // (B, n, m, q), or null
    float* squares;       // (B, pieces, n, m)
    float* values;        // (B, n, m)
    const float* energy;  // (B, m), or null
};

DEVICE int64 row_of_position(const Values& v, int member, int64 position) {
    if (v.ready > 0) return member * v.ready + position - v.first;
    return v.order == nullptr ? position : v.order[member * v.order_stride + position];
}

DEVICE int64 positions_of(const Values& v, int member) {
    return v.count == nullptr ? v.n : smaller<int64>(v.n, v.count[member] - v.first);
}

GLOBAL THREADS(256) member_squares(Values v) {
    const int64 m = v.n_classes, q = v.n_components, pieces = (q + kPiece - 1) / kPiece;
    const int member = blockIdx.z;
    const int64 k = blockIdx.y / pieces, piece = blockIdx.y % pieces, first = int64(blockIdx.x) * kRowsTile;
    const int64 n = positions_of(v, member);
    if (first >= n) return;
    const Rows rows{v.rows, v.pitch, v.center, v.unit, v.columns == nullptr ? nullptr : v.columns + member * v.width};
    residual_tile(
        rows, [&](int i) { return first + i < n ? row_of_position(v, member, v.first + first + i) : int64(-1); },
        v.weights + ((member * m + k) * q + piece * kPiece) * v.width,
        static_cast<int>(smaller<int64>(q - piece * kPiece, kPiece)), static_cast<int>(v.width),
        reinterpret_cast<float*>(shared_memory),
        [&](int i, int r, float value) {
            if (v.residual != nullptr && first + i < n)
                v.residual[((member * v.n + first + i) * m + k) * q + piece * kPiece + r] = value;
        },
        [&](int i, float sum) {
            if (first + i < n) v.squares[((member * pieces + piece) * v.n + first + i) * m + k] = sum;
        });
}

// As above in double precision, one (sample, class) a thread: for the literal method, whose moves hang on small
// changes.
GLOBAL THREADS(256) member_squares_exact(Values v) {
    const int64 m = v.n_classes, q = v.n_components, pieces = (q + kPiece - 1) / kPiece;
    const int member = blockIdx.z;
    const int64 at = int64(blockIdx.x) * blockDim.x + threadIdx.x, i = at / m, k = at % m;
    if (i >= positions_of(v, member)) return;
    const int64 row = row_of_position(v, member, v.first + i);
    const int* columns = v.columns == nullptr ? nullptr : v.columns + member * v.width;
    float square = 0;
    for (int64 r = 0; r < q; ++r) {
        const float* weights = v.weights + ((member * m + k) * q + r) * v.width;
        double sum = 0;
        for (int64 c = 0; c < v.width; ++c) {
            const int64 from = columns == nullptr ? c : columns[c];
            const float x = (stored_value(v.rows[row * v.pitch + from]) - v.center[from]) * v.unit[from];
            sum += static_cast<double>(x) * static_cast<double>(weights[c]);
        }
        const float residual = static_cast<float>(sum);
        if (v.residual != nullptr) v.residual[((member * v.n + i) * m + k) * q + r] = residual;
        square += residual * residual;
    }
    for (int64 piece = 0; piece < pieces; ++piece)
        v.squares[((member * pieces + piece) * v.n + i) * m + k] = piece == 0 ? square : 0.0f;
}

// f_k = ||R||^2 and what the noise adds
GLOBAL THREADS(256) member_values(Values v) {
    const int64 m = v.n_classes, pieces = (v.n_components + kPiece - 1) / kPiece;
    const int member = blockIdx.z;
    const int64 at = int64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= positions_of(v, member) * m) return;
    float sum = 0;
    for (int64 piece = 0; piece < pieces; ++piece) sum += v.squares[(member * pieces + piece) * v.n * m + at];
    v.values[member * v.n * m + at] = v.energy == nullptr ? sum : larger(sum + v.energy[member * m + at % m], kTiny);
}
