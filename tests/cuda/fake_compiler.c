/* fake_compiler.c: a libnvrtc.so.13 for tests without a card. It compiles nothing, so every call runs on the host. */
#include "engines/cuda/api.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_COMPILER_FUNCTIONS(PROTOTYPE)

API int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

API int nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int headers,
                           const char *const *header, const char *const *header_name)
{
    (void)program;
    (void)source;
    (void)name;
    (void)headers;
    (void)header;
    (void)header_name;
    return 1;
}

API int nvrtcDestroyProgram(nvrtcProgram *program)
{
    (void)program;
    return 0;
}

API int nvrtcCompileProgram(nvrtcProgram program, int options, const char *const *option)
{
    (void)program;
    (void)options;
    (void)option;
    return 6;
}

API int nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = 0;
    return 0;
}

API int nvrtcGetCUBIN(nvrtcProgram program, char *binary)
{
    (void)program;
    (void)binary;
    return 1;
}

API int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = 0;
    return 0;
}

API int nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    (void)log;
    return 1;
}
