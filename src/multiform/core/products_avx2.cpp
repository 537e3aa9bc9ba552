#define MULTIFORM_ISA avx2
#include "products.inl"
