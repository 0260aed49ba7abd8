/* SPDX-License-Identifier: Apache-2.0 */
/* Implements checkpoint.h. */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft_file.h>

enum { PIECE = 256 << 10, SENTENCE = 400, PAGE = 4096 };

struct header {
    char magic[8];
    uint32_t version, writers;
    uint64_t step, piece_bytes, pieces, file_bytes;
    uint32_t arrays, table_crc32c;
    struct {
        char name[CHECKPOINT_NAME];
        uint64_t element_bytes, elements, offset;
    } array[CHECKPOINT_ARRAYS];
};

static const char magic[8] = "WEFTCKP", name_of_new[] = ".new";
enum { VERSION = 1, TABLE = (sizeof(struct header) + PAGE - 1) / PAGE * PAGE };

/* A piece of an array, which one PE writes or reads by one transfer. */
struct piece {
    int array;
    uint64_t first, count; /* elements of the whole job's array */
    uint64_t number;       /* index among all pieces of the file */
};

/* State of writing or reading a checkpoint at one PE. */
struct work {
    weft_job *job;
    int me, n;
    const struct checkpoint_array *arrays;
    struct header header;
    weft_file *file;
    char sentence[SENTENCE]; /* "" while nothing has failed */
};

static char error[SENTENCE + 16];
static enum checkpoint_moment death;

const char *checkpoint_error(void)
{
    return error;
}

void checkpoint_die_at(enum checkpoint_moment moment)
{
    death = moment;
}

static void kill_at_moment(const struct work *work, enum checkpoint_moment moment)
{
    if (work->me == 0 && death == moment)
        kill(getpid(), SIGKILL);
}

/* Stores the first error of this PE; returns false. */
static bool set_error(struct work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool set_error(struct work *work, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!work->sentence[0])
        vsnprintf(work->sentence, sizeof work->sentence, format, args);
    va_end(args);
    return false;
}

static bool check_call(struct work *work, weft_status status)
{
    return !status || set_error(work, "%s", weft_last_error());
}

/* Returns the minimum of all PEs' values at every PE; -1 if the job fails. */
static int minimum_of_all(struct work *work, int value)
{
    void *memory;
    int32_t *shared, result = -1;
    weft_status status =
        weft_alloc(work->job, WEFT_HOST, 2 * sizeof *shared, 0, WEFT_ALLOC_ZERO, &memory);
    if (!status) {
        shared = memory;
        shared[0] = value;
        status = weft_allreduce(weft_team_world(work->job), &shared[1], &shared[0], 1, WEFT_INT32,
                                WEFT_MIN);
        result = status ? -1 : shared[1];
    }
    if (!status)
        status = weft_free(work->job, memory);
    if (status)
        snprintf(error, sizeof error, "PE %d: %s", work->me, weft_last_error());
    return status ? -1 : result;
}

/* Returns true if no PE has failed. Otherwise `error` becomes the message of the lowest PE that
 * failed. */
static bool all_succeeded(struct work *work)
{
    int from = minimum_of_all(work, work->sentence[0] ? work->me : work->n);
    void *memory;
    if (from == work->n || from < 0)
        return from >= 0;
    if (weft_alloc(work->job, WEFT_HOST, SENTENCE, 0, 0, &memory))
        return false;
    if (work->me == from) /* at other PEs it may have arrived already */
        memcpy(memory, work->sentence, SENTENCE);
    weft_status status = weft_broadcast(weft_team_world(work->job), memory, memory, SENTENCE, from);
    snprintf(error, sizeof error, "PE %d: %s", from,
             status ? weft_last_error() : (const char *)memory);
    weft_free(work->job, memory);
    return false;
}

/* --------------------------------------------------------------------- distribution of elements */

void checkpoint_range(const struct checkpoint_array *array, int pe, int n, uint64_t *first,
                      uint64_t *count)
{
    uint64_t each = array->elements / (uint64_t)n, more = array->elements % (uint64_t)n;
    uint64_t p = (uint64_t)pe;
    *first = p * each + p * more / (uint64_t)n;
    *count = (p + 1) * each + (p + 1) * more / (uint64_t)n - *first;
}

uint64_t checkpoint_most(const struct checkpoint_array *array, int n)
{
    return array->elements / (uint64_t)n + (array->elements % (uint64_t)n != 0);
}

