/* SPDX-License-Identifier: Apache-2.0 */
/* See libraries.h. */
#include "tool/libraries.h"

#include "driver/crypto.h"
#include "driver/cuda.h"
#include "driver/cufile.h"
#include "driver/fabric.h"
#include "driver/gdrapi.h"
#include "driver/hip.h"
#include "driver/mlx5.h"
#include "driver/nvml.h"
#ifdef WEFT_HAVE_PMIX
#include "driver/pmix.h"
#endif

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Returns whether it was found, and then which file, else why not. */
static bool note(struct tool_library *library, weft_status status, void *handle)
{
    struct link_map *map = NULL;
    library->found = status == WEFT_OK;
    if (!library->found)
        snprintf(library->why, sizeof library->why, "%s", weft_last_error());
    else if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(library->file, sizeof library->file, "%s", map->l_name);
    return library->found;
}

static void find_cuda(struct tool_library *library)
{
    static struct gpu_api driver;
    static int version;
    weft_status status = cuda_open(&driver);
    if (!note(library, status, driver.handle))
        return;
    if (!driver.DriverGetVersion(&version))
        snprintf(library->version, sizeof library->version, "CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    gpu_api_close(&driver);
}

static void find_hip(struct tool_library *library)
{
    static struct gpu_api driver;
    weft_status status = hip_open(&driver);
    if (!note(library, status, driver.handle))
        return;
    snprintf(library->version, sizeof library->version, "HIP %d.%d",
             driver.driver_version / 10000000, driver.driver_version / 100000 % 100);
    gpu_api_close(&driver);
}

static void find_nvml(struct tool_library *library)
{
    static struct nvml nvml;
    weft_status status = nvml_open(&nvml);
    if (!note(library, status, nvml.library))
        return;
    if (nvml.driver_version(library->version, sizeof library->version))
        library->version[0] = '\0';
    nvml_close(&nvml);
}

static void find_fabric(struct tool_library *library)
{
    const struct fabric *fabric = NULL;
    if (!note(library, fabric_open(&fabric), NULL))
        return;
#ifdef WEFT_HAVE_FABRIC
    note(library, WEFT_OK, fabric->handle);
    snprintf(library->version, sizeof library->version, "%u.%u", FI_MAJOR(fabric->version()),
             FI_MINOR(fabric->version()));
#endif
}

static void find_mlx5(struct tool_library *library)
{
    static struct mlx5 mlx5;
    weft_status status = mlx5_open(&mlx5, "");
    if (note(library, status, mlx5.handle))
        mlx5_close(&mlx5);
}

static void find_pmix(struct tool_library *library)
{
#ifdef WEFT_HAVE_PMIX
    const struct pmix_driver *pmix = NULL;
    if (note(library, pmix_load(&pmix), NULL))
        note(library, WEFT_OK, pmix->library);
#else
    snprintf(library->why, sizeof library->why, "built without PMIx's headers (libpmix-dev)");
#endif
}

static void find_crypto(struct tool_library *library)
{
    const struct crypto_driver *crypto = NULL;
    if (note(library, crypto_load(&crypto), NULL))
        snprintf(library->file, sizeof library->file, "%s", crypto->library);
}

static void find_cufile(struct tool_library *library)
{
    static struct cufile cufile;
    weft_status status = cufile_load(&cufile);
    if (note(library, status, cufile.handle))
        cufile_unload(&cufile);
}

static void find_gdrapi(struct tool_library *library)
{
    static struct gdrapi gdrapi;
    weft_status status = gdrapi_load(&gdrapi);
    if (note(library, status, gdrapi.handle))
        gdrapi_unload(&gdrapi);
}

void tool_find_libraries(struct tool_library list[TOOL_LIBRARIES])
{
    static const struct {
        const char *name, *use;
        void (*find)(struct tool_library *library);
    } libraries[TOOL_LIBRARIES] = {
        {"CUDA driver", "GPU memory, streams and kernels", find_cuda},
        {"HIP", "the same on GPUs of AMD", find_hip},
        {"NVML", "what GPUs and links there are", find_nvml},
        {"libfabric", "path net", find_fabric},
        {"libibverbs, libmlx5", "path gda", find_mlx5},
        {"PMIx", "starting under mpirun, srun and prterun", find_pmix},
        {"libcrypto", "starting on several hosts without a launcher", find_crypto},
        {"cuFile", "files straight into GPU memory", find_cufile},
        {"GDRCopy", "GPU memory in the CPU's addresses, where the driver's way fails", find_gdrapi},
    };
    for (int i = 0; i < TOOL_LIBRARIES; i++) {
        list[i] = (struct tool_library){.name = libraries[i].name, .use = libraries[i].use};
        libraries[i].find(&list[i]);
    }
}
