package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
)

// verbCompletion writes what makes a shell complete the verbs.
func verbCompletion(*flag.FlagSet) func(context.Context, *call) error {
	return func(_ context.Context, c *call) error {
		first, second := completions()
		switch shell := c.args[0]; shell {
		case "bash", "zsh":
			text := ""
			if shell == "zsh" {
				text = "autoload -U +X bashcompinit && bashcompinit\n"
			}
			return c.println(text + fmt.Sprintf(`_curatorctl() {
	case "${COMP_WORDS[COMP_CWORD-1]}" in
	curatorctl) COMPREPLY=($(compgen -W %q -- "${COMP_WORDS[COMP_CWORD]}")) ;;
	lock) COMPREPLY=($(compgen -W %q -- "${COMP_WORDS[COMP_CWORD]}")) ;;
	*) COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")) ;;
	esac
}
complete -F _curatorctl curatorctl`, strings.Join(first, " "), strings.Join(second, " ")))
		case "fish":
			return c.println(fmt.Sprintf("complete -c curatorctl -n __fish_use_subcommand -a %q\n"+
				"complete -c curatorctl -n '__fish_seen_subcommand_from lock' -a %q", strings.Join(first, " "), strings.Join(second, " ")))
		default:
			return usage("completion: %q, expected bash, zsh or fish", shell)
		}
	}
}

// completions returns the first words of the verbs, and the second ones.
func completions() (first, second []string) {
	seen := make(map[string]bool)
	for _, v := range verbs() {
		word, rest, _ := strings.Cut(v.name, " ")
		if !seen[word] {
			seen[word] = true
			first = append(first, word)
		}
		if rest != "" {
			second = append(second, rest)
		}
	}
	return append(first, "help"), second
}
