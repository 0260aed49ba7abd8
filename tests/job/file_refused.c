/* SPDX-License-Identifier: Apache-2.0 */
/* Where a seccomp filter refuses io_uring, as container runtimes do, threads transfer files, and
 * the file's info says why. Where the environment requires io_uring, opening fails with a
 * message. */
#include "tests/job/file.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* io_uring_setup fails with EPERM; all other calls are unchanged. */
static void refuse_uring(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        fprintf(stderr, "skipped: no seccomp filter here: %s\n", strerror(errno));
        exit(77);
    }
}

int main(int argc, char **argv)
{
    weft_job *job;
    weft_file *file;
    static char data[100001], back[100001];
    const char *path = test_path("refused", 0);
    unsigned flags = WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE;
    refuse_uring();
    OK(weft_init(&job, NULL));
    if (argc > 1 && strcmp(argv[1], "insists") == 0) {
        FAILS(weft_file_open(job, path, flags, NULL, &file), WEFT_ERR_UNSUPPORTED,
              "io_uring_setup: Operation not permitted; sysctl kernel.io_uring_disabled=0");
        CHECK(access(path, F_OK) != 0); /* no file was created */
    } else {
        weft_file_info info = {.size = sizeof info};
        OK(weft_file_open(job, path, flags, NULL, &file));
        OK(weft_file_query(file, &info));
        CHECK(strncmp(info.backend, "threads ", 8) == 0);
        CHECK(strstr(info.reason, "through threads: io_uring_setup: Operation not permitted"));
        bool direct = strcmp(info.backend, "threads direct") == 0;
        CHECK(strcmp(info.reason_code, direct ? "FILE-NO-URING" : "FILE-BUFFERED") == 0);
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (char)(i * 3 + (i >> 8));
        OK(weft_file_write(file, data, sizeof data, 99, 0, NULL));
        OK(weft_file_read_nbi(file, back, sizeof data, 99, 0, NULL));
        OK(weft_file_quiet(file));
        CHECK(memcmp(data, back, sizeof data) == 0);
        OK(weft_file_close(file));
        CHECK(unlink(path) == 0);
    }
    OK(weft_finalize(job));
    return 0;
}
