#define MULTIFORM_ISA avx512
#define MULTIFORM_TABLE kernels_avx512
#define MULTIFORM_NAME "avx512"
#include "kernels.inl"
