# What CKPT may be: files of other tools, folders, streams, and what is none.

load help
files=$BATS_TEST_DIRNAME/../checkpoint

@test "a folder, with a / or without, and its index are the same checkpoint" {
    run -0 kvctl ls "$files/sharded"
    [[ $output == *'model.norm.weight   F16    (3,)    6'*$'\n4 keys, '* ]]
    local folder=$output
    gives "$folder" kvctl ls "$files/sharded/"
    gives "$folder" kvctl ls "$files/sharded/model.safetensors.index.json"
}

@test "a folder needs no / behind its name" {
    cp -r "$files/sharded" m
    gives 'True True' kvctl -c 'init * @m; print keys() == keys("m"), keys() == keys(pattern="*")'
    gives True kvctl -c 'k = keys("m")[0]; print all(load("m", name=k) == load("m/", name=k))'
    mkdir dcp
    touch dcp/.metadata dcp/__0_0.distcp
    mentions -5 'dcp: this looks like a folder of torch.distributed.checkpoint (DCP), which is not read' kvctl -c 'x = @dcp'
}

@test "GGUF: quantised types are listed, and a big-endian file is refused" {
    run -0 kvctl ls "$files/types.gguf" 't.Q4*'
    [[ $output == *$'\nt.Q4_K  Q4_K   (3, 512)  864\n'* ]]
    mentions 'y    Q8_0   (32,)  34' kvctl ls - <"$files/small.gguf"
    mentions -5 'a big-endian GGUF file, which is not read' kvctl ls "$files/big-endian.gguf"
}

@test "a stream on stdin, a file on stdin, and one that ends early" {
    local shard=$files/sharded/model-00001-of-00002.safetensors
    run -0 kvctl ls "$shard"
    local listed=$output
    gives "$listed" kvctl ls - <"$shard"
    gives "$listed" bash -c "cat '$shard' | kvctl ls -"
    mentions -5 'stdin: cut within its data: 8 of 54 bytes are missing' bash -c "head -c 230 '$shard' | kvctl ls -"
    mentions -5 'stdin: the file is empty' kvctl ls - </dev/null
}

@test "a stream larger than the room for it is an error, and nothing stays" {
    mkdir room
    run -5 bash -c 'ulimit -f 17000; yes | head -c 30000000 | TMPDIR=$PWD/room kvctl ls -'
    [[ $output == *'cannot write a temporary file in "'*'/room": File too large'* ]]
    [ -z "$(ls -A room)" ]
}

@test "Ctrl-C ends the wait for a stream" {
    mkfifo pipe
    sleep 100 >pipe &
    local writer=$!
    run signalled INT ls - <pipe
    kill "$writer"
    grep -q 'error\[interrupted\]: interrupted' err
}

@test "an index that lies writes nothing, reads nothing outside, and says what is wrong" {
    cp -r "$files/sharded" m
    rm m/model-00002-of-00002.safetensors
    mentions -5 'm/model.safetensors.index.json: 1 of its 2 shards is not there: model-00002-' kvctl ls m
    echo '{"weight_map": {"a": "../m/model-00001-of-00002.safetensors"}}' \
        >m/model.safetensors.index.json
    mentions -5 'the file of tensor "a" is a name that leaves the folder' kvctl ls m
}

@test "-s keeps a store in safetensors files alone: a GGUF file is not written over" {
    cp "$files/small.gguf" m.gguf
    mentions -5 'm.gguf: a store is kept in a safetensors file, and this is not one' kvctl -s m.gguf -c 'push x ones(3)'
    cmp m.gguf "$files/small.gguf"
}

@test "what is no checkpoint is named, with what to do" {
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >m.safetensors
    run -5 kvctl ls m.safetensors
    [[ $output == *'this looks like a Git LFS pointer'*'git lfs pull'* ]]
    printf '\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.' >pytorch_model.bin
    run -5 kvctl ls pytorch_model.bin
    [[ $output == *'this looks like PyTorch'"'"'s format from before 1.6 (legacy)'*'safetensors.torch.save_file'* ]]
    mkdir m
    run -5 kvctl ls m
    [[ $output == *'m: the folder has no *.safetensors and no *.safetensors.index.json'* ]]
}
