/* SPDX-License-Identifier: Apache-2.0 */
/* The current state of the PCIe links of GPUs, through NVML. */
#ifndef WEFT_TOOL_GPU_LINK_H
#define WEFT_TOOL_GPU_LINK_H

struct tool_gpu_links;

/* NULL without NVML; weft_last_error() has the reason. */
struct tool_gpu_links *gpu_links_open(void);
void gpu_links_close(struct tool_gpu_links *links);

/* Current PCIe generation of the GPU at this PCI address ("0000:0d:00.0"); 0: unknown. */
int gpu_links_generation(struct tool_gpu_links *links, const char *address);

#endif
