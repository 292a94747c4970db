/*
 * fake_compiler.c: a libnvrtc.so.13 for tests without a card. With FAKE_CUDA_KERNELS, the folder of GT's sources, it lets the
 * system's C++ compiler make a library of a kernel, behind shim.h, and the library's name is the kernel's image. Libraries
 * are kept in FAKE_CUDA_FOLDER by a hash of their source. Without that it compiles nothing, and every call runs on the host.
 * FAKE_CUDA_ONLY: a text; only sources that contain it are compiled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engines/cuda/api.h"
#include "fake_driver.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_COMPILER_FUNCTIONS(PROTOTYPE)

struct _nvrtcProgram {
    char *source;
    char library[3000];
};

API int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

API int nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int headers,
                           const char *const *header, const char *const *header_name)
{
    (void)name;
    (void)headers;
    (void)header;
    (void)header_name;
    const char *only = getenv("FAKE_CUDA_ONLY");
    if (!getenv("FAKE_CUDA_KERNELS") || (only && !strstr(source, only)))
        return 1;
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    return 0;
}

API int nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->source);
    free(*program);
    *program = NULL;
    return 0;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

API int nvrtcCompileProgram(nvrtcProgram program, int options, const char *const *option)
{
    const char *sources = getenv("FAKE_CUDA_KERNELS"), *folder = getenv("FAKE_CUDA_FOLDER");
    const char *compiler = getenv("CXX");
    char path[3000], command[16000];
    (void)options;
    (void)option;
    int length = snprintf(program->library, sizeof program->library, "%s/sized-%016llx.so",
                          folder ? folder : "/tmp", (unsigned long long)hash_text(program->source));
    if (length >= (int)sizeof program->library || access(program->library, F_OK) == 0)
        return length >= (int)sizeof program->library;
    snprintf(path, sizeof path, "%.*s-%d.cc", length - 3, program->library, (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file)
        return 6;
    fprintf(file, "#include \"shim.h\"\n%s\nSHIM_PARAMETER_OF(gt_kernel)\n", program->source);
    fclose(file);
    /* Hidden: the shared memory of one template in two kernels would be one symbol, of the first one's size. */
    snprintf(command, sizeof command,
             "%s -std=c++17 -O1 -fPIC -shared -fvisibility=hidden -fwrapv -ffp-contract=off -fno-strict-aliasing "
             "-w -I'%s/tests/cuda' "
             "-I'%s/src' -I'%s/include' -o '%s.tmp' '%s' && mv '%s.tmp' '%s'",
             compiler ? compiler : "c++", sources, sources, sources, path, path, path, program->library);
    int status = system(command);
    unlink(path);
    return status ? 6 : 0;
}

API int nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    *bytes = strlen(FAKE_IMAGE) + strlen(program->library) + 1;
    return 0;
}

API int nvrtcGetCUBIN(nvrtcProgram program, char *binary)
{
    strcpy(stpcpy(binary, FAKE_IMAGE), program->library);
    return 0;
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
