# Completion of kvctl in bash. kvctl itself says what may stand at the cursor.
_kvctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} kind line word tail=
    local -a words=() about=()

    # bash takes --store=FILE for three words
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ($word == = || ${words[-1]} == --*=) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    [[ $cur == = ]] && cur=
    [[ ${words[-1]} == --*=* ]] && tail=${words[-1]%%=*}=

    COMPREPLY=()
    {
        read -r kind
        while IFS=$'\t' read -r word line; do
            COMPREPLY+=("${word#"$tail"}")
            about+=("$line")
        done
    } < <("${COMP_WORDS[0]}" --completion words "${words[@]}" 2>/dev/null)

    if [[ $kind == files ]]; then
        compopt -o default
        if [[ ${#COMPREPLY[@]} -gt 0 ]]; then
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
            compopt -o filenames
        fi
    elif [[ ${#COMPREPLY[@]} -eq 1 && $cur == [\'\"]* ]]; then
        # One candidate alone would close the quote, in which there is more to come.
        word=${COMPREPLY[0]}
        [[ $word == *\( ]] || word+=' '
        [[ -z ${about[0]} ]] || COMPREPLY=("$word" "$word${about[0]}")
        compopt -o nospace
    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/\(.] ]]; then
        compopt -o nospace
    fi
}
complete -F _kvctl kvctl
