/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain coll OPERATION BYTES [PES]`. */
#ifndef WEFT_CLI_EXPLAIN_COLL_H
#define WEFT_CLI_EXPLAIN_COLL_H

/* Prints by which way a collective on GPU memory goes, what each way would take by the model, and
 * why. The exit status: 2 for what it does not know. Reads WEFT_COLL and WEFT_COLL_SMS. */
int explain_coll(int n, char **arguments);

#endif
