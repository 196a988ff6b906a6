/*
 * completion.c - completion for bash and zsh.
 *
 * The scripts call the hidden command `complete`, which prints candidates from the tables, so that
 * a new command or option is completed without further work. It prints one candidate per line; the
 * lines @file and @dir leave the completion to the shell.
 */
#include "commands.h"

#include <stdio.h>

static const char bash_script[] =
    "# bash completion for everfold: eval \"$(everfold completion bash)\"\n"
    "_everfold()\n"
    "{\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} line\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        @file) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
    "        @dir) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
    "        \"$current\"*) COMPREPLY+=(\"$line\") ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _everfold everfold\n";

static const char zsh_script[] =
    "#compdef everfold\n"
    "# zsh completion for everfold: eval \"$(everfold completion zsh)\", after compinit\n"
    "_everfold()\n"
    "{\n"
    "    local line\n"
    "    local -a candidates\n"
    "    for line in \"${(@f)$(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        case $line in\n"
    "        @file) _files ;;\n"
    "        @dir) _files -/ ;;\n"
    "        ?*) candidates+=(\"$line\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (( ${#candidates} )) && compadd -- \"${candidates[@]}\"\n"
    "}\n"
    "# In a folder of fpath this file is the function's first call; by eval it only defines it.\n"
    "if [[ ${funcstack[1]} == _everfold ]]; then _everfold \"$@\"; "
    "else compdef _everfold everfold; fi\n";

static int run_completion(cli *c)
{
    const char *shell = c->arguments[0];

    if (strcmp(shell, "bash") == 0)
        ef__buf_add_text(&c->out, bash_script);
    else if (strcmp(shell, "zsh") == 0)
        ef__buf_add_text(&c->out, zsh_script);
    else
        return cli_usage(c, "no completion for shell '%s': must be bash or zsh", shell);
    return 0;
}

/* --- candidates ----------------------------------------------------------------------------------
 */

static void print_words(cli *c, const char *words)
{
    if (!words)
        return;
    for (const char *at = words; *at != '\0';) {
        size_t n = strcspn(at, ",");
        ef__buf_printf(&c->out, "%.*s\n", (int)n, at);
        at += n + (at[n] == ',' ? 1 : 0);
    }
}

static const cli_option *option_in(const cli_option *options, const char *word)
{
    for (const cli_option *o = options; o && o->name; o++)
        if ((strncmp(word, "--", 2) == 0 && strcmp(word + 2, o->name) == 0) ||
            (word[0] == '-' && o->letter != 0 && word[1] == o->letter && word[2] == '\0'))
            return o;
    return NULL;
}

static const cli_option *option_of(const cli_command *command, const char *word)
{
    const cli_option *own = command ? option_in(command->options, word) : NULL;

    return own ? own : option_in(cli_common_options, word);
}

static void print_options(cli *c, const cli_option *options)
{
    for (const cli_option *o = options; o && o->name; o++)
        ef__buf_printf(&c->out, "--%s\n", o->name);
}

static void print_commands(cli *c, const char *group)
{
    for (size_t i = 0; !group && cli_groups[i].name; i++)
        ef__buf_printf(&c->out, "%s\n", cli_groups[i].name);
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *verb = group ? cli_command_verb(cli_commands[i], group) : cli_commands[i]->name;
        if (verb && !cli_commands[i]->hidden && !strchr(verb, ' '))
            ef__buf_printf(&c->out, "%s\n", verb);
    }
}

static void print_argument(cli *c, const cli_command *command, size_t index)
{
    const cli_argument *a = command->arguments;

    for (size_t i = 0; a && a[i].name; i++)
        if (i == index || (i < index && a[i].many && !a[i + 1].name))
            print_words(c, a[i].words);
}

/* Arguments are the words so far; the last one is being completed. */
static int run_complete(cli *c)
{
    const cli_command *command = NULL;
    const cli_group *group = NULL;
    const cli_option *waiting = NULL; /* the option whose value comes next */
    size_t arguments = 0;
    const char *last = c->argument_count > 0 ? c->arguments[c->argument_count - 1] : "";

    for (size_t i = 0; i + 1 < c->argument_count; i++) {
        const char *word = c->arguments[i];
        char name[256];
        if (waiting) {
            waiting = NULL;
        } else if (word[0] == '-') {
            waiting = option_of(command, word);
            waiting = waiting && waiting->value ? waiting : NULL;
        } else if (command) {
            arguments++;
        } else {
            (void)snprintf(name, sizeof(name), "%s%s%s", group ? group->name : "", group ? " " : "",
                           word);
            command = cli_command_find(name);
            group = group ? group : cli_group_find(word, strlen(word));
        }
    }
    if (waiting) {
        print_words(c, waiting->words);
    } else if (last[0] == '-') {
        print_options(c, command ? command->options : NULL);
        print_options(c, cli_common_options);
    } else if (command) {
        print_argument(c, command, arguments);
    } else {
        print_commands(c, group ? group->name : NULL);
    }
    return 0;
}

const cli_command cli_cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .arguments = CLI_ARGUMENTS({"SHELL", false, false, "bash,zsh", "bash or zsh"}),
    .example = "eval \"$(everfold completion bash)\"",
    .run = run_completion,
    .no_settings = true,
};

const cli_command cli_cmd_complete = {
    .name = "complete",
    .summary = "answer a completion script",
    .arguments = CLI_ARGUMENTS({"WORD", true, true, NULL, "the command line so far, word by word"}),
    .run = run_complete,
    .hidden = true,
    .no_settings = true,
};
