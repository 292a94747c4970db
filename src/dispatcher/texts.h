/* texts.h: a list of texts that only grows; each is known by its number, from 1 on. */
#ifndef GT_DISPATCHER_TEXTS_H
#define GT_DISPATCHER_TEXTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gt_texts {
    char **text; /* by number minus one */
    uint32_t count;
} gt_texts;

/* Keep a copy. Returns its number; 0: out of memory. */
uint32_t gt__texts_add(gt_texts *texts, const char *text);
/* The number of an equal text; 0: there is none. */
uint32_t gt__texts_find(const gt_texts *texts, const char *text);
/* NULL: there is no such number. */
static inline const char *gt__texts_get(const gt_texts *texts, uint32_t number)
{
    return number && number <= texts->count ? texts->text[number - 1] : NULL;
}
void gt__texts_free(gt_texts *texts);

#endif
