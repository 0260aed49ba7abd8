/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of path gda for device code on a GPU. What the NIC reads and writes (send rings,
 * completion queues, doorbell records, results) is in GPU memory (far.c). If the NIC cannot reach
 * GPU memory, it is in pinned host memory. What only the GPU changes (counts, marks) or reads often
 * (keys, addresses) is copied to GPU memory.
 *
 * A queue that is not connected yet has its place in the tables. Its first reservations wait there
 * until the failover thread has connected it and written the rest (gda_open_cuda_link()). That
 * thread must not wait for running kernels, which may wait for it.
 *
 * The GPU rings the doorbell itself if the driver lets it write the NIC's register. Otherwise it
 * writes a word of host memory, and a host thread writes the value into the register (bell.c). */
#include "path/gda/dc.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/sparse.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES_MOST = 4 }; /* 1 KiB: 2,500 copies to or from a GPU in a job of 10,000 PEs */

struct gda_cuda {
    uint32_t count;         /* device-code queues, with the DC initiators */
    CUdeviceptr *doorbells; /* [count] Address of each doorbell on the GPU; 0: not connected */
    /* [gda_device_links()] Marks, fillers and busy words of the queues to a PE, or 0 */
    CUdeviceptr *marks;
    uint32_t by_register, by_thread;
    char why_thread[160]; /* why the GPU does not ring all doorbells */
    struct gda_doorbell_thread *doorbell_thread;
    /* In GPU memory; 0 before device code asks for them. */
    CUdeviceptr queues, used, bases, local_keys;
    CUdeviceptr targets, tested; /* for DC initiators, see struct gda_dc_device */
    bool written;                /* the tables exist */
    CUdeviceptr no_completion;   /* a completion entry that no NIC has written */
    uint32_t chunks;             /* chunks of the host segments plus units of the GPU heap */
    /* [chunks] Keys of a chunk at all PEs. Of the units of the heap's address range most are often
     * unused: memory registered by the program has the last ones. */
    struct gpu_sparse remote_keys;
    bool *keyed;                       /* [units of the heap] there are keys in remote_keys */
    struct weft_dev_gda_queue *copies; /* [COPIES_MOST] Copies of some of the GPU's queues */
};

static weft_status write_gpu(const struct gda *gda, CUdeviceptr to, const void *from, size_t bytes)
{
    return gpu_copy(gda->world->gpu, GDA_COPY_STREAM, (void *)(uintptr_t)to, from, bytes, GPU_DONE);
}

/* Returns device-code queue i: the one in GPU memory if there is one, else the one in host
 * memory. */
static const struct weft_dev_gda_queue *queue_of(const struct gda *gda, uint32_t i)
{
    return gda->gpu_queues ? &gda->gpu_queues->queues[i] : gda_device_queue(gda, i);
}

static const struct gda_qp *qp_of(const struct gda *gda, uint32_t i)
{
    return gda->gpu_queues ? &gda->gpu_queues->qps[i] : gda_device_qp(gda, i);
}

/* Whether the GPU may use the queues to that PE, or the initiators of that group. */
static bool is_open(const struct gda *gda, uint32_t link)
{
    return link < (uint32_t)gda->world->npes ? gda_is_linked(gda, (int)link)
                                             : gda_cuda_initiators(gda) != NULL;
}

/* ------------------------------------------------------------------------------------ doorbells */

/* Returns the word that the GPU writes in place of the register; 0 until the GPU rings. It is in
 * the page of the queue's doorbell records, which is pinned with the whole area. */
static uint64_t *doorbell_word_of(const struct weft_dev_gda_queue *q)
{
    enum { AFTER_RECORDS = 256 };
    return (uint64_t *)(void *)((char *)((uintptr_t)q->ring.record & ~(uintptr_t)(GDA_PAGE - 1)) +
                                AFTER_RECORDS);
}

