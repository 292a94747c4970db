// device_texts.cc: each file of device/ is one C++ string literal, so that the compiler tracks it like any header.
#include "engines/cuda/device_texts.h"

const char gt__cuda_text_prelude[] =
#include "engines/cuda/device/prelude.cuh"
    ;
const char gt__cuda_text_elementwise[] =
#include "engines/cuda/device/elementwise.cuh"
    ;
const char gt__cuda_text_special[] =
#include "special.cuh"
    ;
const char gt__cuda_text_reduce[] =
#include "engines/cuda/device/reduce.cuh"
    ;
const char gt__cuda_text_rows[] =
#include "engines/cuda/device/rows.cuh"
#include "engines/cuda/device/norm.cuh"
    ;
const char gt__cuda_text_index[] =
#include "engines/cuda/device/index.cuh"
    ;
const char gt__cuda_text_create[] =
#include "engines/cuda/device/create.cuh"
    ;
const char gt__cuda_text_attention[] =
#include "engines/cuda/device/attention.cuh"
#include "engines/cuda/device/attention_mma.cuh"
    ;
const char gt__cuda_text_window[] =
#include "engines/cuda/device/window.cuh"
    ;
const char gt__cuda_text_lines[] =
#include "engines/cuda/device/lines.cuh"
    ;
const char gt__cuda_text_transpose[] =
#include "engines/cuda/device/transpose.cuh"
    ;
const char gt__cuda_text_resample[] =
#include "engines/cuda/device/resample.cuh"
    ;
const char gt__cuda_text_channels[] =
#include "engines/cuda/device/channels.cuh"
    ;
const char gt__cuda_text_join[] =
#include "engines/cuda/device/join.cuh"
    ;
const char gt__cuda_text_chain[] =
#include "engines/cuda/device/chain.cuh"
    ;
const char gt__cuda_text_resident[] =
#include "engines/cuda/device/resident.cuh"
    ;
