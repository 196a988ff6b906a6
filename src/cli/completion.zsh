#compdef everfold
# zsh completion for everfold: eval "$(everfold completion zsh)", after compinit
_everfold()
{
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
        @file) _files ;;
        @dir) _files -/ ;;
        ?*) candidates+=("$line") ;;
        esac
    done
    (( ${#candidates} )) && compadd -- "${candidates[@]}"
}
# In a folder of fpath this file is the function's first call; by eval it only defines it.
if [[ ${funcstack[1]} == _everfold ]]; then _everfold "$@"; else compdef _everfold everfold; fi
