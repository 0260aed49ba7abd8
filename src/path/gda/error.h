/* SPDX-License-Identifier: Apache-2.0 */
/* The syndromes of an mlx5 error completion in words, for the host's errors and for what device
 * code has left on record. Knows nothing else of path gda, and is there also where that was not
 * built. */
#ifndef WEFT_PATH_GDA_ERROR_H
#define WEFT_PATH_GDA_ERROR_H

/* "remote access error: key, bounds or permission of the peer's memory" */
const char *gda_syndrome_text(unsigned syndrome);

#endif