static weft_status assign_doorbell_thread(struct gda *gda, uint32_t i)
{
    struct gda_cuda *cuda = gda->cuda;
    struct weft_dev_gda_queue *q = gda_device_queue(gda, i);
    if (!q->ring.record)
        return base_fail(WEFT_ERR_NO_PATH, "%s", cuda->why_thread);
    weft_status status =
        cuda->doorbell_thread ? WEFT_OK : gda_doorbell_start(&cuda->doorbell_thread, cuda->count);
    if (status)
        return status;
    gda_doorbell_add(cuda->doorbell_thread, doorbell_word_of(q), queue_of(gda, i)->ring.doorbell);
    cuda->by_thread++;
    cuda->doorbells[i] = (uintptr_t)doorbell_word_of(q);
    return WEFT_OK;
}

static weft_status map_doorbell(struct gda *gda, uint32_t i)
{
    struct gda_cuda *cuda = gda->cuda;
    int64_t choice = config_int(CONFIG_GDA_DOORBELL);
    enum gpu_register_kind kind = GPU_REGISTER_DEVICE;
    if (qp_of(gda, i)->absent) {
        cuda->doorbells[i] = (uintptr_t)queue_of(gda, i)->ring.doorbell;
        return WEFT_OK;
    }
    if (choice == GDA_RING_CPU)
        return assign_doorbell_thread(gda, i);
    weft_status status = gpu_map_register(gda->world->gpu, queue_of(gda, i)->ring.doorbell,
                                          sizeof(uint64_t), &cuda->doorbells[i], &kind);
    if (!status) {
        cuda->by_register += kind == GPU_REGISTER_DEVICE;
        return WEFT_OK;
    }
    snprintf(cuda->why_thread, sizeof cuda->why_thread, "%.150s", base_last_error());
    if (choice == GDA_RING_GPU)
        return base_fail(WEFT_ERR_NO_PATH,
                         "path gda: the GPU may not write the doorbells of %s (%s), and "
                         "WEFT_GDA_DOORBELL is gpu",
                         qp_of(gda, i)->adapter->name, cuda->why_thread);
    return assign_doorbell_thread(gda, i);
}

void gda_describe_cuda(const struct gda *gda, char *text, size_t bytes)
{
    const struct gda_cuda *cuda = gda->cuda;
    if (!cuda)
        snprintf(text, bytes, "device code goes through the proxy: %.120s", gda->gpu->why_proxy);
    else if (cuda->by_thread)
        snprintf(text, bytes, "a thread rings doorbells%s%.100s",
                 cuda->why_thread[0] ? ": " : " (WEFT_GDA_DOORBELL)", cuda->why_thread);
    else
        snprintf(text, bytes, "the GPU rings doorbells%s",
                 cuda->by_register ? "" : " in plain memory");
    size_t used = strlen(text);
    if (cuda)
        snprintf(text + used, bytes - used, "; queues in %s%.100s",
                 gda->gpu_queues ? "GPU memory" : "host memory: ",
                 gda->gpu_queues ? "" : gda->gpu->why_host);
}

/* ----------------------------------------------------------------------------- opening, closing */

/* Checks that the GPU sees host memory at the host's addresses. WQEs name result slots by their
 * host addresses, and the GPU reads the results there. */
static weft_status check_host_addresses(const struct gda *gda)
{
    CUdeviceptr seen = 0;
    weft_status status = gpu_device_pointer(gda->world->gpu, gda->requests, &seen);
    if (status || seen == (uintptr_t)gda->requests)
        return status;
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "GPU %d maps host memory at different addresses than the host",
                     gda->world->gpu->device.ordinal);
}

/* Gives the GPU access to the memory of the queues to PE pe, and to their doorbells. In an eager
 * job the memory is pinned already. */
static weft_status open_link(struct gda *gda, int pe)
{
    weft_status status =
        gda->eager ? WEFT_OK
                   : gpu_pin_range(gda->world->gpu, gda_link_area(gda, pe), gda_link_bytes(gda));
    for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++)
        status = map_doorbell(gda, (uint32_t)pe * gda->queues_per_pe + k);
    return status;
}

weft_status gda_open_cuda_initiators(struct gda *gda)
{
    const struct gda_dc_device *device = gda->dc->device;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&gda->cuda_lock);
    for (uint32_t i = 0; i < device->count && !status; i++) {
        if (device->parts[i].area)
            status =
                gpu_pin_range(gda->world->gpu, device->parts[i].area, gda_queue_bytes(gda->depth));
        if (!status)
            status = map_doorbell(gda, gda_device_queue_count(gda) + i);
    }
    pthread_mutex_unlock(&gda->cuda_lock);
    return status;
}

