/* SPDX-License-Identifier: Apache-2.0 */
/* The device state reaches every translation unit of a program, a library loaded while the job
 * runs, and all of them again in a second job; without a job it is empty. weft_device_start()
 * refuses PEs that are threads, with a message. */
#include "units.h"

WEFT_KERNEL(tell, (struct told *, told), (int, next))
{
    told->me = weft_dev_my_pe();
    told->n_pes = weft_dev_n_pes();
    weft_thread_p64(&told->reached, 1000 + (uint64_t)weft_dev_my_pe(), next);
}

#if WEFT_HOST_CODE

#include <dlfcn.h>
#include <pthread.h>

static weft_status this_unit(struct told *told, int next)
{
    return WEFT_LAUNCH(tell, 1, 1, 0, NULL, told, next);
}

static void check_unit(weft_status (*unit)(struct told *, int), struct told *told, uint64_t base)
{
    struct told seen;
    int last = (me + n_pes - 1) % n_pes;
    barrier();
    OK(unit(told, (me + 1) % n_pes));
    OK(weft_stream_synchronize(NULL));
    barrier();
    fetch(&seen, told, sizeof seen);
    CHECK(seen.me == me && seen.n_pes == n_pes);
    CHECK(seen.reached == base + (uint64_t)last);
}

static void *as_thread(void *argument)
{
    weft_init_attr attr = {.size = sizeof attr, .group = argument};
    static _Atomic int next;
    weft_job *mine;
    attr.group_pe = next++;
    OK(weft_init(&mine, &attr));
    FAILS(weft_device_start(mine), WEFT_ERR_UNSUPPORTED, "threads of one process");
    OK(weft_finalize(mine));
    return NULL;
}

static void threads_are_refused(void)
{
    pthread_t threads[2];
    weft_group *group;
    OK(weft_group_create(2, &group));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, as_thread, group) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    weft_group_destroy(group);
}

int main(int argc, char **argv)
{
    weft_status (*loaded)(struct told *, int) = NULL;
    CHECK(argc == 2);
    for (int round = 0; round < 3; round++) {
        device_begin();
        struct told *told = symmetric(sizeof *told);
        check_unit(this_unit, told, 1000);
        check_unit(other_unit, told, 2000);
        if (!loaded) {
            void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
            if (!library)
                fprintf(stderr, "%s\n", dlerror());
            CHECK(library);
            *(void **)&loaded = dlsym(library, "loaded_unit");
            CHECK(loaded);
        }
        check_unit(loaded, told, 3000);
        device_end();
        /* Without a job the state is empty, so operations have no effect. */
        struct told outside = {9, 9, 9};
        if (weft_target_get() == WEFT_SIMT) {
            LAUNCH(tell, 1, 1, 0, NULL, &outside, 0);
            CHECK(outside.me == 0 && outside.n_pes == 0 && outside.reached == 9);
        }
    }
    threads_are_refused();
    return 0;
}
#endif
