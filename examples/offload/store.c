/* SPDX-License-Identifier: Apache-2.0 */
/* Implements store.h. A slot of memory holds a layer, or only its parameters. When a slot is
 * needed, the layer that is needed last is evicted, because the future is known (L. A. Belady, "A
 * study of replacement algorithms for a virtual-storage computer", 1966).
 *
 * Why a read layer is never out of date: a layer changes only in its slot, its write starts
 * immediately after that, and the slot is reused only when the write has ended. A read from the
 * file, needed when no slot holds the layer, therefore starts after its last write.
 *
 * The file is marked open while it changes. A killed run leaves the mark, and the file may then
 * contain layers of different steps. */
#include "store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/launch.h>
#include <weft_device.h>
#include <weft_file.h>

enum { PAGE = 4096, MOST_FILES = 8, VERSION = 1 };

struct header {
    char magic[8];
    uint32_t version, layers, width, open;
    uint64_t seed, step, layer_bytes, file_bytes;
};
static const char magic[8] = "WEFTOFF";

struct slot {
    float *memory;
    weft_file *file; /* file for reads and writes; several slots may share one */
    int64_t layer;   /* -1: none */
    uint32_t parts;  /* parts that are in memory or are being read */
    bool moving;     /* a transfer may be in progress */
};

struct store {
    weft_job *job;
    struct model_shape shape;
    struct store_settings settings;
    struct slot *slots;
    uint32_t count; /* slots */
    weft_file *files[MOST_FILES];
    uint32_t file_count;
    struct store_figures figures;
    char words[400];
    int64_t *exchange; /* symmetric: see enum place */
};

static bool check_call(weft_status status)
{
    if (status)
        fprintf(stderr, "offload: %s\n", weft_last_error());
    return !status;
}

/* ------------------------------------------------------------------------------- PEs together */

static bool is_first(const struct store *store)
{
    return store->shape.pes <= 1 || store->shape.me == 0;
}

/* Words of the exchange. A PE's outcome may arrive before the PE asks for it, so a PE never writes
 * to the words that it receives into. */
enum place { MY_OUTCOME, OUTCOME, MY_NUMBER, NUMBER, PLACES };

/* Returns true if all PEs succeeded. Each PE that failed has printed why. */
static bool all_succeeded(struct store *store, bool good)
{
    int64_t *x = store->exchange;
    if (store->shape.pes <= 1)
        return good;
    x[MY_OUTCOME] = good;
    return check_call(weft_allreduce(weft_team_world(store->job), &x[OUTCOME], &x[MY_OUTCOME], 1,
                                     WEFT_INT64, WEFT_MIN)) &&
           x[OUTCOME];
}

/* Copies PE 0's number to all PEs. Between two calls the PEs exchange a status. */
static bool broadcast_number(struct store *store, uint64_t *number)
{
    int64_t *x = store->exchange;
    if (store->shape.pes <= 1)
        return true;
    x[MY_NUMBER] = (int64_t)*number;
    bool succeeded = check_call(
        weft_broadcast(weft_team_world(store->job), &x[NUMBER], &x[MY_NUMBER], sizeof *x, 0));
    *number = (uint64_t)x[NUMBER];
    return succeeded;
}

/* ---------------------------------------------------------------------------------------- slots */

static size_t layer_bytes(const struct store *store)
{
    return MODEL_PARTS * model_part_bytes(&store->shape);
}

/* Returns the bytes of a layer in this PE's memory. */
static size_t slot_bytes(const struct store *store)
{
    return MODEL_PARTS * model_shard_bytes(&store->shape);
}

static uint64_t offset_of(const struct store *store, int64_t layer)
{
    uint64_t each = (layer_bytes(store) + PAGE - 1) / PAGE * PAGE;
    return PAGE + (uint64_t)layer * each;
}

uint32_t store_layer(const struct store *store, uint32_t visit)
{
    uint32_t layers = store->shape.layers;
    return visit < layers ? visit : 2 * layers - 1 - visit;
}

static uint32_t parts_for(const struct store *store, uint32_t visit)
{
    return visit < store->shape.layers ? 1 : MODEL_PARTS;
}

static struct slot *find_slot(struct store *store, uint32_t layer)
{
    for (uint32_t i = 0; i < store->count; i++)
        if (store->slots[i].layer == layer)
            return &store->slots[i];
    return NULL;
}

/* Returns after how many visits, at least 1, visit `next` follows `visit`; the steps follow each
 * other. */
static uint32_t visits_until(const struct store *store, uint32_t next, uint32_t visit)
{
    uint32_t round = 2 * store->shape.layers;
    return (next + round - visit - 1) % round + 1;
}

