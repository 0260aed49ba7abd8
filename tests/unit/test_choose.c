/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a path. Each row holds facts and WEFT_PATH, and the expected path with a part of
 * the reason or of the error message. */
#include "base/text.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The peer and what is known about it. */
enum facts {
    OWN,          /* the same PE */
    MAPPED,       /* another PE of the node, whose memory is mapped here */
    NOT_MAPPED,   /* ... whose memory is not mapped, for an unknown reason */
    REFUSED,      /* ... whose memory is not mapped, for a known reason */
    FAR,          /* a PE on another kernel */
    FAR_MAPPED,   /* on another kernel, but reported as mapped */
    FAR_GPU,      /* GPU memory on another kernel */
    FAR_ALONE,    /* on another kernel, which no provider reaches */
    FAR_HCA,      /* on another kernel, and both have an adapter */
    HCA_FAILED,   /* ... over which the path test failed */
    NET_LACKS,    /* mapped, but a PE lacks libfabric */
    NET_FAILED,   /* on another kernel, and the path test of net failed */
    GPU_MAPPED,   /* GPU memory of another PE of the node */
    GPU_REFUSED,  /* ... which this PE cannot access */
    GPU_THIRD,    /* ... which this PE can access only through a relay GPU */
    GPU_EITHER,   /* mapped, and a relay GPU exists */
    THIRD_FAILED, /* ... whose path test failed */
    P2P_FAILED,   /* mapped, but the path test of p2p failed */
    WEAK_FAILED,  /* ... that of weak failed */
    BOTH_FAILED,  /* ... those of both failed */
    SELF_FAILED,  /* this PE's own memory, whose path test failed */
};

static struct path_facts facts_of(enum facts which)
{
    const uint32_t p2p = 1u << PATH_P2P, weak = 1u << PATH_WEAK;
    struct path_facts f = {.kind = WEFT_HOST, .same_node = true, .mapped = true};
    /* the default of the rows */
    f.lacks[PATH_NET] = f.lacks[PATH_GDA] = "not looked for";
    switch (which) {
    case OWN:
        f.same_pe = true;
        break;
    case MAPPED:
        break;
    case NOT_MAPPED:
        f.mapped = false;
        break;
    case REFUSED:
    case GPU_REFUSED:
        f.mapped = false;
        f.evidence = "cuDeviceCanAccessPeer said no";
        f.kind = which == GPU_REFUSED ? WEFT_GPU : WEFT_HOST;
        f.no_relay_gpu = "no relay GPU has NVLink to both";
        break;
    case FAR:
    case FAR_GPU:
    case FAR_ALONE:
    case NET_FAILED:
    case FAR_HCA:
    case HCA_FAILED:
        f.mapped = false;
        f.same_node = false;
        f.kind = which == FAR_GPU ? WEFT_GPU : WEFT_HOST;
        f.has[PATH_NET] = "provider tcp on eth0";
        f.lacks[PATH_NET] = which == FAR_ALONE ? "PE 2: libfabric is not here" : NULL;
        f.failed = which == NET_FAILED ? 1u << PATH_NET : 0;
        if (which == FAR_HCA || which == HCA_FAILED)
            f.lacks[PATH_GDA] = NULL, f.has[PATH_GDA] = "requests to mlx5_0";
        if (which == HCA_FAILED)
            f.failed = 1u << PATH_GDA;
        break;
    case NET_LACKS:
        f.lacks[PATH_NET] = "PE 2: libfabric is not here";
        break;
    case FAR_MAPPED:
        f.same_node = false;
        break;
    case GPU_THIRD:
    case THIRD_FAILED:
        f.mapped = false;
        f.kind = WEFT_GPU;
        f.evidence = "cuDeviceCanAccessPeer said no";
        f.relay_gpu = "over GPU 2";
        f.failed = which == THIRD_FAILED ? 1u << PATH_RELAY : 0;
        break;
    case GPU_EITHER:
        f.kind = WEFT_GPU;
        f.relay_gpu = "over GPU 3";
        break;
    case GPU_MAPPED:
        f.kind = WEFT_GPU;
        break;
    case P2P_FAILED:
        f.failed = p2p;
        break;
    case WEAK_FAILED:
        f.failed = weak;
        break;
    case BOTH_FAILED:
        f.failed = p2p | weak;
        break;
    case SELF_FAILED:
        f.same_pe = true;
        f.failed = 1u << PATH_SELF;
        break;
    }
    return f;
}

