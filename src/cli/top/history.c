/* cli/top/history.c: the last measurements, for graphs. See top.h. */
#include <math.h>

#include "cli/array.h"
#include "cli/top/top.h"

void gt__history_add(gt_history **history, double value)
{
    if (!*history)
        *history = gt__zeroed(1, sizeof **history);
    (*history)->value[(*history)->count++ % GT_HISTORY] = (float)value;
}

static unsigned kept(const gt_history *history)
{
    return !history ? 0 : history->count < GT_HISTORY ? history->count : GT_HISTORY;
}

double gt__history_mean(const gt_history *history, unsigned ago, unsigned per)
{
    double sum = 0;
    unsigned count = 0;
    for (unsigned k = ago; k < ago + per && k < kept(history); k++, count++)
        sum += history->value[(history->count - 1 - k) % GT_HISTORY];
    return count ? sum / count : NAN;
}

double gt__history_peak(const gt_history *history, unsigned count)
{
    double peak = 0;
    for (unsigned k = 0; k < count && k < kept(history); k++)
        peak = fmax(peak, history->value[(history->count - 1 - k) % GT_HISTORY]);
    return peak;
}
