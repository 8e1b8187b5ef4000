# Limits that hold one by one, where they multiply.

load help

# nested N TEXT BACK: a function that calls itself inside N times TEXT … BACK.
nested()
{
    local front back
    front=$(printf "%.0s$2" $(seq "$1")) back=$(printf "%.0s$3" $(seq "$1"))
    printf 'def f(n) { %s f(n + 1) %s }\nf(1)\n' "$front" "$back" >deep.kv
}

too_deep='calls, blocks and files are nested deeper than the stack allows'

@test "limits: recursion of calls through nested statements, on stacks of any size" {
    local pieces=('50|time |' '100|if 1 { |} ' '100|for i in 0..0 { |} ' '150|(|+1)' '150|[|]' '60|repeat 1 { |} ')
    for piece in "${pieces[@]}"; do
        IFS='|' read -r n front back <<<"$piece"
        nested "$n" "$front" "$back"
        for size in 8192 1024 512; do
            # what is read before it runs needs some of the stack too
            run -3 bash -c "ulimit -s $size; timeout 60 kvctl deep.kv 2>&1"
            assert_line --index 0 --regexp "error\[value\]: ($too_deep|calls are nested deeper than 200)\$"
        done
    done
}

@test "limits: errors that are expected inside each other" {
    nested 50 'expect-error value { ' '} '
    opens -1 'error[expect]' timeout 60 kvctl deep.kv
    assert [ "${#lines[@]}" -lt 30 ]
}

@test "limits: of the callers of a recursion the ends are shown" {
    printf 'def f(n) {\n    f(n + 1)\n}\nf(1)\n' >deep.kv
    run -3 kvctl deep.kv
    assert_output "deep.kv:2:5: error[value]: calls are nested deeper than 200
    2 :     f(n + 1)
      :     ^^^^^^^^
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  in deep.kv:2
  and 190 more
  in deep.kv:4"
    run sh -c 'kvctl --json deep.kv 2>err | tail -n 1 | jq -c ".error.detail[8:]"'
    assert_output '["  in deep.kv:2","  and 190 more","  in deep.kv:4"]'
}

@test "limits: files that source each other by computed names" {
    printf 'x = "s.kv"; source (x)\n' >s.kv
    for safe in '' --safe; do
        begins -3 's.kv:1:13: error[value]: files source each other deeper than 50' timeout 60 kvctl $safe s.kv
        assert [ "${#lines[@]}" -lt 20 ]
    done
}

@test "limits: a check of files that source each other more than once ends" {
    printf 'source s.kv\nsource s.kv\n' >s.kv
    run sh -c 'ulimit -v 1000000; timeout 60 kvctl --check s.kv'
    assert_failure 3
    assert_equal "$(grep -c 'deeper than 50' <<<"$output")" 1
}

@test "limits: a script without an end" {
    run -3 timeout 60 kvctl -c 'x = "/dev/zero"; source (x)'
    assert_line --index 0 --partial 'error[value]: "/dev/zero" is larger than 256 MB, which is the most for a text'
    gives -3 'kvctl: error[value]: "/dev/zero" is larger than 256 MB, which is the most for a text' timeout 60 kvctl -f /dev/zero
}

@test "limits: lists nested a million times" {
    local n
    local uses=('pull (x)' 'x@gpu(0)' 'plot x' 'plot --heat x' 'pull 3 --out x' 'row-sparse-pull 3 --row-ids x'
        'set print.format json; x')
    printf '%s\n' 'init 3 ones(2); x = [ones(1)]; repeat 1000000 { x = [x] }' "${uses[@]}" >deep.kv
    run -3 timeout 60 kvctl -q -k deep.kv
    for n in "${!uses[@]}"; do
        assert_line --regexp "^deep.kv:$((n + 2)):[0-9]+: error\[value\]: lists are nested deeper than the stack allows$"
    done
    run -3 timeout 60 kvctl -q --json -c "x = [1]; repeat 1000000 { x = [x] }; x"
    assert_output --partial '"message":"lists are nested deeper than the stack allows"'
    gives True timeout 60 kvctl -c "x = [1]; repeat 1000000 { x = [x] }; x == x"
    run -3 timeout 60 kvctl -c "x = [1]; y = [1]; repeat 1000000 { x = [x]; y = [y] }; x == y"
    assert_line --index 0 --partial 'error[value]: lists are nested deeper than 1000'
}

