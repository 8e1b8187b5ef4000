# kvctl launch --launcher k8s: the objects that it prints. What pods do with them:
# tests/launch/k8s.bats.

load help

setup_file()
{
    export no_yaml=
    python3 -c 'import yaml' 2>/dev/null || no_yaml="there is no python3 with yaml: scripts/setup launch installs it"
}

# Checks objects against the schema of the operator and the rules of Kubernetes.
checker()
{
    [ -z "$no_yaml" ] || skip "$no_yaml"
    "$top/tests/launch/mpijob" "$@"
}

k8s()
{
    kvctl launch --launcher k8s --image i "$@"
}

@test "k8s: the objects, as they were looked at" {
    printf 'create dist_sync\ninit 3 zeros(2)\npush 3 ones(2)\npull 3\n' >train.kv
    printf '1,2\n3,4\n' >points.csv
    kvctl launch --launcher k8s --image registry.example/kvctl:1.9 --namespace ml -n 4 -s 2 --slots 2 --cpus 2 \
        --rank-gpus 1 --memory 4096 --file points.csv --volume models:/models --checkpoint /models/c.kvs \
        --checkpoint-every 50 --max-restarts 3 --env-worker OMP_NUM_THREADS=2 train.kv 0.1 >objects
    diff "$top/tests/launch/mpijob.golden.yaml" objects
    checker check objects
}

@test "k8s: the objects fit the schema, whatever is asked for" {
    local n=0
    echo 'print 1' >train.kv
    while read -r words; do
        k8s -n 2 $words train.kv >"objects$((n++))"
    done <<'END'
--dry-run
-s 1 --slots 3
-s 3 --slots 2 --rank-gpus 1
--memory 100 --cpus 3
--volume a.b:/a --volume c:/c/d
--name a --namespace 1e3
--timeout 3.5 --deadline 2 --queue-timeout 7
--file ./train.kv --env A=1
END
    k8s -n 4096 -c 'print 1' >objects-many
    k8s -n 1 -f train.kv -f ./train.kv train.kv >objects
    assert_equal "$(grep -c 'file-[0-9]: ' objects)" 1
    checker check objects*
}

@test "k8s: the schema refuses what is no such job" {
    [ -z "$no_yaml" ] || skip "$no_yaml"
    echo 'print 1' >train.kv
    k8s -n 2 --volume a:/a train.kv >objects
    local edits=() texts=() n
    while IFS='|' read -r edit said; do
        sed "$edit" objects >"bad${#edits[@]}"
        edits+=("$edit")
        texts+=("$said")
    done <<'END'
s/slotsPerWorker: 1/slotsPerWorker: "1"/|slotsPerWorker is no int32
s/slotsPerWorker/slotsPerPod/|no field spec.slotsPerPod
s/v2beta1/v1/|apiVersion is
s/restartPolicy: Never/restartPolicy: Always/|restartPolicy is 'Always'
s/mountPath: "\/a"/path: "\/a"/|no field
/mountPath: "\/a"/d|lacks mountPath
s/name: "train"/name: 7/|name is no string
s/Launcher:/Leader:/|the roles are
s/replicas: 2/replicas: 0/|replicas
s/claimName: .*/claimName: 3/|claimName is no string
s/entry\/worker"/..\/worker"/|the path
END
    run ! checker check objects bad? bad??
    assert_equal "${#lines[@]}" "${#edits[@]}"
    for n in "${!edits[@]}"; do
        assert_line --index "$n" --regexp "^bad$n: .*${texts[n]}"
    done
}

@test "k8s: names of jobs are made from those of scripts" {
    local n=0
    for pair in train.kv=train "Train 2.kv=train-2" 7up.kv=up null.kv=null yes.kv=yes __.kv=kvctl ä.kv=kvctl \
        a--b.c.kv=a-b-c -- .kv=kv; do
        [ "$pair" != -- ] || continue
        echo 'print 1' >"${pair%=*}"
        n=$((n + 1))
        k8s -n 1 "${pair%=*}" >"objects$n"
        grep -qx "  name: \"${pair#*=}\"" "objects$n"
        grep -qx "  name: \"${pair#*=}-files\"" "objects$n"
    done
    local long
    long=$(printf 'x%.0s' {1..100})
    echo 'print 1' >"$long.kv"
    for n in 1 10 11 4096; do
        k8s -n $n "$long.kv" >"objects-$n"
    done
    checker check objects*
    for n in 54 55; do
        run k8s -n 2 --name "${long:0:n}" -c 'print 1'
        assert_equal "$status" "$((n == 54 ? 0 : 2))"
    done
    assert_output "kvctl: error[usage]: launch: --name needs a small letter and up to 53 more, digits or -, not \"${long:0:55}\""
}

