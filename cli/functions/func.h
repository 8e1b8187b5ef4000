/* The code of the functions in function_table, one file for each subject. */
#ifndef EVAL_FUNC_H
#define EVAL_FUNC_H

#include "syntax/function.h"

/* func_make.c: arrays from shapes and numbers */
int func_ones(function_args *args, value *out, kv_err *e);
int func_full_like(function_args *args, value *out, kv_err *e);
int func_ones_like(function_args *args, value *out, kv_err *e);
int func_full(function_args *args, value *out, kv_err *e);
int func_arange(function_args *args, value *out, kv_err *e);
int func_linspace(function_args *args, value *out, kv_err *e);
int func_eye(function_args *args, value *out, kv_err *e);
int func_array(function_args *args, value *out, kv_err *e);
int func_astype(function_args *args, value *out, kv_err *e);
int func_copy(function_args *args, value *out, kv_err *e);

/* func_sparse.c: row_sparse arrays and storage */
int func_zeros(function_args *args, value *out, kv_err *e);
int func_row_sparse(function_args *args, value *out, kv_err *e);
int func_tostype(function_args *args, value *out, kv_err *e);
int func_dense(function_args *args, value *out, kv_err *e);
int func_stype(function_args *args, value *out, kv_err *e);
int func_data(function_args *args, value *out, kv_err *e);
int func_indices(function_args *args, value *out, kv_err *e);

/* func_random.c */
int func_uniform(function_args *args, value *out, kv_err *e);
int func_normal(function_args *args, value *out, kv_err *e);
int func_permutation(function_args *args, value *out, kv_err *e);
int func_randint(function_args *args, value *out, kv_err *e);

/* func_shape.c: facts of arrays, and their elements in another arrangement */
int func_shape(function_args *args, value *out, kv_err *e);
int func_len(function_args *args, value *out, kv_err *e);
int func_dtype(function_args *args, value *out, kv_err *e);
int func_ctx(function_args *args, value *out, kv_err *e);
int func_reshape(function_args *args, value *out, kv_err *e);
int func_transpose(function_args *args, value *out, kv_err *e);
int func_concat(function_args *args, value *out, kv_err *e);
int func_stack(function_args *args, value *out, kv_err *e);
int func_split_array(function_args *args, value *out, kv_err *e);
int func_repeat(function_args *args, value *out, kv_err *e);
int func_tile(function_args *args, value *out, kv_err *e);

/* func_reduce.c: one number of many */
int func_sum(function_args *args, value *out, kv_err *e);
int func_prod(function_args *args, value *out, kv_err *e);
int func_var(function_args *args, value *out, kv_err *e);
int func_std(function_args *args, value *out, kv_err *e);
int func_any(function_args *args, value *out, kv_err *e);
int func_all(function_args *args, value *out, kv_err *e);
int func_mean(function_args *args, value *out, kv_err *e);
int func_max(function_args *args, value *out, kv_err *e);
int func_min(function_args *args, value *out, kv_err *e);
int func_argmax(function_args *args, value *out, kv_err *e);
int func_argmin(function_args *args, value *out, kv_err *e);
int func_norm(function_args *args, value *out, kv_err *e);
int func_dot(function_args *args, value *out, kv_err *e);
int func_average(function_args *args, value *out, kv_err *e);
int func_array_equal(function_args *args, value *out, kv_err *e);
int func_isinf(function_args *args, value *out, kv_err *e);
int func_allclose(function_args *args, value *out, kv_err *e);

/* func_sort.c: the order of elements, and running sums */
int func_sort(function_args *args, value *out, kv_err *e);
int func_argsort(function_args *args, value *out, kv_err *e);
int func_topk(function_args *args, value *out, kv_err *e);
int func_unique(function_args *args, value *out, kv_err *e);
int func_median(function_args *args, value *out, kv_err *e);
int func_quantile(function_args *args, value *out, kv_err *e);
int func_percentile(function_args *args, value *out, kv_err *e);
int func_cumsum(function_args *args, value *out, kv_err *e);
int func_diff(function_args *args, value *out, kv_err *e);

/* func_pick.c: elements by their indices, and the indices of elements */
int func_take(function_args *args, value *out, kv_err *e);
int func_nonzero(function_args *args, value *out, kv_err *e);
int func_argwhere(function_args *args, value *out, kv_err *e);
int func_bincount(function_args *args, value *out, kv_err *e);
int func_one_hot(function_args *args, value *out, kv_err *e);

/* func_axes.c: axes, the order along them, joins */
int func_ndim(function_args *args, value *out, kv_err *e);
int func_size(function_args *args, value *out, kv_err *e);
int func_ravel(function_args *args, value *out, kv_err *e);
int func_squeeze(function_args *args, value *out, kv_err *e);
int func_expand_dims(function_args *args, value *out, kv_err *e);
int func_swapaxes(function_args *args, value *out, kv_err *e);
int func_moveaxis(function_args *args, value *out, kv_err *e);
int func_broadcast_to(function_args *args, value *out, kv_err *e);
int func_flip(function_args *args, value *out, kv_err *e);
int func_roll(function_args *args, value *out, kv_err *e);
int func_outer(function_args *args, value *out, kv_err *e);
int func_vstack(function_args *args, value *out, kv_err *e);
int func_hstack(function_args *args, value *out, kv_err *e);

/* func_mxnet.c: what MXNet's pages ask of arrays and engines */
int func_as_in_context(function_args *args, value *out, kv_err *e);
int func_asscalar(function_args *args, value *out, kv_err *e);
int func_copyto(function_args *args, value *out, kv_err *e);
int func_wait_to_read(function_args *args, value *out, kv_err *e);
int func_waitall(function_args *args, value *out, kv_err *e);

