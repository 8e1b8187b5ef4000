# Files of PyTorch in the language: all of one, a part, an array of a part.

load help
files()
{
    cp "$top"/tests/checkpoint/torch/{train,object,one}.pt .
}

@test "a part of a file is the values of keys, as a whole file is" {
    files
    mentions -3 'hint: init * @FILE makes keys of its arrays' kvctl -c 'push * @train.pt#model'
    run -0 kvctl -c 'init * @train.pt#model; push * @train.pt#model; print keys(); pull "0.bias"'
    [ "$output" = $'[\'0.weight\', \'0.bias\']\n[0. 1.]' ]
    gives "['0.step'] ['0.weight', '0.bias']" kvctl -c 'init * @train.pt#optimizer.state; print keys(), keys("train.pt#model")'
    run -0 kvctl -c 'init * @train.pt; print keys()'
    [ "$output" = "['model.0.weight', 'model.0.bias', 'optimizer.state.0.step', 'table', 'swapped']" ]
}

@test "one array of a file is a value of any key" {
    files
    run -0 kvctl -c 'init b @train.pt#model.0.bias; push b @train.pt#model.0.bias; pull b; print @one.pt#one
                     init one zeros(3); push one @one.pt#one; pull one'
    [ "$output" = $'[0. 1.]\n[0. 1. 2.]\n[0. 1. 2.]' ]
}

@test "a part without objects is read beside one with objects" {
    files
    gives "['0.weight', '0.bias'] [0. 1.]" kvctl -c 'init * @object.pt#state_dict; print keys(), @object.pt#state_dict.0.bias'
    mentions -5 'object.pt: cfg is a random.Random, which only Python can make' kvctl -c 'init * @object.pt'
    assert_line --partial 'hint: object.pt#state_dict reads the tensors of state_dict only'
    mentions -5 'object.pt: cfg is a random.Random, which only Python can make' kvctl -c 'print @object.pt#cfg'
}

@test "a part that is not there is named with those that are" {
    files
    begins -3 '<cmd>:1:8: error[name]: train.pt: there is no part "modle"' kvctl -c 'init * @train.pt#modle'
    assert_line --partial ' hint: its parts are model, optimizer, epoch, best, args, table, swapped, loss, size'
    begins -3 '<cmd>:1:7: error[name]: "train.pt" holds no array `model.x`' kvctl -c 'print @train.pt#model.x'
    kvctl -q -c 'init w ones(2); save m.safetensors'
    mv m.safetensors other.bin
    gives '[1. 1.]' kvctl -c 'init w zeros(2); push w @other.bin#w; pull w'
}

@test "a safetensors file that was made of one says format pt, as PyTorch's writer does" {
    files
    run -0 kvctl convert train.pt#model m.safetensors
    [[ $(head -c 200 m.safetensors) == *'"__metadata__":{"format":"pt"}'* ]]
    run -0 kvctl merge average train.pt#model train.pt#model --out m.safetensors
    [[ $(head -c 200 m.safetensors) == *'"__metadata__":{"format":"pt"}'* ]]
    kvctl convert train.pt#model m.safetensors --metadata format=np
    [[ $(head -c 200 m.safetensors) == *'"__metadata__":{"format":"np"}'* ]]
    kvctl convert train.pt#model m.safetensors --drop-metadata
    [[ $(head -c 200 m.safetensors) != *__metadata__* ]]
    run -0 --separate-stderr kvctl convert train.pt#model m.params
    [ "$stderr" = '' ]
}

@test "tensors of an optimizer are kept with a note" {
    files
    run -0 --separate-stderr kvctl convert train.pt m.safetensors --weights-only
    [[ $stderr == *$'\nnote: tensors beside the model are kept too, such as optimizer.state.0.step: train.pt#model reads the model only' ]]
    run -0 --separate-stderr kvctl convert train.pt m.safetensors 'model.*'
    [[ $stderr != *beside* ]]
    run -0 --separate-stderr kvctl merge average train.pt train.pt --out m.safetensors
    [ "$(grep -c 'note: tensors beside the model are kept too, such as optimizer.state.0.step: train.pt#model' <<<"$stderr")" = 1 ]
    run -2 --separate-stderr kvctl convert train.pt m.safetensors --drop optimizer
    [[ $stderr == *" hint: --exclude 'optimizer*' leaves keys out, --drop-metadata the metadata"* ]]
}

@test "ls names the part of the model where it is called model_state_dict" {
    command -v python3 >/dev/null || skip "no python3"
    files
    python3 - <<'END'
import zipfile
with zipfile.ZipFile('train.pt') as z, zipfile.ZipFile('named.pt', 'w') as to:
    for name in z.namelist():
        text = z.read(name)
        to.writestr(name, text.replace(b'X\5\0\0\0model', b'X\x10\0\0\0model_state_dict'))
END
    run -0 kvctl ls named.pt
    [[ ${lines[-1]} == *'; named.pt#model_state_dict reads the tensors of model_state_dict only' ]]
    run -0 --separate-stderr kvctl convert named.pt m.safetensors
    [[ $stderr == *'named.pt#model_state_dict reads the model only' ]]
}
