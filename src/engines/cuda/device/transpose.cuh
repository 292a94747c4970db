R"cuda(
/*
 * transpose.cuh: copies where the operand's neighbours are not the result's: tiles of 32 x 32 elements go through shared memory,
 * so that both sides are read and written along their neighbours.
 */

struct gt_transpose_params {
    void *out;
    const void *in;
    int64_t count; /* tiles */
    int64_t rank;  /* the operand runs along the last axis but one, the result along the last */
    int64_t shape[8], in_stride[8], out_stride[8];
};

template <class K> GT_F void gt_transpose(const gt_transpose_params &p)
{
    typedef typename K::D::raw raw;
    __shared__ raw tile[32][33];
    int rank = (int)p.rank, x = threadIdx.x % 32, y = threadIdx.x / 32;
    int64_t rows = p.shape[rank - 2], columns = p.shape[rank - 1], across = (columns + 31) / 32, down = (rows + 31) / 32;
    for (int64_t number = blockIdx.x; number < p.count; number += gridDim.x) {
        int64_t first_column = number % across * 32, first_row = number / across % down * 32;
        int64_t outer = number / across / down, from = 0, to = 0;
        for (int axis = rank - 3; axis >= 0; axis--) {
            int64_t next = outer / p.shape[axis], within = outer - next * p.shape[axis];
            from += within * p.in_stride[axis];
            to += within * p.out_stride[axis];
            outer = next;
        }
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
)cuda"
