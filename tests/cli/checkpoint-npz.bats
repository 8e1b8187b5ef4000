# NumPy's files as checkpoints: what every command sees of them.

load help
files=$BATS_TEST_DIRNAME/../checkpoint/npz

# flip FILE BYTE: changes a byte.
flip()
{
    local was
    was=$(od -An -tu1 -j"$2" -N1 "$1")
    printf "\\$(printf %o $((was ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "members are keys, by name without .npy, and an npy is named like its file" {
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
    run -0 kvctl hash "$files/types.npz"
    local plain=$output
    for file in swapped swapped-deflated; do
        gives "$plain" kvctl hash "$files/$file.npz"
    done
    run -0 kvctl hash "$files/fortran.npz"
    plain=$output
    gives "$plain" kvctl hash "$files/fortran-deflated.npz"
}

@test "a damaged member is an error where its data are read, and a finding of check" {
    cp "$files/types.npz" m.npz
    chmod u+w m.npz
    flip m.npz 190
    run -0 kvctl ls m.npz
    mentions -5 'm.npz: tensor "float64": damaged: its checksum is another one' kvctl hash m.npz
    run -0 kvctl hash m.npz float32
    run -1 kvctl check m.npz
    [[ $output == *'float64'*'damaged: its checksum is another one'* ]]
}

@test "a member without numbers closes nothing" {
    command -v python3 >/dev/null || skip "no python3"
    python3 - <<'END'
import struct, zipfile
def npy(descr, shape, data):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data
with zipfile.ZipFile("m.npz", "w") as z:
    z.writestr("labels.npy", npy("<U1", "(2,)", b"a\0\0\0b\0\0\0"))
    z.writestr("w.npy", npy("<f4", "(1,)", struct.pack("<f", 2)))
    z.writestr("README.txt", "about")
with zipfile.ZipFile("other.npz", "w") as z:
    z.writestr("labels.npy", npy("<U2", "(2,)", b"a\0\0\0b\0\0\0" * 2))
    z.writestr("w.npy", npy("<f4", "(1,)", struct.pack("<f", 2)))
for name, descr, data in (("i2", "<i2", struct.pack("<h", -3)), ("u8", "<u8", struct.pack("<Q", 2**63))):
    open(name + ".npy", "wb").write(npy(descr, "(1,)", data))
END
    run -0 kvctl ls m.npz
    [ "$output" = 'key     dtype  shape  bytes
labels  <U1    (2,)   8
w       F32    (1,)   4
2 keys, 3 elements, 12 bytes' ]
    mentions -1 'm.npz: labels: the dtype is <U1, in other.npz <U2' kvctl check m.npz --like other.npz
    run -0 kvctl check m.npz --like m.npz
    gives "[2.] ['labels', 'w']" kvctl -c 'print @m.npz#w, keys("m.npz")'
    for words in 'hash m.npz' 'diff m.npz m.npz' 'convert m.npz o.npz' 'patch m.npz m.npz --out p'; do
        run -3 kvctl $words
        [[ $output == *'error[dtype]: m.npz: "labels" is not an array of numbers: its elements are <U1'*'--exclude leaves keys out'* ]]
    done
    mentions -3 'error[dtype]: m.npz: "labels" is <U1, which cannot be merged' kvctl merge average m.npz m.npz --out o.npz
    mentions -3 'm.npz: "labels" is not an array of numbers: its elements are <U1' kvctl -c 'x = @m.npz#labels'
    kvctl convert m.npz o.npz --exclude labels
    kvctl merge average m.npz m.npz w --out a.npz
    run -0 kvctl stat m.npz
    [ "$output" = 'note: 1 of 2 keys have no numbers to look at, such as "labels" (<U1)
key     elements  min  max  mean  std  absmax  zeros  nan  inf
labels  2         -    -    -     -    -       -      -    -
w       1         2.0  2.0  2.0   0.0  2.0     0      0    0' ]
    mentions -3 'error[dtype]: "labels" has no numbers to look at: its type is <U1' kvctl stat m.npz labels
    gives 'note: 1 of 2 keys have no numbers to look at, such as "labels" (<U1)' kvctl check m.npz
    # one array a file knows the types of npz, and the name that keys() gives it
    gives '[-3] [-3] [-3] int32' kvctl -c 'print @i2.npy, @i2.npy#i2, load("i2.npy", name=keys("i2.npy")[0]), (@i2.npy).dtype'
    mentions -3 'u8.npy: tensor "u8": element 0 is 2^63 or more, beyond int64' kvctl -c '@u8.npy'
    # from a stream, from where it stands, and nothing but npy
    gives '[-3]' bash -c "{ printf abc; cat i2.npy; } | { head -c 3 >/dev/null; kvctl -c 'print load(\"-\", format=\"npy\")'; }"
    gives '[-3]' bash -c "{ printf abc; cat i2.npy; } >late; { read -rN 3; kvctl -c 'print load(\"-\", format=\"npy\")'; } <late"
    gives '[-3]' bash -c "kvctl -c 'print load(\"/dev/fd/9\", format=\"npy\")' 9< <(cat i2.npy)"
    run -5 kvctl -c 'load("m.npz", format="npy")'
    [[ $output == *'m.npz: this looks like a zip archive, which is not read'*'one of arrays is read as FILE.npz; unzip FILE'* ]]
    run -3 kvctl -c 'load("i2.npy", name="x")'
    [[ $output == *'"i2.npy" holds no array `x`'*'it holds i2'* ]]
}

@test "an array in Fortran order is read by blocks, whatever its size" {
    grep -qE '__(a|t|ub)san_' "$build/kvctl" && skip "memory is not counted with a sanitizer"
    { printf '\x93NUMPY\1\0\x4d\0'
      printf '%-76s\n' "{'descr': '<f8', 'fortran_order': True, 'shape': (2048, 8192), }"; } >f.npy
    truncate -s $((87 + (1 << 27))) f.npy
    printf '\0\0\0\0\0\0\360?' | dd of=f.npy bs=1 seek=$((87 + 8 * 2049)) conv=notrunc status=none # [1, 1] is 1
    run -0 kvctl -c 'stat f.npy
        !grep VmHWM /proc/$PPID/status | tr -dc 0-9'
    assert_line --regexp '^f +16777216 +0\.0 +1\.0 .* 16777215 +0 +0$'
    [ "${lines[2]}" -lt 65536 ] # of 131072 KB
    gives '[0. 1. 0.]' kvctl -c 'print @f.npy[1, 0:3]'
}

@test "other zip archives are told apart, and void elements have a way out" {
    printf 'PK\005\006' >cut.npz
    mentions -5 'cut.npz: cut, or no zip archive: it does not end with a directory' kvctl ls cut.npz
    run -5 kvctl ls "$files/void.npy"
    [[ $output == *"void.npy: elements of descr '<V2' are not read"*'save them as safetensors'* ]]
}