/* The same for a slot's layer, which has a forward and a backward visit. */
static uint32_t needed_in(const struct store *store, const struct slot *slot, uint32_t visit)
{
    if (slot->layer < 0)
        return UINT32_MAX;
    uint32_t forward = (uint32_t)slot->layer, back = 2 * store->shape.layers - 1 - forward;
    uint32_t a = visits_until(store, forward, visit), b = visits_until(store, back, visit);
    return a < b ? a : b;
}

/* Returns the slot to be evicted while `visit` is computed, never that of its own layer. */
static struct slot *find_victim(struct store *store, uint32_t visit, uint32_t *ahead)
{
    struct slot *victim = NULL;
    for (uint32_t i = 0; i < store->count; i++) {
        struct slot *slot = &store->slots[i];
        uint32_t needed = needed_in(store, slot, visit);
        if (slot->layer == store_layer(store, visit) || (victim && needed <= *ahead))
            continue;
        victim = slot;
        *ahead = needed;
    }
    return victim;
}

/* ------------------------------------------------------------------------------- transfers */

/* Waits for the transfers of a slot. */
static bool await_transfers(struct store *store, struct slot *slot)
{
    if (!slot->moving)
        return true;
    slot->moving = false;
    return check_call(weft_file_quiet(slot->file));
}

/* Lists the ranges of parts `from` to `to` of a slot's layer, this PE's share of each, in memory
 * and in the file: one range if it has all of them. */
static size_t list_parts(const struct store *store, const struct slot *slot, uint32_t from,
                         uint32_t to, weft_file_part *list)
{
    const struct model_shape *s = &store->shape;
    size_t part = model_part_bytes(s), shard = model_shard_bytes(s), n = 0;
    size_t first = model_shard_first(s, s->me) * sizeof(float),
           bytes = model_shard_count(s, s->me) * sizeof(float);
    for (uint32_t p = from; p < to && bytes; p++) {
        if (n && bytes == part) {
            list[0].bytes += bytes;
            continue;
        }
        list[n++] = (weft_file_part){.address = (char *)slot->memory + p * shard,
                                     .bytes = bytes,
                                     .offset = offset_of(store, slot->layer) + p * part + first,
                                     .pe = weft_my_pe(store->job)};
    }
    return n;
}

static uint64_t bytes_of(const weft_file_part *list, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += list[i].bytes;
    return bytes;
}

/* Starts reading the missing parts of the layer up to `parts`. */
static bool read_parts(struct store *store, struct slot *slot, uint32_t parts)
{
    weft_file_part list[MODEL_PARTS];
    size_t n = list_parts(store, slot, slot->parts, parts, list);
    slot->parts = parts;
    slot->moving = true;
    store->figures.read_bytes += bytes_of(list, n);
    bool begun = !n || check_call(weft_file_read_vector_nbi(slot->file, list, n));
    return begun && (!store->settings.one_by_one || await_transfers(store, slot));
}

static bool write_layer(struct store *store, struct slot *slot)
{
    weft_file_part list[MODEL_PARTS];
    size_t n = list_parts(store, slot, 0, MODEL_PARTS, list);
    slot->moving = true;
    store->figures.written_bytes += bytes_of(list, n);
    bool begun = !n || check_call(weft_file_write_vector_nbi(slot->file, list, n));
    return begun && (!store->settings.one_by_one || await_transfers(store, slot));
}

/* Makes sure that the layer of a visit is in memory or being read, while `now` is computed. *waits:
 * a layer that is needed earlier keeps the slot. */
static bool load_layer(struct store *store, uint32_t now, uint32_t ahead, bool *waits)
{
    uint32_t visit = (now + ahead) % (2 * store->shape.layers), free_for = 0;
    uint32_t parts = parts_for(store, visit);
    struct slot *slot = find_slot(store, store_layer(store, visit));
    if (slot && slot->parts >= parts)
        return true;
    if (!slot) {
        slot = find_victim(store, now, &free_for);
        if (!slot || free_for <= ahead) {
            *waits = true;
            return true;
        }
        if (!await_transfers(store, slot)) /* its previous layer is in the file */
            return false;
        slot->layer = store_layer(store, visit);
        slot->parts = 0;
    }
    return read_parts(store, slot, parts);
}

float *store_get_layer(struct store *store, uint32_t visit)
{
    struct slot *slot = find_slot(store, store_layer(store, visit));
    uint32_t parts = parts_for(store, visit), unused = 0;
    if (!slot) {
        slot = find_victim(store, visit, &unused);
        if (!await_transfers(store, slot))
            return NULL;
        slot->layer = store_layer(store, visit);
        slot->parts = 0;
    }
    if (slot->parts < parts && !read_parts(store, slot, parts))
        return NULL;
    /* Reads must be complete, and earlier writes of a layer that changes now as well. */
    return await_transfers(store, slot) ? slot->memory : NULL;
}

