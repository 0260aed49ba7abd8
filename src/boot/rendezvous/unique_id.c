/* SPDX-License-Identifier: Apache-2.0 */
/* A unique id: the addresses at which PE 0 of a job will listen, and the secret that its PEs prove
 * to each other, in 128 bytes that the program passes to them. Knows nothing of how it does so. */
#include "boot/rendezvous/unique_id.h"

#include "base/status.h"
#include "boot/rendezvous/listen.h"
#include "driver/crypto.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    ID_MAGIC = 0x32495657,
    SECRET_BYTES = 16,
    ADDRESS_ROOM = UNIQUE_ID_BYTES - 8 - SECRET_BYTES
};

struct id {
    uint32_t magic;
    uint16_t port;
    uint8_t addresses;
    uint8_t keyed; /* 0: no library can check a secret; the PEs can only connect on one machine */
    uint8_t secret[SECRET_BYTES];
    uint8_t room[ADDRESS_ROOM]; /* per address: its size in bytes (4 or 16), then the address */
};

_Static_assert(sizeof(struct id) == UNIQUE_ID_BYTES && sizeof(struct id) <= sizeof(weft_unique_id),
               "an id fits in");

static void pack_addresses(struct id *id, const struct rendezvous_address *addresses, int count)
{
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        bool v4 = addresses[i].address.ss_family == AF_INET;
        size_t bytes = v4 ? 4 : 16;
        if (used + 1 + bytes > sizeof id->room)
            continue;
        id->room[used++] = (uint8_t)bytes;
        memcpy(id->room + used,
               v4 ? (const void *)&((const struct sockaddr_in *)&addresses[i].address)->sin_addr
                  : (const void *)&((const struct sockaddr_in6 *)&addresses[i].address)->sin6_addr,
               bytes);
        used += bytes;
        id->addresses++;
    }
}

weft_status unique_id_make(weft_unique_id *result)
{
    enum { MOST = 24 };
    struct rendezvous_address addresses[MOST];
    struct id id = {.magic = ID_MAGIC};
    const struct crypto_driver *crypto;
    int port = 0, fd = listen_everywhere(&port); /* free until PE 0 listens there */
    if (fd < 0)
        return base_fail(WEFT_ERR_SYSTEM, "no free port for a unique id, or no socket: %s",
                         strerror(errno));
    close(fd);
    id.port = (uint16_t)port;
    id.keyed = crypto_load(&crypto) == WEFT_OK;
    if (getrandom(id.secret, sizeof id.secret, 0) != (ssize_t)sizeof id.secret)
        return base_fail(WEFT_ERR_SYSTEM, "getrandom: %s", strerror(errno));
    pack_addresses(&id, addresses, listen_addresses(addresses, MOST, port));
    *result = (weft_unique_id){{0}};
    memcpy(result, &id, sizeof id);
    return WEFT_OK;
}

bool unique_id_good(const weft_unique_id *bytes)
{
    struct id id;
    memcpy(&id, bytes, sizeof id);
    size_t used = 0;
    for (int i = 0; i < id.addresses; i++) {
        if (used >= sizeof id.room || (id.room[used] != 4 && id.room[used] != 16))
            return false;
        used += 1 + (size_t)id.room[used];
    }
    return id.magic == ID_MAGIC && id.port && used <= sizeof id.room;
}

int unique_id_read(const weft_unique_id *bytes, struct rendezvous_address *addresses, int most,
                   uint8_t secret[UNIQUE_ID_SECRET_BYTES], bool *keyed)
{
    struct id id;
    memcpy(&id, bytes, sizeof id);
    memcpy(secret, id.secret, sizeof id.secret);
    *keyed = id.keyed;
    int count = 0;
    for (size_t used = 0; count < id.addresses && count < most; used += 1 + (size_t)id.room[used]) {
        struct rendezvous_address *at = &addresses[count++];
        struct sockaddr_in *v4 = (struct sockaddr_in *)&at->address;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at->address;
        memset(at, 0, sizeof *at);
        if (id.room[used] == 4) {
            *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(id.port)};
            memcpy(&v4->sin_addr, id.room + used + 1, 4);
            at->bytes = sizeof *v4;
        } else {
            *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(id.port)};
            memcpy(&v6->sin6_addr, id.room + used + 1, 16);
            at->bytes = sizeof *v6;
        }
    }
    return count;
}

int unique_id_port(const weft_unique_id *bytes)
{
    struct id id;
    memcpy(&id, bytes, sizeof id);
    return id.port;
}
