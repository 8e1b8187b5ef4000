# save FILE and commit --disk: the store in a file while the script goes on.

load help

@test "save: what was saved is the store of that moment, and training goes on from it" {
    train='set-optimizer adam; for i in range(0, 6) { push 3 ones(2)*i; save f"r{i}.kvs" }; pull 3'
    run -0 kvctl -c "init 3 zeros(2); $train"
    want=$output
    gives "$want" kvctl -s r2.kvs -c 'for i in 3..5 { push 3 ones(2)*i }; pull 3'
    cmp <(kvctl -s r2.kvs -c 'pull 3') <(kvctl -s r5.kvs -c 'pull 3')
    kvctl -c 'begin; init 3 1; save b.kvs; rollback' # what is in a transaction, too
    gives 1.0 kvctl -s b.kvs -c 'pull 3'
}

@test "save: another tool's file stays one while it holds values alone" {
    kvctl -c 'init a,b ones(2); pull * > m.safetensors'
    kvctl -s m.safetensors -c 'push a [3, 4]; save v.kvs; set-updater { stored += input }; save u.kvs
        set-updater assign; push b row_sparse([1],[0],(2,)); save s.kvs; push b ones(2)' || [ $? = 3 ]
    run grep -ac kvstore. v.kvs u.kvs s.kvs
    assert_output "v.kvs:0
u.kvs:1
s.kvs:1"
    gives '[3. 4.]' kvctl -s v.kvs -c 'pull a'
}

# The values of the keys, as other tools write them.
@test "save: values for other tools, without what training needs" {
    kvctl -c 'init w,b,l.0.norm [arange(5)/2, ones(2,3), zeros(1)]; init i ones(2,dtype="int64")
        set-optimizer adam; push w ones(5); init e row_sparse([[7]],[1],(3,1))
        begin; rename b bias; save all.safetensors; save new/; save some.kvs *.norm [ie] --exclude e
        save few.safetensors w bias --dtype bf16 --dtype b*=f64 --metadata format=pt --metadata "a=b = c"; rollback'
    run kvctl ls all.safetensors
    assert_output "key       dtype  shape   bytes
w         F32    (5,)    20
bias      F32    (2, 3)  24
l.0.norm  F32    (1,)    4
i         I64    (2,)    16
e         F32    (3, 1)  12
5 keys, 17 elements, 76 bytes"
    mentions -3 $'[[0.]\n [7.]\n [0.]]\n[[1. 1. 1.]' kvctl -s all.safetensors -c 'pull e; pull bias; info --states'
    assert_output --partial 'no optimizer is in use'
    run grep -ac kvstore all.safetensors some.kvs few.safetensors new/model.safetensors
    assert_output $'all.safetensors:0\nsome.kvs:0\nfew.safetensors:0\nnew/model.safetensors:0'
    cmp all.safetensors new/model.safetensors
    assert_equal "$(ls new)" model.safetensors
    run kvctl ls some.kvs
    assert_line --index 1 --partial l.0.norm
    assert_line --index 2 --partial i
    assert_line --index 3 --partial '2 keys'
    run kvctl ls few.safetensors
    assert_line --index 1 'w     BF16   (5,)    10'
    assert_line --index 2 'bias  F64    (2, 3)  48'
    gives 1 grep -ac '{"__metadata__":{"format":"pt","a":"b = c"}' few.safetensors
    # the metadata of the store, and integer keys by their numbers
    kvctl -s few.safetensors -c 'save again.safetensors --metadata a=2'
    gives 1 grep -ac '{"__metadata__":{"format":"pt","a":"2"}' again.safetensors
    run kvctl -c 'init 3,10 ones(2); save n.safetensors 1?; ls n.safetensors'
    assert_line --index 1 '"10"  F32    (2,)   8'
    assert_line --index 2 --partial '1 key,'
    kvctl -c 'init a,b,c ones(100); save cut/ --shard-size 500; save w.npz --dtype b=f16'
    assert_equal "$(ls cut)" $'model-00001-of-00003.safetensors\nmodel-00002-of-00003.safetensors\nmodel-00003-of-00003.safetensors\nmodel.safetensors.index.json'
    run kvctl ls w.npz
    assert_line --index 2 'b    F16    (100,)  200'
}

@test "save: values are complete or not there" {
    kvctl -c 'init a,b ones(4); save m.safetensors; save m/; save old.safetensors'
    cp m.safetensors before
    while IFS='|' read -r words code said; do
        run kvctl -c "init a [0, 1, 500, nan]; init b ones(3); save $words"
        assert_failure "$code"
        assert_output --partial "$said"
        cmp m.safetensors before
        cmp m/model.safetensors before
        assert_equal "$(ls -A)" $'before\nm\nm.safetensors\nold.safetensors'
    done <<'END'
m.safetensors q*|3|error[key]: no name matches "q*"
m.safetensors --dtype nope|2|error[usage]: there is no type of tensors `nope`
m.safetensors --dtype q=f32|3|error[key]: no name matches "q"
m.safetensors --dtype a=i8|3|error[value]: "a": I8 has no number for element [2]
m.safetensors --dtype a=f4|3|error[value]: "a": F4 has no number for element [3]
m.safetensors --dtype b=f4|3|those of dtype F4 would end within a byte
m.safetensors --metadata x|2|error[usage]: --metadata takes NAME=TEXT, not "x"
m.safetensors --metadata kvstore.x=1|3|error[value]: names that begin with "kvstore."
m.bin a|2|error[usage]: "m.bin": nothing says in which format to write it
m/|2|error[usage]
no/m.safetensors|5|cannot write "no/m.safetensors"
m.npz --dtype bf16|3|error[dtype]
x.safetensors --shard-size 5G|2|error[usage]
END
    mentions -2 '"m.safetensors" is the file of the store' kvctl -s m.safetensors -c 'push a ones(4); save m.safetensors --dtype f16'
    run -4 kvctl --safe -c 'init 3 1; save s.safetensors *'
    run -0 kvctl --dry-run -c 'init 3 1; save s.safetensors --dtype f16; save m/'
    assert_output $'dry run: would write s.safetensors\ndry run: would write m/\ndry run: without a state file; kv would hold:\n  new      3: float32 ()'
    kvctl -c 'init 3 1; save m/ --force'
    run kvctl ls m/model.safetensors
    assert_line --index 1 '"3"  F32    ()     4'
}

