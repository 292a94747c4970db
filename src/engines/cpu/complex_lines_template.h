/* complex_lines_template.h: folds and scans of one row, for one precision. Included by complex_elementwise.c, after
 * complex_template.h. */
static C N(fold)(bool product, const C *row, int64_t count)
{
    C total = product ? MAKE(1, 0) : MAKE(0, 0);
    for (int64_t k = 0; k < count; k++)
        total = product ? MUL(total, row[k]) : total + row[k];
    return total;
}

static void N(scan)(bool product, C *row, int64_t count)
{
    for (int64_t k = 1; k < count; k++)
        row[k] = product ? MUL(row[k - 1], row[k]) : row[k - 1] + row[k];
}