# Texts that mean something to YAML, to Kubernetes or to a shell.
texts=($'a\nb' $'a\n\n\n' $'\n' $'\n a' ' a' $'\ta' $'a\n\tb\n  c' 'a: b' '- a' '#a' "it's" '"a"' 'a\b' '$(A)' '$$(A)' '`a`'
    '{{a}}' '[a]' '{a}' '*a' '&a' '!a' '%a' '@a' '|' '>' '~' null true 1e3 0x1F 012 '' ' ' $'a\r\nb' $'\e[31m' $'\x7f' $'\u0085'
    $'a\u2028b' $'\ufeffa' $'\u202ea' 'ü' '中' '😀' '---' '...' $'---\na' $'a\n---\nb' 'a #b' "a' b" '-x' '<<' '=')

@test "k8s: files, words and values come back as they were, whatever they hold" {
    mkdir folder
    local n=0 words=() files=()
    for text in "${texts[@]}"; do
        n=$((n + 1))
        printf %s "$text" >"folder/$n"
        printf '%s\n' "$text" >"folder/$n.line"
        files+=(--file "folder/$n" --file "folder/$n.line")
        words+=("$text")
    done
    names=('a b' "it's" '"q"' '$(A)' ': x' '- y' $'new\nline' 'ü' '#c' '{a}' 'a:b' '..c')
    for name in "${names[@]}"; do
        echo "$name" >"$name"
        files+=(--file "$name")
    done
    head -c 3000 /dev/urandom >folder/bytes
    for i in 0 1 2; do head -c "$i" folder/bytes >"folder/bytes.$i"; done
    printf 'a\0b' >folder/nul
    : >folder/empty
    files+=(--file folder/bytes --file folder/nul --file folder/empty --file folder/bytes.0 --file folder/bytes.1
        --file folder/bytes.2)
    echo 'print 1' >train.kv
    value=$(printf '%s|' "${texts[@]}")
    k8s -n 1 --env "A=$value" "${files[@]}" train.kv "${words[@]}" >objects
    checker unpack pod <objects
    for file in folder/* "${names[@]}"; do
        cmp -- "$file" "pod/job/$file"
    done
    fake kvctl 'printf %s "$KVCTL_ENV_a_A" >value; for word; do printf "%s\\0" "$word"; done >words'
    sed -i 's|^printf.*||' pod/entry/launcher # it makes the file of known hosts
    # shellcheck disable=SC1091
    (. ./pod.env && sh pod/entry/launcher)
    assert_equal "$(cat value; echo .)" "$value."
    printf '%s\0' train.kv "${words[@]}" >wanted
    tail -c "$(stat -c %s wanted)" words | cmp - wanted
}

@test "k8s: random texts come back" {
    [ -z "$no_yaml" ] || skip "$no_yaml"
    echo 'print 1' >train.kv
    python3 - <<'END'
import random
random.seed(7)
for i in range(400):
    text = "".join(random.choice(" \t\n\n  -:#'\"|>ab\\ü\u2028\r") for _ in range(random.randrange(12)))
    open(f"t{i}", "w", encoding="utf-8", newline="").write(text)
END
    mapfile -t files < <(printf -- '--file\n%s\n' t[0-9]*)
    k8s -n 1 "${files[@]}" train.kv >objects
    checker unpack pod <objects
    for file in t[0-9]*; do
        cmp -- "$file" "pod/job/$file"
    done
}

@test "k8s: what is wrong is said before anything is printed" {
    local names=([2]=usage [3]=value [4]=unsupported [5]=io)
    echo 'print 1' >train.kv
    echo 'print 1' >../up.kv
    mkdir folder
    head -c 1048576 /dev/zero | tr '\0' x >big
    while IFS='|' read -r code words text; do
        run k8s -n 2 $words
        assert_equal "$status ${lines[0]}" "$code kvctl: error[${names[code]}]: launch: $text"
        refute_output --partial apiVersion
    done <<END
2|--image  train.kv|which script? kvctl launch -n WORKERS FILE
2|--name Train train.kv|--name needs a small letter and up to 53 more, digits or -, not "Train"
2|--name 1a train.kv|--name needs a small letter and up to 53 more, digits or -, not "1a"
2|--name a- train.kv|--name needs a small letter and up to 53 more, digits or -, not "a-"
2|--namespace a.b train.kv|--namespace needs up to 63 small letters, digits and -, not "a.b"
2|--volume a train.kv|--volume needs CLAIM:PATH, a name and a path from / without ":", not "a"
2|--volume a:b train.kv|--volume needs CLAIM:PATH, a name and a path from / without ":", not "a:b"
2|--volume a:/ train.kv|--volume needs CLAIM:PATH, a name and a path from / without ":", not "a:/"
2|--volume a:/b:c train.kv|--volume needs CLAIM:PATH, a name and a path from / without ":", not "a:/b:c"
2|--volume A:/b train.kv|--volume needs CLAIM:PATH, a name and a path from / without ":", not "A:/b"
2|--max-restarts 1 train.kv|--max-restarts needs --checkpoint FILE
3|--checkpoint c.kvs --checkpoint-every 1 train.kv|--checkpoint "c.kvs" lies on no volume of the pods
3|--volume a:/b --checkpoint /bc --checkpoint-every 1 train.kv|--checkpoint "/bc" lies on no volume of the pods
3|../up.kv|"../up.kv" is not a file of this folder, and pods get no others
3|$PWD/train.kv|"$PWD/train.kv" is not a file of this folder, and pods get no others
3|--file folder/../../up.kv train.kv|"folder/../../up.kv" is not a file of this folder, and pods get no others
2|-H hosts train.kv|-H is for the launchers mpi and ssh, and this is k8s
2|--pe x train.kv|--pe is for the launcher sge, and this is k8s
4|-i|-i and - are for ranks of this machine, --launcher local
END
    run kvctl launch --launcher k8s -n 2 train.kv
    assert_equal "$status $output" "2 kvctl: error[usage]: launch: --launcher k8s needs what the pods run: --image IMAGE"
    run kvctl launch --image i -n 2 train.kv
    assert_equal "$status $output" "2 kvctl: error[usage]: launch: --image is for the launcher k8s, and this is local"
    run k8s -n 2 --file missing train.kv
    assert_equal "$status $output" '5 kvctl: error[io]: cannot read "missing": No such file or directory'
    run -5 k8s -n 2 --file folder train.kv
    run -3 k8s -n 2 --file big train.kv
    assert_line --index 0 --regexp '^kvctl: error\[value\]: launch: the files of the job have 104[0-9]* bytes, and a ConfigMap holds 1048576$'
    assert_line --index 1 ' hint: data belongs on a volume: --volume CLAIM:PATH'
    head -c 1040000 big >fits
    k8s -n 2 --file fits train.kv >objects
    checker check objects
}

@test "k8s: what is no UTF-8 is refused, but in files" {
    bad=$'x\xff'
    echo 'print 1' >train.kv
    echo 'print 1' >"$bad.kv"
    for words in "$bad.kv" "train.kv|$bad" "--env|A=$bad|train.kv" "--volume|a:/$bad|train.kv" "--file|$bad.kv|train.kv" \
        "--image|$bad|train.kv" "--name|$bad|train.kv" "--checkpoint|/b/$bad|--checkpoint-every|1|--volume|a:/b|train.kv"; do
        IFS='|' read -r -a each <<<"$words"
        run ! k8s -n 2 "${each[@]}"
        refute_output --partial apiVersion
    done
    run k8s -n 2 train.kv "$bad"
    assert_equal "$status $output" '3 kvctl: error[value]: launch: the word "x\xff" is not UTF-8, which YAML needs'
    run k8s -n 2 --env "A=$bad" train.kv
    assert_equal "$status $output" '3 kvctl: error[value]: launch: the value of A is not UTF-8, which Kubernetes needs'
}

# What may be secret stands only in the Secret, which the launcher gets as its environment.
@test "k8s: values of --env are in a Secret, in no text of a pod" {
    echo 'print 1' >train.kv
    export TOKEN=hunter-0
    k8s -n 2 -s 1 --namespace ml --env A=hunter-1 --env A=hunter-2 --env-worker A=hunter-3 --env-server TOKEN \
        train.kv >objects
    run ! grep hunter objects
    checker unpack pod <objects
    run sort pod.env
    assert_output 'export KVCTL_ENV_a_A=hunter-2
export KVCTL_ENV_s_TOKEN=hunter-0
export KVCTL_ENV_w_A=hunter-3'
    checker check objects
    k8s -n 2 train.kv >objects
    run ! grep -i secret objects
    for _ in {1..9}; do set -- "$@" --env "A$#=$(printf '%120000s')"; done
    gives -3 'kvctl: error[value]: launch: the values of --env have 1080000 bytes, and a Secret holds 1048576' k8s -n 2 "$@" train.kv
}

@test "k8s: the objects say how they are used, and there is no other way" {
    echo 'print 1' >train.kv
    run k8s -n 2 train.kv
    assert_line --index 1 "# \`| kubectl create -f -\` starts it; the launcher's log has the lines"
    begins -2 'kvctl: error[usage]: there is no option --submit' k8s -n 2 --submit train.kv
}