static uint64_t elements_of_piece(uint64_t element_bytes)
{
    return element_bytes < PIECE ? PIECE / element_bytes : 1;
}

/* Calls `each` for every piece of a file with that many writers, in order; only for one writer
 * unless `writer` is -1. */
static bool for_pieces(struct work *work, int writers, int writer,
                       bool (*each)(struct work *work, const struct piece *piece, void *with),
                       void *with)
{
    struct piece piece = {0};
    for (int pe = 0; pe < writers; pe++)
        for (piece.array = 0; piece.array < (int)work->header.arrays; piece.array++) {
            const struct checkpoint_array *array = &work->arrays[piece.array];
            uint64_t at, left, most = elements_of_piece(array->element_bytes);
            for (checkpoint_range(array, pe, writers, &at, &left); left; piece.number++) {
                piece.first = at;
                piece.count = left < most ? left : most;
                if ((writer < 0 || writer == pe) && !each(work, &piece, with))
                    return false;
                at += piece.count;
                left -= piece.count;
            }
        }
    return true;
}

static bool count_piece(struct work *work, const struct piece *piece, void *with)
{
    ++*(uint64_t *)with;
    return true;
}

static uint64_t pieces_of(struct work *work, int writers, int writer)
{
    uint64_t pieces = 0;
    for_pieces(work, writers, writer, count_piece, &pieces);
    return pieces;
}

static uint64_t bytes_of(const struct work *work, const struct piece *piece)
{
    return piece->count * work->arrays[piece->array].element_bytes;
}

static uint64_t offset_of(const struct work *work, const struct piece *piece)
{
    return work->header.array[piece->array].offset +
           piece->first * work->arrays[piece->array].element_bytes;
}

/* Returns the address of element `index` of an array; this PE owns the element. */
static char *element_address(const struct work *work, int number, uint64_t index)
{
    const struct checkpoint_array *array = &work->arrays[number];
    uint64_t first, count;
    checkpoint_range(array, work->me, work->n, &first, &count);
    return (char *)array->memory + (index - first) * array->element_bytes;
}

/* Creates the header of a file with that many writers. It determines where everything is. */
static void make_header(struct work *work, int count, uint64_t step)
{
    struct header *h = &work->header;
    *h = (struct header){.version = VERSION,
                         .writers = (uint32_t)work->n,
                         .step = step,
                         .piece_bytes = PIECE,
                         .arrays = (uint32_t)count};
    memcpy(h->magic, magic, sizeof magic);
    h->pieces = pieces_of(work, work->n, -1);
    uint64_t at = TABLE + (h->pieces * sizeof(uint32_t) + PAGE - 1) / PAGE * PAGE;
    for (int i = 0; i < count; i++) {
        const struct checkpoint_array *array = &work->arrays[i];
        memcpy(h->array[i].name, array->name, CHECKPOINT_NAME);
        h->array[i].element_bytes = array->element_bytes;
        h->array[i].elements = array->elements;
        h->array[i].offset = at;
        at += (array->elements * array->element_bytes + PAGE - 1) / PAGE * PAGE;
    }
    h->file_bytes = at;
}

/* CRC-32C, bit by bit, for the header and the table only, which are small. The library's transfers
 * compute it for all other data. */
static uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t crc_of_head(const struct header *header, const uint32_t *table)
{
    struct header plain = *header;
    plain.table_crc32c = 0;
    return crc32c(crc32c(0, &plain, sizeof plain), table, header->pieces * sizeof *table);
}

/* ------------------------------------------------------------------------------- writing */

struct writing {
    uint64_t done;             /* pieces started */
    weft_file_result *results; /* results of this PE's pieces */
    uint32_t *table;           /* symmetric: the checksums of all pieces, gathered at PE 0 */
    uint64_t first;            /* index of this PE's first piece */
};

static bool begin_piece(struct work *work, const struct piece *piece, void *with)
{
    struct writing *w = with;
    if (w->done == 1)
        kill_at_moment(work, CHECKPOINT_BEGUN);
    if (!w->done)
        w->first = piece->number;
    return check_call(work, weft_file_write_nbi(work->file,
                                                element_address(work, piece->array, piece->first),
                                                bytes_of(work, piece), offset_of(work, piece),
                                                work->me, &w->results[w->done++]));
}

