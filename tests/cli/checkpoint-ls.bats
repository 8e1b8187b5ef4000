# ls of files that other tools and -s write, and its records.

load help
@test "of a file of -s the weights are listed, and with --all what the store keeps about itself" {
    kvctl -s s.kvs -c 'init w ones(2); set-optimizer adam; push w ones(2)'
    run -0 kvctl ls s.kvs
    [ "$output" = $'key  dtype  shape  bytes\nw    F32    (2,)   8\n1 key, 2 elements, 8 bytes' ]
    run -0 kvctl ls s.kvs --all
    [[ $output == *'__state__/w/mean'*'__state__/w/var'*$'\n3 keys, 6 elements, 24 bytes' ]]
}

@test "records have the totals as about, numbers as numbers" {
    kvctl -c 'init m.0.w,m.1.w,step [ones(2,3), ones(2,3), array(1)]; save m.safetensors'
    kvctl --json ls m.safetensors m.0.w --long |
        jq -e '.ok and .about == {keys: 1, elements: 6, bytes: 24} and
               .entries == [{key: "m.0.w", dtype: "F32", shape: [2, 3], bytes: 24,
                             file: "m.safetensors", offset: .entries[0].offset}] and
               (.entries[0].offset | type) == "number"'
    kvctl --json ls m.safetensors --fold |
        jq -e '.about == {keys: 3, elements: 13, bytes: 52} and
               .entries == [{key: "m.#.w", dtype: "F32", shape: [2, 3], bytes: 48, count: 2},
                            {key: "step", dtype: "F32", shape: [], bytes: 4, count: 1}]'
}

@test "a sparse array of MXNet is listed as the dense one, and with --long what the file holds of it" {
    run -0 kvctl ls "$top/tests/checkpoint/sparse.params" rows csr
    [ "$output" = $'key   dtype  shape   bytes\nrows  F32    (5, 3)  60\ncsr   F64    (4, 6)  192\n2 keys, 39 elements, 252 bytes; 1 entry is not a tensor (nothing), which --all shows' ]
    kvctl --json ls --long "$top/tests/checkpoint/sparse.params" |
        jq -e '[.entries[].stored] == ["row_sparse, 2 of 5 rows", "row_sparse, 2 of 5 rows", "row_sparse, 0 of 4 rows",
                                       "csr, 5 of 24 elements", "csr, 0 of 6 elements", "csr, 3 of 4 elements"]'
    cp "$top/tests/checkpoint/sparse.params" .
    gives '[[2 0 3 1]]' kvctl -c 'print @sparse.params#csr.turned'
}
