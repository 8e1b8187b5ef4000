# Completion of kvctl in fish. kvctl itself says what may stand at the cursor.
function __kvctl_words
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' $typed)
    set -l lines ($before[1] --completion words $before[2..-1] "$typed" 2>/dev/null)
    if test "$lines[1]" = files
        set -q option[1]; or set option '' # nothing in front of a list gives an empty list
        set -l path (string replace -r -- '^--[^=]*=' '' "$typed")
        string join -- \n $option(__fish_complete_path "$path")
    end
    string join -- \n $lines[2..-1]
end
complete -c kvctl -f -a '(__kvctl_words)'
