# NumPy's files as checkpoints: what every command sees of them.

load help
bats_require_minimum_version 1.5.0

files=$BATS_TEST_DIRNAME/../checkpoint/npz

# In a build without zlib there are no archives, in one without libxxhash no hashes.
archives()
{
    ! kvctl ls "$files/nothing.npz" 2>&1 | grep -q 'npz needs zlib' || skip 'built without zlib'
    run kvctl hash "$files/short.npy"
    [ "$status" -ne 4 ] || skip 'built without libxxhash'
}

# flip FILE BYTE: changes a byte.
flip()
{
    local was
    was=$(od -An -tu1 -j"$2" -N1 "$1")
    printf "\\$(printf %o $((was ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "members are keys, by name without .npy, and an npy is named like its file" {
    archives
    run -0 kvctl ls "$files/shapes.npz"
    [[ $output == *$'ünï/code  I32    (1,)                4\n'* ]]
    [[ $output == *$'hollow    F64    (2, 0, 3)           0\n'* ]]
    run -0 kvctl ls --long "$files/types.npz" complex64
    [[ $output == *'complex64  C64    (2, 3)  48     '*'/types.npz  '* ]]
    run -0 kvctl ls "$files/matrix.npy"
    [[ $output == *$'matrix  F32    (3, 5)  60\n'* ]]
    run -0 bash -c "kvctl ls - <'$files/matrix.npy'"
    [[ $output == *$'stdin  F32    (3, 5)  60\n'* ]]
    run -0 bash -c "cat '$files/deflated.npz' | kvctl ls - uint16"
    [[ $output == *$'uint16  U16    (2, 3)  12\n'* ]]
}

@test "the same numbers have the same hashes, however they are stored" {
    archives
    run -0 kvctl hash "$files/types.npz"
    local plain=$output
    for file in swapped swapped-deflated; do
        run -0 kvctl hash "$files/$file.npz"
        [ "$output" = "$plain" ]
    done
    run -0 kvctl hash "$files/fortran.npz"
    plain=$output
    run -0 kvctl hash "$files/fortran-deflated.npz"
    [ "$output" = "$plain" ]
}

@test "a damaged member is an error where its data are read, and a finding of check" {
    archives
    cp "$files/types.npz" m.npz
    chmod u+w m.npz
    flip m.npz 190
    run -0 kvctl ls m.npz
    run -5 kvctl hash m.npz
    [[ $output == *'m.npz: tensor "float64": damaged: its checksum is another one'* ]]
    run -0 kvctl hash m.npz float32
    run -1 kvctl check m.npz
    [[ $output == *'float64'*'damaged: its checksum is another one'* ]]
}

@test "other zip archives are told apart, and void elements have a way out" {
    archives
    printf 'PK\005\006' >cut.npz
    run -5 kvctl ls cut.npz
    [[ $output == *'cut.npz: cut, or no zip archive: it does not end with a directory'* ]]
    run -5 kvctl ls "$files/void.npy"
    [[ $output == *"void.npy: elements of descr '<V2' are not read"*'save them as safetensors'* ]]
}
