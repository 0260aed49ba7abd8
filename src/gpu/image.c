/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, included by the assembler: PTX, cubins when the build had ptxas, and code
 * objects for AMD GPUs when it had lld. And the code objects that programs bring. See image.h. */
#include "gpu/image.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lz4.h"

#ifdef WEFT_GPU_CODES
/* Made by the build: GPU_CODE(symbol, image, 1 for PTX, compute capability times 10, file), sorted
 * by image, the best first; and GPU_HIP_CODE(symbol, image, architecture, file). */
#define GPU_BYTES(symbol, file)                                                                    \
    __asm__(".pushsection .rodata, \"a\"\n"                                                        \
            ".balign 64\n" #symbol ":\n"                                                           \
            ".incbin \"" file "\"\n" #symbol                                                       \
            "_end: .byte 0\n" /* the driver takes PTX as a string */                               \
            ".popsection\n");                                                                      \
    extern const char symbol[] __attribute__((visibility("hidden")));                              \
    extern const char symbol##_end[] __attribute__((visibility("hidden")));
#define GPU_CODE(symbol, image, ptx, arch, file) GPU_BYTES(symbol, file)
#define GPU_HIP_CODE(symbol, image, arch, file)  GPU_BYTES(symbol, file)
#include WEFT_GPU_CODES
#undef GPU_CODE
#undef GPU_HIP_CODE
#undef GPU_BYTES
#endif

enum { KERNELS, COLL_KERNELS, NVSHMEM_RUN, OPS_EXPERTS_KERNELS };

static const struct gpu_code codes[] = {
#ifdef WEFT_GPU_CODES
#define GPU_CODE(symbol, image, ptx, arch, file) {image, ptx, arch, symbol, symbol##_end, NULL},
#define GPU_HIP_CODE(symbol, image, arch, file)  {image, false, 0, symbol, symbol##_end, arch},
#include WEFT_GPU_CODES
#undef GPU_CODE
#undef GPU_HIP_CODE
#endif
    {-1, false, 0, NULL, NULL, NULL}};

const struct gpu_image gpu_kernels_image = {codes, KERNELS};
const struct gpu_image gpu_coll_kernels_image = {codes, COLL_KERNELS};
const struct gpu_image gpu_nvshmem_image = {codes, NVSHMEM_RUN};
const struct gpu_image gpu_experts_image = {codes, OPS_EXPERTS_KERNELS};

/* Whether `name` is the architecture that HIP calls `wanted`, with features behind a colon. */
static bool is_architecture(const char *name, const char *wanted)
{
    size_t length = strcspn(wanted, ":");
    return strlen(name) == length && memcmp(name, wanted, length) == 0;
}

const struct gpu_code *gpu_image_find_amd(const struct gpu_image *image, const char *architecture)
{
    for (const struct gpu_code *code = image->codes; code->begin; code++)
        if (code->image == image->image && code->amd && is_architecture(code->amd, architecture))
            return code;
    return NULL;
}

/* Adds a name to the list in `text`. */
static void list_name(char *text, size_t bytes, const char *name)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
}

void gpu_image_list_amd(const struct gpu_image *image, char *text, size_t bytes)
{
    text[0] = '\0';
    for (const struct gpu_code *code = image->codes; code->begin; code++)
        if (code->image == image->image && code->amd)
            list_name(text, bytes, code->amd);
}

/* --------------------------------------------------- code of programs for some architectures */

struct program_code {
    const struct weft_image *image;
    const char *architecture, *begin, *end;
    struct program_code *next;
};

static struct program_code *program_codes; /* only grows: images are constants of the program */
static pthread_mutex_t program_codes_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_amd(const struct program_code *code)
{
    return strncmp(code->architecture, "gfx", 3) == 0;
}

weft_status program_find_amd(const struct weft_image *image, const char *architecture,
                             const char **begin, const char **end)
{
    char have[96] = "";
    pthread_mutex_lock(&program_codes_lock);
    const struct program_code *code = program_codes;
    for (; code; code = code->next) {
        if (code->image != image || !is_amd(code))
            continue;
        if (is_architecture(code->architecture, architecture))
            break;
        list_name(have, sizeof have, code->architecture);
    }
    pthread_mutex_unlock(&program_codes_lock);
    if (!code && !*have)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "the kernels of %s have no code for AMD GPUs; compile them with `weft cc "
                         "--hip`, or WEFT_HIP_ARCHITECTURES in CMake",
                         image->source);
    if (!code)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "the kernels of %s have code for AMD GPUs %s, not for %.*s; `weft cc "
            "--hip`, or WEFT_HIP_ARCHITECTURES in CMake, make it for gfx90a and gfx942",
            image->source, have, (int)strcspn(architecture, ":"), architecture);
    *begin = code->begin;
    *end = code->end;
    return WEFT_OK;
}

bool program_has_amd(void)
{
    bool has = false;
    pthread_mutex_lock(&program_codes_lock);
    for (const struct program_code *code = program_codes; code && !has; code = code->next)
        has = is_amd(code);
    pthread_mutex_unlock(&program_codes_lock);
    return has;
}

bool program_find_cubin(const struct weft_image *image, int capability, const char **begin,
                        const char **end)
{
    int best = 0;
    pthread_mutex_lock(&program_codes_lock);
    for (const struct program_code *code = program_codes; code; code = code->next) {
        int of =
            code->image == image && !is_amd(code) ? atoi(code->architecture + strlen("sm_")) : 0;
        if (of / 10 != capability / 10 || of > capability || of <= best)
            continue;
        best = of;
        *begin = code->begin;
        *end = code->end;
    }
    pthread_mutex_unlock(&program_codes_lock);
    return best != 0;
}

void program_add_code(const struct weft_image *image, const char *architecture, const char *begin,
                      const char *end)
{
    struct program_code *code = malloc(sizeof *code);
    if (!code)
        return; /* the search says that there is none */
    *code = (struct program_code){image, architecture, begin, end, NULL};
    pthread_mutex_lock(&program_codes_lock);
    code->next = program_codes;
    program_codes = code;
    pthread_mutex_unlock(&program_codes_lock);
}

const char *gpu_unpack(const char *begin, const char *end, char **unpacked)
{
    size_t bytes = (size_t)(end - begin);
    *unpacked = NULL;
    if (!lz4_is_frame(begin, bytes))
        return begin;
    *unpacked = lz4_decode(begin, bytes, &bytes);
    return *unpacked;
}

/* A line of PTX is "DIRECTIVE value // value for older GPUs": takes the second value. */
static void take_older_value(char *ptx, const char *directive)
{
    char *line = strstr(ptx, directive);
    if (!line)
        return;
    char *to = line + strlen(directive), *end = to + strcspn(to, "\n"), *from = strstr(to, "// ");
    if (!from || from >= end)
        return;
    from += strlen("// ");
    memmove(to, from, (size_t)(end - from));
    memset(to + (end - from), ' ', (size_t)(from - to));
}

void gpu_ptx_lower(char *ptx)
{
    take_older_value(ptx, "\n.version ");
    take_older_value(ptx, "\n.target ");
    for (char *at = ptx; (at = strstr(at, "griddepcontrol"));)
        while (*at && *at != '\n')
            *at++ = ' ';
}

const char *gpu_code_kind(const struct gpu_code *code)
{
    return code && code->amd ? "code object" : code && !code->ptx ? "cubin" : "PTX";
}
