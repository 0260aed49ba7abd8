/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and checking WEFT_ variables. See config.h for the table. */
#include "base/config.h"

#include "base/cpus.h"
#include "base/log_levels.h"
#include "base/status.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const struct config_var config_vars[CONFIG_COUNT] = {
#define ROW(id, type, preset, choices, text) {"WEFT_" #id, type, preset, choices, text},
    CONFIG_VARS(ROW)
#undef ROW
};

struct value {
    bool from_environment;
    char *text;
    int64_t number;
};

static struct value values[CONFIG_COUNT];
static bool values_read;
static pthread_mutex_t values_lock = PTHREAD_MUTEX_INITIALIZER;

/* Digits with an optional fraction. strtod() is not used, because it reads the decimal point of the
 * program's locale. */
static double parse_decimal(const char *text, const char **end)
{
    double number = 0, weight = 1;
    for (; isdigit((unsigned char)*text); text++)
        number = number * 10 + (*text - '0');
    if (text[0] == '.' && isdigit((unsigned char)text[1]))
        for (text++; isdigit((unsigned char)*text); text++)
            number += (weight /= 10) * (*text - '0');
    *end = text;
    return number;
}

/* A number with an optional fraction, then a suffix that `scale` knows. */
static bool parse_scaled(const char *text, double (*scale)(const char *suffix), uint64_t *result)
{
    const char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    double number = parse_decimal(text, &end);
    double factor = scale(end);
    if (factor < 0 || number * factor > 9.0e18)
        return false;
    *result = (uint64_t)(number * factor + 0.5);
    return true;
}

static double size_scale(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (!*suffix)
        return 1;
    const char *at = strchr(letters, toupper((unsigned char)*suffix));
    if (!at)
        return -1;
    suffix++;
    if (*suffix && strcasecmp(suffix, "B") != 0 && strcasecmp(suffix, "iB") != 0)
        return -1;
    double factor = 1024;
    for (const char *letter = letters; letter < at; letter++)
        factor *= 1024;
    return factor;
}

static double duration_scale(const char *suffix)
{
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {{"", 1e9}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(suffix, units[i].suffix) == 0)
            return units[i].ns;
    return -1;
}

bool config_parse_size(const char *text, uint64_t *bytes)
{
    return parse_scaled(text, size_scale, bytes);
}

bool config_parse_duration(const char *text, uint64_t *ns)
{
    return parse_scaled(text, duration_scale, ns);
}

static bool parse_int(const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    *number = parsed;
    return !errno && end != text && !*end;
}

static bool parse_power(const char *text, int64_t *number)
{
    enum { LEAST = 2, MOST = 1 << 20 };
    return parse_int(text, number) && *number >= LEAST && *number <= MOST &&
           !(*number & (*number - 1));
}

static bool parse_cpus(const char *text)
{
    cpu_set_t ignored;
    return !strcmp(text, "near") || !strcmp(text, "any") || cpus_parse(text, &ignored);
}

static bool parse_levels(const char *text, int64_t *number)
{
    log_levels levels = 0;
    bool good = log_levels_parse(text, &levels);
    *number = levels;
    return good;
}

static bool parse_pattern(const char *text)
{
    for (; *text; text++)
        if (*text == '%' && !strchr("hp%", *++text ? *text : '-'))
            return false;
    return true;
}

static bool parse_provider(const char *text, int64_t *number)
{
    const char *addition = strchr(text, '+');
    *number = addition != NULL;
    return !addition || strcmp(addition, "+encrypted") == 0;
}

static bool parse_bool(const char *text, int64_t *number)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

static bool parse_choice(const char *choices, const char *text, int64_t *number)
{
    size_t length = strlen(text);
    int64_t index = 0;
    for (const char *word = choices; *word; index++) {
        size_t word_length = strcspn(word, "|");
        if (word_length == length && strncasecmp(word, text, length) == 0) {
            *number = index;
            return true;
        }
        word += word_length + (word[word_length] == '|');
    }
    return false;
}

static bool parse_value(const struct config_var *var, const char *text, int64_t *number)
{
    uint64_t scaled = 0;
    bool good = true;
    switch (var->type) {
    case CONFIG_STRING:
        return true;
    case CONFIG_INT:
        return parse_int(text, number);
    case CONFIG_POWER:
        return parse_power(text, number);
    case CONFIG_CPUS:
        return parse_cpus(text);
    case CONFIG_LEVELS:
        return parse_levels(text, number);
    case CONFIG_PATTERN:
        return parse_pattern(text);
    case CONFIG_PROVIDER:
        return parse_provider(text, number);
    case CONFIG_BOOL:
        return parse_bool(text, number);
    case CONFIG_CHOICE:
        return parse_choice(var->choices, text, number);
    case CONFIG_SIZE:
        good = config_parse_size(text, &scaled);
        break;
    case CONFIG_DURATION:
        good = config_parse_duration(text, &scaled);
        break;
    }
    *number = (int64_t)scaled;
    return good;
}

static void read_value(enum config_id id)
{
    const struct config_var *var = &config_vars[id];
    struct value *value = &values[id];
    /* A set-user-ID program must neither load a library nor write a file that its caller names. */
    bool guarded = id == CONFIG_TEST_HCA_LIB || id == CONFIG_LOG_FILE;
    const char *text = guarded ? secure_getenv(var->name) : getenv(var->name);
    value->from_environment = text != NULL;
    /* config_check() refuses a bad value; until then the default is used. */
    if (!text || !parse_value(var, text, &value->number)) {
        text = var->preset;
        parse_value(var, text, &value->number);
    }
    value->text = strdup(text);
}

