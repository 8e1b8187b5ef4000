# scripts/reached reads gcc's counters: a small program stands for the product.

load ../cli/help

setup_file() { file_needs gcc gcov python3 || return 0; }

# Makes a program whose lib/sample.c has two branches.
make_sample()
{
    mkdir -p lib made/lib
    cat >lib/sample.c <<'END'
int sample(int n);
int sample(int n)
{
    if (n > 0)
        return 1;
    return -1;
}
END
    echo 'int sample(int n); int main(int n, char **v) { return sample(n - 2) + !v; }' >main.c
    gcc -O0 --coverage -c -o made/lib/sample.o lib/sample.c
    gcc --coverage -o made/main main.c made/lib/sample.o
}

@test "coverage: lines and branches that ran, and what did not" {
    make_sample
    ./made/main one two || true
    run -0 "$top/scripts/reached" "$PWD/made" lib
    assert_output "lib/sample.c               75.0 % of      4   50.0 % of      2
    lines: 6
    branches: 4 (1 of 2)"
    ./made/main || true
    run "$top/scripts/reached" "$PWD/made" lib
    assert_output "lib/sample.c              100.0 % of      4  100.0 % of      2"
    says "lib and src               100.0 % of      4  100.0 % of      2" "$top/scripts/reached" "$PWD/made"
    refute_output --partial goal
}

@test "coverage: below a bar is a failure, and code that never ran counts" {
    make_sample
    says -1 "lib and src                 0.0 % of      4    0.0 % of      2" "$top/scripts/reached" "$PWD/made"
    assert_line "short of the goal: 4 lines of lib and src to 95 %"
    assert_line --regexp '^below the bar: less than [0-9]+ % of the lines of lib and src$'
}

@test "coverage: counts of an older build are refused" {
    make_sample
    ./made/main || true
    sed -i 's/n > 0/n > 0 \&\& n < 9/' lib/sample.c
    gcc -O0 --coverage -c -o made/lib/sample.o lib/sample.c
    says -1 "coverage: $PWD/made was built again since it was run: make coverage" "$top/scripts/reached" "$PWD/made"
}

@test "coverage: what one of several runs reached is reached" {
    make_sample
    for run in 1 2; do
        if [ $run = 1 ]; then ./made/main one two || true; else ./made/main || true; fi
        mkdir -p made/counts/$run/lib
        mv made/lib/sample.gcda made/counts/$run/lib
        ln made/lib/sample.gcno made/counts/$run/lib
    done
    gives "lib/sample.c              100.0 % of      4  100.0 % of      2" "$top/scripts/reached" "$PWD/made" lib
    gcc -O0 --coverage -c -o made/lib/other.o lib/sample.c
    mv made/lib/other.gcno made/lib/sample.gcno
    says -1 "coverage: $PWD/made was built again since it was run: make coverage" "$top/scripts/reached" "$PWD/made"
}

@test "coverage: there is nothing to count" {
    mkdir none
    gives -1 "coverage: $PWD/none holds no objects made with --coverage: make coverage" "$top/scripts/reached" "$PWD/none"
    make_sample
    gives -1 "coverage: there is no code below lib/other" "$top/scripts/reached" "$PWD/made" lib/other
}

@test "coverage: a machine without the counters is told" {
    mkdir some
    for tool in bash dirname gcc; do ln -s "$(command -v $tool)" some; done
    PATH=$PWD/some gives "coverage: skipped: there is no gcov" "$top/scripts/coverage"
}
