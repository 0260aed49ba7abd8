/* SPDX-License-Identifier: Apache-2.0 */
/* Changes to a machine that a person asks about: "drop acs 0000:40:01.1; lose nvlink 2:5; move nic
 * mlx5_1 under gpu3". Changes facts of the model, nothing else. */
#ifndef WEFT_MACHINE_WHATIF_H
#define WEFT_MACHINE_WHATIF_H

#include "machine/machine.h"

/* Applies the changes, separated by ';', in order. WEFT_ERR_ARGUMENT names the change (by number
 * and text) that cannot apply, and why; the machine may then hold the earlier ones. */
weft_status whatif_apply(struct machine *machine, const char *changes);

/* One line for each kind of change, for help texts. */
extern const char *const whatif_help[];
extern const int whatif_n_help;

#endif