/* func_list.c: lists, tuples and dicts */
int func_append(function_args *args, value *out, kv_err *e);
int func_extend(function_args *args, value *out, kv_err *e);
int func_insert(function_args *args, value *out, kv_err *e);
int func_pop(function_args *args, value *out, kv_err *e);
int func_index(function_args *args, value *out, kv_err *e);
int func_count(function_args *args, value *out, kv_err *e);
int func_remove(function_args *args, value *out, kv_err *e);
int func_clear(function_args *args, value *out, kv_err *e);
int func_reverse(function_args *args, value *out, kv_err *e);
int func_list(function_args *args, value *out, kv_err *e);
int func_tuple(function_args *args, value *out, kv_err *e);
int func_reversed(function_args *args, value *out, kv_err *e);
int func_sorted(function_args *args, value *out, kv_err *e);
int func_enumerate(function_args *args, value *out, kv_err *e);
int func_zip(function_args *args, value *out, kv_err *e);
int func_range(function_args *args, value *out, kv_err *e);
int func_dict(function_args *args, value *out, kv_err *e);
/* keys() of the path of a checkpoint, which func_keys hands on. */
int func_file_keys(function_args *args, const char *pattern, value *out, kv_err *e);
int func_keys(function_args *args, value *out, kv_err *e);
int func_values(function_args *args, value *out, kv_err *e);
int func_items(function_args *args, value *out, kv_err *e);
int func_get(function_args *args, value *out, kv_err *e);
int func_update(function_args *args, value *out, kv_err *e);

/* func_world.c: contexts, the store, the environment, texts and numbers */
int func_cpu(function_args *args, value *out, kv_err *e);
int func_gpu(function_args *args, value *out, kv_err *e);
int func_env(function_args *args, value *out, kv_err *e);
int func_args(function_args *args, value *out, kv_err *e);
int func_has(function_args *args, value *out, kv_err *e);
int func_type(function_args *args, value *out, kv_err *e);
int func_rank(function_args *args, value *out, kv_err *e);
int func_sleep(function_args *args, value *out, kv_err *e);
int func_num_workers(function_args *args, value *out, kv_err *e);
int func_rounds(function_args *args, value *out, kv_err *e);
int func_moved_bytes(function_args *args, value *out, kv_err *e);
int func_is_capable(function_args *args, value *out, kv_err *e);
int func_divmod(function_args *args, value *out, kv_err *e);
int func_round(function_args *args, value *out, kv_err *e);
int func_bool(function_args *args, value *out, kv_err *e);
int func_str(function_args *args, value *out, kv_err *e);
int func_repr(function_args *args, value *out, kv_err *e);
int func_int(function_args *args, value *out, kv_err *e);
int func_float(function_args *args, value *out, kv_err *e);

/* func_text.c: texts, as Python has them */
int func_find(function_args *args, value *out, kv_err *e);
int func_rfind(function_args *args, value *out, kv_err *e);
int func_startswith(function_args *args, value *out, kv_err *e);
int func_endswith(function_args *args, value *out, kv_err *e);
int func_replace(function_args *args, value *out, kv_err *e);
int func_strip(function_args *args, value *out, kv_err *e);
int func_lstrip(function_args *args, value *out, kv_err *e);
int func_rstrip(function_args *args, value *out, kv_err *e);
int func_zfill(function_args *args, value *out, kv_err *e);
int func_upper(function_args *args, value *out, kv_err *e);
int func_lower(function_args *args, value *out, kv_err *e);
int func_title(function_args *args, value *out, kv_err *e);
int func_isdigit(function_args *args, value *out, kv_err *e);
int func_ord(function_args *args, value *out, kv_err *e);
int func_chr(function_args *args, value *out, kv_err *e);

/* func_text_list.c */
int func_split(function_args *args, value *out, kv_err *e);
int func_rsplit(function_args *args, value *out, kv_err *e);
int func_splitlines(function_args *args, value *out, kv_err *e);
int func_join(function_args *args, value *out, kv_err *e);

/* func_text_format.c */
int func_format(function_args *args, value *out, kv_err *e);

/* func_files.c */
int func_glob(function_args *args, value *out, kv_err *e);
int func_script_dir(function_args *args, value *out, kv_err *e);

/* func_regex.c */
int func_re_match(function_args *args, value *out, kv_err *e);
int func_re_sub(function_args *args, value *out, kv_err *e);

/* ---- Pieces of texts ---- */

/* Bytes of a text, for the functions that take texts apart. Borrowed from a value. */

typedef struct piece {
    const char *text;
    int64_t n;
} piece;

/* The text that v is. Error: dtype. */
int piece_of(value v, const char *what, piece *out, kv_err *e);

/* The text that a function is of: its first argument. Error: dtype. */
int text_of(function_args *args, piece *out, kv_err *e);

/* The character at a byte and how many bytes it has; U+FFFD for a byte that is no UTF-8. */
uint32_t piece_character(piece p, int64_t at, int64_t *bytes);
/* Where the character that ends at `end` begins. */
int64_t piece_last(piece p, int64_t end);

/* The byte from which `what` stands in p: the first one at or behind from, the last one that ends
 * at or before end. -1: none. */
int64_t piece_find(piece p, piece what, int64_t from);
int64_t piece_find_last(piece p, piece what, int64_t end);

/* count() and index() of a text; those of lists have the same names. */
int text_count(function_args *args, value *out, kv_err *e);
int text_index(function_args *args, value *out, kv_err *e);

#endif
