/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up where the system refuses memfd, descriptors or address space. Each case must return a
 * status whose message names the call and the errno, leave nothing open, and let a second attempt
 * succeed once the limit is gone. Linux only: a seccomp filter that a child process installs on
 * itself refuses memfd_create. */
#include "../job/job.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void deny_memfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void memfd_is_denied(void)
{
    weft_job *job;
    deny_memfd();
    int before = open_descriptors();
    FAILS(weft_init(&job, NULL), WEFT_ERR_SYSTEM, "memfd_create");
    CHECK(strstr(weft_last_error(), "Operation not permitted"));
    CHECK(open_descriptors() == before && job == NULL);
}

static void limit(int resource, rlim_t value)
{
    struct rlimit limits;
    CHECK(getrlimit(resource, &limits) == 0);
    limits.rlim_cur = value;
    CHECK(setrlimit(resource, &limits) == 0);
}

static void descriptors_are_exhausted(void)
{
    weft_job *job;
    int before = open_descriptors();
    limit(RLIMIT_NOFILE, 3);
    weft_status status = weft_init(&job, NULL);
    CHECK(status < 0 && job == NULL);
    CHECK(strstr(weft_last_error(), "Too many open files"));
    limit(RLIMIT_NOFILE, 256);
    CHECK(open_descriptors() == before);
    OK(weft_init(&job, NULL));
    OK(weft_finalize(job));
    CHECK(open_descriptors() == before);
}

static void address_space_is_short(void)
{
    weft_job *job;
    limit(RLIMIT_AS, (rlim_t)1 << 30); /* the heap of this test needs more */
    FAILS(weft_init(&job, NULL), WEFT_ERR_NO_MEMORY, "WEFT_HEAP_SIZE");
    limit(RLIMIT_AS, RLIM_INFINITY);
    OK(weft_init(&job, NULL));
    OK(weft_finalize(job));
}

/* The kernel also sends SIGXFSZ; its default action would end the process inside weft_init(). */
static void file_sizes_are_limited(void)
{
    weft_job *job;
    int before = open_descriptors();
    limit(RLIMIT_FSIZE, 1 << 20);
    FAILS(weft_init(&job, NULL), WEFT_ERR_SYSTEM, "raise the limit of file sizes, ulimit -f");
    CHECK(open_descriptors() == before);
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    OK(weft_init(&job, NULL));
    OK(weft_finalize(job));
}

static void heap_is_absurd(void)
{
    weft_job *job;
    weft_init_attr attr = {.size = sizeof attr, .heap_bytes = SIZE_MAX - 4096};
    weft_status status = weft_init(&job, &attr);
    CHECK(status == WEFT_ERR_NO_MEMORY || status == WEFT_ERR_SYSTEM);
    CHECK(strlen(weft_last_error()) > 0);
}

static void in_child(void (*test)(void), const char *name)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        test();
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status) {
        fprintf(stderr, "%s failed\n", name);
        exit(1);
    }
}

int main(void)
{
    setenv("WEFT_HEAP_SIZE", "2G", 1);
    in_child(memfd_is_denied, "memfd_is_denied");
    in_child(descriptors_are_exhausted, "descriptors_are_exhausted");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    in_child(address_space_is_short, "address_space_is_short");
#endif
    in_child(file_sizes_are_limited, "file_sizes_are_limited");
    in_child(heap_is_absurd, "heap_is_absurd");
    return 0;
}