enum { NONE = PATH_NONE };

static const struct row {
    enum facts facts;
    const char *wanted; /* WEFT_PATH */
    int path;
    const char *reason;
} rows[] = {
    /* the library's default order */
    {OWN, "", PATH_SELF, "self: the same PE"},
    {MAPPED, "", PATH_P2P, "self: another PE; p2p: the peer's memory is mapped"},
    {NOT_MAPPED, "", PATH_STAGED,
     "p2p: the peer's memory is not mapped here; staged: through host memory that both PEs map"},
    {REFUSED, "", PATH_STAGED,
     "p2p: cuDeviceCanAccessPeer said no; staged: through host memory that both PEs map"},
    {FAR, "", PATH_NET, "p2p: the PEs run on different kernels; "},
    {FAR, "", PATH_NET, "net: provider tcp on eth0"},
    {FAR_GPU, "", PATH_NET, "net: provider tcp on eth0"},
    {FAR_HCA, "", PATH_GDA, "different kernels; gda: requests to mlx5_0"},
    {FAR_HCA, "^gda", PATH_NET, "gda: excluded by WEFT_PATH; net: provider tcp on eth0"},
    {FAR_HCA, "net,gda", PATH_NET, "net: provider tcp on eth0"},
    {FAR_HCA, "p2p,gda", PATH_GDA, "p2p: the PEs run on different kernels; gda: requests"},
    {HCA_FAILED, "", PATH_NET, "gda: its path test failed; net: provider tcp on eth0"},
    {HCA_FAILED, "gda", NONE, "gda: its path test failed"},
    {OWN, "gda", PATH_SELF, "self: the same PE"},
    {FAR_ALONE, "", NONE, "net: PE 2: libfabric is not here"},
    {NET_FAILED, "", NONE, "net: its path test failed"},
    {FAR_MAPPED, "", NONE, "p2p: the PEs run on different kernels"},
    {GPU_MAPPED, "", PATH_P2P, "p2p: the peer's memory is mapped"},
    {GPU_REFUSED, "", PATH_STAGED,
     "p2p: cuDeviceCanAccessPeer said no; relay: no relay GPU has NVLink to both; staged: through"},
    {GPU_THIRD, "", PATH_RELAY, "p2p: cuDeviceCanAccessPeer said no; relay: over GPU 2"},
    {GPU_EITHER, "", PATH_P2P, "p2p: the peer's memory is mapped"},
    {GPU_EITHER, "relay", PATH_RELAY, "relay: over GPU 3"},
    {GPU_EITHER, "^p2p", PATH_RELAY, "p2p: excluded by WEFT_PATH; relay: over GPU 3"},
    {GPU_THIRD, "^relay", PATH_STAGED, "relay: excluded by WEFT_PATH; staged: through"},
    {GPU_THIRD, "p2p,staged", PATH_STAGED, "staged: chosen by WEFT_PATH"},
    {GPU_THIRD, "staged,relay", PATH_STAGED, "staged: chosen by WEFT_PATH"},
    {THIRD_FAILED, "", PATH_STAGED, "relay: its path test failed; staged: through"},
    {THIRD_FAILED, "relay", NONE, "relay: its path test failed"},
    {GPU_REFUSED, "relay", NONE, "relay: no relay GPU has NVLink to both"},
    {GPU_REFUSED, "relay", NONE, "WEFT_PATH allows no other"},
    {GPU_MAPPED, "relay", NONE, "relay: no third GPU reaches both"},
    {FAR_GPU, "relay", NONE, "relay: the PEs run on different kernels"},
    {OWN, "relay", PATH_SELF, "self: the same PE"},
    /* Relay serves GPU memory only. A list that names only relay is ignored for host memory; a
     * longer list is not. */
    {MAPPED, "relay", PATH_P2P, "p2p: the peer's memory is mapped"},
    {NOT_MAPPED, "relay", PATH_STAGED, "staged: through host memory that both PEs map"},
    {MAPPED, "relay,weak", PATH_WEAK, "relay: for GPU memory only; weak: chosen by WEFT_PATH"},
    {MAPPED, "relay,^p2p", PATH_STAGED, "p2p: excluded by WEFT_PATH; staged: through"},
    {GPU_REFUSED, "p2p", NONE, "GPU memory"},
    /* A failed path test excludes that path only. Path weak is never chosen automatically. */
    {P2P_FAILED, "", PATH_STAGED, "p2p: its path test failed; staged: through"},
    {P2P_FAILED, "^staged", NONE, "p2p: its path test failed; staged: excluded by WEFT_PATH"},
    {WEAK_FAILED, "", PATH_P2P, "mapped"},
    {SELF_FAILED, "", NONE, "self: its path test failed"},
    {P2P_FAILED, "p2p,weak", PATH_WEAK, "p2p: its path test failed; weak: chosen by WEFT_PATH"},
    {WEAK_FAILED, "weak,p2p", PATH_P2P, "weak: its path test failed; p2p: chosen by WEFT_PATH"},
    {BOTH_FAILED, "p2p,weak", NONE, "WEFT_PATH allows no other"},
    /* forced: only these paths, in this order */
    {MAPPED, "p2p", PATH_P2P, "p2p: chosen by WEFT_PATH"},
    {MAPPED, "weak", PATH_WEAK, "weak: chosen by WEFT_PATH"},
    {MAPPED, "weak,p2p", PATH_WEAK, "weak: chosen"},
    {MAPPED, "p2p,weak", PATH_P2P, "p2p: chosen"},
    {MAPPED, "slow", PATH_SLOW, "slow: chosen by WEFT_PATH"},
    {MAPPED, "self", NONE, "self: another PE"},
    {MAPPED, "staged", PATH_STAGED, "staged: chosen by WEFT_PATH"},
    {GPU_MAPPED, "staged", PATH_STAGED, "staged: chosen by WEFT_PATH"},
    {GPU_REFUSED, "staged", PATH_STAGED, "staged: chosen by WEFT_PATH"},
    {FAR_MAPPED, "staged", NONE, "staged: the PEs run on different kernels"},
    {OWN, "staged", PATH_SELF, "the same PE"},
    {OWN, "staged,^self", NONE, "staged: the same PE"},
    {GPU_MAPPED, "weak", PATH_WEAK, "weak: chosen by WEFT_PATH"},
    {GPU_MAPPED, "slow,p2p", PATH_SLOW, "slow: chosen by WEFT_PATH"},
    {FAR, "net", PATH_NET, "net: provider tcp on eth0"},
    {FAR, "p2p,net", PATH_NET, "p2p: the PEs run on different kernels; net: provider tcp"},
    {FAR_ALONE, "net", NONE, "WEFT_PATH allows no other"},
    {NET_LACKS, "", PATH_P2P, "mapped"},
    {NET_LACKS, "net", NONE, "net: PE 2: libfabric is not here"},
    {NET_LACKS, "net,p2p", PATH_P2P, "net: PE 2: libfabric is not here; p2p: chosen"},
    {MAPPED, "net", NONE, "net: not looked for"},
    {OWN, "net", PATH_SELF, "the same PE"},
    {FAR, "^net", NONE, "different kernels"},
    {FAR, "p2p,weak,slow", NONE, "WEFT_PATH allows no other"},
    {REFUSED, "weak", NONE, "weak: cuDeviceCanAccessPeer said no"},
    {NOT_MAPPED, "weak", NONE, "weak: "},
    /* The own memory uses path self even if other paths are forced, unless self is excluded. */
    {OWN, "p2p", PATH_SELF, "the same PE"},
    {OWN, "weak", PATH_SELF, "the same PE"},
    {OWN, "weak,^self", PATH_WEAK, "self: excluded by WEFT_PATH; weak: "},
    {OWN, "^self", NONE, "self: excluded by WEFT_PATH"},
    {OWN, "p2p,^self", NONE, "p2p: the same PE"},
    /* excluded */
    {MAPPED, "^p2p", PATH_STAGED, "p2p: excluded by WEFT_PATH; staged: through"},
    {MAPPED, "^p2p,^staged", NONE, "p2p: excluded by WEFT_PATH; staged: excluded by WEFT_PATH"},
    {MAPPED, "^weak", PATH_P2P, "mapped"},
    {MAPPED, "^self", PATH_P2P, "mapped"},
    {OWN, "^p2p", PATH_SELF, "the same PE"},
    {MAPPED, "p2p,weak,^p2p", PATH_WEAK, "p2p: excluded by WEFT_PATH; weak: chosen"},
    {MAPPED, "^p2p,p2p,weak", PATH_WEAK, "p2p: excluded by WEFT_PATH; weak: chosen"},
    {MAPPED, "^p2p,^weak,^slow,^staged", NONE, "excluded by WEFT_PATH"},
    {GPU_MAPPED, "^p2p", PATH_STAGED, "relay: no third GPU reaches both; staged: through"},
};

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct path_order order;
        struct path_choice choice = {.path = (enum path_id)77};
        char text[PATH_REASON_BYTES];
        struct path_facts facts = facts_of(row->facts);
        assert_int_equal(path_order_parse(row->wanted, &order), WEFT_OK);
        weft_status status = path_choose(&facts, &order, &choice, text);
        const char *said = status ? weft_last_error() : choice.reason;
        if ((int)choice.path != row->path || !strstr(said, row->reason) ||
            status != (row->path == NONE ? WEFT_ERR_NO_PATH : WEFT_OK))
            fail_msg("row %zu (facts %d, WEFT_PATH \"%s\"): path %s, status %s, \"%s\"; wanted %s, "
                     "\"%s\"",
                     i, (int)row->facts, row->wanted, path_name(choice.path),
                     weft_status_name(status), said, path_name((enum path_id)row->path),
                     row->reason);
    }
}

