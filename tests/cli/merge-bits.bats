# The bits of a merge follow from the models alone: not from threads, from the files that hold them, or
# from what else is merged.

load help
# Models of two keys larger than a block, a matrix, a row and a scalar.
setup_file()
{
    local top i
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    export MODELS=$BATS_FILE_TMPDIR PATH=${KVCTL_BUILD:-$top/build}:$PATH
    cd "$MODELS" || return
    for i in 0 1 2 3 4; do
        kvctl -q -c "
            init big uniform(shape=300001, low=-1, seed=$i)
            init half uniform(shape=(3, 100003), low=-1, seed=10$i)
            init matrix uniform(shape=(257, 129), low=-1, seed=11$i)
            init row uniform(shape=33, low=-1, seed=12$i)
            init steps full(1, 7, dtype=\"int64\")
            save f.safetensors"
        kvctl convert f.safetensors m$i.safetensors --dtype 'half=F16'
        kvctl convert m$i.safetensors m$i.npz
        kvctl convert m$i.safetensors m$i/ --shard-size 700K
    done
    python3 -c '
import sys, zipfile
for name in sys.argv[1:]:
    with zipfile.ZipFile(name) as z:
        members = [(m, z.read(m)) for m in z.namelist()]
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for m, data in members:
            z.writestr(m, data)' m0.npz m1.npz m3.npz
}

# merged ENDING OUT: the words in `rule` on the models with that ending.
merged()
{
    local base=() words=()
    read -ra words <<<"$rule"
    case ${words[0]} in
    slerp) models=("m1$1" "m2$1") ;;
    average | linear | ema | median | trimmed_mean) models=("m1$1" "m2$1" "m3$1" "m4$1" "m0$1") ;;
    *)
        models=("m1$1" "m2$1" "m3$1")
        base=(--base "m0$1")
        ;;
    esac
    kvctl merge "${words[0]}" "${models[@]}" "${base[@]}" "${words[@]:1}" --out "$2"
}

@test "every rule: threads, shards and npz files, deflated or not, make no difference" {
    local rule first rules=0
    cp -r "$MODELS"/m* .
    while read -r rule; do
        KVSTORE_THREADS=1 merged .safetensors out.safetensors
        first=$(kvctl hash out.safetensors)
        for threads in 2 3; do
            KVSTORE_THREADS=$threads merged .safetensors out.safetensors
            assert_equal "$rule, $threads threads: $(kvctl hash out.safetensors)" "$rule, $threads threads: $first"
        done
        KVSTORE_THREADS=3 merged / out/
        assert_equal "$rule, shards: $(kvctl hash out/)" "$rule, shards: $first"
        rm -r out
        merged .npz out.safetensors
        assert_equal "$rule, npz: $(kvctl hash out.safetensors)" "$rule, npz: $first"
        rules=$((rules + 1))
    done <<'END'
average
linear --weights 0.5,0.3,0.2,1,2
task_arithmetic --weights 0.5,0.3,0.2 --scale 0.7
slerp --t 0.3
ties --density 0.3
dare_linear --density 0.5 --seed 7
dare_ties --density 0.5 --seed 7
breadcrumbs --density 0.5 --gamma 0.1
della --density 0.5 --epsilon 0.1 --seed 7
model_stock
ema --decay 0.9
median
trimmed_mean --k 1
END
    [ $rules = 13 ]
}

@test "every rule of src/merges is among those, but for lora" {
    local rule count=0
    for rule in $(sed -nE '/^merge /{ s/^merge ([a-z_, ]*[a-z_]).*/\1/; s/,/ /g; p }' "$top"/src/merges/*.kvu); do
        count=$((count + 1))
        [ "$rule" = lora ] || grep -qE "^$rule( |$)" "$BATS_TEST_FILENAME" || echo "$rule"
    done >missing
    assert_equal "$(cat missing)" ""
    [ $count -ge 13 ]
}

@test "random rules: a key's mask follows from its name, whatever else is merged" {
    local rule
    cp "$MODELS"/m?.safetensors .
    for rule in 'dare_linear --density 0.5 --seed 7' 'dare_ties --density 0.5 --seed 7' \
        'della --density 0.5 --epsilon 0.1 --seed 7'; do
        merged .safetensors out.safetensors
        kvctl merge ${rule%% *} m1.safetensors m2.safetensors m3.safetensors 'm*x' --base m0.safetensors \
            ${rule#* } --out one.safetensors
        assert_equal "$(kvctl hash one.safetensors)" "$(kvctl hash out.safetensors matrix)"
        kvctl convert out.safetensors other.safetensors --rename 's/row/line/'
        for i in 0 1 2 3; do kvctl convert m$i.safetensors r$i.safetensors --rename 's/row/line/'; done
        kvctl merge ${rule%% *} r1.safetensors r2.safetensors r3.safetensors --base r0.safetensors \
            ${rule#* } --out renamed.safetensors
        run -1 kvctl diff other.safetensors renamed.safetensors --brief
        assert_line --partial line # another name, another mask
        assert_line --partial '1 of 5 keys differ'
    done
}

@test "lora: threads and files make no difference" {
    kvctl -q -c '
        init "l.weight" uniform(shape=(700, 301), low=-1, seed=2); init other uniform(shape=1000, seed=1)
        save base.safetensors'
    kvctl -q -c '
        init "base_model.model.l.lora_A.weight" uniform(shape=(9, 301), low=-1, seed=3)
        init "base_model.model.l.lora_B.weight" uniform(shape=(700, 9), low=-1, seed=4)
        save adapter.safetensors'
    kvctl convert base.safetensors base/ --shard-size 100K
    kvctl convert adapter.safetensors adapter.npz
    KVSTORE_THREADS=1 kvctl merge lora adapter.safetensors --base base.safetensors --scale 0.5 --out one.safetensors
    KVSTORE_THREADS=3 kvctl merge lora adapter.npz --base base/ --scale 0.5 --out three.safetensors
    assert_equal "$(kvctl hash three.safetensors)" "$(kvctl hash one.safetensors)"
    mentions -1 l.weight kvctl diff base.safetensors one.safetensors --brief
}
