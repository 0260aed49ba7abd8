/* SPDX-License-Identifier: Apache-2.0 */
/* Creates a communicator of one GPU with a real NCCL, which reads NCCL_TOPO_FILE:
 *   nccl_load LIBNCCL
 * Exit status 0: NCCL accepted the file; 1: it did not, and the output contains its message; 77: no
 * GPU or no such library. The program relies only on NCCL's documentation and needs no header of
 * it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || !driver) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        return 77;
    }
    int (*begin)(unsigned), (*count_devices)(int *), count = 0;
    *(void **)&begin = dlsym(driver, "cuInit");
    *(void **)&count_devices = dlsym(driver, "cuDeviceGetCount");
    if (!begin || !count_devices || begin(0) || count_devices(&count) || count < 1) {
        fprintf(stderr, "skipped: no GPU\n");
        return 77;
    }
    int (*make)(void **, int, const int *), (*end)(void *);
    const char *(*words)(int);
    *(void **)&make = dlsym(library, "ncclCommInitAll");
    *(void **)&end = dlsym(library, "ncclCommDestroy");
    *(void **)&words = dlsym(library, "ncclGetErrorString");
    if (!make || !end || !words) {
        fprintf(stderr, "%s is no NCCL: %s\n", argv[1], dlerror());
        return 1;
    }
    void *communicator = NULL;
    int status = make(&communicator, 1, NULL);
    if (!status)
        status = end(communicator);
    if (status)
        fprintf(stderr, "NCCL: %s\n", words(status));
    return status != 0;
}