/* The reason that is reported for each path that is not chosen. */
static void why_of_each_path(void **state)
{
    static const struct {
        enum facts facts;
        const char *wanted;
        enum path_id path;
        const char *why;
    } whys[] = {
        {MAPPED, "", PATH_P2P, "the peer's memory is mapped"},
        {MAPPED, "", PATH_SELF, "another PE"},
        {MAPPED, "", PATH_WEAK, "used only if WEFT_PATH names it"},
        {MAPPED, "slow,p2p", PATH_P2P, "another path has priority"},
        {MAPPED, "slow", PATH_P2P, "WEFT_PATH does not name it"},
        {MAPPED, "slow,^slow,weak", PATH_SLOW, "excluded by WEFT_PATH"},
        {MAPPED, "slow", PATH_SLOW, "chosen by WEFT_PATH"},
        {OWN, "weak", PATH_SELF, "the same PE"},
        {OWN, "weak", PATH_WEAK, "another path has priority"},
        {P2P_FAILED, "", PATH_P2P, "its path test failed"},
        {GPU_REFUSED, "", PATH_P2P, "cuDeviceCanAccessPeer said no"},
        {GPU_REFUSED, "", PATH_SLOW, "cuDeviceCanAccessPeer said no"},
        {GPU_REFUSED, "", PATH_STAGED, "through host memory that both PEs map"},
        {GPU_THIRD, "", PATH_RELAY, "over GPU 2"},
        {GPU_THIRD, "", PATH_STAGED, "another path has priority"},
        {GPU_THIRD, "staged", PATH_RELAY, "WEFT_PATH does not name it"},
        {GPU_EITHER, "relay", PATH_P2P, "WEFT_PATH does not name it"},
        {GPU_EITHER, "relay", PATH_RELAY, "over GPU 3"},
        {GPU_REFUSED, "", PATH_RELAY, "no relay GPU has NVLink to both"},
        {MAPPED, "", PATH_RELAY, "for GPU memory only"},
        {MAPPED, "relay", PATH_RELAY, "for GPU memory only"},
        {MAPPED, "", PATH_STAGED, "another path has priority"},
        {FAR, "", PATH_STAGED, "the PEs run on different kernels"},
        {NOT_MAPPED, "", PATH_P2P, "the peer's memory is not mapped here"},
        {FAR, "", PATH_P2P, "the PEs run on different kernels"},
        {FAR, "", PATH_NET, "provider tcp on eth0"},
        {FAR, "", PATH_GDA, "not looked for"},
        {FAR_HCA, "", PATH_GDA, "requests to mlx5_0"},
        {FAR_HCA, "", PATH_NET, "another path has priority"},
        {OWN, "", PATH_GDA, "the same PE"},
        {MAPPED, "", PATH_NET, "not looked for"},
        {NET_LACKS, "", PATH_NET, "PE 2: libfabric is not here"},
        {OWN, "", PATH_NET, "the same PE"},
        {NET_FAILED, "", PATH_NET, "its path test failed"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof whys / sizeof whys[0]; i++) {
        struct path_order order;
        struct path_choice choice;
        char text[PATH_REASON_BYTES];
        struct path_facts facts = facts_of(whys[i].facts);
        assert_int_equal(path_order_parse(whys[i].wanted, &order), WEFT_OK);
        path_choose(&facts, &order, &choice, text);
        assert_string_equal(path_why(whys[i].path, &facts, &order, choice.path), whys[i].why);
    }
}

/* The same facts give the same choice, independent of the previous choice. */
static void it_is_a_function(void **state)
{
    (void)state;
    struct path_choice first, again;
    char text[PATH_REASON_BYTES], text_again[PATH_REASON_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k += 7) {
            struct path_order order, others;
            struct path_facts facts = facts_of(rows[i].facts), other = facts_of(rows[k].facts);
            path_order_parse(rows[i].wanted, &order);
            path_order_parse(rows[k].wanted, &others);
            memset(&first, 0, sizeof first);
            memset(&again, 0x5a, sizeof again);
            weft_status one = path_choose(&facts, &order, &first, text);
            path_choose(&other, &others, &again, text_again);
            weft_status two = path_choose(&facts, &order, &again, text_again);
            assert_int_equal(one, two);
            assert_int_equal(first.path, again.path);
            assert_string_equal(first.reason, again.reason);
        }
    }
}