static weft_status open_cuda(struct gda *gda)
{
    struct gda_cuda *cuda = gda->cuda;
    struct gpu *gpu = gda->world->gpu;
    const uint32_t links = (uint32_t)gda_device_links(gda);
    cuda->count = links * gda->queues_per_pe;
    cuda->doorbells = calloc(cuda->count, sizeof *cuda->doorbells);
    cuda->marks = calloc(links, sizeof *cuda->marks);
    cuda->copies = aligned_alloc(WEFT_DEV_GDA_LINE, COPIES_MOST * sizeof *cuda->copies);
    weft_status status = cuda->doorbells && cuda->marks && cuda->copies
                             ? gpu_pin_range(gpu, gda->requests, gda->requests_bytes)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    if (!status)
        status = check_host_addresses(gda);
    if (!status && gda->eager)
        status = gpu_pin_range(gpu, gda->area, gda->area_bytes);
    for (int pe = 0; pe < gda->world->npes && !status; pe++)
        if (gda_is_linked(gda, pe))
            status = open_link(gda, pe);
    return status;
}

weft_status gda_open_cuda(struct gda *gda, char *lacks, size_t bytes)
{
    lacks[0] = '\0';
    if (config_choice(CONFIG_TEST_GDA_INITIATOR)) {
        snprintf(lacks, bytes, "WEFT_TEST_GDA_INITIATOR is cpu");
        return WEFT_OK;
    }
    gda->cuda = calloc(1, sizeof *gda->cuda);
    if (!gda->cuda)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for device code");
    weft_status status = open_cuda(gda);
    if (!status)
        return WEFT_OK;
    snprintf(lacks, bytes, "%s", base_last_error());
    gda_close_cuda(gda);
    if (config_int(CONFIG_GDA_DOORBELL) == GDA_RING_GPU)
        return base_fail(WEFT_ERR_CONFIG, "%s", lacks);
    log_warn(LOG_GDA, "path gda: device code uses the proxy: %s", lacks);
    return WEFT_OK;
}

static void free_tables(struct gda *gda)
{
    struct gda_cuda *cuda = gda->cuda;
    const CUdeviceptr all[] = {cuda->bases,      cuda->queues,        cuda->used,  cuda->targets,
                               cuda->local_keys, cuda->no_completion, cuda->tested};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        gpu_free(gda->world->gpu, all[i]);
    gpu_sparse_close(gda->world->gpu, &cuda->remote_keys);
    for (int link = 0; link < gda_device_links(gda) && cuda->marks; link++)
        gpu_free(gda->world->gpu, cuda->marks[link]);
}

/* The caller guarantees that no kernel of the job runs any more. */
void gda_close_cuda(struct gda *gda)
{
    struct gda_cuda *cuda = gda->cuda;
    struct gpu *gpu = gda->world->gpu;
    if (!cuda)
        return;
    gda_doorbell_stop(cuda->doorbell_thread);
    free_tables(gda);
    for (uint32_t i = 0; gpu && cuda->doorbells && i < cuda->count; i++)
        if (cuda->doorbells[i])
            gpu_unpin_range(gpu, queue_of(gda, i)->ring.doorbell, sizeof(uint64_t));
    const struct gda_dc_device *device = gpu && gda->dc ? gda->dc->device : NULL;
    for (uint32_t i = 0; device && device->cuda && i < device->count; i++)
        if (device->parts[i].area)
            gpu_unpin_range(gpu, device->parts[i].area, gda_queue_bytes(gda->depth));
    if (gpu) {
        gpu_unpin_range(gpu, gda->area, gda->area_bytes);
        gpu_unpin_range(gpu, gda->requests, gda->requests_bytes);
    }
    free(cuda->doorbells);
    free(cuda->marks);
    free(cuda->keyed);
    free(cuda->copies);
    free(cuda);
    gda->cuda = NULL;
}

/* --------------------------------------------------------------------------------------- tables */

