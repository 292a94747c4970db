/* copy.h: memcpy of large amounts by several threads. One thread copies slower than memory allows, and much slower than a
 * GPU's link. */
#ifndef GT_CORE_COPY_H
#define GT_CORE_COPY_H

#include <stddef.h>

void gt__copy_large(void *to, const void *from, size_t bytes);

#endif
