# Reports of errors without their excerpts. Golden files keep
#
#     x.kv:3:1-5: error[usage]: …
#
# for what kvctl prints, since the script and the columns say the rest:
#
#     x.kv:3:1: error[usage]: …
#         3 : oness 3
#           : ^^^^^
#
#     awk [-v fold=1] [-v input=FILE] -f excerpts.awk FILE.err     in the folder of the script; FILE: what <repl> reads
#
# Without fold it writes the excerpts. With it, it leaves out each that the lines of the scripts would give back.

# Line n of a script, read once; nothing where the script lacks it.
function source(file, n,    i, line, path)
{
    if (!(file in lines)) {
        path = file == "<repl>" ? input : file
        for (i = 0; path != "" && (getline line < path) > 0;)
            text[file, ++i] = line
        lines[file] = i
    }
    return text[file, n]
}

# Splits "x.kv:3:1-5: error…" into file, row, from, to and rest; false for another line.
function place(line,    word)
{
    if (!match(line, /^[^ :]+:[0-9]+:[0-9]+(-[0-9]+)?: /))
        return 0
    rest = substr(line, RLENGTH - 1)
    split(substr(line, 1, RLENGTH - 2), word, ":")
    file = word[1]
    row = word[2]
    to = split(word[3], word, "-") == 2 ? word[2] : 0
    from = word[1]
    return 1
}

function excerpt(    blanks, carets)
{
    blanks = sprintf("%" to "s", "")
    carets = substr(blanks, from)
    gsub(/ /, "^", carets)
    return sprintf("%5d : %s\n      : %s%s", row, source(file, row), substr(blanks, 1, from - 1), carets)
}

!fold {
    if (place($0) && to)
        print file ":" row ":" from rest "\n" excerpt()
    else
        print
}

fold { said[NR] = $0 }

END {
    for (i = 1; fold && i <= NR; i++) {
        if (place(said[i]) && !to && match(said[i + 2], /\^+$/)) {
            to = from + RLENGTH - 1
            if (excerpt() == said[i + 1] "\n" said[i + 2]) {
                print file ":" row ":" from "-" to rest
                i += 2
                continue
            }
        }
        print said[i]
    }
}
