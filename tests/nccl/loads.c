/* SPDX-License-Identifier: Apache-2.0 */
/* With libweft-nccl.so preloaded, a program that asks for libnccl.so.2 by its name gets it, even if
 * another library of that name is in LD_LIBRARY_PATH or has been loaded. This source is also that
 * other library (OTHER), of version 1. Argument: the other library. */
#ifdef OTHER
int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = 1;
    return 0;
}
#else
#include <dlfcn.h>
#include <stdio.h>

static int version_of(const char *library)
{
    int version = -1;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *);
    *(void **)&get = handle ? dlsym(handle, "ncclGetVersion") : NULL;
    return get && !get(&version) ? version : -1;
}

int main(int argc, char **argv)
{
    int other = argc > 1 ? version_of(argv[1]) : 1, named = version_of("libnccl.so.2");
    printf("%s has version %d, libnccl.so.2 has %d\n", argc > 1 ? argv[1] : "-", other, named);
    return other != 1 || named < 20000;
}
#endif
