/* crc32c.h: the checksum of iSCSI and ext4 (Castagnoli), for files that must not be read wrong. */
#ifndef GT_CORE_CRC32C_H
#define GT_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `bytes` of data behind those whose checksum is `before`; 0: there are none. */
uint32_t gt__crc32c(uint32_t before, const void *data, size_t bytes);

#endif