/* Writes this PE's pieces and puts their checksums to PE 0. */
static bool write_pieces(struct work *work, struct writing *w)
{
    bool begun = for_pieces(work, work->n, work->me, begin_piece, w);
    bool written = check_call(work, weft_file_quiet(work->file));
    if (!begun || !written)
        return false;
    for (uint64_t i = 0; i < w->done; i++)
        w->table[w->first + i] = w->results[i].crc32c;
    if (!w->done || work->me == 0)
        return true;
    weft_ctx *ctx = weft_default_ctx(work->job);
    uint32_t *mine = w->table + w->first;
    return check_call(work, weft_put(ctx, mine, mine, w->done * sizeof *mine, 0)) &&
           check_call(work, weft_quiet(ctx));
}

static bool open_new(struct work *work, const char *name)
{
    unsigned flags = WEFT_FILE_WRITE | WEFT_FILE_CHECKSUM;
    if (work->me == 0)
        flags |= WEFT_FILE_CREATE | WEFT_FILE_TRUNCATE;
    if (!check_call(work, weft_file_open(work->job, name, flags, NULL, &work->file)))
        return false;
    kill_at_moment(work, CHECKPOINT_OPENED);
    return work->me != 0 || check_call(work, weft_file_resize(work->file, work->header.file_bytes));
}

/* PE 0 writes the header and the checksums, which make the pieces a checkpoint. */
static bool write_head(struct work *work, const struct writing *w)
{
    struct header *h = &work->header;
    h->table_crc32c = crc_of_head(h, w->table);
    return check_call(work, weft_file_write(work->file, h, sizeof *h, 0, work->me, NULL)) &&
           (!h->pieces ||
            check_call(work, weft_file_write(work->file, w->table, h->pieces * sizeof *w->table,
                                             TABLE, work->me, NULL)));
}

/* Syncs the folder, because the name is stored there. */
static bool sync_folder(struct work *work, const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A file system that cannot sync folders returns EINVAL. */
    bool safe = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (!safe)
        set_error(work, "%s: %s", folder, strerror(errno));
    if (fd >= 0)
        close(fd);
    return safe;
}

static bool rename_file(struct work *work, const char *name, const char *path)
{
    if (rename(name, path))
        return set_error(work, "%s cannot be renamed to %s: %s", name, path, strerror(errno));
    kill_at_moment(work, CHECKPOINT_RENAMED);
    return sync_folder(work, path);
}

/* After each step all PEs exchange their status, so that no PE continues alone. */
static bool write_all(struct work *work, struct writing *w, const char *name, const char *path)
{
    if (work->me == 0)
        open_new(work, name);
    if (!all_succeeded(work))
        return false;
    if (work->me != 0)
        open_new(work, name);
    if (!all_succeeded(work))
        return false;
    if (write_pieces(work, w)) {
        kill_at_moment(work, CHECKPOINT_WRITTEN);
        if (work->me != 0)
            check_call(work, weft_file_sync(work->file));
    }
    if (!all_succeeded(work)) /* also a barrier: the checksums are at PE 0 */
        return false;
    if (work->me == 0 && write_head(work, w)) {
        kill_at_moment(work, CHECKPOINT_HEADED);
        if (check_call(work, weft_file_sync(work->file))) {
            kill_at_moment(work, CHECKPOINT_SAFE);
            rename_file(work, name, path);
        }
    }
    return all_succeeded(work);
}

static weft_status allocate(struct work *work, struct writing *w)
{
    void *table = NULL;
    uint64_t own = pieces_of(work, work->n, work->me);
    weft_status status = weft_alloc(work->job, WEFT_HOST,
                                    (work->header.pieces + 1) * sizeof *w->table, 0, 0, &table);
    w->table = table;
    w->results = calloc(own + 1, sizeof *w->results);
    if (!status && !w->results)
        set_error(work, "no private memory for %llu pieces", (unsigned long long)own);
    return status;
}

weft_status checkpoint_write(weft_job *job, const char *path, uint64_t step,
                             const struct checkpoint_array *arrays, int count)
{
    struct work work = {.job = job, .me = weft_my_pe(job), .n = weft_n_pes(job), .arrays = arrays};
    struct writing w = {0};
    char name[4096];
    if (count > CHECKPOINT_ARRAYS ||
        snprintf(name, sizeof name, "%s%s", path, name_of_new) >= (int)sizeof name)
        return WEFT_ERR_ARGUMENT;
    make_header(&work, count, step);
    weft_status status = weft_barrier(weft_team_world(job)); /* completes puts to the arrays */
    if (!status)
        status = allocate(&work, &w);
    if (status) {
        snprintf(error, sizeof error, "PE %d: %s", work.me, weft_last_error());
        free(w.results);
        return status;
    }
    bool written = all_succeeded(&work) && write_all(&work, &w, name, path);
    weft_file_close(work.file);
    if (!written && work.me == 0)
        unlink(name);
    free(w.results);
    weft_free(job, w.table);
    return written ? WEFT_OK : WEFT_ERR_SYSTEM;
}

