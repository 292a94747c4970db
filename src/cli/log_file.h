/*
 * log_file.h: reads instruction logs, both of text (log_text.h) and of the compact form (log_code.h), as lines of text. All
 * tools that read logs do it through this.
 */
#ifndef GT_CLI_LOG_FILE_H
#define GT_CLI_LOG_FILE_H

#include <stdio.h>

#include "core/error.h"

typedef struct gt_log_file gt_log_file;

/* GT_ERR_VALUE: it cannot be read, or another version of GT has written it. */
gt_err gt__log_file_open(const char *path, gt_log_file **file);
/*
 * More of the log, as whole lines: *text has *size bytes and is valid until the next call. *size is 0 at the end; if the file
 * grows, a later call continues there. GT_ERR_PROTOCOL: the log is damaged here, and the text says after which line; all
 * before was intact.
 */
gt_err gt__log_file_next(gt_log_file *file, const char **text, size_t *size);
/* At the end: the bytes after it that are not a whole block, or not a whole line. */
size_t gt__log_file_rest(const gt_log_file *file);
void gt__log_file_close(gt_log_file **file);

/* All of a log: *text is the caller's, NUL-ended. A log that is damaged or was cut is read up to there, with a line on
 * `complaints`. */
gt_err gt__log_file_read(const char *path, FILE *complaints, char **text, size_t *size);

#endif
