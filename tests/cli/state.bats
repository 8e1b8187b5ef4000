# -s FILE: the store between invocations. What is saved and when, who waits for whom, and what a
# crash, an error or a full disk leaves.

load help

# The value of key 3, a number.
value()
{
    kvctl -q -s "${1:-w.kvs}" -c 'pull 3'
}

# A file that holds key 3 with the value 1, and an updater that adds.
one()
{
    kvctl -s "${1:-w.kvs}" -c 'init 3 1; set-updater { stored += input }'
}

# A file of another tool, without kvctl's words, that holds w = [1].
other_tools_file()
{
    local header='{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    printf "\\x$(printf %02x ${#header})"'\0\0\0\0\0\0\0%s\0\0\x80\x3f' "$header" >"$1"
}

# kvctl as somebody whom permissions concern, also when the tests run as root.
limited()
{
    if [ "$(id -u)" = 0 ]; then
        setpriv --bounding-set=-dac_override,-dac_read_search kvctl "$@"
    else
        kvctl "$@"
    fi
}

@test "state: values, updater and counts come back" {
    kvctl -s w.kvs -c 'init 3 ones(2,3)'
    kvctl -s w.kvs -c 'push 3 ones(2,3)*8'
    gives $'[[8. 8. 8.]\n [8. 8. 8.]]' kvctl -s w.kvs -c 'pull 3'
    kvctl -s w.kvs -c 'updater scale(by = 2.0) { stored += input * by + t }
set-updater scale --by 0.5
push 3 ones(2,3)'
    kvctl -s w.kvs -c 'push 3 ones(2,3)'
    begins '[12. 12. 12.]' kvctl -s w.kvs -c 'pull 3 -> a; print a[0]; info'
    assert_line --index 1 --partial "updater scale"
    assert_line --index 3 --regexp '^3 .* 3 +0$'
}

@test "state: what a rule reads comes back with its value" {
    kvctl -s w.kvs -c 'init 3 zeros(2)
rate = 0.5; note = "5"; lr = 0.25
def update(key, grad, weight):
    if note == "5":
        weight += rate * lr * grad
kv._set_updater(update)
rate = 2; push 3 ones(2)'
    begins '[1. 1.]' kvctl -s w.kvs -c 'push 3 ones(2); pull 3; info'
    assert_line --index 1 --partial "reads note '5', rate 2, lr 0.25"
    gives '[2. 2.]' kvctl -s w.kvs -c 'set-optimizer --update --rate 4; push 3 ones(2); pull 3'
}

# A training script that is run again and again goes on; what differs begins anew, and says so.
@test "state: the first optimizer of a run keeps the states of the file" {
    printf '%s\n' 'set-optimizer adam --learning-rate 0.1' 'if len(keys()) == 0 { init w zeros(1) }' \
        'push w ones(1)' >train.kv
    for i in 1 2 3; do
        gives '' kvctl -s w.kvs train.kv
    done
    begins 'optimizer adam, num_update 3, learning_rate 0.1' kvctl -s w.kvs -c 'info --states'
    assert_line --index 2 --regexp '^w +mean .* 3$'

    run kvctl -s w.kvs --dry-run train.kv
    assert_output $'dry run: "w.kvs" would change:\n  changed  w: float32 (1,), 1 of 1 elements
  states   w: t 4, before: t 3'
    run kvctl -s w.kvs --dry-run -c 'set-optimizer sgd; init v [1]; set-optimizer adam; push v [1]'
    assert_output 'note: drops the states of 1 key: adam before, sgd now
dry run: "w.kvs" would change:
  states   w: none, before: t 3
  new      v: float32 (1,)
  states   v: t 1, before: none'
    run kvctl -s w.kvs -c 'set-optimizer adam --fresh; info --states'
    assert_line --index 0 'note: drops the states of 1 key: adam before, adam now'
    assert_line --index 1 'optimizer adam, num_update 0, learning_rate 0.001'
    run kvctl -s w.kvs -c 'push w [1]; set-optimizer sgd; set-optimizer adam'
    assert_output 'note: drops the states of 1 key: adam before, sgd now'
    kvctl -s w.kvs -c 'push w [1]'
    run kvctl -s w.kvs -q --json -c 'set-optimizer adam; push w [1]; set-optimizer adam'
    assert_line --index 0 --regexp '"cmd":"set-optimizer","ok":true,[^d]*"keys":."w".,"out":..}$'
    assert_line --index 2 --partial '"out":[],"dropped":1}'
    refute_output --partial 'note'
    opens -2 'error[usage]: --update keeps the states, --fresh drops them' kvctl -s w.kvs -c 'set-optimizer --update --fresh'
}

@test "state: the first rule of a run keeps the states of the file" {
    local old='rate = 1; set-updater { state m; m = m + input; stored += m * rate }'
    kvctl -s w.kvs -c "$old; init w [0]; push w [1]"
    gives '[21.]' kvctl -s w.kvs -c "${old/= 1/= 10}; push w [1]; pull w"
    run kvctl -s w.kvs -c "${old/+ input/- input}; push w [1]; pull w"
    assert_output $'note: drops the states of 1 key: rule before, another rule now\n[20.]'
    gives 'note: drops the states of 1 key: rule before, assign now' kvctl -s w.kvs -c 'push w [1]; set-updater assign'
}

@test "state: text keys keep the order in which they were made" {
    kvctl -s w.kvs -c 'init b 1; init a 2; init "two words" 3'
    kvctl -s w.kvs -c 'push a 5'
    gives $'b\na\n"two words"' kvctl -s w.kvs -c 'list'
}

@test "state: row_sparse keys keep their rows, and their training goes on" {
    rows='row_sparse([[1,2]],[3],(5,2))' grad='row_sparse([[1,1],[2,2]],[1,3],(5,2))'
    kvctl -s w.kvs -c "init 4 $rows; init 5 ones(2)"
    run kvctl -s w.kvs -c 'info 4; row-sparse-pull 4 --row-ids [3] -> r; print r.stype'
    assert_output --regexp 'row_sparse +16 +0 .*row_sparse$'
    for i in 1 2 3; do
        kvctl -s w.kvs -c "$([ $i != 1 ] || echo 'set-optimizer adam;') push 4 $grad"
    done
    kvctl -c "init 4 $rows; set-optimizer adam; repeat 3 push 4 $grad; pull 4" >want
    gives "$(cat want)" kvctl -s w.kvs -c 'pull 4'
}

