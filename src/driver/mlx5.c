/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libmlx5. See mlx5.h. */
#include "driver/mlx5.h"

#ifdef WEFT_HAVE_VERBS

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"

weft_status mlx5_open(struct mlx5 *mlx5, const char *folder)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/libmlx5.so.1", folder);
    const char *const names[] = {folder[0] ? file : "libmlx5.so.1", folder[0] ? NULL : "libmlx5.so",
                                 NULL};
    static const struct driver_symbol symbols[] = {
#define SYMBOL(name, symbol, result, parameters)                                                   \
    {{#symbol}, offsetof(struct mlx5_functions, name), false},
        MLX5_FUNCTIONS(SYMBOL)
#undef SYMBOL
#define SYMBOL(name, symbol, result, parameters)                                                   \
    {{#symbol}, offsetof(struct mlx5_functions, name), true},
            MLX5_OPTIONAL(SYMBOL)
#undef SYMBOL
    };
    const struct driver_library library = {
        .what = "libmlx5",
        .remedy = folder[0] ? "WEFT_HCA and WEFT_TEST_HCA_LIB set the folder that is searched"
                            : "apt-get install ibverbs-providers",
        .names = names,
        .symbols = symbols,
        .symbol_count = sizeof symbols / sizeof symbols[0],
    };
    memset(mlx5, 0, sizeof *mlx5);
    weft_status status = verbs_open_at(&mlx5->verbs, folder);
    if (!status)
        status = driver_load(&library, &mlx5->dv, sizeof mlx5->dv, &mlx5->handle);
    if (status)
        mlx5_close(mlx5);
    return status;
}

void mlx5_close(struct mlx5 *mlx5)
{
    driver_unload(mlx5->handle);
    mlx5->handle = NULL;
    verbs_close(&mlx5->verbs);
}

#endif
