# The pages for maintainers: CONTRIBUTING.md, and README.md in the folders.

load ../cli/help

# The words in backquotes of a page, each once, those with blanks or other signs left out.
words_of()
{
    grep -v '^    ' "$top/$1" | grep -o '`[^`]*`' | tr -d '`' | grep -xE '[A-Za-z0-9_./*-]+' | sort -u
}

# Whether a path is there: from the top, from the folder of the page, or as a name in any folder. A name for any
# of a kind (x.bats, NAME.kv) and what a build or the user makes are no paths.
is_there()
{
    local folder=$1 word=$2
    case $word in
        *NAME* | .* | x.* | */x.* | build/* | /* | *.so | config.mk) return 0 ;;
        */*) [ -n "$(compgen -G "$top/$word")" ] || [ -n "$(compgen -G "$folder/$word")" ] ;;
        *) [ -n "$(find "$top"/{lib,src,cli,cuda,tests,scripts,examples} "$top" -maxdepth 3 -name "$word" -print -quit)" ] ;;
    esac
}

@test "pages: every path in backquotes exists" {
    local page count=0
    for page in .github/CONTRIBUTING.md {lib,src,src/distributed,src/python,cli,cuda,tests}/README.md; do
        while read -r word; do
            [[ $word =~ /|\.(c|h|cc|hh|cu|cuh|md|kv|kvu|bats|bash)$ ]] || continue
            count=$((count + 1))
            is_there "$(dirname "$top/$page")" "$word" || echo "$page: there is no $word"
        done < <(words_of "$page")
    done >missing
    assert_equal "$(cat missing)" ""
    [ $count -gt 150 ]
}

@test "pages: every name of the source in backquotes is in it" {
    local page count=0
    grep -rhowE '[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*' "$top"/{lib,src,cli,cuda,tests,scripts,Makefile} --include='*.[ch]' \
        --include='*.cc' --include='*.cu*' --include='*.bats' --include=Makefile --include=lint | sort -u >names
    for page in .github/CONTRIBUTING.md {lib,src,src/distributed,src/python,cli,cuda,tests}/README.md; do
        while read -r word; do
            [[ $word =~ ^[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*$ ]] || continue
            count=$((count + 1))
            grep -qxF "$word" names || echo "$page: the source has no $word"
        done < <(words_of "$page")
    done >missing
    assert_equal "$(cat missing)" ""
    [ $count -gt 80 ]
}

@test "pages: every source of src is on the page of its folder" {
    local file name page
    cd "$top"
    for file in src/*.c src/core/*.c src/distributed/*.c src/python/*.c; do
        name=$(basename "$file" .c)
        page=$(dirname "$file")/README.md
        [ -e "$page" ] || page=src/README.md
        grep -qE "[\`/]$name\.[ch]\`" "$page" || fail "$page has neither $name.h nor $name.c"
    done
}