/* Keys of one chunk at all PEs: [2][count][npes], those of strict order first. */
static uint32_t key_step(const struct gda *gda)
{
    return 2 * gda->count * (uint32_t)gda->world->npes;
}

/* Marks, fillers and busy words of the queues to one PE follow each other. */
static size_t queue_mark_bytes(const struct gda *gda)
{
    return gda->depth / WEFT_DEV_GDA_MARKS * sizeof(uint64_t);
}

static size_t link_mark_bytes(const struct gda *gda)
{
    return gda->queues_per_pe * (2 * queue_mark_bytes(gda) + gda->depth * sizeof(uint32_t));
}

/* Zeros are copied there: filling memory would wait for running kernels. */
static weft_status alloc_marks(const struct gda *gda, uint32_t link)
{
    const size_t bytes = link_mark_bytes(gda);
    CUdeviceptr *marks = &gda->cuda->marks[link];
    void *zeros = *marks ? NULL : calloc(1, bytes);
    if (*marks)
        return WEFT_OK;
    weft_status status = zeros ? gpu_alloc_unset(gda->world->gpu, bytes, marks)
                               : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    if (!status)
        status = write_gpu(gda, *marks, zeros, bytes);
    free(zeros);
    return status;
}

/* What device-code queue i has from the start: all that is read before blocks are reserved. DC
 * initiators begin with the keys of PE 0. */
static struct weft_dev_gda_queue describe_unconnected(const struct gda *gda, uint32_t i)
{
    const struct gda_cuda *cuda = gda->cuda;
    uint32_t name = i % gda->queues_per_pe, a = gda_adapter_of(gda, name);
    uint32_t pe = i < gda_device_queue_count(gda) ? i / gda->queues_per_pe : 0;
    size_t row = (size_t)a * (size_t)gda->world->npes + pe;
    const uint32_t *remote = (const uint32_t *)(uintptr_t)cuda->remote_keys.base;
    const uint32_t *local = (const uint32_t *)(uintptr_t)cuda->local_keys;
    return (struct weft_dev_gda_queue){.completion =
                                           (const uint64_t *)(uintptr_t)cuda->no_completion + 1,
                                       .name = name,
                                       .used_bit = i,
                                       .remote_keys = remote + row,
                                       .local_keys = local + (size_t)a * cuda->chunks,
                                       .turns = WEFT_DEV_GDA_UNUSED};
}

static struct weft_dev_gda_queue describe_connected(const struct gda *gda, uint32_t i)
{
    const struct gda_cuda *cuda = gda->cuda;
    const struct weft_dev_gda_queue *from = queue_of(gda, i);
    struct weft_dev_gda_queue q = describe_unconnected(gda, i);
    uint32_t name = q.name, each = gda->queues_per_pe;
    CUdeviceptr marks = cuda->marks[i / each], busy = marks + 2 * each * queue_mark_bytes(gda);
    q.ring = from->ring;
    q.ring.doorbell = (uint64_t *)(uintptr_t)cuda->doorbells[i];
    q.completion = from->completion;
    q.results = from->results;
    q.results_key = from->results_key;
    q.number = from->number;
    q.marks = (uint64_t *)(uintptr_t)(marks + name * queue_mark_bytes(gda));
    q.fillers = (uint64_t *)(uintptr_t)(marks + (each + name) * queue_mark_bytes(gda));
    q.busy = (uint32_t *)(uintptr_t)busy + (size_t)name * gda->depth;
    q.ready = 1;
    if (i >= gda_device_queue_count(gda))
        q.ready += 2 * gda_dc_address_segments(gda, gda_adapter_of(gda, name), gda->world->pe);
    return q;
}

/* Number of queues from the i-th on that are copied at once. */
static uint32_t copies_from(const struct gda_cuda *cuda, uint32_t i)
{
    return cuda->count - i < COPIES_MOST ? cuda->count - i : COPIES_MOST;
}

