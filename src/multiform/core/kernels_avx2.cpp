#define MULTIFORM_ISA avx2
#define MULTIFORM_TABLE kernels_avx2
#define MULTIFORM_NAME "avx2"
#include "kernels.inl"
