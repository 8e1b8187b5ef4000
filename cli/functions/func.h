/* The code of the functions in function_table, one file for each subject. */
#pragma once

#include "array/reduce.h"
#include "array/sort.h"
#include "syntax/function.h"

/* Several functions that differ in a detail are one here: their rows say which. */
enum { LETTERS_UPPER, LETTERS_LOWER, LETTERS_TITLE };

/* func_make.c: arrays from shapes and numbers, also drawn ones; row_sparse arrays and storage */
function_fn func_ones, func_full, func_arange, func_linspace, func_array, func_astype, func_copy,
    func_uniform, func_normal, func_permutation, func_randint, func_seed, func_zeros,
    func_row_sparse, func_tostype, func_dense, func_stype, func_rows_part;

/* func_shape.c: facts of arrays, axes, joins, elements by their indices */
function_fn func_shape, func_len, func_dtype, func_ctx, func_in_shape, func_transpose,
    func_join_arrays, func_split_array, func_repeat, func_tile, func_take, func_nonzero, func_ndim,
    func_size, func_ravel, func_squeeze, func_expand_dims, func_flip;

/* func_reduce.c: one number of many; the order of elements, and running sums */
function_fn func_sum, func_reduce, func_any_all, func_extreme, func_norm, func_dot, func_allclose,
    func_sort, func_unique, func_quantile, func_cumsum;

/* func_list.c: lists, tuples and dicts */
function_fn func_append, func_extend, func_insert, func_pop, func_index, func_count, func_remove,
    func_clear, func_reverse, func_list, func_tuple, func_reversed, func_sorted, func_zip,
    func_range, func_dict, func_keys, func_items, func_get, func_update;
/* keys() of the path of a checkpoint, which func_keys hands on. */
int func_file_keys(function_args *args, const char *pattern, value *out, kv_err *e);

/* func_text.c: texts, as Python has them */
function_fn func_find, func_has_end, func_change_case, func_ord, func_chr, func_format, func_split,
    func_join, func_re_match, func_re_sub;
/* count() and index() of a text; those of lists have the same names. */
function_fn text_count, text_index;

/* func_world.c: contexts, the store, the environment, files, engines */
function_fn func_as_in_context, func_asscalar, func_copyto, func_wait_to_read, func_waitall,
    func_contexts, func_env, func_args, func_has, func_type, func_rank, func_sleep, func_rounds,
    func_moved_bytes, func_is_capable, func_round, func_bool, func_str, func_int,
    func_float, func_glob, func_script_dir;
