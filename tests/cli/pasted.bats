# Pages about MXNet's KVStore, pasted as they are: prompts, outputs and all. data/pasted/*.txt.gz are the
# code blocks of a tutorial, of somebody's notes, of a notebook and of the docstrings of the class. A
# file *.differs lists the lines that do not agree, each with its reason.

load help

# page NAME: its code blocks are page.txt.
page()
{
    gzip -dc "$data/pasted/$1.txt.gz" >page.txt
}

# Blanks do not count, nor do empty lines.
normalised()
{
    sed 's/[[:blank:]]\+/ /g; s/^ //; s/ $//; /^$/d'
}

# What differs between expected and got, as diff marks it, is exactly what the page's list says.
agrees()
{
    grep -v '^#' "$data/pasted/$1.differs" >allowed || true
    diff <(normalised <expected) <(normalised <got) | grep '^[<>]' >differs || true
    diff allowed differs
}

# The lines of a page that have no prompt: what was printed.
printed()
{
    grep -v -e '^ *>>>' -e '^ *\.\.\.' -e '^#' "$1"
}

@test "the tutorial runs as it is pasted" {
    page tutorial
    kvctl -q --format legacy page.txt >got
    printed page.txt >expected
    agrees tutorial
}

@test "the tutorial runs without its outputs and prompts, too" {
    page tutorial
    sed -n 's/^ *>>> //p' page.txt >plain
    kvctl -q --format legacy plain >got
    printed page.txt >expected
    agrees tutorial
}

@test "the tutorial runs line by line, as it arrives from a pipe" {
    page tutorial
    grep '^ *>>>' page.txt | kvctl -q -i --format legacy >got
    printed page.txt >expected
    agrees tutorial
}

@test "the notes run as they are pasted" {
    page notes
    kvctl -q --format legacy page.txt >got
    printed page.txt >expected
    agrees notes
}

@test "the cells of the notebook run, in the format of mx.np" {
    page notebook
    sed '/^# output$/,/^# cell$/d; /^help(kv)$/d' page.txt >cells
    sed -n '/^# output$/,/^# cell$/p' page.txt | grep -v '^#' >expected
    grep -q 'kv._set_updater(update)' cells
    kvctl -q --format mxnet cells >got
    agrees notebook
}

@test "help(kv) lists the methods of a store, help(kv.push) and help(push) are help push" {
    kvctl -c 'help kv' >expected
    for call in 'help(kv)' 'help(mx.kv)' 'help(mx.kvstore)' 'b = kv.create(); help(b)'; do
        kvctl -c "$call" >got
        cmp expected got
    done
    # the methods of a page of MXNet, in its order
    sed -n 's/^  kv\.\([a-z_]*\)(.*/\1/p' expected >names
    for name in init load_optimizer_states pull push pushpull row_sparse_pull save_optimizer_states \
        set_gradient_compression set_optimizer broadcast is_capable _barrier; do
        grep -qx "$name" names || fail "help(kv) lacks $name"
    done
    kvctl -c 'help push' >expected
    kvctl -c 'help(kv.push)' >got
    cmp expected got
    kvctl -c 'help("push")' >got
    cmp expected got
    kvctl -c 'help(kv._set_updater)' >got
    kvctl -c 'help set-updater' >expected
    cmp expected got
}

@test "the page of the base class runs as it is pasted" {
    page base
    kvctl -q page.txt >got
    printed page.txt >expected
    agrees base
    grep -h '^ *\(>>>\|\.\.\.\)' page.txt | kvctl -q -i >got
    agrees base
}

@test "a class of a store type has no body of its own" {
    printf '%s\n' '@mx.kvstore.KVStoreBase.register' 'class Mine(mx.kvstore.KVStoreBase):' \
        '    def push(self, key, value):' '        pass' >s.kv
    says -2 's.kv:3:5: error[usage]: the class of a store type has no body but `pass` here' kvctl s.kv
    assert_line --partial 'kv_type_ops, as in examples/average.c'
    printf '%s\n' '@KVStoreBase.register' 'class Mine(TestStore): pass' >s.kv
    says -2 ' hint: register NAME --base TYPE gives another type a second name' kvctl s.kv
    printf '%s\n' '@KVStoreBase.register' 'class Mine(KVStoreBase): pass' 'create mine; type' >s.kv
    gives Mine kvctl s.kv
}

@test "lines of Perl are told how they are written here" {
    while read -r line hint; do
        run ! kvctl -c "${line//_/ }"
        assert_line " hint: this is Perl; here: ${hint}"
    done <<'END'
my_$kv_=_mx->kv->create('local'); kv = mx.kv.create('local')
$shape_=_[2,3]; shape = [2,3]
$kv->init(3,_mx->nd->ones($shape)*2) kv.init(3, mx.nd.ones(shape)*2)
$kv->pull(3,_out=>$a) kv.pull(3, out=a)
print_$a->aspdl print a.asnumpy()
print_$b->[1]->aspdl() print b[1].asnumpy()
END
    mentions -2 '`map { … } 0..3` is [… for i in 0..3]' kvctl -c '$b = [map { mx->nd->ones($shape, ctx => $_) } @$gpus];'
}

@test "the docstrings run as they are pasted" {
    page docstrings
    mentions -2 'error[usage]: `push` has no argument out' kvctl -q page.txt
    assert_line --partial 'hint: kv.pushpull(key, value, out=a)'
    grep -v 'kv.push(.*out=b)' page.txt >without
    kvctl -q --format legacy without >got
    printed page.txt >expected
    agrees docstrings
}

@test "explain shows a pasted updater without its prompts" {
    printf '>>> def update(key, input, stored):\n...     stored += input * 2\n' >s.kv
    printf '>>> kv._set_updater(update)\n>>> kv.init(3, np.ones(2))\n>>> explain push 3 ones(2)\n' >>s.kv
    says '       def update(key, input, stored):' kvctl s.kv
    assert_line '           stored += input * 2'
}

@test "a store kept with a pasted updater goes on with it" {
    printf '>>> def update(key, input, stored):\n>>>     stored += input * 2\n' >s.kv
    printf '>>> kv._set_updater(update)\n>>> kv.init(3, np.ones(2))\n' >>s.kv
    kvctl -s w.kvs s.kv
    gives "[3. 3.]" kvctl -s w.kvs -c 'kv.push(3, ones(2)); pull 3'
}

@test "a session of kvctl runs as it is pasted, too" {
    cat >s.kv <<'END'
kv> init 3 ones(2)
kv> print 1 + 1
2
kv> expect <<END
..> 2
..> END
kv:b*> if true {
..>     pull 3
..> }
[1. 1.]
kv> print [
..>     1]
[1]
END
    gives $'2\n[1. 1.]\n[1]' kvctl s.kv
}