/* A reason longer than its buffer is cut, and nothing is written beyond the buffer. */
static void long_evidence_is_cut(void **state)
{
    (void)state;
    char evidence[2000];
    struct path_order order;
    struct path_facts facts = facts_of(REFUSED);
    struct path_choice choice;
    struct {
        char text[PATH_REASON_BYTES], guard[64];
    } room;
    memset(evidence, 'x', sizeof evidence - 1);
    evidence[sizeof evidence - 1] = 0;
    facts.evidence = evidence;
    memset(room.guard, 0x77, sizeof room.guard);
    path_order_parse("^staged", &order);
    assert_int_equal(path_choose(&facts, &order, &choice, room.text), WEFT_ERR_NO_PATH);
    assert_true(strlen(choice.reason) < sizeof room.text);
    assert_non_null(strstr(choice.reason, "xxx ..."));
    for (size_t i = 0; i < sizeof room.guard; i++)
        assert_int_equal(room.guard[i], 0x77);
}

/* The reason for the chosen path is kept, with the offset at which it begins, however long the
 * reasons of the rejected paths are. */
static void the_chosen_path_has_space(void **state)
{
    (void)state;
    char words[2000] = "";
    struct path_order order;
    struct path_choice choice;
    char text[PATH_REASON_BYTES];
    struct path_facts facts = facts_of(REFUSED);
    while (strlen(words) < sizeof words - 10)
        strcat(words, "lacking ");
    facts.evidence = words;
    assert_int_equal(path_order_parse("", &order), WEFT_OK);
    assert_int_equal(path_choose(&facts, &order, &choice, text), WEFT_OK);
    assert_int_equal(choice.path, PATH_STAGED);
    assert_string_equal(choice.reason + choice.chosen_at,
                        "staged: through host memory that both PEs map");
    assert_non_null(strstr(choice.reason, "lacking ...; staged: "));
}

