/* SPDX-License-Identifier: Apache-2.0 */
/* The PCIe links of GPUs as they are at this moment, through NVML. */
#ifndef WEFT_TOOL_GPU_LINK_H
#define WEFT_TOOL_GPU_LINK_H

struct tool_gpu_links;

/* NULL without NVML; weft_last_error() says why. */
struct tool_gpu_links *gpu_links_open(void);
void gpu_links_close(struct tool_gpu_links *links);

/* Generation that the link of the GPU with this PCI address ("0000:0d:00.0") runs at; 0: not
 * told. */
int gpu_links_generation(struct tool_gpu_links *links, const char *address);

#endif
