/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how kernels are loaded: the fat binary before the PTX text, which is compiled on all CPUs
 * if the driver supports that. Shows also what happens with drivers that reject the fat binary or
 * do not know the option. */
#include "base/status.h"
#include "gpu/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char fatbin[] = "fat binary", ptx[] = "PTX text";
static struct cuda cuda;
static CUresult of_fatbin, of_ptx, of_option; /* answers of the driver */
/* f, p: the fat binary, the text is loaded; s: all CPUs compile the text; l: a function is loaded;
 * u: the module is unloaded. */
static char calls[64];

static CUresult answer(CUmodule *module, CUresult result)
{
    *module = result ? NULL : (CUmodule)calls;
    return result;
}

static CUresult load(CUmodule *module, const void *image)
{
    strcat(calls, image == fatbin ? "f" : "p");
    return answer(module, image == fatbin ? of_fatbin : of_ptx);
}

static CUresult load_with(CUmodule *module, const void *image, unsigned count, int *options,
                          void **values)
{
    assert_ptr_equal(image, ptx);
    assert_int_equal(count, 1);
    assert_int_equal(options[0], CU_JIT_SPLIT_COMPILE);
    assert_null(values[0]); /* 0: as many threads as CPUs */
    strcat(calls, "s");
    return answer(module, of_option ? of_option : of_ptx);
}

static CUresult unload(CUmodule module)
{
    assert_ptr_equal(module, calls);
    strcat(calls, "u");
    return CUDA_SUCCESS;
}

static CUresult find(CUfunction *function, CUmodule module, const char *name)
{
    assert_ptr_equal(module, calls);
    *function = strcmp(name, "absent") ? (CUfunction)name : NULL;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult load_function(CUfunction function)
{
    assert_non_null(function);
    strcat(calls, "l");
    return CUDA_SUCCESS;
}

static CUresult name_of(CUresult result, const char **text)
{
    (void)result;
    *text = "some error";
    return CUDA_SUCCESS;
}

/* Loads the image, fills `calls` and `kind`, and returns the status. */
static weft_status run(bool with_fatbin, const char *name, const char **kind)
{
    struct gpu_image image = {with_fatbin ? fatbin : NULL, ptx};
    struct gpu_device device = {.cuda = &cuda, .major = 7};
    CUmodule module;
    CUfunction function;
    calls[0] = 0;
    weft_status status = gpu_image_load(&image, &device, &name, 1, &module, &function, kind);
    assert_int_equal(status != WEFT_OK, module == NULL || strchr(calls, 'u') != NULL);
    return status;
}

static int prepare(void **state)
{
    (void)state;
    cuda = (struct cuda){.ModuleLoadData = load,
                         .ModuleLoadDataEx = load_with,
                         .ModuleUnload = unload,
                         .ModuleGetFunction = find,
                         .FuncLoad = load_function,
                         .GetErrorName = name_of,
                         .GetErrorString = name_of};
    of_fatbin = of_ptx = of_option = CUDA_SUCCESS;
    return 0;
}

static void all_cpus_compile(void **state)
{
    const char *kind;
    (void)state;
    assert_int_equal(run(false, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "sl");
    assert_string_equal(kind, "PTX text");
}

static void fat_binary_first(void **state)
{
    const char *kind;
    (void)state;
    assert_int_equal(run(true, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "fl");
    assert_string_equal(kind, "fat binary");
    of_fatbin = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_equal(run(true, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "fsl");
    assert_string_equal(kind, "PTX text");
}

static void older_drivers(void **state)
{
    const char *kind;
    (void)state;
    of_option = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(run(false, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "spl");
    cuda.ModuleLoadDataEx = NULL;
    cuda.FuncLoad = NULL;
    assert_int_equal(run(false, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "p");
}

/* After another error there is no second attempt, and the message names the remedy. */
static void refused(void **state)
{
    const char *kind;
    (void)state;
    of_ptx = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_not_equal(run(false, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "s");
    assert_non_null(strstr(base_last_error(), "PTX text"));
    assert_non_null(strstr(base_last_error(), "nvcc was absent"));
}

static void kernel_absent(void **state)
{
    const char *kind;
    (void)state;
    assert_int_not_equal(run(false, "absent", &kind), WEFT_OK);
    assert_string_equal(calls, "su");
    assert_non_null(strstr(base_last_error(), "absent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_cpus_compile, prepare),
        cmocka_unit_test_setup(fat_binary_first, prepare),
        cmocka_unit_test_setup(older_drivers, prepare),
        cmocka_unit_test_setup(refused, prepare),
        cmocka_unit_test_setup(kernel_absent, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