static weft_status write_queues(const struct gda *gda)
{
    const struct gda_cuda *cuda = gda->cuda;
    weft_status status = WEFT_OK;
    for (uint32_t link = 0; link < (uint32_t)gda_device_links(gda) && !status; link++)
        if (is_open(gda, link))
            status = alloc_marks(gda, link);
    for (uint32_t i = 0, n; i < cuda->count && !status; i += n) {
        n = copies_from(cuda, i);
        for (uint32_t k = 0; k < n; k++)
            cuda->copies[k] = is_open(gda, (i + k) / gda->queues_per_pe)
                                  ? describe_connected(gda, i + k)
                                  : describe_unconnected(gda, i + k);
        status = write_gpu(gda, cuda->queues + i * sizeof *cuda->copies, cuda->copies,
                           n * sizeof *cuda->copies);
    }
    return status;
}

/* Completes a queue in which device code may have reserved blocks, and may wait. `ready` is written
 * when the rest is there. */
static weft_status complete_queue(const struct gda *gda, uint32_t i)
{
    enum { READY = offsetof(struct weft_dev_gda_queue, ready) };
    const struct weft_dev_gda_queue q = describe_connected(gda, i);
    CUdeviceptr to = gda->cuda->queues + i * sizeof q;
    weft_status status = write_gpu(gda, to, &q, READY);
    return status ? status : write_gpu(gda, to + READY, &q.ready, sizeof q.ready);
}

weft_status gda_open_cuda_link(struct gda *gda, int pe)
{
    const struct gda_cuda *cuda = gda->cuda;
    weft_status status = cuda ? open_link(gda, pe) : WEFT_OK;
    if (!cuda || !cuda->written || status)
        return status;
    status = alloc_marks(gda, (uint32_t)pe);
    for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++)
        status = complete_queue(gda, (uint32_t)pe * gda->queues_per_pe + k);
    return status;
}

/* Fills the entries of a part that is in the GPU heap. */
static void fill_gpu_part(const struct gda *gda, const struct weft_dev *dev, int part,
                          struct weft_dev_gda *table)
{
    const struct gda_gpu *gpu = gda->gpu;
    table->first[part] = gda->chunks;
    table->chunk_bits[part] = gpu->unit_bits;
    table->own[part] = gpu->bases[gda->world->pe];
    table->skip[part] = dev->segment[part].base - table->own[part];
}

static void fill_table(struct gda *gda, struct weft_dev *dev)
{
    const struct gda_cuda *cuda = gda->cuda;
    dev->gda = (struct weft_dev_gda){
        .queues = (struct weft_dev_gda_queue *)(uintptr_t)cuda->queues,
        .each = gda->queues_per_pe,
        .sharing = gda_sharing(gda),
        .adapters = gda->count,
        .bases = (const uint64_t *)(uintptr_t)cuda->bases,
        .used = (uint64_t *)(uintptr_t)cuda->used,
        .wanted = gda->wanted,
        .alarm = gda_alarm(gda),
        .key_step = key_step(gda),
        .data_keys = gda->gpu_queues || gda->relaxed ? key_step(gda) / 2 : 0,
        /* The NIC writes completions to GPU memory after the data, so no DUMP is needed. */
        .dumps = gda->gpu->dumps && !gda->gpu_queues,
        .ordered = gda_order_flags(gda),
        .no_atomics = gda->adapters->no_atomics,
        .first[WEFT_DEV_OTHER] = gda->first[SEG_HEAP],
        .own[WEFT_DEV_OTHER] = (uintptr_t)gda->world->map[gda->world->pe][SEG_HEAP],
        .connected = (const uint64_t *)(uintptr_t)cuda->tested,
        .dc_groups = gda_cuda_initiators(gda) ? GDA_INITIATORS : 0,
        .dc_keys = 1,
        .targets = (const struct weft_dev_gda_target *)(uintptr_t)cuda->targets,
    };
    for (int part = 0; part < WEFT_DEV_PARTS; part++)
        dev->gda.chunk_bits[part] = gda->chunk_bits;
    fill_gpu_part(gda, dev, WEFT_DEV_HEAP, &dev->gda);
    fill_gpu_part(gda, dev, WEFT_DEV_AREAS, &dev->gda);
}