bool store_prefetch(struct store *store, uint32_t visit)
{
    bool waits = false, overlaps = !store->settings.in_memory && !store->settings.one_by_one;
    /* One slot is reserved for the layer that is being written. */
    uint32_t most = store->count > 3 ? store->count - 2 : 1;
    for (uint32_t ahead = 1; ahead <= most && !waits && overlaps; ahead++)
        if (!load_layer(store, visit, ahead, &waits))
            return false;
    return true;
}

bool store_release_layer(struct store *store, uint32_t visit)
{
    struct slot *slot = find_slot(store, store_layer(store, visit));
    return visit < store->shape.layers || store->settings.in_memory || write_layer(store, slot);
}

/* ------------------------------------------------------------------------------- the file */

static struct header make_header(const struct store *store, uint64_t step, bool is_open)
{
    struct header header = {.version = VERSION,
                            .layers = store->shape.layers,
                            .width = store->shape.width,
                            .open = is_open,
                            .seed = store->shape.seed,
                            .step = step,
                            .layer_bytes = layer_bytes(store),
                            .file_bytes = offset_of(store, store->shape.layers)};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static bool write_header(struct store *store, uint64_t step, bool is_open)
{
    struct header header = make_header(store, step, is_open);
    return check_call(weft_file_write(store->files[0], &header, sizeof header, 0,
                                      weft_my_pe(store->job), NULL)) &&
           check_call(weft_file_sync(store->files[0]));
}

static bool refuse_file(const char *format, const char *path)
{
    fputs("offload: ", stderr);
    fprintf(stderr, format, path);
    fputs("; --new replaces it\n", stderr);
    return false;
}

static bool read_header(struct store *store, uint64_t *step)
{
    struct header found = {0}, wanted;
    const char *path = store->settings.path;
    uint64_t bytes = 0;
    if (!check_call(weft_file_size(store->files[0], &bytes)))
        return false;
    if (bytes < sizeof found)
        return refuse_file("%s is too short to be a model", path);
    if (!check_call(
            weft_file_read(store->files[0], &found, sizeof found, 0, weft_my_pe(store->job), NULL)))
        return false;
    if (memcmp(found.magic, magic, sizeof magic) != 0 || found.version != VERSION)
        return refuse_file("%s is not a model of this program", path);
    if (found.layers != store->shape.layers || found.width != store->shape.width ||
        found.seed != store->shape.seed) {
        fprintf(stderr,
                "offload: %s holds another model: %u layers of width %u with seed %" PRIu64
                ", not %u of %u with %" PRIu64 "; give its --layers, --width and --seed, "
                "or --new\n",
                path, found.layers, found.width, found.seed, store->shape.layers,
                store->shape.width, store->shape.seed);
        return false;
    }
    wanted = make_header(store, found.step, found.open);
    if (memcmp(&found, &wanted, sizeof found) != 0 || bytes < found.file_bytes)
        return refuse_file("%s is damaged or truncated", path);
    if (found.open)
        return refuse_file("%s was left in the middle of a step by a killed run", path);
    *step = found.step;
    return true;
}

/* Writes the initial layers. */
static bool make_layers(struct store *store)
{
    struct slot *slot = &store->slots[0];
    bool good = true;
    for (uint32_t layer = 0; layer < store->shape.layers && good; layer++) {
        slot->layer = layer;
        good = check_call(model_init_layer(&store->shape, layer, slot->memory)) &&
               check_call(weft_stream_synchronize(NULL)) && write_layer(store, slot) &&
               await_transfers(store, slot);
    }
    slot->layer = -1;
    store->figures = (struct store_figures){0};
    return good;
}

static bool open_files(struct store *store)
{
    unsigned flags = WEFT_FILE_READ | WEFT_FILE_WRITE;
    store->file_count = store->count < MOST_FILES ? store->count : MOST_FILES;
    for (uint32_t i = 0; i < store->file_count; i++) {
        bool makes = !i && store->settings.create_new && is_first(store);
        unsigned first = makes ? WEFT_FILE_CREATE | WEFT_FILE_TRUNCATE : 0;
        if (!check_call(weft_file_open(store->job, store->settings.path, flags | first, NULL,
                                       &store->files[i])))
            return false;
    }
    weft_file_info info = {.size = sizeof info};
    if (!check_call(weft_file_query(store->files[0], &info)))
        return false;
    snprintf(store->words, sizeof store->words, "%s (%s on %s, %s%s%s)", store->settings.path,
             info.backend, info.file_system, info.store, info.reason[0] ? "; " : "", info.reason);
    return true;
}

static bool make_slots(struct store *store)
{
    uint64_t fit = store->settings.memory / slot_bytes(store);
    uint32_t layers = store->shape.layers;
    store->count = store->settings.in_memory || fit > layers ? layers : (uint32_t)fit;
    store->slots = calloc(store->count, sizeof *store->slots);
    if (!store->slots)
        return check_call(WEFT_ERR_NO_MEMORY);
    void *exchange = NULL;
    if (!check_call(weft_alloc(store->job, WEFT_HOST, PLACES * sizeof(int64_t), 0, 0, &exchange)))
        return false;
    store->exchange = exchange;
    for (uint32_t i = 0; i < store->count; i++) {
        void *memory = NULL;
        /* Whole pages, which suits files. */
        if (!check_call(weft_alloc(store->job, weft_device_kind(store->job), slot_bytes(store),
                                   PAGE, 0, &memory)))
            return false;
        store->slots[i] = (struct slot){.memory = memory, .layer = -1};
    }
    return true;
}

static bool load_all(struct store *store)
{
    for (uint32_t i = 0; i < store->count; i++) {
        store->slots[i].layer = i;
        if (!read_parts(store, &store->slots[i], MODEL_PARTS))
            return false;
    }
    for (uint32_t i = 0; i < store->count; i++)
        if (!await_transfers(store, &store->slots[i]))
            return false;
    return true;
}

/* PE 0 creates the file, the others open it. */
static bool open_all(struct store *store)
{
    bool first = is_first(store);
    uint64_t bytes = offset_of(store, store->shape.layers);
    if (!all_succeeded(store, !first || open_files(store)) ||
        !all_succeeded(store, first || open_files(store)))
        return false;
    for (uint32_t i = 0; i < store->count; i++)
        store->slots[i].file = store->files[i % store->file_count];
    return all_succeeded(store, !first || !store->settings.create_new ||
                                    check_call(weft_file_resize(store->files[0], bytes)));
}

static bool set_up_store(struct store *store, uint64_t *step)
{
    bool first = is_first(store);
    *step = 0;
    uint64_t create_new = store->settings.create_new || access(store->settings.path, F_OK) != 0;
    if (!make_slots(store) || !broadcast_number(store, &create_new))
        return false;
    store->settings.create_new = create_new;
    if (!open_all(store) ||
        !all_succeeded(store,
                       create_new ? make_layers(store) : !first || read_header(store, step)) ||
        !broadcast_number(store, step))
        return false;
    return all_succeeded(store, store->settings.in_memory
                                    ? load_all(store)
                                    : !first || write_header(store, *step, true));
}

struct store *store_open(weft_job *job, const struct model_shape *shape,
                         const struct store_settings *settings, uint64_t *step)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->job = job;
    store->shape = *shape;
    store->settings = *settings;
    if (set_up_store(store, step))
        return store;
    store_close(store);
    return NULL;
}

