/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how kernels are loaded: the cubin of the GPU's generation before the PTX, which is compiled
 * on all CPUs if the driver supports that. Shows also what happens with drivers that reject the
 * cubin or do not know the option, and in a build without kernels. */
#include "base/status.h"
#include "gpu/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char cubin_90[] = "cubin for 9.0", cubin_80[] = "cubin for 8.0",
                  ptx_90[] = "PTX for 9.0", ptx[] = "PTX";
static const char gfx90a[] = "code for gfx90a", gfx942[] = "code for gfx942";
/* "PTX", packed by lz4 --content-size */
static const char packed[] =
    "\x04\x22\x4d\x18\x6c\x40\x03\0\0\0\0\0\0\0\xbd\x03\0\0\x80PTX\0\0\0\0";
static struct gpu_api driver;
static CUresult of_cubin, of_ptx, of_option, of_nothing; /* answers of the driver */
/* 9, 8: that cubin is loaded; p: the text; n: nothing; s, S: all CPUs compile the text, that for
 * 9.0; l: a function is loaded; u: the module is unloaded. */
static char calls[64];
static int major = 9, minor;
static const char *architecture = "";

static CUresult answer(CUmodule *module, CUresult result)
{
    *module = result ? NULL : (CUmodule)calls;
    return result;
}

static CUresult load(CUmodule *module, const void *image)
{
    const char *call = image == cubin_90         ? "9"
                       : image == cubin_80       ? "8"
                       : image == gfx90a         ? "a"
                       : image == gfx942         ? "b"
                       : strcmp(image, ptx) == 0 ? "p"
                       : strcmp(image, "") == 0  ? "n"
                                                 : "?";
    strcat(calls, call);
    return answer(module, *call == 'p' ? of_ptx : *call == 'n' ? of_nothing : of_cubin);
}

