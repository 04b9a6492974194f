// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// The completion is a verb of ours, which the scripts of the shells ask. A library for command lines, such as cobra, would take it
// over, but the long flags of such a library have two dashes, and those of this command have one.

// completeVerb prints what may follow a command line, a line for each.
const completeVerb = "__complete"

// flagWords are the values that some flags take.
var flagWords = map[string][]string{"-o": {"table", "wide", "json"}, "-policy": {"quorum", "session", "standard"}}

var shells = []string{"bash", "fish", "zsh"}

// completionTime bounds how long a key press may wait for a server.
const completionTime = 2 * time.Second

// Bash cuts the words of a line at colons and equals signs too, and replaces what follows the last of them. So the function cuts the
// line itself. Names of files are proposed where the command has nothing to propose.
const bashCompletion = `_curatorctl() {
	local words last kept IFS=$' \t\n'
	read -a words <<<"${COMP_LINE:0:COMP_POINT}."
	last=${words[${#words[@]}-1]%.}
	words[${#words[@]}-1]=$last
	kept=${last%"${last##*[:=]}"}
	IFS=$'\n'
	COMPREPLY=($(curatorctl ` + completeVerb + ` "${words[@]:1}" 2>/dev/null | while read -r; do printf '%q\n' "$REPLY"; done))
	[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$last"))
	COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}
complete -F _curatorctl curatorctl`

const zshCompletion = `autoload -U +X bashcompinit && bashcompinit
_curatorctl() {
	local IFS=$'\n'
	COMPREPLY=($(curatorctl ` + completeVerb + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
	[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _curatorctl curatorctl`

// verbCompletion writes what makes a shell complete verbs, flags and paths.
func verbCompletion(_ context.Context, c *call) error {
	switch shell := c.args[0]; shell {
	case "bash":
		return c.println(bashCompletion)
	case "zsh":
		return c.println(zshCompletion)
	case "fish":
		return c.println("complete -c curatorctl -a '(curatorctl " + completeVerb + " (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'")
	default:
		return usage("completion: %q, expected one of %s", shell, strings.Join(shells, ", "))
	}
}

// complete prints what the last word may become.
func (p program) complete(ctx context.Context, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	c := &call{program: p, settings: fromEnvironment(p.getenv)}
	early := flag.NewFlagSet("curatorctl", flag.ContinueOnError)
	early.SetOutput(&strings.Builder{})
	c.register(early)
	if early.Parse(before) == nil {
		before = early.Args()
	}
	v, rest := p.findVerb(before)
	var found []string
	switch {
	case len(words) > 1 && flagWords[words[len(words)-2]] != nil:
		found = flagWords[words[len(words)-2]]
	case len(before) > 0 && before[0] == "help":
		found = p.nextWords(strings.Join(before[1:], " "))
	case v != nil && v.name == "completion":
		found = shells
	case v == nil:
		found = p.nextWords(strings.Join(before, " "))
	case strings.HasPrefix(last, "-"):
		fs, _ := c.flagSet(v)
		fs.VisitAll(func(f *flag.Flag) { found = append(found, "-"+f.Name) })
	case strings.HasPrefix(last, "/"):
		fs, _ := c.flagSet(v)
		_ = c.parse(fs, v, rest) // the line is not whole yet; what it says of servers counts
		if v.takesPath(len(c.args)) {
			found = c.pathsBelow(ctx, last)
		}
	}
	for _, word := range found {
		if strings.HasPrefix(word, last) && printable(word) == word {
			if err := c.println(word); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathsBelow returns the paths that begin as the typed one. Without a server there are none.
func (c *call) pathsBelow(ctx context.Context, typed string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	parent := typed[:max(strings.LastIndexByte(typed, '/'), 1)]
	var paths []string
	_ = c.with(ctx, c.connect, func() error { // an error has no place in a line that is typed
		names, err := c.client.Children(ctx, parent)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			paths = append(paths, framework.JoinPath(parent, name))
		}
		return nil
	})
	return paths
}
