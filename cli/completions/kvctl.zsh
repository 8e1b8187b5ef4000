#compdef kvctl
# Completion of kvctl in zsh. kvctl itself says what may stand at the cursor.
_kvctl()
{
    local kind line
    local -a lines plain open shown_plain shown_open

    lines=("${(@f)$(${(Q)words[1]} --completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    kind=$lines[1]
    for line in "${(@)lines[2,-1]}"; do
        if [[ ${line%%$'\t'*} == *[=/\(.] || -n $compstate[quote] ]]; then
            open+=("${line%%$'\t'*}")
            shown_open+=("${line/$'\t'/  -- }")
        else
            plain+=("${line%%$'\t'*}")
            shown_plain+=("${line/$'\t'/  -- }")
        fi
    done
    (( $#plain )) && compadd -Q -l -d shown_plain -a plain
    (( $#open )) && compadd -Q -l -S '' -d shown_open -a open
    if [[ $kind == files ]]; then
        [[ $PREFIX == --*=* ]] && compset -P '*='
        _files
    fi
    return 0
}
if [[ $funcstack[1] == _kvctl ]]; then
    _kvctl "$@"
else
    compdef _kvctl kvctl
fi
