# stat and diff on files that are large, or that change meanwhile.

load help
bats_require_minimum_version 1.5.0

# sparse FILE ELEMENTS: a safetensors file with one key w of F32, all of it a hole.
sparse()
{
    local header='{"w":{"dtype":"F32","shape":['$2'],"data_offsets":[0,'$(($2 * 4))']}}'
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >"$1"
    truncate -s $((8 + ${#header} + $2 * 4)) "$1"
}

@test "a file that is cut while stat reads it is an error" {
    sparse m.safetensors 2000000000
    kvctl stat m.safetensors >out 2>err &
    local pid=$! status=0
    sleep 0.2
    truncate -s 4096 m.safetensors
    wait $pid || status=$?
    cat out err
    [ $status = 5 ]
    [ ! -s out ]
    grep -q 'error\[io\]: m.safetensors: the file became shorter while it was read' err
}