static CUresult load_with(CUmodule *module, const void *image, unsigned count, int *options,
                          void **values)
{
    assert_true(image == ptx_90 || strcmp(image, ptx) == 0);
    assert_int_equal(count, 1);
    assert_int_equal(options[0], CU_JIT_SPLIT_COMPILE);
    assert_null(values[0]); /* 0: as many threads as CPUs */
    strcat(calls, image == ptx_90 ? "S" : "s");
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

#define CODE(image, ptx, arch, bytes)                                                              \
    {                                                                                              \
        image, ptx, arch, bytes, &(bytes)[sizeof bytes - 1], NULL                                  \
    }
/* Between codes of another image, which are never loaded. */
static const struct gpu_code with_cubins[] = {
    CODE(0, false, 90, "?"),         CODE(1, false, 90, cubin_90), CODE(1, false, 80, cubin_80),
    CODE(1, true, 90, ptx_90),       CODE(1, true, 70, ptx),       CODE(2, true, 70, "?"),
    {-1, false, 0, NULL, NULL, NULL}};
static const struct gpu_code without[] = {CODE(1, true, 70, ptx), {-1, false, 0, NULL, NULL, NULL}};
static const struct gpu_code compressed[] = {CODE(1, true, 70, packed),
                                             {-1, false, 0, NULL, NULL, NULL}};
static const struct gpu_code none[] = {CODE(0, true, 70, "?"), {-1, false, 0, NULL, NULL, NULL}};
#define AMD(image, name)                                                                           \
    {                                                                                              \
        image, false, 0, name, name + sizeof name - 1, #name                                       \
    }
static const struct gpu_code for_both[] = {CODE(1, false, 90, cubin_90),
                                           CODE(1, true, 70, ptx),
                                           AMD(0, gfx942),
                                           AMD(1, gfx90a),
                                           AMD(1, gfx942),
                                           {-1, false, 0, NULL, NULL, NULL}};

#define PTX_OF(version, target, launches)                                                          \
    "//\n.version " version "\n.target " target "\n\t" launches "\n\tadd.s32 %r1;\n\t" launches "\n"
static const char newest[] = PTX_OF("7.8 // 6.4", "sm_90 // sm_70a", "griddepcontrol.wait;"),
                  for_older[] = PTX_OF("6.4       ", "sm_70a         ", "                    ");
static const struct gpu_code one_text[] = {CODE(1, true, 70, newest),
                                           {-1, false, 0, NULL, NULL, NULL}};

/* Loads the image, fills `calls` and `kind`, and returns the status. */
static weft_status run(const struct gpu_code *codes, const char *name, const char **kind)
{
    struct gpu_image image = {codes, 1};
    struct gpu_device device = {.driver = &driver, .major = major, .minor = minor};
    CUmodule module;
    CUfunction function;
    snprintf(device.architecture, sizeof device.architecture, "%s", architecture);
    calls[0] = 0;
    const struct gpu_code *code;
    weft_status status = gpu_image_load(&image, &device, &name, 1, &module, &function, &code);
    *kind = status ? NULL : gpu_code_kind(code);
    assert_int_equal(status != WEFT_OK, module == NULL || strchr(calls, 'u') != NULL);
    return status;
}

static int prepare(void **state)
{
    (void)state;
    driver = (struct gpu_api){.ModuleLoadData = load,
                              .ModuleLoadDataEx = load_with,
                              .ModuleUnload = unload,
                              .ModuleGetFunction = find,
                              .FuncLoad = load_function,
                              .GetErrorName = name_of,
                              .GetErrorString = name_of};
    of_cubin = of_ptx = of_option = of_nothing = CUDA_SUCCESS;
    major = 9;
    minor = 0;
    return 0;
}

static CUresult compare_text(CUmodule *module, const void *image)
{
    assert_string_equal(image, major >= 9 ? newest : for_older);
    return answer(module, CUDA_SUCCESS);
}

/* GPUs before 9.0 get the text without what they lack, and the embedded one stays as it is. */
static void older_gpus(void **state)
{
    const char *kind;
    (void)state;
    driver.ModuleLoadData = compare_text;
    driver.ModuleLoadDataEx = NULL;
    for (major = 7; major <= 12; major++) {
        assert_int_equal(run(one_text, "some", &kind), WEFT_OK);
        assert_string_equal(kind, "PTX");
    }
    assert_non_null(strstr(newest, "griddepcontrol"));
}

static void all_cpus_compile(void **state)
{
    const char *kind;
    (void)state;
    assert_int_equal(run(without, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "sl");
    assert_string_equal(kind, "PTX");
    assert_int_equal(run(compressed, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "sl");
}

/* A cubin runs on later minor versions of its compute capability, and on no others. */
static void cubin_of_the_generation(void **state)
{
    const struct {
        int major, minor;
        const char *calls, *kind;
    } cases[] = {{9, 0, "9l", "cubin"}, {9, 3, "9l", "cubin"}, {8, 0, "8l", "cubin"},
                 {8, 6, "8l", "cubin"}, {7, 5, "sl", "PTX"},   {12, 1, "Sl", "PTX"}};
    const char *kind;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        major = cases[i].major;
        minor = cases[i].minor;
        assert_int_equal(run(with_cubins, "some", &kind), WEFT_OK);
        assert_string_equal(calls, cases[i].calls);
        assert_string_equal(kind, cases[i].kind);
    }
}

static void cubin_refused(void **state)
{
    const char *kind;
    (void)state;
    of_cubin = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_equal(run(with_cubins, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "9Sl");
    assert_string_equal(kind, "PTX");
}

static void older_drivers(void **state)
{
    const char *kind;
    (void)state;
    of_option = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(run(without, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "spl");
    driver.ModuleLoadDataEx = NULL;
    driver.FuncLoad = NULL;
    assert_int_equal(run(without, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "p");
}

/* After another error there is no second attempt. */
static void refused(void **state)
{
    const char *kind;
    (void)state;
    of_ptx = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_not_equal(run(without, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "s");
    assert_non_null(strstr(base_last_error(), "(PTX) for compute capability 9.0"));
}

/* The stand-in of the driver has kernels of its own. */
static void built_without(void **state)
{
    const char *kind;
    (void)state;
    assert_int_equal(run(none, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "nl");
    of_nothing = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_equal(run(none, "some", &kind), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "clang 18 or newer"));
}

/* PTX and cubins are nothing for a GPU of AMD, and code objects nothing for one of NVIDIA. */
static void code_of_amd(void **state)
{
    const char *kind;
    (void)state;
    assert_int_equal(run(for_both, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "9l");
    major = 7;
    assert_int_equal(run(for_both, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "sl");
    driver.vendor = GPU_VENDOR_AMD;
    driver.ModuleLoadDataEx = NULL;
    driver.FuncLoad = NULL;
    architecture = "gfx942:sramecc+:xnack-";
    assert_int_equal(run(for_both, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "b");
    assert_string_equal(kind, "code object");
    architecture = "gfx90a";
    assert_int_equal(run(for_both, "some", &kind), WEFT_OK);
    assert_string_equal(calls, "a");
    of_cubin = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_int_not_equal(run(for_both, "some", &kind), WEFT_OK);
    assert_non_null(strstr(base_last_error(), "hipModuleLoadData of Weft's kernels for gfx90a"));
    of_nothing = CUDA_ERROR_NO_BINARY_FOR_GPU;
    architecture = "gfx9"; /* the start of a name is another one */
    assert_int_equal(run(for_both, "some", &kind), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(calls, "n");
    assert_non_null(strstr(base_last_error(), "GPU 0 () is a gfx9, for which this libweft has no "
                                              "kernels (it has gfx90a, gfx942); clang and lld"));
    architecture = "gfx1100:xnack-";
    assert_int_equal(run(without, "some", &kind), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "is a gfx1100, for which this libweft has no kernels "
                                              "(it has none for GPUs of AMD)"));
}

static void kernel_absent(void **state)
{
    const char *kind;
    (void)state;
    assert_int_not_equal(run(without, "absent", &kind), WEFT_OK);
    assert_string_equal(calls, "su");
    assert_non_null(strstr(base_last_error(), "absent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(older_gpus, prepare),
        cmocka_unit_test_setup(all_cpus_compile, prepare),
        cmocka_unit_test_setup(cubin_of_the_generation, prepare),
        cmocka_unit_test_setup(cubin_refused, prepare),
        cmocka_unit_test_setup(older_drivers, prepare),
        cmocka_unit_test_setup(refused, prepare),
        cmocka_unit_test_setup(built_without, prepare),
        cmocka_unit_test_setup(code_of_amd, prepare),
        cmocka_unit_test_setup(kernel_absent, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