static void sentences_are_cut_between_words(void **state)
{
    static const struct {
        const char *text, *kept;
        size_t bytes;
    } rows[] = {
        {"all of it", "all of it", 10},
        {"all of it!", "all ...", 10},
        {"provider tcp, on eth0", "provider ...", 17},
        {"one, two three", "one ...", 10},
        {"0123456789abcdef", "01234 ...", 10},
        {"0123456789", "0123", 5},
        {"", "", 1},
    };
    char to[32];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(to, 0x77, sizeof to);
        base_shorten(to, rows[i].bytes, rows[i].text);
        assert_string_equal(to, rows[i].kept);
        assert_int_equal(to[rows[i].bytes], 0x77);
    }
    strcpy(to, "in its own place");
    base_shorten(to, 12, to);
    assert_string_equal(to, "in its ...");
}

static void parsing(void **state)
{
    (void)state;
    struct path_order order;
    assert_int_equal(path_order_parse("", &order), WEFT_OK);
    assert_int_equal(order.count, 0);
    assert_false(order.forced);
    assert_int_equal(path_order_parse("weak,p2p", &order), WEFT_OK);
    assert_int_equal(order.count, 2);
    assert_true(order.forced);
    assert_int_equal(order.order[0], PATH_WEAK);
    assert_int_equal(order.order[1], PATH_P2P);
    assert_int_equal(path_order_parse("p2p,p2p,weak,p2p", &order), WEFT_OK);
    assert_int_equal(order.count, 2);
    assert_int_equal(path_order_parse("^p2p", &order), WEFT_OK);
    assert_int_equal(order.count, 0);
    assert_false(order.forced);
    assert_int_equal(order.excluded, 1u << PATH_P2P);
    static const struct {
        const char *text, *sentence;
    } wrong[] = {
        {"p3p", "names \"p3p\", which is not a path; paths are self, p2p"},
        {"p2p,", NULL},
        {"p2p,,weak", "\"\""},
        {"^", "\"\""},
        {"p2", "\"p2\""},
        {"p2pp", "\"p2pp\""},
        {" p2p", "\" p2p\""},
        {"file", "\"file\", which is not a path; paths are self, p2p"},
        {"^file", "\"file\", which is not a path; paths are self, p2p"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (!wrong[i].sentence) {
            assert_int_equal(path_order_parse(wrong[i].text, &order), WEFT_OK);
            continue;
        }
        if (path_order_parse(wrong[i].text, &order) != WEFT_ERR_CONFIG ||
            !strstr(weft_last_error(), wrong[i].sentence))
            fail_msg("WEFT_PATH=\"%s\": \"%s\"", wrong[i].text, weft_last_error());
    }
}

/* Every path has a complete table of operations, and path none too. */
static void every_path_has_its_table(void **state)
{
    (void)state;
    for (int path = 0; path <= PATH_NONE; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        assert_non_null(ops);
        assert_non_null(ops->put);
        assert_non_null(ops->get);
        assert_non_null(ops->iput);
        assert_non_null(ops->iget);
        assert_non_null(ops->store);
        assert_non_null(ops->load);
        assert_non_null(ops->atomic);
        assert_non_null(ops->put_signal);
        assert_non_null(ops->fence);
        assert_non_null(ops->quiet);
        assert_non_null(ops->address);
        if (path < PATH_COUNT)
            assert_string_equal(ops->name, path_name((enum path_id)path));
    }
}

/* No path reaches the peer: each operation's message names the two PEs, the memory and the
 * reason. */
static void no_path_says_why(void **state)
{
    (void)state;
    struct path_choice choices[3] = {{.path = PATH_NONE}, {.path = PATH_NONE}, {.path = PATH_NONE}};
    struct path_world world = {.pe = 1, .npes = 3, .choices = {choices, NULL}};
    struct peer peer = {.ops = path_ops_of(PATH_NONE), .pe = 2, .path = PATH_NONE, .world = &world};
    const struct path_ops *ops = peer.ops;
    struct remote at = {.peer = &peer, .segment = SEG_HEAP};
    struct path_strides strides = {8, 8, 8, 2};
    uint64_t value[4] = {0};
    char *address = (char *)value;
    choices[2].reason = "the reason of PE 2";
#define SAYS(call)                                                                                 \
    do {                                                                                           \
        assert_int_equal(call, WEFT_ERR_NO_PATH);                                                  \
        assert_non_null(strstr(weft_last_error(),                                                  \
                               "no path from PE 1 to the host memory of PE 2 (the reason of PE "   \
                               "2)"));                                                             \
    } while (0)
    SAYS(ops->address(at, &address));
    assert_null(address);
    SAYS(ops->put(at, value, 8, false));
    SAYS(ops->get(at, value, 8, true));
    SAYS(ops->store(at, value, 4));
    SAYS(ops->load(at, value, 4));
    SAYS(ops->iput(at, value, &strides));
    SAYS(ops->iget(at, value, &strides));
    SAYS(ops->atomic(at, WEFT_AMO_ADD, 8, 1, 0, NULL, false));
    SAYS(ops->put_signal(at, value, 8, at, 1, WEFT_SIGNAL_SET, false));
    assert_int_equal(ops->fence(NULL), WEFT_OK);
    assert_int_equal(ops->quiet(NULL), WEFT_OK);
    /* GPU memory before any was allocated */
    peer.kind = WEFT_GPU;
    assert_int_equal(ops->put(at, value, 8, false), WEFT_ERR_NO_PATH);
    assert_non_null(strstr(weft_last_error(), "GPU memory of PE 2 (that memory is not in use)"));
    /* a path without loads and stores */
    peer.ops = path_ops_of(PATH_WEAK);
    assert_int_equal(peer.ops->address(at, &address), WEFT_ERR_NO_PATH);
    assert_non_null(strstr(weft_last_error(), "over path weak, not by load and store"));
}

/* NICs of which those of the path behind have more than twice the rate are too slow. */
static void slow_paths(void **state)
{
    (void)state;
    assert_true(path_is_slow(25000, 100000));
    assert_true(path_is_slow(49999, 100000));
    assert_false(path_is_slow(50000, 100000));
    assert_false(path_is_slow(100000, 25000));
    assert_false(path_is_slow(0, 100000));
    assert_false(path_is_slow(100000, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(why_of_each_path),
        cmocka_unit_test(it_is_a_function),
        cmocka_unit_test(long_evidence_is_cut),
        cmocka_unit_test(the_chosen_path_has_space),
        cmocka_unit_test(sentences_are_cut_between_words),
        cmocka_unit_test(parsing),
        cmocka_unit_test(every_path_has_its_table),
        cmocka_unit_test(no_path_says_why),
        cmocka_unit_test(slow_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
