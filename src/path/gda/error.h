/* SPDX-License-Identifier: Apache-2.0 */
/* Text of the syndromes of mlx5 error completions, for errors of the host and for those that device
 * code has recorded. Independent of the rest of path gda; also present in builds without it. */
#ifndef WEFT_PATH_GDA_ERROR_H
#define WEFT_PATH_GDA_ERROR_H

/* "remote access error: key, bounds or permission of the peer's memory" */
const char *gda_syndrome_text(unsigned syndrome);

#endif