@test "state: rows and arrays of other dtypes come back" {
    kvctl -s r.kvs -c 'init 1,2 [row_sparse([[1, 2]], [1], (3, 2), dtype="float16"), row_sparse([[1, 0]], [1], (3, 2), dtype="bool")]
init 3 row_sparse([[1, -2]], [2], (3, 2), dtype="int8"); init 5 row_sparse([[9007199254740993, 2]], [0], (3, 2), dtype="int64")
init 6,7,8 [array([1, 255], dtype="uint8"), array([-128, 127], dtype="int8"), array([True, False])]'
    run -0 kvctl -s r.kvs -c 'row-sparse-pull 1,2,3,5 --row-ids [0, 1, 2] -> r; pull 6,7,8 -> d; for a in r + d { print a.ravel() }; info'
    assert_output '[0. 0. 1. 2. 0. 0.]
[False False  True False False False]
[ 0  0  0  0  1 -2]
[9007199254740993                2                0                0
                0                0]
[  1 255]
[-128  127]
[ True False]
type local, rank 0, num_workers 1, updater assign, compression none, keys 7, bytes 62
key  dtype    shape   context  storage     bytes  pushes  pending
1    float16  (3, 2)  cpu(0)   row_sparse  12     0       0
2    bool     (3, 2)  cpu(0)   row_sparse  10     0       0
3    int8     (3, 2)  cpu(0)   row_sparse  10     0       0
5    int64    (3, 2)  cpu(0)   row_sparse  24     0       0
6    uint8    (2,)    cpu(0)   default     2      0       0
7    int8     (2,)    cpu(0)   default     2      0       0
8    bool     (2,)    cpu(0)   default     2      0       0'
}

@test "state: the type is kept, and wins over --type" {
    kvctl -s w.kvs -c 'create device'
    gives device kvctl -s w.kvs --type local -c type
}

@test "state: gradient compression goes on with what it still owes" {
    kvctl -s w.kvs --type device -c 'init 3 0; set-gradient-compression 2bit --threshold 0.5'
    for _ in 1 2; do
        kvctl -s w.kvs -c 'push 3 0.375'
    done
    begins 0.5 kvctl -q -s w.kvs -c 'pull 3; info'
    assert_line --index 1 --partial "compression 2bit 0.5"
    kvctl -s w.kvs -c 'push 3 0.125'
    gives 0.0 value
}

@test "state: KVCTL_STORE names the file, -s wins, an empty one is none" {
    one env.kvs
    export KVCTL_STORE=env.kvs
    gives 1.0 kvctl -c 'pull 3'
    gives 7.0 kvctl -s other.kvs -c 'init 3 7; pull 3'
    run kvctl -c 'push 3 1'
    assert_equal "$(value env.kvs)" 2.0
    KVCTL_STORE='' run -3 kvctl -c 'pull 3'
    gives -2 'kvctl: error[usage]: a store cannot be kept in ""' kvctl -s '' -c 'pull 3'
    gives -2 'kvctl: error[usage]: a store cannot be kept in "-"' kvctl -s - -c 'pull 3'
}

@test "state: an error leaves the file untouched, -k saves what succeeded" {
    one
    cp w.kvs before
    for script in 'push 3 1; pull 9' 'push 3 1; assert 1 == 2' 'push 3 1; print @missing.csv'; do
        run ! kvctl -s w.kvs -c "$script"
        cmp w.kvs before
    done
    run -2 kvctl -s w.kvs -c 'push 3 1
nonsense 7'
    cmp w.kvs before
    run -3 kvctl -k -s w.kvs -c 'push 3 1; push 3 ones(2); push 3 1'
    assert_equal "$(value)" 3.0
    # -e is no error; quit with a code is none, but discards
    run -9 kvctl -s w.kvs -c 'push 3 1; quit 9'
    assert_equal "$(value)" 3.0
    gives '' kvctl -s w.kvs -c 'push 3 1; exit --discard'
    assert_equal "$(value)" 3.0
    run -1 kvctl -e -s w.kvs -c 'push 3 1; 1 == 2'
    assert_equal "$(value)" 4.0
}

@test "state: rollback without begin goes back to the opening" {
    one
    kvctl -s w.kvs -c 'set-optimizer adam; push 3 1'
    cp w.kvs before
    kvctl -s w.kvs -c 'push 3 1; init 4 1; set-updater assign; delete 3; rollback'
    cmp w.kvs before
    run -0 kvctl -s w.kvs -c 'push 3 1; begin; delete 3; rollback; rollback; info; info --states
push 3 1; commit --disk; delete 3; rollback; info'
    assert_line --index 0 --partial 'updater adam'
    assert_line --index 2 --regexp '^3 .* 1 +0$'
    assert_line --index 3 'optimizer adam, num_update 1, learning_rate 0.001'
    assert_line --index 9 --regexp '^3 .* 2 +0$' # what was written is the file's
    # a file that was not there held an empty store
    gives local kvctl -s new.kvs -c 'init 5 1; rollback; list; create device; init 6 1; rollback; type'
    run ! test -e new.kvs
    # other stores have no file
    opens -3 'error[value]: no transaction is open' kvctl -s w.kvs -c 'create --name b; init 5 1; rollback'
}

@test "state: --read-only works in memory, waits for no lock and writes nothing" {
    one
    cp w.kvs before
    gives $'2.0\n1.0' flock w.kvs kvctl --read-only --set store.wait=0 -s w.kvs -c 'push 3 1; pull 3; create; rollback; pull 3'
    opens -3 'error[value]: "w.kvs" is only read, nothing is written to it' kvctl --read-only -s w.kvs -c 'push 3 1; commit --disk'
    assert_line --index 3 --partial 'hint: save FILE writes the store to a file of its own'
    cmp w.kvs before
    gives 'read only: w.kvs would change: 1 key changed, 1 new' kvctl --read-only -s w.kvs -c 'push 3 5; init 4 1'
    run kvctl --read-only -s w.kvs -q -c 'push 3 5'
    refute_output
    # it sees the file that it opened, whoever replaces that
    run kvctl --read-only -s w.kvs -c 'push 3 10; !kvctl -s w.kvs -c "push 3 1"
rollback; pull 3'
    assert_output 1.0
    assert_equal "$(value)" 2.0
    gives -5 'kvctl: error[io]: cannot read "none.kvs": No such file or directory' kvctl --read-only -s none.kvs -c 'list'
    run ! test -e none.kvs
}