static const struct value *lookup_value(enum config_id id)
{
    if (!__atomic_load_n(&values_read, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&values_lock);
        if (!values_read) {
            for (int i = 0; i < CONFIG_COUNT; i++)
                read_value((enum config_id)i);
            __atomic_store_n(&values_read, true, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&values_lock);
    }
    return &values[id];
}

void config_reset(void)
{
    pthread_mutex_lock(&values_lock);
    for (int i = 0; i < CONFIG_COUNT; i++) {
        free(values[i].text);
        values[i] = (struct value){0};
    }
    __atomic_store_n(&values_read, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&values_lock);
}

const char *config_string(enum config_id id)
{
    const char *text = lookup_value(id)->text;
    return text ? text : config_vars[id].preset;
}

int64_t config_int(enum config_id id)
{
    return lookup_value(id)->number;
}

uint64_t config_size(enum config_id id)
{
    return (uint64_t)lookup_value(id)->number;
}

uint64_t config_duration_ns(enum config_id id)
{
    return (uint64_t)lookup_value(id)->number;
}

bool config_bool(enum config_id id)
{
    return lookup_value(id)->number != 0;
}

int config_choice(enum config_id id)
{
    return (int)lookup_value(id)->number;
}

const char *config_origin(enum config_id id)
{
    return lookup_value(id)->from_environment ? "environment" : "default";
}

static const char *nearest_name(const char *name)
{
    const char *best = config_vars[0].name;
    size_t best_distance = SIZE_MAX;
    for (int i = 0; i < CONFIG_COUNT; i++) {
        size_t distance = base_spelling_distance(name, config_vars[i].name);
        if (distance < best_distance) {
            best_distance = distance;
            best = config_vars[i].name;
        }
    }
    return best;
}

static const char *describe_accepted(const struct config_var *var)
{
    switch (var->type) {
    case CONFIG_STRING:
        return "any text";
    case CONFIG_INT:
        return "a whole number";
    case CONFIG_POWER:
        return "a power of two from 2 to 1048576";
    case CONFIG_CPUS:
        return "near, any or a list of CPUs such as 0-3,8";
    case CONFIG_SIZE:
        return "bytes, such as 65536, 64K or 1.5G";
    case CONFIG_DURATION:
        return "a time, such as 30s, 250ms, 5m, or 0 for no limit";
    case CONFIG_LEVELS:
#define NAME(id, name) " " name
        return "error, warn, info, debug, or a list such as warn,net:debug; "
               "subsystems:" LOG_SUBSYSTEMS(NAME);
#undef NAME
    case CONFIG_PATTERN:
        return "a file name with no % but %h (host), %p (process ID) and %%";
    case CONFIG_PROVIDER:
        return "the name of a provider, alone or with +encrypted, such as tcp+encrypted";
    case CONFIG_BOOL:
        return "0 or 1";
    case CONFIG_CHOICE:
        return var->choices;
    }
    return "";
}

static const struct config_var *find_var(const char *name)
{
    for (int i = 0; i < CONFIG_COUNT; i++)
        if (strcmp(name, config_vars[i].name) == 0)
            return &config_vars[i];
    return NULL;
}

/* What a variable of Weft 0.1 has been replaced by; NULL: there was none of this name. */
static const char *replacement_of(const char *name)
{
    static const char *const renamed[][2] = {
        {"WEFT_NET_LOT", "WEFT_TEST_NET_SLOT_SIZE"},
        {"WEFT_NET_LOTS", "WEFT_TEST_NET_SLOTS"},
        {"WEFT_FABRIC_RAILS", "WEFT_RAILS"},
        {"WEFT_GDA_ADAPTERS", "WEFT_RAILS"},
        {"WEFT_TEXT_PE", "the option --prefix of `weft run`"},
        {"WEFT_GPU_STRIPE", "nothing: copies that are not split over streams are as fast"},
    };
    static const char prefix[] = "WEFT_", test_prefix[] = "WEFT_TEST_";
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(name, renamed[i][0]) == 0)
            return renamed[i][1];
    for (int i = 0; i < CONFIG_COUNT; i++)
        if (strncmp(config_vars[i].name, test_prefix, sizeof test_prefix - 1) == 0 &&
            strcmp(config_vars[i].name + sizeof test_prefix - 1, name + sizeof prefix - 1) == 0)
            return config_vars[i].name;
    return NULL;
}

static weft_status check_entry(const char *entry)
{
    char name[64];
    size_t length = strcspn(entry, "=");
    if (length >= sizeof name)
        return base_fail(WEFT_ERR_CONFIG, "%.60s... is not a variable of Weft; see `weft env`",
                         entry);
    memcpy(name, entry, length);
    name[length] = '\0';
    const char *text = entry[length] == '=' ? entry + length + 1 : "";

    const struct config_var *var = find_var(name);
    const char *renamed = var ? NULL : replacement_of(name);
    if (renamed)
        return base_fail(WEFT_ERR_CONFIG, "%s has been replaced by %s", name, renamed);
    if (!var)
        return base_fail(WEFT_ERR_CONFIG,
                         "%s is not a variable of Weft; the nearest is %s (all: `weft env --all`)",
                         name, nearest_name(name));
    int64_t ignored;
    if (!parse_value(var, text, &ignored))
        return base_fail(WEFT_ERR_CONFIG, "%s is \"%s\", which is not %s", name, text,
                         describe_accepted(var));
    return WEFT_OK;
}

weft_status config_check(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        if (strncmp(*entry, "WEFT_", 5) != 0)
            continue;
        weft_status status = check_entry(*entry);
        if (status)
            return status;
    }
    return WEFT_OK;
}
