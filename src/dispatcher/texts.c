/* texts.c: see texts.h. */
#include "dispatcher/texts.h"

#include <stdlib.h>
#include <string.h>

uint32_t gt__texts_add(gt_texts *texts, const char *text)
{
    if (!(texts->count & (texts->count + 1))) { /* full: 0, 1, 3, 7, ... */
        char **grown = realloc(texts->text, 2 * ((size_t)texts->count + 1) * sizeof *grown);
        if (!grown)
            return 0;
        texts->text = grown;
    }
    char *copy = strdup(text);
    if (!copy)
        return 0;
    texts->text[texts->count++] = copy;
    return texts->count;
}

uint32_t gt__texts_find(const gt_texts *texts, const char *text)
{
    for (uint32_t k = 0; k < texts->count; k++)
        if (strcmp(texts->text[k], text) == 0)
            return k + 1;
    return 0;
}

void gt__texts_free(gt_texts *texts)
{
    for (uint32_t k = 0; k < texts->count; k++)
        free(texts->text[k]);
    free(texts->text);
    *texts = (gt_texts){0};
}
