/* page_texts.h: the files of page/, which browsers get, as text. page_texts.cc holds them. */
#ifndef GT_CLI_HTTP_PAGE_TEXTS_H
#define GT_CLI_HTTP_PAGE_TEXTS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gt_page_file {
    const char *path, *type, *text;
    size_t bytes;
} gt_page_file;

extern const gt_page_file gt__page_files[]; /* ended by one without a path */

#ifdef __cplusplus
}
#endif

#endif