@test "state: -v says what was written" {
    one
    gives '' kvctl -q -s w.kvs -c 'push 3 1; init 4,5 1'
    run kvctl -v -s w.kvs -c 'push 3 1; delete 4; rename 5 6; set-optimizer adam; push 6 1'
    assert_line 'wrote w.kvs: 1 key changed, 1 new, 2 deleted; states of 1 key'
    run kvctl -v -s w.kvs -c 'delete 3'
    assert_line --index 1 'wrote w.kvs: 1 deleted key'
    run kvctl -v -s w.kvs -c 'set-optimizer sgd --fresh'
    assert_line --index 1 'wrote w.kvs: states of 1 key'
    begins 'wrote w.kvs: only its updater, or counts' kvctl -v -s w.kvs -c 'set-optimizer adam'
    run kvctl -v -s w.kvs -c 'pull 6; begin; push 6 1; rollback'
    refute_output --partial wrote
}

@test "state: the file is replaced only when the store changed" {
    one
    touch -d '2001-01-01' w.kvs
    local before
    before=$(stat -c '%i %y' w.kvs)
    for script in 'pull 3' 'info; list' 'begin; push 3 1; rollback' 'create --name b; init 3 1' \
        'x = 1' ''; do
        kvctl -q -s w.kvs -c "$script" >/dev/null
        assert_equal "$script: $(stat -c '%i %y' w.kvs)" "$script: $before"
    done
    kvctl -s w.kvs -c 'push 3 0'
    refute [ "$(stat -c '%i %y' w.kvs)" = "$before" ]
}

@test "state: a file that is missing is made when there is something to keep" {
    begins -3 'note: there is no "w.kvs": the store is empty' kvctl -s w.kvs -c 'print 1; pull 3'
    run -3 kvctl -s w.kvs -c 'init 3 1; pull 9'
    run -0 kvctl -s w.kvs -c 'begin; push 3 1; rollback'
    assert_equal "$(ls -A)" ""
    kvctl -s w.kvs -c 'create device'
    gives device kvctl -s w.kvs -c type
    : >empty.kvs
    run -0 kvctl -s empty.kvs -c 'list'
    one empty.kvs
    assert_equal "$(value empty.kvs)" 1.0
}

@test "state: mode and links of the file stay" {
    one
    chmod 640 w.kvs
    ln -s w.kvs link.kvs
    kvctl -s link.kvs -c 'push 3 1'
    assert_equal "$(stat -c %a w.kvs)" 640
    assert [ -L link.kvs ]
    assert_equal "$(value)" 2.0
    ln -s made.kvs dangling.kvs
    one dangling.kvs
    assert_equal "$(value made.kvs)" 1.0
}

@test "state: only the store kv is kept, and a note says so" {
    one
    gives 'note: "w.kvs" keeps the store kv; b and its 2 keys end here' kvctl -s w.kvs -c 'push 3 1; create --name b; init 1,2 0 0'
    gives 3 kvctl -s w.kvs -c 'list'
}

# ---- What a save must not lose ----

@test "state: a store made by create loses no key of the file" {
    kvctl -s w.kvs -c 'init 3,5,7,9 1; set-updater { stored += input }'
    cp w.kvs before
    run -3 kvctl -s w.kvs -c 'create'
    assert_output 'kvctl: error[key]: 4 keys of "w.kvs" would be gone: 3, 5, 7, …
 hint: nothing was run; --force drops them, create --name x makes a store beside that of the file'
    run kvctl -s w.kvs -c 'print "long"; create; init 5,7 2; def f(x) { init 3 x }'
    assert_line --index 0 'kvctl: error[key]: 1 key of "w.kvs" would be gone: 9'
    # what is computed is known at the end only
    begins -3 long kvctl -s w.kvs -c 'print "long"; create; for k in [5, 7] { init $k 2 }'
    assert_line --index 1 'kvctl: error[key]: 2 keys of "w.kvs" would be gone: 3, 9'
    kvctl -s w.kvs -c 'if has(5) { quit }; create; init 4 1'
    cmp w.kvs before
    run -3 kvctl -k -s w.kvs -c 'create device; init 5 2; init 3,7 2; init 1 1'
    assert_line --index 0 'kvctl: error[key]: 1 key of "w.kvs" would be gone: 9'
    run -3 kvctl -s w.kvs -c 'create; init "3","5","7","9" 1'
    begins -3 'dry run: "w.kvs" would change:' kvctl --dry-run -s w.kvs -c 'create; init 5 2'
    assert_line '  gone     9: float32 ()'
    assert_line 'kvctl: error[key]: 3 keys of "w.kvs" would be gone: 3, 7, 9'
    cmp w.kvs before
    # another store, new keys, and one that has all keys again are fine: a script can run twice
    kvctl -q -s w.kvs -c 'create --name b; init 1 1'
    cmp w.kvs before
    for _ in 1 2; do
        kvctl -s w.kvs -c 'create device; init 9,7,5,3,11 2'
    done
    gives $'device\n3\n5\n7\n9\n11' kvctl -s w.kvs -c 'type; list'
    kvctl -s w.kvs --force -c 'create; init 5 2'
    gives 5 kvctl -s w.kvs -c 'list'
    kvctl -s empty.kvs -c 'create device'
    kvctl -s empty.kvs -c 'create; init 1 1'
}

@test "state: a file of another tool stays one when values change" {
    foreign
    cp m.safetensors before
    gives $'[3.]\n[1.]' kvctl -s m.safetensors -c 'push fc.bias [3]; pull fc.bias; pull fc.weight'
    # the same header, and other data
    assert_equal "$(head -c 176 m.safetensors | md5sum)" "$(head -c 176 before | md5sum)"
    gives '[3.]' kvctl -s m.safetensors -c 'pull fc.bias'
    # an updater that is no longer there at the end is not kept
    run -0 kvctl -s m.safetensors -c 'set-updater { stored = input / 2 }; push fc.bias [8]; set-updater assign'
    gives '[4.]' kvctl -s m.safetensors -c 'pull fc.bias'
}