static weft_status write_bases(const struct gda *gda)
{
    size_t npes = (size_t)gda->world->npes;
    uint64_t(*bases)[WEFT_DEV_PARTS] = calloc(npes, sizeof *bases);
    if (!bases)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for %zu PEs", npes);
    for (size_t pe = 0; pe < npes; pe++) {
        bases[pe][WEFT_DEV_HEAP] = bases[pe][WEFT_DEV_AREAS] = gda->gpu->bases[pe];
        bases[pe][WEFT_DEV_OTHER] = gda->bases[pe * SEG_COUNT + SEG_HEAP];
    }
    weft_status status = write_gpu(gda, gda->cuda->bases, bases, npes * sizeof *bases);
    free(bases);
    return status;
}

/* Copies the keys of a chunk of the host segments. */
static void gather_keys(const struct gda *gda, uint32_t chunk, uint32_t *to)
{
    size_t rows = gda->count * (size_t)gda->world->npes;
    for (size_t row = 0; row < rows; row++) {
        to[row] = gda->remote_keys[row * gda->chunks + chunk];
        to[rows + row] = gda->data_keys[row * gda->chunks + chunk];
    }
}

/* Writes the keys of a chunk. New memory of the table is zero. */
static weft_status write_row(const struct gda *gda, uint32_t chunk, const uint32_t *keys)
{
    struct gpu_sparse *table = &gda->cuda->remote_keys;
    const size_t bytes = key_step(gda) * sizeof *keys, at = chunk * bytes;
    weft_status status = gpu_sparse_back(gda->world->gpu, GDA_COPY_STREAM, table, at, bytes);
    return status ? status : write_gpu(gda, table->base + at, keys, bytes);
}

static weft_status write_remote_keys(const struct gda *gda)
{
    bool *keyed = gda->cuda->keyed;
    uint32_t *some = calloc(key_step(gda), sizeof *some);
    weft_status status =
        some ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for keys");
    for (uint32_t unit = 0; unit < gda->gpu->units && !status; unit++) {
        const uint32_t *keys = gda->gpu->keys[unit];
        if (keys || keyed[unit])
            status = write_row(gda, gda->chunks + unit, keys ? keys : some);
        keyed[unit] = status ? keyed[unit] : keys != NULL;
    }
    for (uint32_t chunk = 0; chunk < gda->chunks && !status; chunk++) {
        gather_keys(gda, chunk, some);
        status = write_row(gda, chunk, some);
    }
    free(some);
    return status;
}

static weft_status write_local_keys(const struct gda *gda)
{
    const struct gda_gpu *gpu = gda->gpu;
    const size_t host = gda->chunks * sizeof(uint32_t), unit = gpu->units * sizeof(uint32_t);
    weft_status status = WEFT_OK;
    for (size_t a = 0; a < gda->count && !status; a++) {
        CUdeviceptr to = gda->cuda->local_keys + a * (host + unit);
        status = write_gpu(gda, to, gda->local_keys + a * gda->chunks, host);
        if (!status)
            status = write_gpu(gda, to + host, gpu->local_keys + a * gpu->units, unit);
    }
    return status;
}

weft_status gda_write_cuda_keys(struct gda *gda)
{
    if (!gda->cuda || !gda->cuda->written)
        return WEFT_OK;
    weft_status status = write_local_keys(gda);
    return status ? status : write_remote_keys(gda);
}

/* The entries are complete before they are valid. */
static weft_status write_targets(const struct gda *gda, int first, int count)
{
    const struct gda_dc_device *device = gda_cuda_initiators(gda);
    size_t at = (size_t)first * gda->count * sizeof *device->targets,
           bytes = (size_t)count * gda->count * sizeof *device->targets;
    weft_status status = write_gpu(gda, gda->cuda->targets + at,
                                   &device->targets[(size_t)first * gda->count], bytes);
    return status ? status
                  : write_gpu(gda, gda->cuda->tested + (size_t)first * sizeof *device->tested,
                              &device->tested[first], (size_t)count * sizeof *device->tested);
}

weft_status gda_write_cuda_target(struct gda *gda, int pe)
{
    return gda->cuda && gda->cuda->written ? write_targets(gda, pe, 1) : WEFT_OK;
}

