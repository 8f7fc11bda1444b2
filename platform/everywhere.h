// Functions that kernels on a GPU call, too.
#pragma once

#ifdef __CUDACC__
#define OCELLUS_EVERYWHERE __host__ __device__
#else
#define OCELLUS_EVERYWHERE
#endif