@test "state: a file of another tool wants --force for all but values, once" {
    foreign
    cp m.safetensors before
    local hint=' hint: nothing was written; --force makes it kvctl'"'"'s, which other tools can read all the same'
    while IFS='|' read -r script why; do
        run -3 kvctl -s m.safetensors -c "$script"
        assert_output "kvctl: error[key]: \"m.safetensors\" is another tool's file, and not only values of its keys changed: $why
$hint"
        mentions -3 "not only values of its keys changed: $why" kvctl --dry-run -s m.safetensors -c "$script"
        cmp m.safetensors before
    done <<'END'
init a,b,c,d 1|4 new keys: a, b, c, …
push fc.bias [1]; push new 1|1 new key: new
delete fc.bias; init new 1|1 new key: new
rename fc.bias b; delete b; init fc.bias 1|1 new key: fc.bias
begin; delete fc.bias; rollback; init new 1|1 new key: new
set-optimizer sgd; push fc.bias [1]|it would keep an updater
push fc.bias row_sparse([1],[0],(1,))|row_sparse now: fc.bias
create; init fc.weight,fc.bias ones(1)|create made another store
END
    kvctl --dry-run -s m.safetensors -c 'begin; delete fc.bias; rollback; rename fc.bias b; push b [1]'
    begins -3 'kvctl: error[key]: 2 keys of "m.safetensors" would be gone: fc.weight, fc.bias' kvctl -s m.safetensors -c 'create'
    kvctl --force -s m.safetensors -c 'init new 1'
    kvctl -s m.safetensors -c 'init more 1; set-updater { stored += input }'
    gives $'fc.weight\nfc.bias\nnew\nmore' kvctl -s m.safetensors -c list
}

@test "state: delete and rename are meant, so the file loses these keys" {
    kvctl -s w.kvs -c 'init 3,5,7,9 1; set-optimizer sgd --momentum 0.9; push 3 1; push 9 1'
    run -0 kvctl -s w.kvs -c 'delete 5,7; rename 9 1'
    refute_output
    begins 1 kvctl -s w.kvs -c 'list; info 1 --states'
    assert_line --index 1 3
    assert_equal "${#lines[@]}" 5
    assert_line --index 4 --regexp '^1 +mom +float32 +\(\) +- +4 +1$'
    cp w.kvs before
    # what is taken back, or refused, leaves it as it was
    kvctl -s w.kvs -c 'begin; delete *; rollback'
    run -3 kvctl -s w.kvs -c 'delete 3; delete 4'
    run kvctl --dry-run -s w.kvs -c 'delete 3; rename 1 8'
    assert_output 'dry run: "w.kvs" would change:
  new      8: float32 ()
  states   8: t 1, before: none
  gone     1: float32 ()
  states   1: none, before: t 1
  gone     3: float32 ()
  states   3: none, before: t 1'
    cmp w.kvs before
    # another store loses nothing of the file, whatever it deletes
    begins -3 'kvctl: error[key]: 1 key of "w.kvs" would be gone: 3' kvctl -s w.kvs -c 'create; init 1,3 1; delete 3'
    kvctl -s w.kvs -c 'create; init 1,2 1; rename 2 3'
    kvctl -s w.kvs -c 'delete 1; commit --disk; init 4 1; commit --disk; delete 3'
    gives 4 kvctl -s w.kvs -c list
    kvctl -s w.kvs -c 'delete *'
    run kvctl -s w.kvs -c list
    refute_output
    kvctl -s w.kvs -c 'init w 1' # of the other kind
}

@test "state: delete and rename leave a file of another tool one" {
    foreign
    gives 'wrote m.safetensors: 1 new key, 1 deleted' kvctl -s m.safetensors -c 'rename fc.weight weight'
    gives $'weight\nfc.bias\nTrue' kvctl -s m.safetensors -c 'list; kv.is_capable("files")'
    gives -1 0 grep -ac kvstore m.safetensors
    cp m.safetensors before
    opens -3 'not only values of its keys changed: 2 new keys: a, b' kvctl -s m.safetensors -c 'delete fc.bias; init a,b 1'
    cmp m.safetensors before
    run kvctl -s m.safetensors -q -c 'delete weight'
    refute_output
    gives fc.bias kvctl -s m.safetensors -c 'list'
    gives 1 grep -ac '"format":"pt","author":"me"' m.safetensors
    gives -1 0 grep -ac kvstore m.safetensors
}

@test "state: metadata of other tools are kept by whatever writes" {
    foreign
    kvctl -s m.safetensors -c 'pull * > all.safetensors; pull fc.bias > {key}.safetensors; pull fc.bias -> b; write b b.safetensors; push fc.bias [9]'
    kvctl -s copy.safetensors -c 'init * @m.safetensors; init more 1'
    kvctl -s m.safetensors --force -c 'create device; init fc.weight,fc.bias,x ones(1)'
    for file in all fc.bias b copy m; do
        run grep -ac '"format":"pt","author":"me"' $file.safetensors
        assert_equal "$file $output" "$file 1"
    done
    gives device kvctl -s m.safetensors -c type
}

@test "state: at a prompt, leaving what cannot be saved takes two tries" {
    command -v expect >/dev/null || skip "no expect"
    one
    cp w.kvs before
    TERM=dumb run -3 expect -c 'set timeout 10; spawn kvctl -s w.kvs; expect "kv> "; send "create\r"
        expect "kv> "; send "quit\r"; expect "1 key of"; expect "leave once more"; expect "kv> "
        send "print 41+1\r"; expect "42"; expect "kv> "; send "\004"; expect "1 key of"; expect eof
        exit [lindex [wait] 3]'
    cmp w.kvs before
}

