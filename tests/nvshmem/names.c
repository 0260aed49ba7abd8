/* SPDX-License-Identifier: Apache-2.0 */
/* Names that NVSHMEM programs define themselves: the headers must not define them. */
#include <nvshmem.h>
#include <nvshmemx.h>

enum types {
    NVSHMEM_INT,
    NVSHMEM_LONG,
    NVSHMEM_LONGLONG,
    NVSHMEM_ULONGLONG,
    NVSHMEM_SIZE,
    NVSHMEM_PTRDIFF,
    NVSHMEM_FLOAT,
    NVSHMEM_DOUBLE,
    NVSHMEM_UINT,
    NVSHMEM_INT32,
    NVSHMEM_UINT32,
    NVSHMEM_INT64,
    NVSHMEM_UINT64,
    NVSHMEM_FP16,
    NVSHMEM_BF16
};
enum ops {
    NVSHMEM_MIN,
    NVSHMEM_MAX,
    NVSHMEM_SUM,
    NVSHMEM_PROD,
    NVSHMEM_AND,
    NVSHMEM_OR,
    NVSHMEM_XOR
};
enum scopes { NVSHMEM_THREAD, NVSHMEM_WARP, NVSHMEM_BLOCK, NVSHMEM_ALL_SCOPES };
enum atomics {
    AMO_INC,
    AMO_ADD,
    AMO_AND,
    AMO_OR,
    AMO_XOR,
    AMO_SET,
    AMO_SWAP,
    AMO_FETCH,
    AMO_COMPARE_SWAP,
    AMO_FETCH_INC,
    AMO_FETCH_ADD,
    AMO_FETCH_AND,
    AMO_FETCH_OR,
    AMO_FETCH_XOR,
    AMO_ACK
};
struct nvml_function_table {
    int nothing;
};
int nvshmemi_nvml_ftable_init(void);
int nvshmemi_mpi_init(void);

#if defined CUDA_CHECK || defined CU_CHECK || defined ERROR_EXIT || defined ERROR_PRINT ||         \
    defined NVSHMEMI_TEST_STRINGIFY
#error "a macro that programs define is taken"
#endif

int main(void)
{
    return 0;
}
