#define MULTIFORM_ISA avx512
#include "products.inl"