@test "limits: a store whose names are as long as they can be is read again" {
    local key state
    key=$(printf 'k%.0s' {1..4090})
    state=$(printf 's%.0s' {1..300})
    kvctl -s s.kvs -c "updater f() { state $state; $state += input; stored += $state }
        init $key zeros(2); set-updater f; push $key ones(2)"
    gives "[3. 3.]" kvctl -s s.kvs -c "push $key ones(2); pull $key"
}

@test "limits: ranges in a key multiply" {
    run -3 timeout 60 kvctl --safe -c "pull $(printf 'x{0..1}%.0s' {1..30})"
    assert_line --index 0 '<cmd>:1:6: error[value]: a range of keys has at most 100000000'
    run -6 bash -c 'ulimit -t 12; exec timeout 100 kvctl --timeout 0.3 -c "$1"' bash "pull $(printf 'x{0..1}%.0s' {1..26})"
}

# repeated N FORMAT: N times, with its number for each %d.
repeated()
{
    local i
    for ((i = 1; i <= $1; i++)); do printf -- "${2//%d/$i}"; done
}

# refused TEXT: the session a.kv ends with it.
refused()
{
    run kvctl a.kv
    assert_line --index 0 --regexp '^a\.kv:[0-9]+:[0-9]+: error\[(usage|value)\]: '
    assert_equal "${lines[0]#*]: }" "$1"
}

@test "limits: of rules" {
    while IFS='|' read -r rule text; do
        { echo 'create local; init 3 ones(2,3)'; echo "set-updater { $rule; stored += input }"; echo 'push 3 ones(2,3)'; } >a.kv
        refused "$text"
    done <<END
$(repeated 17 'state m%d; ')|a rule has at most 16 states
$(repeated 17 'print input; ')|a rule prints at most 16 arrays
$(repeated 5 'stored += normal(1); ')|a rule draws at most 4 times
x = input; $(repeated 8 'x = x - sum(x); ') stored += x|a rule reduces at most 7 times in a row
x = 0; $(repeated 161 'x += sum(input*%d); ') stored += x|a rule reduces to at most 160 numbers
x = input; $(repeated 8001 'x = x * x + t; ') stored += x|more than 16000 operations are too many for one program
END
    {
        echo "updater w($(repeated 65 'p%d = 1, ' | sed 's/, $//')) { stored += input }"
        echo 'create local'
        echo "set-updater w $(repeated 65 '--p%d 2 ')"
    } >a.kv
    refused "a rule has at most 64 parameters"
}

@test "limits: of expressions and merges" {
    {
        repeated 1024 'a%d = ones(1)\n'
        echo "print 0 $(for b in {0..15}; do printf ' + (0 %s)' "$(for i in {1..64}; do printf ' + a%d' $((64 * b + i)); done)"; done)"
    } >a.kv
    refused "one expression takes at most 1023 arrays"
    kvctl -c 'create local; init a ones(2); pull * > m.safetensors'
    run ! kvctl merge "{ merged = $(repeated 20 'sum([')models[0]$(repeated 20 ' * m for m in models])') }" m.safetensors m.safetensors --out o.safetensors
    assert_line --index 0 --regexp 'error\[value\]: written out for 2 models the rule is too large$'
}

