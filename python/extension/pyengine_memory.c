/* pyengine_memory.c: which object has which addresses, for engines whose memory the host cannot read. */
#include "pyengine.h"

enum { ALIGNMENT = 64, FIRST_BLOCKS = 64 };

/* Above what a process maps on x86-64 and arm64, so that a mistaken dereference faults. */
static const uintptr_t first_address = (uintptr_t)1 << 56;

gt_err gt__py_memory_add(gt_py_memory *memory, size_t bytes, PyObject *object, void **address)
{
    if (memory->count == memory->capacity) {
        size_t capacity = memory->capacity ? 2 * memory->capacity : FIRST_BLOCKS;
        gt_py_block *blocks = PyMem_Realloc(memory->blocks, capacity * sizeof *blocks);
        if (!blocks) {
            Py_DECREF(object);
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        }
        memory->blocks = blocks;
        memory->capacity = capacity;
    }
    if (!memory->next)
        memory->next = first_address;
    memory->blocks[memory->count++] = (gt_py_block){.address = memory->next, .bytes = bytes, .memory = object};
    *address = (void *)memory->next;
    /* One more than its bytes, so that the end of a block is not the start of the next: views without elements lie there. */
    memory->next += (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    return GT_OK;
}

const gt_py_block *gt__py_memory_find(const gt_py_memory *memory, const void *address)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory->blocks[middle].address <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    const gt_py_block *block = low ? &memory->blocks[low - 1] : NULL;
    return block && (uintptr_t)address - block->address <= block->bytes ? block : NULL;
}

PyObject *gt__py_memory_remove(gt_py_memory *memory, void *address)
{
    const gt_py_block *block = gt__py_memory_find(memory, address);
    if (!block || block->address != (uintptr_t)address)
        return NULL;
    PyObject *object = block->memory;
    size_t at = (size_t)(block - memory->blocks);
    memmove(&memory->blocks[at], &memory->blocks[at + 1], (--memory->count - at) * sizeof *memory->blocks);
    return object;
}

void gt__py_memory_clear(gt_py_memory *memory)
{
    while (memory->count)
        Py_DECREF(memory->blocks[--memory->count].memory);
    PyMem_Free(memory->blocks);
    *memory = (gt_py_memory){0};
}