@test "state: a prompt is told what was written, and asked before another tool's file changes" {
    command -v tmux >/dev/null || skip "no tmux"
    load screen
    other_tools_file f.safetensors
    cp f.safetensors before
    terminal 80 30 -s w.kvs
    enter 'init 3,4 1' 'kv> init 3,4 1'
    leave 'kv>'
    until_holds "it says what was written" on_screen 'wrote w.kvs: 2 new keys'
    # no, in each of its ways
    for answer in Enter C-d C-c n; do
        terminal 80 30 -s f.safetensors
        enter 'push w [2]'
        enter 'quit'
        until_holds "it asks" on_screen 'write 1 changed key to f.safetensors? [y/N]'
        press $answer
        [ $answer != n ] || press Enter
        until_holds "it discards" is_row 'f.safetensors is as it was'
        until_holds "it ends well" has_ended 0
        cmp f.safetensors before
    done
    terminal 80 30 -s f.safetensors
    enter 'push w [2]'
    enter 'rollback'
    enter 'push w [3]'
    enter 'quit --discard'
    until_holds "it discards" is_row 'f.safetensors is as it was'
    terminal 80 30 -s f.safetensors
    enter 'push w [2]'
    enter 'quit 3'
    until_holds "it ends with 3" has_ended 3
    on_screen 'f.safetensors is as it was'
    cmp f.safetensors before
    terminal 80 30 --read-only -s f.safetensors
    enter 'push w [2]'
    enter 'quit'
    until_holds "it lists" is_row '  changed  w: float32 (1,), 1 of 1 elements'
    on_screen 'read only: "f.safetensors" would change:'
    cmp f.safetensors before
    terminal 80 30 -s f.safetensors
    enter 'push w [2]'
    enter 'quit'
    until_holds "it asks" on_screen '[y/N]'
    enter y
    until_holds "it writes" is_row 'wrote f.safetensors: 1 key changed'
    assert_equal "$(kvctl -s f.safetensors -c 'pull w')" '[2.]'
    # --force and pipes ask nothing
    terminal 80 30 -s f.safetensors --force
    enter 'push w [4]'
    enter 'quit'
    until_holds "it writes" is_row 'wrote f.safetensors: 1 key changed'
}

@test "state: a prompt on a file that cannot be written reads it" {
    command -v tmux >/dev/null || skip "no tmux"
    [ "$(id -u)" != 0 ] || command -v setpriv >/dev/null || skip "root may write everything"
    load screen
    one
    chmod 444 w.kvs
    terminal_with 80 30 setpriv --bounding-set=-dac_override,-dac_read_search kvctl -s w.kvs
    until_holds "it says so" is_row 'note: "w.kvs" cannot be written: nothing that is done here is saved'
    enter 'push 3 1'
    enter 'pull 3'
    until_holds "it works" is_row 2.0
    enter 'quit'
    until_holds "it lists" on_screen 'read only: "w.kvs" would change:'
    assert_equal "$(value)" 1.0
}

@test "state: undo takes back the only change, and of several none" {
    one
    gives 2.0 kvctl -s w.kvs -c 'pull 3 -> a; push 3 100; pull 3 -> b; undo; push 3 1; pull 3'
    gives 2.0 kvctl -s w.kvs -c 'for i in 0..2 { push 3 100; undo }' -c 'push 3 2; rollback; push 3 3; undo; pull 3'
    run -3 kvctl -s w.kvs -c 'undo'
    assert_line --index 0 --partial 'error[value]: nothing has changed since "w.kvs" was opened or written'
    run -3 kvctl -s w.kvs -k -c 'push 3 1; push 3 1; undo; pull 3; commit --disk; push 3 1; undo; pull 3'
    assert_line --partial 'error[value]: undo takes back one statement, and several changed the store'
    assert_line ' hint: rollback takes back all since "w.kvs" was opened or written'
    assert_equal "$(grep -x '[0-9.]*' <<<"$output" | paste -sd ' ')" "4.0 4.0"
    run -3 kvctl -s w.kvs -k -c 'push 3 1; create; init 3 7; undo; pull 3'
    assert_line 7.0
    run kvctl -c 'help undo'
    assert_line --partial 'without -s: begin and rollback'
}

@test "state: what was begun and not committed is not saved" {
    one
    gives 102.0 bash -c "kvctl -s w.kvs -c 'push 3 1; begin; push 3 100; pull 3' 2>err"
    gives 'warning: no commit came after begin: what it began is not saved' cat err
    assert_equal "$(value)" 2.0
}

@test "state: files of other tools are text keys, and wrong files are refused untouched" {
    kvctl -c 'init 1,0 [ones(2), zeros(3)]; pull [1, 0] > m.safetensors'
    gives $'"1"\n"0"\n[1. 1.]' kvctl -s m.safetensors -c 'list; pull "1"'
    one good.kvs
    head -c 100 good.kvs >cut.kvs
    printf '{"weights": 1}' >wrong.kvs
    for file in wrong.kvs cut.kvs; do
        cp $file before
        opens -5 "kvctl: error[format]: $file: " kvctl -s $file -c 'push 3 1; print 1'
        refute_line 1
        cmp $file before
    done
    run -5 kvctl -s . -c 'push 3 1'
    assert_output 'kvctl: error[io]: cannot write ".": Is a directory
 hint: -s keeps one file: kvctl convert FOLDER m.safetensors makes one of a folder'
    run -5 kvctl -s . -c 'pull 3'
    assert_output 'kvctl: error[io]: cannot read ".": Is a directory
 hint: -s keeps one file: kvctl convert FOLDER m.safetensors makes one of a folder'
    gives -5 'kvctl: error[io]: "/dev/null" is not a regular file, so it cannot keep a store' kvctl -s /dev/null -c 'push 3 1'
    gives -5 'kvctl: error[io]: cannot write "no/folder.kvs": No such file or directory' kvctl -s no/folder.kvs -c 'push 3 1'
}

@test "state: a later format, and a rule that cannot be read" {
    one
    # without checksums, which belong to the store that was written
    sed 's/kvstore\.xxh64/another.xxh64/g' w.kvs >plain.kvs
    sed 's/"kvstore.format":"1"/"kvstore.format":"7"/' plain.kvs >later.kvs
    run -5 kvctl -s later.kvs -c 'pull 3'
    assert_output 'kvctl: error[format]: later.kvs: a store in format "7", this version reads format 1
 hint: a later version wrote it'
    sed 's/stored += input/stored +* input/' plain.kvs >rule.kvs
    opens -5 'kvctl: error[format]: rule.kvs: its rule: ' kvctl -s rule.kvs -c 'pull 3'
}

@test "state: a bit that changed is found, and a file without checksums is read" {
    one
    cp w.kvs before
    { head -c -1 w.kvs; printf '\101'; } >damaged.kvs
    run -5 kvctl -s damaged.kvs -c 'push 3 1'
    assert_line --index 0 'kvctl: error[format]: damaged.kvs: the file is damaged: the data of "3" are not what was written'
    assert_line --index 1 ' hint: use a copy of it; a tool that changes a file on purpose leaves the metadata "kvstore.xxh64" and "kvstore.xxh64.…" out'
    sed 's/"kvstore.pushes":"[0-9]*/&0/; s/  / /' w.kvs >damaged.kvs
    run -5 kvctl -s damaged.kvs -c 'push 3 1'
    sed 's/kvstore\.xxh64/another.xxh64/g' w.kvs >plain.kvs
    gives 2.0 kvctl -s plain.kvs -c 'push 3 1; pull 3'
    cmp w.kvs before
}

