# bash completion for everfold: eval "$(everfold completion bash)"
_everfold()
{
    local current=${COMP_WORDS[COMP_CWORD]} line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        @file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        @dir) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        "$current"*) COMPREPLY+=("$line") ;;
        esac
    done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _everfold everfold