static weft_status alloc_tables(struct gda *gda)
{
    static const uint64_t no_completion[2] = {0, (uint64_t)WEFT_DEV_GDA_CQE_NONE << 60};
    struct gda_cuda *cuda = gda->cuda;
    size_t npes = (size_t)gda->world->npes;
    cuda->chunks = gda->chunks + gda->gpu->units;
    const struct gda_dc_device *device = gda_cuda_initiators(gda);
    const struct {
        CUdeviceptr *to;
        size_t bytes;
    } all[] = {
        {&cuda->queues, cuda->count * sizeof(struct weft_dev_gda_queue)},
        {&cuda->used, (cuda->count / 64 + 1) * sizeof(uint64_t)},
        {&cuda->bases, npes * WEFT_DEV_PARTS * sizeof(uint64_t)},
        {&cuda->local_keys, gda->count * cuda->chunks * sizeof(uint32_t)},
        {&cuda->no_completion, sizeof no_completion},
        {&cuda->targets, device ? device->target_bytes : 0},
        {&cuda->tested, device ? npes * sizeof *device->tested : 0},
    };
    const size_t row_bytes = key_step(gda) * sizeof(uint32_t);
    cuda->keyed = cuda->keyed ? cuda->keyed : calloc(gda->gpu->units, sizeof *cuda->keyed);
    weft_status status =
        cuda->keyed ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    if (!status && !cuda->remote_keys.base)
        status = gpu_sparse_open(gda->world->gpu, cuda->chunks * row_bytes, &cuda->remote_keys);
    for (size_t i = 0; i < sizeof all / sizeof all[0] && !status; i++)
        if (all[i].bytes)
            status = gpu_alloc(gda->world->gpu, all[i].bytes, all[i].to);
    if (!status)
        status = write_gpu(gda, cuda->no_completion, no_completion, sizeof no_completion);
    if (!status)
        status = write_bases(gda);
    /* Links that are connected from now on are written by their thread. */
    pthread_mutex_lock(&gda->cuda_lock);
    if (!status)
        status = write_queues(gda);
    if (!status && device)
        status = write_targets(gda, 0, gda->world->npes);
    cuda->written = !status;
    pthread_mutex_unlock(&gda->cuda_lock);
    return status;
}

weft_status gda_write_cuda_table(struct gda *gda, struct weft_dev *dev)
{
    weft_status status = gda->cuda->written ? WEFT_OK : alloc_tables(gda);
    if (!status)
        status = gda_write_cuda_keys(gda);
    if (!status)
        fill_table(gda, dev);
    return status;
}

static void take_counts(struct weft_dev_gda_queue *q, const struct weft_dev_gda_queue *copy)
{
    q->turns = copy->turns;
    q->done = copy->done;
    q->open = copy->open;
    q->flushed = copy->flushed;
}

weft_status gda_read_cuda_counts(struct gda *gda)
{
    const struct gda_cuda *cuda = gda->cuda;
    if (!cuda || !cuda->written)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0, n; i < cuda->count && !status; i += n) {
        n = copies_from(cuda, i);
        CUdeviceptr from = cuda->queues + i * sizeof *cuda->copies;
        status = gpu_copy(gda->world->gpu, GDA_COPY_STREAM, cuda->copies,
                          (const void *)(uintptr_t)from, n * sizeof *cuda->copies, GPU_DONE);
        for (uint32_t k = 0; k < n && !status; k++)
            if (is_open(gda, (i + k) / gda->queues_per_pe))
                take_counts(gda_device_queue(gda, i + k), &cuda->copies[k]);
    }
    return status;
}

weft_status gda_read_cuda_queue(const struct gda *gda, uint32_t i, uint64_t *done,
                                uint64_t *counted)
{
    const struct gda_cuda *cuda = gda->cuda;
    const struct weft_dev_gda_queue *q =
        (const struct weft_dev_gda_queue *)(uintptr_t)cuda->queues + i;
    weft_status status = WEFT_OK;
    *done = *counted = 0;
    /* `counted` after `done`: it includes the fillers among the complete blocks. */
    if (cuda->written)
        status = gpu_copy(gda->world->gpu, GDA_COPY_STREAM, done, &q->done, sizeof *done, GPU_DONE);
    if (cuda->written && !status)
        status = gpu_copy(gda->world->gpu, GDA_COPY_STREAM, counted, &q->counted, sizeof *counted,
                          GPU_DONE);
    return status;
}