@test "state: no permission is said before anything runs" {
    one
    mkdir folder
    mv w.kvs folder
    chmod 555 folder
    run -5 limited -s folder/w.kvs -c '!touch ran
push 3 1'
    assert_line --index 0 'kvctl: error[io]: cannot write "folder/w.kvs": Permission denied'
    assert_line --index 1 --partial 'its folder must be writable'
    assert [ ! -e ran ]
    run -0 limited -s folder/w.kvs -c 'pull 3'
    gives -5 'kvctl: error[io]: cannot write "folder/new.kvs": Permission denied' limited -s folder/new.kvs -c 'init 3 1'
    chmod 755 folder
    chmod 444 folder/w.kvs
    run -5 limited -s folder/w.kvs -c '!touch ran
push 3 1'
    assert_output 'kvctl: error[io]: cannot write "folder/w.kvs": Permission denied'
    assert [ ! -e ran ]
    run -0 limited -s folder/w.kvs -c 'pull 3'
    chmod 000 folder/w.kvs
    gives -5 'kvctl: error[io]: cannot read "folder/w.kvs": Permission denied' limited -s folder/w.kvs -c 'pull 3'
}

# ---- Several processes ----

# Runs a script that then holds the file until go.NAME is removed. Its process is $!.
holder()
{
    touch "go.$1"
    kvctl -q -s w.kvs -c "$2
!touch ready.$1; while [ -e go.$1 ]; do sleep 0.02; done" >/dev/null 3>&- &
    for _ in {1..500}; do
        [ ! -e "ready.$1" ] || return 0
        sleep 0.02
    done
    return 1
}

@test "state: who writes has the file alone, and who waits too long is told by whom" {
    one
    holder a 'push 3 1'
    local pid=$!
    run -6 kvctl --set store.wait=0.2 -s w.kvs -c 'push 3 1'
    assert_line --index 0 --regexp \
        "^kvctl: error\[busy\]: \"w.kvs\" is locked by (process $pid|another process); waited 0.200 s for it\$"
    assert_line --index 1 ' hint: kvctl --set store.wait=60 waits longer'
    run -6 kvctl --set store.wait=0 -s w.kvs -c 'pull 3'
    rm go.a
    gives 2.0 kvctl -s w.kvs -c 'pull 3'
    wait "$pid"
}

@test "state: readers share, a writer waits for them and a note says so" {
    one
    holder a 'pull 3'
    holder b 'x = 1; info'
    gives 1.0 kvctl --set store.wait=0 -s w.kvs -c 'pull 3'
    run -6 kvctl --set store.wait=0.1 -s w.kvs -c 'def f(a) { push 3 a }
pull 3'
    kvctl -s w.kvs -c 'push 3 1' >out 2>&1 3>&- &
    pid=$!
    until [ -s out ]; do
        kill -0 $pid
        sleep 0.05
    done
    rm go.a go.b
    wait $pid
    gives 'note: waiting for "w.kvs", which another process has locked' cat out
    wait
    assert_equal "$(value)" 2.0
}

@test "state: no change of many processes at once is lost" {
    local p
    one
    for p in 1 2 3 4 5; do
        (for _ in {1..12}; do
            kvctl -s w.kvs -c 'push 3 1' || touch failed
        done) 3>&- &
    done
    wait
    assert [ ! -e failed ]
    assert_equal "$(value)" 61.0
}

@test "state: many processes make one missing file together" {
    local p
    for p in {1..12}; do
        kvctl -s n.kvs -c "init $p 1" 3>&- || touch failed &
    done
    wait
    assert [ ! -e failed ]
    assert_equal "$(kvctl -s n.kvs -c list | wc -l)" 12
    assert_equal "$(ls -A)" n.kvs
}

# Sends a signal to a process that a test started, and checks how it ended.
ends_with()
{
    local status=0
    kill -s "$2" "$1"
    wait "$1" || status=$?
    assert_equal "$2 $status" "$2 $3"
}

@test "state: SIGTERM and Ctrl-C while waiting end at once" {
    one
    holder a 'push 3 1'
    run -143 signalled TERM -q -s w.kvs -c 'push 3 1'
    run -130 signalled INT -q -s w.kvs -c 'push 3 1'
    rm go.a
    wait
}

# ---- Crashes ----

@test "state: SIGTERM and Ctrl-C leave the file as it was" {
    one
    cp w.kvs before
    for pair in TERM:143 INT:130; do
        rm -f ready
        kvctl -q -s w.kvs -c 'push 3 1; !touch ready
while true { x = 1 }' 3>&- &
        while [ ! -e ready ]; do sleep 0.02; done
        ends_with $! "${pair%:*}" "${pair#*:}"
        cmp w.kvs before
    done
    rm ready
    assert_equal "$(ls -A | tr '\n' ' ')" "before w.kvs "
}

# 2 MB, so that a save takes a while. Killed at any moment of start, load, push and save, a run
# leaves the old file or the new one, whole, and perhaps a temporary one of its own.
@test "state: kill -9 at any moment leaves the old file or the new one" {
    local i before=0 after saved=0 pid begun us delay
    begun=${EPOCHREALTIME/./}
    kvctl -s w.kvs -c 'init 3 zeros(500000); set-updater { stored += input }'
    us=$((${EPOCHREALTIME/./} - begun)) # how long such a run takes here
    for ((i = 0; i < 80; i++)); do
        kvctl -s w.kvs -c 'push 3 ones(500000)' 3>&- &
        pid=$!
        printf -v delay '%07d' $((RANDOM * us * 2 / 32768))
        sleep "${delay%??????}.${delay: -6}"
        kill -9 $pid 2>/dev/null || true
        wait $pid || true
        after=$(kvctl -s w.kvs -c 'pull 3 -> a; assert min(a) == max(a); print max(a)')
        after=${after%.*}
        assert [ "$after" = "$before" -o "$after" = $((before + 1)) ]
        [ "$after" = "$before" ] || saved=$((saved + 1))
        before=$after
    done
    echo "# $saved of 80 were saved" >&3
    kvctl -s w.kvs -c 'push 3 ones(500000)'
}

