#define MULTIFORM_ISA portable
#define MULTIFORM_TABLE kernels_portable
#define MULTIFORM_NAME "portable"
#include "kernels.inl"
