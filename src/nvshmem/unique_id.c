/* SPDX-License-Identifier: Apache-2.0 */
/* A unique id names a host, a port that was free there, and, where a library for HMAC is found, a
 * secret that the PEs prove to each other. They meet the same way as torchrun's: the id becomes
 * RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, WEFT_BOOT_PORT and WEFT_SECRET of this process. */
#include "nvshmem/unique_id.h"

#include "base/config.h"
#include "base/status.h"
#include "driver/crypto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ID_MAGIC = 0x44495657, HOST_BYTES = 64, SECRET_BYTES = 33 };

struct unique_id {
    uint32_t magic;
    uint16_t port;
    uint16_t reserved;
    char host[HOST_BYTES];
    char secret[SECRET_BYTES]; /* hexadecimal; "" = none */
};

_Static_assert(sizeof(struct unique_id) <= WEFT_NVSHMEM_ID_BYTES, "an id fits in");

/* The kernel's choice; free until PE 0 listens there, unless another program is quicker. */
static weft_status free_port(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return base_fail(WEFT_ERR_SYSTEM, "socket: %s", strerror(errno));
    int failed = bind(fd, (struct sockaddr *)&address, sizeof address) ||
                 getsockname(fd, (struct sockaddr *)&address, &length);
    int error = errno;
    close(fd);
    *port = ntohs(address.sin_port);
    return failed ? base_fail(WEFT_ERR_SYSTEM, "no free port for a unique id: %s", strerror(error))
                  : WEFT_OK;
}

static weft_status make_secret(char secret[SECRET_BYTES])
{
    unsigned char random[SECRET_BYTES / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return base_fail(WEFT_ERR_SYSTEM, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
    return WEFT_OK;
}

WEFT_EXPORT int weft_nvshmem_unique_id(unsigned char bytes[WEFT_NVSHMEM_ID_BYTES])
{
    struct unique_id id = {.magic = ID_MAGIC};
    const struct crypto_driver *crypto;
    weft_status status = free_port(&id.port);
    /* Without a library that can check a secret the PEs meet on this machine alone, where the kernel
     * says who is who. */
    if (!status && crypto_load(&crypto) == WEFT_OK)
        status = make_secret(id.secret);
    if (!status && gethostname(id.host, sizeof id.host - 1))
        status = base_fail(WEFT_ERR_SYSTEM, "gethostname: %s", strerror(errno));
    if (status)
        return weft_nvshmem_report(status, "nvshmemx_get_uniqueid");
    memset(bytes, 0, WEFT_NVSHMEM_ID_BYTES);
    memcpy(bytes, &id, sizeof id);
    return 0;
}

static weft_status set(const char *name, const char *value)
{
    return setenv(name, value, 1)
               ? base_fail(WEFT_ERR_NO_MEMORY, "setenv %s: %s", name, strerror(errno))
               : WEFT_OK;
}

static weft_status set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return set(name, text);
}

weft_status unique_id_use(const unsigned char *bytes, int pe, int n_pes)
{
    struct unique_id id;
    memcpy(&id, bytes, sizeof id);
    if (id.magic != ID_MAGIC || !memchr(id.host, 0, sizeof id.host) ||
        !memchr(id.secret, 0, sizeof id.secret))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "the unique id was not made by nvshmemx_get_uniqueid(), or was not passed "
                         "on whole");
    if (n_pes < 1 || pe < 0 || pe >= n_pes)
        return base_fail(WEFT_ERR_ARGUMENT, "PE %d of a job of %d PEs", pe, n_pes);
    weft_status status = set_number("RANK", pe);
    if (!status)
        status = set_number("WORLD_SIZE", n_pes);
    if (!status)
        status = set("MASTER_ADDR", id.host);
    if (!status)
        status = set_number("MASTER_PORT", id.port);
    if (!status)
        status = set_number("WEFT_BOOT_PORT", id.port);
    if (!status)
        status = id.secret[0] ? set("WEFT_SECRET", id.secret) : (unsetenv("WEFT_SECRET"), WEFT_OK);
    if (!status)
        status = set("WEFT_BOOT", n_pes == 1 ? "single" : "tcp");
    config_reset();
    return status;
}
