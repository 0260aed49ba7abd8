/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of --what-if: "drop acs 0000:40:01.1; lose nvlink 2:5; move nic mlx5_1 under gpu3".
 * They change only facts of the model, not the machine itself. */
#ifndef WEFT_MACHINE_WHATIF_H
#define WEFT_MACHINE_WHATIF_H

#include "machine/machine.h"

/* Applies the changes, separated by ';', in order. WEFT_ERR_ARGUMENT: the message has the number
 * and text of the wrong change and the reason; earlier changes may be applied. */
weft_status whatif_apply(struct machine *machine, const char *changes);

/* One line of help per kind of change. */
extern const char *const whatif_help[];
extern const int whatif_n_help;

#endif