# Killed at any moment, save-states leaves the old file or the new one, and nothing that is in the
# way of the next, which removes what it left.
@test "state: kill -9 of save-states leaves the old states or the new ones" {
    local i before=1 after saved=0 left=0 pid begun us delay
    local weights='init 3 zeros(500000); set-optimizer adam'
    kvctl -s w.kvs -c "$weights; push 3 ones(500000); save-states a.safetensors"
    begun=${EPOCHREALTIME/./}
    kvctl -s w.kvs -c 'load-states a.safetensors; save-states b.safetensors'
    us=$((${EPOCHREALTIME/./} - begun)) # how long such a run takes here
    for ((i = 0; i < 60; i++)); do
        kvctl -c "$weights; load-states a.safetensors; push 3 ones(500000)
save-states a.safetensors" 3>&- &
        pid=$!
        printf -v delay '%07d' $((RANDOM * us * 2 / 32768))
        sleep "${delay%??????}.${delay: -6}"
        kill -9 $pid 2>/dev/null || true
        wait $pid || true
        # the file is whole, or its checksums would say so
        after=$(kvctl -c "$weights; load-states a.safetensors; info --states" | awk '/mean/ { print $NF }')
        assert [ "$after" = "$before" -o "$after" = $((before + 1)) ]
        [ "$after" = "$before" ] || saved=$((saved + 1))
        before=$after
    done
    for i in .kv-*.tmp; do
        [ ! -e "$i" ] || left=$((left + 1))
    done
    echo "# $saved of 60 were saved, $left left a temporary file" >&3
    touch -d '2 minutes ago' .kv-123-0.tmp .kv-125-0.tmpx
    touch ".kv-$pid-0.tmp" ".kv-$$-0.tmp" # of a process that is gone, and of one that is not
    kvctl -c "$weights; load-states a.safetensors; save-states a.safetensors"
    assert_equal "$(ls -A)" "$(printf '%s\n' ".kv-$$-0.tmp" .kv-125-0.tmpx a.safetensors b.safetensors w.kvs | sort)"
}

@test "state: a disk that is full leaves the old file, and the exit code says so" {
    kvctl -s w.kvs -c 'init 3 ones(3000)'
    cp w.kvs before
    gives -5 'kvctl: error[io]: cannot write "w.kvs": File too large' bash -c "ulimit -f 4; kvctl -s w.kvs -c 'push 3 zeros(3000)'"
    cmp w.kvs before
    assert_equal "$(ls -A | tr '\n' ' ')" "before w.kvs "
    mkdir disk
    mount -t tmpfs -o size=24k tmpfs disk 2>/dev/null || skip "no right to mount a small disk"
    kvctl -s disk/w.kvs -c 'init 3 ones(4000)'
    cp disk/w.kvs before
    run kvctl -s disk/w.kvs -c 'push 3 zeros(4000)'
    local left
    left=$(ls -A disk)
    cmp disk/w.kvs before || touch differs
    umount disk
    assert_failure 5
    assert_output 'kvctl: error[io]: cannot write "disk/w.kvs": No space left on device'
    assert_equal "$left" w.kvs
    assert [ ! -e differs ]
}

@test "state: a disk that is full leaves files of states, and those of other tools" {
    local file states='init 3 ones(3000); set-optimizer adam; push 3 ones(3000); save-states s.kvs'
    kvctl -c "$states; create; init a ones(3000); pull * > m.safetensors"
    cp m.safetensors n.safetensors
    for file in s.kvs m.safetensors n.safetensors; do
        cp $file $file.before
    done
    before=$(ls -A)
    mentions -5 'error[io]: cannot write "s.kvs": File too large' bash -c "ulimit -f 4; kvctl -c '$states'"
    run -5 bash -c "ulimit -f 4; kvctl -s m.safetensors -c 'push a zeros(3000)'"
    assert_output 'kvctl: error[io]: cannot write "m.safetensors": File too large'
    run -5 bash -c "ulimit -f 4; kvctl -s m.safetensors -c 'pull * > n.safetensors'"
    assert_output --partial 'error[io]: cannot write "n.safetensors": File too large'
    for file in s.kvs m.safetensors n.safetensors; do
        cmp $file $file.before
    done
    assert_equal "$(ls -A)" "$before"
}

@test "state: kill -9 leaves a file of another tool whole" {
    local i pid
    kvctl -c 'init a,b zeros(200000); pull * > m.safetensors'
    for ((i = 1; i <= 30; i++)); do
        kvctl -s m.safetensors -c "push a,b [full(200000, $i), full(200000, $i)]" 3>&- &
        pid=$!
        sleep 0.0$((RANDOM % 6))
        kill -9 $pid 2>/dev/null || true
        wait $pid || true
        run -0 kvctl -s m.safetensors -c 'pull a -> a; pull b -> b; assert min(a) == max(a); assert min(b) == max(a); print len(keys())'
        assert_output 2
    done
    kvctl -s m.safetensors -c 'push a,b [zeros(200000), zeros(200000)]'
}

@test "state: a reader that leaves early does not stop the save" {
    one
    kvctl -s w.kvs -c 'repeat 20000 { print "line" }; push 3 1' | head -n 1 >first
    local codes=("${PIPESTATUS[@]}")
    assert_equal "${codes[*]}" "0 0"
    assert_equal "$(value)" 2.0
}

@test "state: output that cannot be written is an error like any other" {
    one
    run -5 bash -c "kvctl -s w.kvs -c 'push 3 1; pull 3' >/dev/full"
    assert_equal "$(value)" 1.0
}

# ---- The prompt ----

@test "state: at the prompt mistakes are part of the talk, and the rest is saved" {
    one
    run -3 kvctl -i -s w.kvs <<'END'
push 3 1
pull 9
begin
push 3 50
rollback
push 3 1
END
    assert_equal "$(value)" 3.0
    # a file that cannot be read is no reason to go on without it
    echo wrong >w.kvs
    run -5 kvctl -i -s w.kvs <<<'print 1'
    refute_line 1
}

# ---- --dry-run ----

