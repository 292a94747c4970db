/* limits.c: see limits.h. */
#include "core/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"

static const struct {
    const char *option, *whom, *help;
    gt_number_kind kind;
} rows[GT_LIMIT_COUNT] = {
#define GT_LIMIT_ROW(name, text, number, party, about)                                                            \
    {.option = text, .whom = party, .help = about, .kind = GT_NUMBER_##number},
    GT_LIMITS(GT_LIMIT_ROW)
#undef GT_LIMIT_ROW
};

void gt__limit_table_free(gt_limit_table *table)
{
    free(table->users);
    *table = (gt_limit_table){0};
}

gt_limits *gt__limit_table_user(gt_limit_table *table, const char *name, bool add)
{
    for (size_t k = 0; k < table->user_count; k++)
        if (!strcmp(table->users[k].name, name))
            return &table->users[k].limits;
    gt_user_limits *users = add ? realloc(table->users, (table->user_count + 1) * sizeof *users) : NULL;
    if (!users)
        return NULL;
    table->users = users;
    gt_user_limits *user = &users[table->user_count++];
    *user = (gt_user_limits){0};
    snprintf(user->name, sizeof user->name, "%s", name);
    return &user->limits;
}

gt_limit gt__limit_find(const char *option)
{
    unsigned which = 0;
    while (which < GT_LIMIT_COUNT && strcmp(rows[which].option, option) != 0)
        which++;
    return (gt_limit)which;
}

const char *gt__limit_option(gt_limit which)
{
    return rows[which].option;
}

const char *gt__limit_help(gt_limit which)
{
    return rows[which].help;
}

bool gt__limit_is_bytes(gt_limit which)
{
    return rows[which].kind == GT_NUMBER_BYTES;
}

bool gt__limit_parse(gt_limit which, const char *text, uint64_t *most)
{
    double number;
    if (strcmp(text, "none") == 0) {
        *most = GT_UNLIMITED;
        return true;
    }
    if (!gt__number_parse(text, rows[which].kind, 1, 9e18, &number))
        return false;
    *most = (uint64_t)number;
    return true;
}

const char *gt__limit_amount(gt_limit which, uint64_t amount, char text[GT_AMOUNT_SIZE])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)amount;
    unsigned unit = 0;
    if (!gt__limit_is_bytes(which) || amount < 1024) {
        snprintf(text, GT_AMOUNT_SIZE, gt__limit_is_bytes(which) ? "%llu bytes" : "%llu",
                 (unsigned long long)amount);
        return text;
    }
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(text, GT_AMOUNT_SIZE, "%.1f %s", value, units[unit]);
    return text;
}

const char *gt__limit_text(gt_limit which, uint64_t most, char *text, size_t size)
{
    char amount[GT_AMOUNT_SIZE];
    snprintf(text, size, "limit of %s for %s (--%s)", gt__limit_amount(which, most, amount), rows[which].whom,
             rows[which].option);
    return text;
}
