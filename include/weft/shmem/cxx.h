/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM in C++: where <complex> was included before shmem.h, the complex reductions also take
 * std::complex, which has the layout of the C types. */
#ifndef WEFT_SHMEM_CXX_H
#define WEFT_SHMEM_CXX_H

#if defined _GLIBCXX_COMPLEX || defined _LIBCPP_COMPLEX
#define WEFT_SHMEM_CXX_COMPLEX(NAME, TYPE, op)                                                     \
    static inline int shmem_##NAME##_##op##_reduce(shmem_team_t team, std::complex<TYPE> *dest,    \
                                                   const std::complex<TYPE> *source,               \
                                                   size_t nreduce)                                 \
    {                                                                                              \
        return shmem_##NAME##_##op##_reduce(team, reinterpret_cast<TYPE _Complex *>(dest),         \
                                            reinterpret_cast<const TYPE _Complex *>(source),       \
                                            nreduce);                                              \
    }                                                                                              \
    static inline void shmem_##NAME##_##op##_to_all(                                               \
        std::complex<TYPE> *dest, const std::complex<TYPE> *source, int nreduce, int PE_start,     \
        int logPE_stride, int PE_size, std::complex<TYPE> *pWrk, long *pSync)                      \
    {                                                                                              \
        shmem_##NAME##_##op##_to_all(reinterpret_cast<TYPE _Complex *>(dest),                      \
                                     reinterpret_cast<const TYPE _Complex *>(source), nreduce,     \
                                     PE_start, logPE_stride, PE_size,                              \
                                     reinterpret_cast<TYPE _Complex *>(pWrk), pSync);              \
    }
WEFT_SHMEM_CXX_COMPLEX(complexf, float, sum)
WEFT_SHMEM_CXX_COMPLEX(complexf, float, prod)
WEFT_SHMEM_CXX_COMPLEX(complexd, double, sum)
WEFT_SHMEM_CXX_COMPLEX(complexd, double, prod)
#undef WEFT_SHMEM_CXX_COMPLEX
#endif

#endif