@test "dry run: says what would change, and writes nothing" {
    kvctl -s w.kvs -c 'init 3 ones(2,3); init 4 zeros(2); init 5 1; init 6 1'
    touch -d '2001-01-01' w.kvs
    local before
    before=$(ls -Ali)
    run -0 kvctl --dry-run -s w.kvs -c 'a = ones(2,3)
a[0, 0] = 7
push 3 a
init 9 zeros(4)
push 5 1
set-updater { stored += input }
pull 3
pull 3 > out.csv
write a other.npy
pull 3 | cat > piped
!touch shell'
    assert_output '[[7. 1. 1.]
 [1. 1. 1.]]
dry run: would write out.csv
dry run: would write other.npy
dry run: would run cat > piped
dry run: would run touch shell
dry run: "w.kvs" would change:
  changed  3: float32 (2, 3), 1 of 6 elements
  changed  5: float32 (), 0 of 1 elements
  new      9: float32 (4,)
  updater  rule, before: assign'
    assert_equal "$(ls -Ali)" "$before"
    run kvctl --dry-run --force -s w.kvs -c 'create device; init 3 zeros(5)'
    assert_output 'dry run: "w.kvs" would change:
  replaced 3: float32 (5,)
  gone     4: float32 (2,)
  gone     5: float32 ()
  gone     6: float32 ()
  type     device, before: local'
    gives $'1.0\ndry run: "w.kvs" would stay as it is' kvctl --dry-run -s w.kvs -c 'pull 5; begin; push 5 3; rollback'
    run -3 kvctl --dry-run -s w.kvs -c 'push 5 3; pull 99'
    refute_output --partial 'dry run'
    assert_equal "$(ls -Ali)" "$before"
}

@test "dry run: of a file that is not there, and without one" {
    run -0 kvctl -q --dry-run -s new.kvs -c 'init 3 1'
    assert_output 'dry run: "new.kvs" would be made:
  new      3: float32 ()'
    run kvctl --dry-run -c 'init 3 1'
    assert_output 'dry run: without a state file; kv would hold:
  new      3: float32 ()'
    gives 1 kvctl --dry-run -c 'print 1'
    assert_equal "$(ls -A)" ""
}

@test "dry run: shares the lock of readers" {
    one
    holder a 'pull 3'
    run -0 kvctl --dry-run --set store.wait=0 -s w.kvs -c 'push 3 1'
    rm go.a
    wait
}

# Trained in one go and step by step, each step by another process, w has the same bits.
trains_on()
{
    local step all='init w 2; set-optimizer '$1
    rm -f w.kvs
    kvctl -s w.kvs -c "$all"
    for step in 1 -3 2.5 0.25; do
        kvctl -s w.kvs -c "push w $step"
        all+="; push w $step"
    done
    run -0 kvctl -c "$all; pull w"
    local want=$output
    gives "$want" kvctl -s w.kvs -c 'pull w'
}

@test "state: an optimizer goes on where it was: states, counts, schedule, noise" {
    trains_on adam
    trains_on 'nadam --lr-scheduler "factor(2, 0.5)"'
    trains_on 'sgd --momentum 0.9'
    trains_on 'lbsgd --batch-scale 3'
    trains_on sgld
}

@test "state: a file of numbers is no store, and says what reads it" {
    printf 'a,b\n1,2\n' >data.csv
    printf '[1, 2]' >'two words.json'
    run -5 kvctl -s data.csv list
    assert_output 'kvctl: error[format]: "data.csv" is a CSV file, which keeps no store
 hint: @data.csv reads its array'
    run -5 kvctl -s 'two words.json' -c 'init 3 ones(2)'
    assert_output 'kvctl: error[format]: "two words.json" is a JSON file, which keeps no store
 hint: @"two words.json" reads its array'
    assert_equal "$(<data.csv)" $'a,b\n1,2'
    assert_equal "$(<'two words.json')" '[1, 2]'
}

@test "state: -s makes no store under the name of another format" {
    run -2 kvctl -s new.npy -c 'init 3 1'
    assert_output 'kvctl: error[usage]: "new.npy" is the name of a NumPy file, which keeps no store
 hint: -s keeps a store in a file such as store.kvs'
    assert [ ! -e new.npy ]
    kvctl -s w.kvs -c 'init 3 1' # one that is there is opened whatever its name
    mv w.kvs old.npy
    gives 1.0 kvctl -s old.npy -c 'pull 3'
}

@test "-s refuses a file whose types no store keeps, since a save would change them" {
    kvctl -q -s m.safetensors -c 'init w,n [ones(2), full(1, 3, dtype="int64")]'
    kvctl convert m.safetensors f8.safetensors --dtype f8_e4m3
    cp f8.safetensors before
    run -3 kvctl -s f8.safetensors -c 'push w zeros(2)'
    assert_output 'kvctl: error[dtype]: f8.safetensors: tensor "w" is F8_E4M3, which no store keeps
 hint: init * @FILE takes its values as numbers of another dtype; kvctl convert --dtype changes the file'
    cmp f8.safetensors before
    gives "float32 ['w', 'n']" kvctl -c 'init * @f8.safetensors; print dtype(@f8.safetensors#w), keys()'
}

@test "state: a redirect does not write over the file of -s" {
    kvctl -s st.safetensors -c 'create; init w ones(2); init v zeros(1); set-optimizer sgd; push w ones(2)'
    cp st.safetensors before.safetensors
    mentions -2 '"st.safetensors" is the file of the store' kvctl -s st.safetensors -c 'pull w > st.safetensors'
    mentions -2 '"st.safetensors" is the file of the store' env KVCTL_STORE=st.safetensors kvctl -c 'pull w > st.safetensors'
    local command
    for command in 'convert before.safetensors' 'merge average before.safetensors --out'; do
        mentions -2 '"st.safetensors" is the file of the store' kvctl -s st.safetensors -c "$command st.safetensors"
    done
    cmp st.safetensors before.safetensors
}

@test "state: create behind another store that was chosen replaces that one" {
    kvctl -s fs.kvs -c 'init w ones(1)'
    says w kvctl -s fs.kvs -c 'create --name b; create local; init x ones(1); use kv; list'
}

@test "state: commit --disk while others write the file" {
    local pids=() one status
    for one in 1 2 3; do
        kvctl -s race.kvs -c 'repeat 30 { push w ones(1); commit --disk }' >/dev/null 2>"$one.err" 3>&- &
        pids+=($!)
    done
    for one in "${pids[@]}"; do
        status=0
        wait "$one" || status=$?
        [ "$status" -lt 100 ] || { cat ./*.err; return 1; } # of a signal
    done
    kvctl -s race.kvs -c 'pull w'
}