static bool write_all(struct store *store)
{
    bool good = true;
    for (uint32_t i = 0; i < store->count && store->settings.in_memory; i++)
        good = write_layer(store, &store->slots[i]) && good;
    for (uint32_t i = 0; i < store->count; i++)
        good = await_transfers(store, &store->slots[i]) && good;
    for (uint32_t i = 0; i < store->file_count && good; i++)
        good = check_call(weft_file_sync(store->files[i]));
    return good;
}

/* Writes the layers first, then the mark that they are complete. */
bool store_finish(struct store *store, uint64_t step)
{
    bool marks = is_first(store) && store->settings.in_memory;
    return all_succeeded(store, !marks || write_header(store, step, true)) &&
           all_succeeded(store, write_all(store)) &&
           all_succeeded(store, !is_first(store) || write_header(store, step, false));
}

bool store_close(struct store *store)
{
    bool closed = true;
    for (uint32_t i = 0; i < store->file_count; i++)
        closed = check_call(weft_file_close(store->files[i])) && closed;
    for (uint32_t i = store->slots ? store->count : 0; i > 0; i--)
        closed = check_call(weft_free(store->job, store->slots[i - 1].memory)) && closed;
    if (store->exchange)
        closed = check_call(weft_free(store->job, store->exchange)) && closed;
    free(store->slots);
    free(store);
    return closed;
}

uint32_t store_slots(const struct store *store)
{
    return store->count;
}

const char *store_file(const struct store *store)
{
    return store->words;
}

struct store_figures store_figures(const struct store *store)
{
    return store->figures;
}
