# Snippets as they stand on public pages about MXNet, NumPy and Python, retyped: each prints what Python
# prints, or is refused with a hint. data/snippets.txt.gz names the source of each; the results were
# calculated with NumPy and MXNet's definitions.

load help

# The parts of the file: NAME.py, and NAME.out or NAME.refused.
parts()
{
    gzip -dc "$data/snippets.txt.gz" | awk '/^== / { name = substr($2, 1, length($2) - 1); file = name ".py"; next }
         /^-- out$/ { file = name ".out"; printf "" >file; next }
         /^-- refused: / { print substr($0, 13) >(name ".refused"); next }
         { print >file }'
}

@test "snippets of public pages print what Python prints" {
    parts
    [ "$(find . -name '*.out' | wc -l)" -ge 40 ]
    for out in *.out; do
        gives "$(<"$out")" kvctl -q "${out%.out}.py"
    done
}

@test "snippets of what is not here are refused, and say why" {
    parts
    [ "$(find . -name '*.refused' | wc -l)" -ge 5 ]
    for refused in *.refused; do
        run ! kvctl -q "${refused%.refused}.py"
        assert_output --partial "$(<"$refused")"
    done
}