# claims FILE BYTES HEADER: a safetensors file whose elements are a hole.
claims()
{
    printf "\\x$(printf %02x $((${#3} % 256)))\\x$(printf %02x $((${#3} / 256)))\\0\\0\\0\\0\\0\\0%s" "$3" >"$1"
    truncate -s $((8 + ${#3} + $2)) "$1"
}

# stops CODE TEXT WORD…: kvctl ends with this status and says so.
stops()
{
    run timeout 60 kvctl "${@:3}"
    assert_failure "$1"
    assert_line --index 0 --partial "$2"
}

@test "limits: of what merges hold, of names and of options" {
    kvctl -c 'create local; init l.weight ones(2,2); pull * > base.safetensors'
    stops 3 'error[value]: written out, more than 1000 operators stand one inside the other' \
        merge '{ merged = sum([models[0] * i for i in range(2000)]) }' base.safetensors base.safetensors --out o.safetensors
    claims wide.safetensors 8000000000 '{"w":{"dtype":"F32","shape":[2,1000000000],"data_offsets":[0,8000000000]}}'
    stops 4 'error[unsupported]: "w" has rows of 1000000000 elements: the ranks of 2 rows do not fit into memory' \
        merge della wide.safetensors wide.safetensors --base wide.safetensors --out o.safetensors
    local factors='{"l.lora_A.weight":{"dtype":"F32","shape":[2000000,2],"data_offsets":[0,16000000]},'
    claims lora.safetensors 32000000 \
        "$factors"'"l.lora_B.weight":{"dtype":"F32","shape":[2,2000000],"data_offsets":[16000000,32000000]}}'
    stops 4 'error[unsupported]: "l.weight": lora_A and lora_B of all adapters are too large to be held' \
        merge lora lora.safetensors lora.safetensors lora.safetensors --scale 1 --base base.safetensors \
        --out o.safetensors
    local name
    name=$(repeated 500 0123456789)
    claims long.safetensors 4 "{\"$name\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
    stops 3 "error[value]: the name \"${name:0:40}...\" is too long for a key" -c 'init [*] @long.safetensors'
    stops 2 'error[usage]: `save` has too many options' -c "save o.kvs $(repeated 150 '--metadata a=1 ')"
    [ ! -e o.safetensors ]
}

@test "limits: deep nesting on a small stack" {
    local deep=
    for ((i = 0; i < 150; i++)); do deep="abs($deep"; done
    deep="$deep-1$(printf '%150s' '' | tr ' ' ')')"
    gives 1 sh -c 'ulimit -Ss 256 && exec "$0" -c "print $1"' "$build/kvctl" "$deep"
}

# Where the hard limit holds, fewer levels are read, by whatever is nested; it is an error and no crash.
@test "limits: a stack that cannot grow allows less nesting, with and without --check" {
    local kinds=('190|abs(|1|)' '190|[|1|]' '190|- |1|' '190|not |True|' '190|1**|1|' '190|1 if 0 else |1|' '900|1+|1|' '900||1|+1'
        '190|if 1 { |y = 1| }' '95|repeat 1 { |y = 1| }')
    local too_deep_text='nested deeper than this small stack allows'
    local too_high='more operators one inside the other than this small stack allows'
    local kind n front middle back size mode before refused all=0
    for kind in "${kinds[@]}"; do
        IFS='|' read -r n front middle back <<<"$kind"
        front=$(printf "%.0s$front" $(seq "$n")) back=$(printf "%.0s$back" $(seq "$n"))
        before=
        case $middle in *=*) ;; *) before='x = ' ;; esac
        printf '%s\n' "$before$front$middle$back" >deep.kv
        for size in 1024 512 256 128; do
            refused=0
            for mode in -q --check; do
                run bash -c "ulimit -s $size; timeout 60 kvctl $mode deep.kv 2>&1"
                [ "$status" -le 3 ]
                [ "$status" = 0 ] || grep -qE "error.....*: ($too_deep|$too_deep_text|$too_high)\$" <<<"${lines[0]}"
                [ "$status" = 0 ] || refused=1
            done
            [ $size != 1024 ] || [ $refused = 0 ]
            [ $size != 128 ] || all=$((all + refused))
        done
    done
    [ $all -gt 5 ]
}
