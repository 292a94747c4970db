R"cuda(
/*
 * transpose.cuh: copies where the operand's neighbours are not the result's: tiles of 32 x 32 elements go through shared memory,
 * so that both sides are read and written along their neighbours. Elements of two bytes go by pairs, in tiles of 64 x 64, where
 * everything is even: a warp then reads and writes 128 bytes at once.
 */

struct gt_transpose_params {
    void *out;
    const void *in;
    int64_t count; /* tiles */
    int64_t rank;  /* the operand runs along the last axis but one, the result along the last */
    int64_t shape[8], in_stride[8], out_stride[8];
};

/* Where the tiles of one matrix begin. */
GT_F void gt_transpose_place(const gt_transpose_params &p, int64_t outer, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int axis = (int)p.rank - 3; axis >= 0; axis--) {
        int64_t next = outer / p.shape[axis], within = outer - next * p.shape[axis];
        *from += within * p.in_stride[axis];
        *to += within * p.out_stride[axis];
        outer = next;
    }
}

template <class K> GT_F void gt_transpose(const gt_transpose_params &p)
{
    typedef typename K::D::raw raw;
    __shared__ raw tile[32][33];
    int rank = (int)p.rank, x = threadIdx.x % 32, y = threadIdx.x / 32;
    int64_t rows = p.shape[rank - 2], columns = p.shape[rank - 1], across = (columns + 31) / 32, down = (rows + 31) / 32;
    for (int64_t number = blockIdx.x; number < p.count; number += gridDim.x) {
        int64_t first_column = number % across * 32, first_row = number / across % down * 32;
        int64_t from, to;
        gt_transpose_place(p, number / across / down, &from, &to);
        for (int j = y; j < 32; j += 8)
            if (first_row + x < rows && first_column + j < columns)
                tile[j][x] = ((const raw *)p.in)[from + (first_row + x) * p.in_stride[rank - 2] +
                                                 (first_column + j) * p.in_stride[rank - 1]];
        __syncthreads();
        for (int j = y; j < 32; j += 8)
            if (first_row + j < rows && first_column + x < columns)
                ((raw *)p.out)[to + (first_row + j) * p.out_stride[rank - 2] + (first_column + x) * p.out_stride[rank - 1]] =
                    tile[x][j];
        __syncthreads();
    }
}

/* Two rows and two columns at a time. */
template <class K> GT_F void gt_transpose_pairs(const gt_transpose_params &p)
{
    __shared__ uint32_t tile[64][33];
    int rank = (int)p.rank, x = threadIdx.x % 32, y = threadIdx.x / 32;
    int64_t rows = p.shape[rank - 2], columns = p.shape[rank - 1], across = (columns + 63) / 64, down = (rows + 63) / 64;
    const uint16_t *in = (const uint16_t *)p.in;
    uint16_t *out = (uint16_t *)p.out;
    for (int64_t number = blockIdx.x; number < p.count; number += gridDim.x) {
        int64_t first_column = number % across * 64, first_row = number / across % down * 64;
        int64_t from, to;
        gt_transpose_place(p, number / across / down, &from, &to);
        from += first_row + 2 * x + first_column * p.in_stride[rank - 1];
#pragma unroll
        for (int j = 0; j < 64; j += 8)
            if (first_row + 2 * x < rows && first_column + j + y < columns)
                tile[j + y][x] = *(const uint32_t *)(in + from + (j + y) * p.in_stride[rank - 1]);
        __syncthreads();
        to += first_column + 2 * x + first_row * p.out_stride[rank - 2];
#pragma unroll
        for (int j = 0; j < 32; j += 8)
            if (first_row + 2 * (j + y) < rows && first_column + 2 * x < columns) {
                uint32_t left = tile[2 * x][j + y], right = tile[2 * x + 1][j + y];
                uint16_t *at = out + to + 2 * (j + y) * p.out_stride[rank - 2];
                *(uint32_t *)at = (left & 0xffff) | right << 16;
                *(uint32_t *)(at + p.out_stride[rank - 2]) = left >> 16 | (right & 0xffff0000u);
            }
        __syncthreads();
    }
}
)cuda"
