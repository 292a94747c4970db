/* settings.c: numbers from the environment, and from the command line. See settings.h. */
#include "core/settings.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

static const struct {
    const char *variable;
    gt_number_kind kind;
    double least, most, fallback;
} settings[GT_SETTING_COUNT] = {
#define GT_SETTING_ROW(name, text, number, from, to, otherwise)                                                   \
    {.variable = text, .kind = GT_NUMBER_##number, .least = from, .most = to, .fallback = otherwise},
    GT_SETTINGS(GT_SETTING_ROW)
#undef GT_SETTING_ROW
};

static const char *const kinds[] = {
    [GT_NUMBER_SECONDS] = "seconds",
    [GT_NUMBER_COUNT] = "a whole number",
    [GT_NUMBER_BYTES] = "bytes, as 4G or 4096",
};

/* The factor of the suffix K, M, G or T after a number of bytes; 0: not a suffix. */
static double unit_of(char letter)
{
    static const char units[] = "KMGT";
    const char *unit = strchr(units, toupper((unsigned char)letter));
    return unit && *unit ? exp2(10.0 * (double)(unit - units + 1)) : 0;
}

static locale_t plain;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the C locale is built in: this does not fail */
}

locale_t gt__plain_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return plain;
}

bool gt__number_parse(const char *text, gt_number_kind kind, double least, double most, double *value)
{
    char *end;
    double number = strtod_l(text, &end, gt__plain_locale());
    if (end == text)
        return false;
    if (kind == GT_NUMBER_BYTES && unit_of(*end) > 0)
        number *= unit_of(*end++);
    while (isspace((unsigned char)*end))
        end++;
    if (*end || !(number >= least && number <= most) || (kind == GT_NUMBER_COUNT && number != floor(number)))
        return false;
    *value = number;
    return true;
}

double gt__setting(gt_setting which)
{
    static atomic_bool said[GT_SETTING_COUNT];
    const char *text = getenv(settings[which].variable);
    double value;
    if (!text || !*text)
        return settings[which].fallback;
    if (gt__number_parse(text, settings[which].kind, settings[which].least, settings[which].most, &value))
        return value;
    if (!atomic_exchange(&said[which], true))
        gt__log_error("%s=%.64s is not valid: expected %s, from %g to %g; using the default",
                      settings[which].variable, text, kinds[settings[which].kind], settings[which].least,
                      settings[which].most);
    return settings[which].fallback;
}

int gt__setting_ms(gt_setting which)
{
    return (int)(gt__setting(which) * 1000);
}
