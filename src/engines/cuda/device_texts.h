/* device_texts.h: the files of device/ as text. device_texts.cc holds them: C++ has string literals of several lines. */
#ifndef GT_ENGINES_CUDA_DEVICE_TEXTS_H
#define GT_ENGINES_CUDA_DEVICE_TEXTS_H

#ifdef __cplusplus
extern "C" {
#endif

extern const char gt__cuda_text_prelude[];
extern const char gt__cuda_text_elementwise[];
extern const char gt__cuda_text_special[];
extern const char gt__cuda_text_reduce[];
extern const char gt__cuda_text_rows[];
extern const char gt__cuda_text_index[];
extern const char gt__cuda_text_create[];
extern const char gt__cuda_text_attention[];
extern const char gt__cuda_text_window[];
extern const char gt__cuda_text_lines[];
extern const char gt__cuda_text_transpose[];
extern const char gt__cuda_text_resample[];
extern const char gt__cuda_text_channels[];
extern const char gt__cuda_text_join[];
extern const char gt__cuda_text_chain[];
extern const char gt__cuda_text_resident[];

#ifdef __cplusplus
}
#endif

#endif