/* ------------------------------------------------------------------------------- reading */

struct reading {
    uint32_t *table;
    weft_file_result *results; /* results of the pieces that one PE holds completely */
    struct piece *pieces;      /* those pieces */
    uint64_t begun;
    char *cut; /* buffer for a piece that several PEs share */
};

static bool is_damaged(struct work *work, const struct piece *piece, uint32_t seen,
                       uint32_t expected)
{
    return set_error(
        work,
        "elements %llu to %llu of array %s are damaged (checksum %08x instead of %08x); "
        "use an older checkpoint",
        (unsigned long long)piece->first, (unsigned long long)(piece->first + piece->count - 1),
        work->arrays[piece->array].name, seen, expected);
}

/* Reports whether this PE holds all of a piece, and whether it holds any of it. */
static bool is_whole(const struct work *work, const struct piece *piece, bool *any)
{
    uint64_t first, count, end = piece->first + piece->count;
    checkpoint_range(&work->arrays[piece->array], work->me, work->n, &first, &count);
    *any = piece->first < first + count && end > first;
    return piece->first >= first && end <= first + count;
}

/* Reads a piece that several PEs share: all of it, because the checksum covers all of it, and
 * copies the own part. */
static bool read_cut(struct work *work, const struct piece *piece, uint64_t first, uint64_t last,
                     struct reading *r)
{
    uint64_t element = work->arrays[piece->array].element_bytes;
    weft_file_result result = {0};
    if (!check_call(work, weft_file_read(work->file, r->cut, bytes_of(work, piece),
                                         offset_of(work, piece), work->me, &result)))
        return false;
    if (result.crc32c != r->table[piece->number])
        return is_damaged(work, piece, result.crc32c, r->table[piece->number]);
    weft_ctx *ctx = weft_default_ctx(work->job);
    return check_call(work, weft_put(ctx, element_address(work, piece->array, first),
                                     r->cut + (first - piece->first) * element,
                                     (last - first) * element, work->me)) &&
           check_call(work, weft_quiet(ctx));
}

static bool read_piece(struct work *work, const struct piece *piece, void *with)
{
    struct reading *r = with;
    uint64_t first, count, end = piece->first + piece->count;
    bool any, whole = is_whole(work, piece, &any);
    if (!any)
        return true;
    checkpoint_range(&work->arrays[piece->array], work->me, work->n, &first, &count);
    if (!whole)
        return read_cut(work, piece, piece->first < first ? first : piece->first,
                        end < first + count ? end : first + count, r);
    r->pieces[r->begun] = *piece;
    return check_call(work, weft_file_read_nbi(work->file,
                                               element_address(work, piece->array, piece->first),
                                               bytes_of(work, piece), offset_of(work, piece),
                                               work->me, &r->results[r->begun++]));
}

static bool read_pieces(struct work *work, struct reading *r)
{
    bool begun = for_pieces(work, (int)work->header.writers, -1, read_piece, r);
    bool read = check_call(work, weft_file_quiet(work->file));
    for (uint64_t i = 0; begun && read && i < r->begun; i++)
        if (r->results[i].crc32c != r->table[r->pieces[i].number])
            return is_damaged(work, &r->pieces[i], r->results[i].crc32c,
                              r->table[r->pieces[i].number]);
    return begun && read;
}

/* Checks that the file holds the expected arrays. */
static bool check_arrays(struct work *work, const struct header *h, const char *path, int count)
{
    if (h->arrays != (uint32_t)count)
        return set_error(work,
                         "%s holds %u arrays, the program has %d: it belongs to another program",
                         path, h->arrays, count);
    for (int i = 0; i < count; i++) {
        const struct checkpoint_array *array = &work->arrays[i];
        if (memcmp(h->array[i].name, array->name, CHECKPOINT_NAME) != 0 ||
            h->array[i].element_bytes != array->element_bytes ||
            h->array[i].elements != array->elements)
            return set_error(
                work,
                "%s holds array %.31s of %llu elements of %llu bytes, the program has %s "
                "of %llu of %llu: start it with the options of the job that wrote it",
                path, h->array[i].name, (unsigned long long)h->array[i].elements,
                (unsigned long long)h->array[i].element_bytes, array->name,
                (unsigned long long)array->elements, (unsigned long long)array->element_bytes);
    }
    return true;
}

