/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of programs that were compiled by clang (<weft/device/image.h>), and streams and events,
 * by the GPU driver: what struct weft_cuda_runtime lists. It takes the place of the CUDA runtime,
 * whose rules it follows: a thread without a current context gets a primary one, and a primary
 * context that was used stays until the process ends. Each function returns 0 or a CUresult. */
#ifndef WEFT_GPU_PROGRAM_H
#define WEFT_GPU_PROGRAM_H

#include <weft/device/image.h>

int program_upload(struct weft_image *image, const struct weft_dev *state, size_t bytes,
                   int ordinal);

int program_devices(void);
const char *program_error_text(int error);
/* `kernel` is a struct weft_image_kernel. */
int program_launch(const void *kernel, const unsigned *grid, const unsigned *block,
                   size_t shared_bytes, unsigned flags, weft_stream stream, void **params);
int program_resident_blocks(const void *kernel, unsigned threads, size_t shared_bytes,
                            unsigned *blocks);
int program_stream_create(weft_stream *stream);
int program_stream_destroy(weft_stream stream);
int program_stream_synchronize(weft_stream stream);
int program_stream_query(weft_stream stream, int *idle);
int program_stream_host_call(weft_stream stream, void (*fn)(void *arg), void *arg);
int program_event_create(weft_event *event);
int program_event_destroy(weft_event event);
int program_event_record(weft_event event, weft_stream stream);
int program_event_wait(weft_stream stream, weft_event event);
int program_event_synchronize(weft_event event);
int program_event_elapsed(weft_event start, weft_event end, uint64_t *ns);

#endif
