/* fake_driver.h: what the other fake libraries need of fake_driver.c: work in a stream's order, on the card's memory. */
#ifndef GT_TESTS_CUDA_FAKE_DRIVER_H
#define GT_TESTS_CUDA_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

enum { FAKE_ARGUMENT = 4096 + 256 }; /* the most bytes that work may have */

/* A kernel's image is this, and then the name of a library. */
#define FAKE_IMAGE "fake kernel: "

typedef void (*fake_work)(void *argument);

/* Queue work; the argument is copied. */
int fake_enqueue(struct CUstream_st *stream, fake_work work, const void *argument, size_t bytes);
/* How often the driver was called, but for calls that only opening and closing make, and for questions of those who wait. */
uint64_t fake_driver_calls(void);
/* From now on, that call of a function that can fail is refused with this result; 0: none. Also FAKE_CUDA_REFUSE_CALL. */
void fake_driver_refuse(int64_t call, int result);
/* FAKE_CUDA_EMPTY: what is queued computes nothing. */
bool fake_is_empty(void);
/* The card of this thread's context; -1: it has none. */
int fake_current_device(void);
/* Where the host finds memory of the card; all of it must be one allocation. */
void *fake_address(unsigned long long address, size_t bytes);

#endif