@test "save, convert and merge into MXNet's .params: the same bytes, and what such a file lacks is named" {
    local lacks='note: params files hold no metadata, so these are left out: author'
    run kvctl -c 'init arg:w,aux:b [ones(2,3), zeros(3)]; save m.params
        save m.safetensors --metadata format=pt --metadata author=me'
    assert_output ''
    gives "$lacks" kvctl convert m.safetensors n.params
    cmp m.params n.params
    gives "$lacks" kvctl merge average m.safetensors m.safetensors --out n.params
    gives "$lacks" kvctl -s m.safetensors -c 'save n.params'
    cmp m.params n.params
    mentions 'note: npz files hold no metadata, so these are left out: author' kvctl convert m.safetensors n.npz
    run kvctl ls n.params
    assert_line --index 1 --regexp '^arg:w +F32 +\(2, 3\) +24$'
    # two names of 5 bytes end it: 8 + 2 * (8 + 5), behind two records
    assert_equal "$(tail -c 26 m.params | od -An -tx1 | tr -d ' \n')" 05000000000000006172673a77'05000000000000006175783a62'
    mentions -2 'params files hold no metadata' kvctl -c 'init w ones(2); save x.params --metadata a=b'
    mentions -3 'hold no array without axes' kvctl -c 'init w 3; save x.params'
    [ ! -e x.params ]
}

@test "save: what is wrong" {
    while IFS='|' read -r script code said; do
        run kvctl -s w.kvs -c "$script"
        assert_failure "$code"
        assert_output --partial "$said"
    done <<'END'
save s.kvs|3|error[value]: the store holds no keys
init 3 1; commit --disk; save w.kvs|2|"w.kvs" is the file of the store
init 4 1; save x.npy|2|"x.npy" is the name of a NumPy file, which keeps no store
init 4 1; save m.pt|2|"m.pt" is the name of a PyTorch file, which keeps no store
init 4 1; save M.NPZ|2|"M.NPZ" is the name of a NumPy file, which keeps no store
init 4 1; save -|2|a store stands in a file, not in a stream
init 4 1; save no/s.kvs|5|cannot write "no/s.kvs"
create --name b; commit --disk|3|"w.kvs" keeps the store kv, and b is in use
END
    assert [ ! -e x.npy ]
    opens -3 'error[value]: there is no file of -s to be written' kvctl -c 'init 3 1; commit --disk'
    run -4 kvctl --safe -c 'init 3 1; save s.kvs'
    says 'dry run: would write s.kvs' kvctl --dry-run -s new.kvs -c 'init 3 1; save s.kvs; commit --disk'
    assert_line 'dry run: would write new.kvs'
    assert [ ! -e s.kvs -a ! -e new.kvs ]
}

@test "save: commit --disk writes the file of -s, and an error behind it takes nothing back" {
    run -1 kvctl -s w.kvs -c 'init 3 1; commit --disk
!cp w.kvs 1.kvs
push 3 2; begin; push 3 5; commit --disk
!cp w.kvs 2.kvs
push 3 7
assert 1 == 2'
    for file in 1:1.0 2:5.0 w:5.0; do
        gives "${file#*:}" kvctl -s "${file%:*}.kvs" -c 'pull 3'
    done
    # a refusal leaves the transaction open
    run -3 kvctl -k -s w.kvs -c 'create; begin; init 4 1; commit --disk; rollback; list; init 3 8'
    assert_line --partial 'error[key]: 1 key of "w.kvs" would be gone: 3'
    gives $'8.0\n3' kvctl -s w.kvs -c 'pull 3; list'
    # a file that was made here is a file like any other
    run -3 kvctl -s new.kvs -c 'init 3 1; commit --disk; create; commit --disk'
    gives 3 kvctl -s new.kvs -c list
}

@test "save: no change of several processes that commit is lost" {
    local p
    kvctl -s w.kvs -c 'init 3 1; set-updater { stored += input }'
    for p in {1..8}; do
        (for _ in {1..8}; do
            kvctl -s w.kvs -c 'repeat 3 { push 3 1; commit --disk }' || touch failed
        done) 3>&- &
    done
    wait
    assert [ ! -e failed ]
    gives 193.0 kvctl -s w.kvs -c 'pull 3'
}

@test "save: kill -9 at any moment leaves the old file or the new one" {
    local i pid
    for ((i = 0; i < 20; i++)); do
        kvctl -c 'init 3 zeros(100000); set-updater { stored += input }
while true { push 3 ones(100000); save w.kvs; write i said.csv; i = 1 }' --set i=0 3>&- &
        pid=$!
        until [ -s said.csv ]; do sleep 0.01; done
        rm said.csv
        sleep "0.00$((RANDOM % 10))"
        kill -9 $pid
        wait $pid || true
        kvctl -s w.kvs -c 'pull 3 -> a; assert min(a) == max(a)'
    done
}
