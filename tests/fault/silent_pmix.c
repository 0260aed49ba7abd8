/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher whose PMIx server accepts connections and never answers. PMIx_Init has no time limit
 * of its own; WEFT_BOOT_LIMIT must end it. `silent_pmix PROGRAM ARGUMENT...` starts PROGRAM as the
 * only PE of such a launcher and returns its status. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int listen_silently(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
        exit(2);
    *port = ntohs(at.sin_port);
    return fd;
}

static void say_where(int port)
{
    /* One name for each version of the protocol. */
    static const char *const names[] = {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI4", "PMIX_SERVER_URI41"};
    char uri[64];
    snprintf(uri, sizeof uri, "4242.0;tcp4://127.0.0.1:%d", port);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        setenv(names[i], uri, 1);
    setenv("PMIX_NAMESPACE", "4243", 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    setenv("PMIX_GDS_MODULE", "hash", 1);
    setenv("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", 1);
    setenv("PMIX_HOSTNAME", "silent", 1);
}

int main(int argc, char **argv)
{
    int port, status = 0, fd = listen_silently(&port);
    if (argc < 2)
        return 2;
    pid_t pe = fork();
    if (pe == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        say_where(port);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (pe < 0 || waitpid(pe, &status, 0) != pe)
        return 2;
    close(fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
