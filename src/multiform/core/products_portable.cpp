// Where no kernels of ours can fuse a multiply with an add, BLAS multiplies. It counts columns first: a row-major
// (rows, columns) is its transpose there.
#include "kernels.hpp"

namespace multiform::portable {

// C (columns of a, rows of b) = A op(B), in BLAS's terms
static void multiply(Sgemm sgemm, char transposed, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                     const float* b, int64_t ldb, float* c) {
    char no = 'N';
    float one = 1, zero = 0;
    int m_ = static_cast<int>(m), n_ = static_cast<int>(n), k_ = static_cast<int>(k);
    int lda_ = static_cast<int>(lda), ldb_ = static_cast<int>(ldb);
    sgemm(&no, &transposed, &m_, &n_, &k_, &one, const_cast<float*>(a), &lda_, const_cast<float*>(b), &ldb_, &zero, c,
          &m_);
}

void residuals(const Residuals& of) {
    multiply(of.sgemm, 'N', of.n_outputs, of.n_rows, of.width, of.weights, of.n_outputs, of.x, of.x_stride, of.z);
}

void gradient(const Gradient& of) {
    multiply(of.sgemm, 'T', of.n_outputs, of.n_features, of.n_rows, of.z, of.z_stride, of.x, of.x_stride, of.out);
}

}  // namespace multiform::portable