/* Reads the header and validates it. */
static bool read_header(struct work *work, const char *path, int count)
{
    struct header found = {0};
    uint64_t bytes = 0;
    if (!check_call(work, weft_file_size(work->file, &bytes)))
        return false;
    if (bytes < sizeof found)
        return set_error(work, "%s has %llu bytes: it is not a checkpoint", path,
                         (unsigned long long)bytes);
    if (!check_call(work, weft_file_read(work->file, &found, sizeof found, 0, work->me, NULL)))
        return false;
    if (memcmp(found.magic, magic, sizeof magic) != 0)
        return set_error(work, "%s is not a checkpoint", path);
    if (found.version != VERSION || found.piece_bytes != PIECE)
        return set_error(work, "%s is a checkpoint of version %u; this program reads version %d",
                         path, found.version, VERSION);
    if (!check_arrays(work, &found, path, count))
        return false;
    int n = work->n;
    work->n = (int)found.writers; /* the number of writers determines the positions */
    if (found.writers > 0 && found.writers < 1u << 20)
        make_header(work, count, found.step);
    work->n = n;
    work->header.table_crc32c = found.table_crc32c;
    if (memcmp(&work->header, &found, sizeof found) != 0)
        return set_error(work, "the header of %s is damaged; use an older checkpoint", path);
    if (bytes < found.file_bytes)
        return set_error(work,
                         "%s has %llu of its %llu bytes: it is truncated; use an older "
                         "checkpoint",
                         path, (unsigned long long)bytes, (unsigned long long)found.file_bytes);
    return true;
}

static bool count_whole(struct work *work, const struct piece *piece, void *with)
{
    bool any;
    *(uint64_t *)with += is_whole(work, piece, &any);
    return true;
}

static bool read_table(struct work *work, const char *path, struct reading *r)
{
    uint64_t pieces = work->header.pieces, own = 0, longest = PIECE;
    for (int i = 0; i < (int)work->header.arrays; i++)
        if (longest < work->arrays[i].element_bytes)
            longest = work->arrays[i].element_bytes;
    for_pieces(work, (int)work->header.writers, -1, count_whole, &own);
    r->table = calloc(pieces + 1, sizeof *r->table);
    r->results = calloc(own + 1, sizeof *r->results);
    r->pieces = calloc(own + 1, sizeof *r->pieces);
    r->cut = malloc(longest);
    if (!r->table || !r->results || !r->pieces || !r->cut)
        return set_error(work, "no private memory for %llu pieces", (unsigned long long)pieces);
    if (pieces && !check_call(work, weft_file_read(work->file, r->table, pieces * sizeof *r->table,
                                                   TABLE, work->me, NULL)))
        return false;
    return crc_of_head(&work->header, r->table) == work->header.table_crc32c ||
           set_error(work, "the checksums of %s are damaged; use an older checkpoint", path);
}

weft_status checkpoint_read(weft_job *job, const char *path, uint64_t *step,
                            const struct checkpoint_array *arrays, int count, int *found)
{
    struct work work = {.job = job, .me = weft_my_pe(job), .n = weft_n_pes(job), .arrays = arrays};
    struct reading r = {0};
    bool absent = access(path, F_OK) != 0 && errno == ENOENT;
    int somewhere = minimum_of_all(&work, absent ? 1 : 0);
    *found = somewhere == 0;
    if (somewhere)
        return somewhere < 0 ? WEFT_ERR_SYSTEM : WEFT_OK;
    if (check_call(&work, weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_CHECKSUM, NULL,
                                         &work.file)) &&
        read_header(&work, path, count) && read_table(&work, path, &r))
        read_pieces(&work, &r);
    bool all = all_succeeded(&work);
    weft_file_close(work.file);
    free(r.table);
    free(r.results);
    free(r.pieces);
    free(r.cut);
    if (all)
        *step = work.header.step;
    return all ? WEFT_OK : WEFT_ERR_SYSTEM;
}
