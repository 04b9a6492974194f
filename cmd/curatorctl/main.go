// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// program is one process, or what stands for one in a test.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	verbs          []*verb
	options        []framework.Option // of tests
	signals        <-chan os.Signal
	uncatch        func()          // gives the signals their own effect back; nil in tests
	reports        *os.File        // of a keeper, to its front; nil in other processes
	gone           <-chan struct{} // closed when the front of this keeper is gone
}

// verb is one thing that the command can do.
type verb struct {
	name  string // one word or two
	args  string
	least int
	most  int // -1 for any number
	about string

	flags func(fs *flag.FlagSet) action // adds the flags that the verb has
	do    action                        // of a verb without flags of its own

	lasts    bool // as long as its input or its work, or until it is stopped: -timeout bounds the connecting only
	verbatim bool // what comes after the first argument is a command with flags of its own; the verb connects, and sees to signals, itself
	offline  bool // needs no server
	apart    bool // asks servers one by one: its client is not connected
	numbers  bool // may append a number to its path, which may then end with a slash
}

// action is the work of a verb.
type action = func(ctx context.Context, c *call) error

// call is one run of a verb.
type call struct {
	program
	settings
	client  *framework.Framework
	line    []string // the command line
	args    []string
	command []string // of a verb that is verbatim
}

// attempt runs one command line and writes its error.
func (p program) attempt(ctx context.Context, args []string) error {
	err := p.dispatch(ctx, args)
	var with *exit
	isSilent := errors.As(err, &with) && with.err == nil
	if err != nil && !isSilent {
		p.complainf("curatorctl: %s\n", said(err))
	}
	return err
}

// complain writes to the standard error, whose own failure has no place to go.
func (p program) complainf(format string, args ...any) { _, _ = fmt.Fprintf(p.stderr, format, args...) }

func (p program) dispatch(ctx context.Context, line []string) error {
	s := fromEnvironment(p.getenv)
	early := flag.NewFlagSet("curatorctl", flag.ContinueOnError)
	early.SetOutput(io.Discard)
	s.register(early) // those before the verb
	version := early.Bool("version", false, "")
	if err := early.Parse(line); errors.Is(err, flag.ErrHelp) {
		return p.help(nil)
	} else if err != nil {
		return usage("%w; see curatorctl help", err)
	}
	args := early.Args()
	if *version {
		args = []string{"version"}
	}
	if len(args) == 0 {
		return errors.Join(usage("verb missing; see curatorctl help"), p.help(nil))
	}
	if args[0] == "help" {
		return p.help(args[1:])
	}
	v, rest := p.findVerb(args)
	if v == nil && len(args) > 1 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[1]) {
		return p.help(args[:1]) // of a family
	}
	if v == nil {
		return p.unknown(args[:min(2, len(args))])
	}
	return (&call{program: p, settings: s, line: line}).run(ctx, v, rest)
}

// findVerb returns the verb at the beginning of the arguments, and what follows.
func (p program) findVerb(args []string) (*verb, []string) {
	for _, words := range []int{2, 1} {
		if len(args) < words {
			continue
		}
		for _, v := range p.verbs {
			if v.name == strings.Join(args[:words], " ") {
				return v, args[words:]
			}
		}
	}
	return nil, nil
}

// argument returns what an argument of the verb is, such as PATH, "" for a verb without any.
func (v *verb) argument(index int) string {
	words := strings.Fields(v.args)
	if len(words) == 0 {
		return ""
	}
	return strings.Trim(words[min(index, len(words)-1)], "[].")
}

// check refuses arguments that cannot be paths or names of znodes, before any server is asked.
func (v *verb) check(args []string) error {
	for i, arg := range args {
		switch what := v.argument(i); what {
		case "PATH", "NODE":
			if v.numbers && arg != "/" {
				arg = strings.TrimSuffix(arg, "/")
			}
			if err := framework.ValidatePath(arg); err != nil {
				return err
			}
		case "MEMBER", "PARTITION", "JOB":
			if _, err := parseName(arg); err != nil {
				return fmt.Errorf("%s %q: %w", what, arg, err)
			}
		}
	}
	return nil
}

func (c *call) run(ctx context.Context, v *verb, args []string) error {
	fs, action := c.flagSet(v)
	if err := c.parse(fs, v, args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c.help(strings.Fields(v.name))
		}
		return usage("%s: %w; see curatorctl help %s", v.name, err, v.name)
	}
	switch {
	case len(c.args) < v.least || v.most >= 0 && len(c.args) > v.most:
		return usage("%s: %d arguments, expected %s", v.name, len(c.args), cmp.Or(v.args, "none"))
	case !slices.Contains([]string{"table", "wide", "json"}, c.output):
		return usage("%s: -o %q, expected table, wide or json", v.name, c.output)
	}
	if err := v.check(c.args); err != nil {
		return usage("%s: %w", v.name, err)
	}
	if v.offline || v.verbatim {
		return action(ctx, c)
	}
	ctx, stop := c.untilSignal(ctx, 0)
	defer stop()
	limited, cancel := c.limited(ctx)
	defer cancel()
	connect := c.connectOrSay
	if v.apart {
		connect = func(context.Context) (*framework.Framework, error) { return c.newClient() }
	}
	if !v.lasts {
		ctx = limited
	}
	return c.with(limited, connect, func() error { return action(ctx, c) })
}

// with runs an action with a client, and closes that.
func (c *call) with(ctx context.Context, connect func(context.Context) (*framework.Framework, error), action func() error) (err error) {
	if c.client, err = connect(ctx); err != nil {
		return err
	}
	err = c.namingChroot(ctx, action())
	if closing := c.client.Close(); closing != nil { // the action stays what it was
		c.complainf("curatorctl: %s\n", said(closing))
	}
	return err
}

// namingChroot says of a znode that is missing whether the chroot is.
func (c *call) namingChroot(ctx context.Context, err error) error {
	root := c.client.FullPath("/")
	if !errors.Is(err, framework.ErrNoNode) || root == "/" {
		return err
	}
	if stat, failed := c.client.Exists(ctx, "/"); failed != nil || stat != nil {
		return err
	}
	return fmt.Errorf("%w; the chroot %s of -servers does not exist", err, root)
}

// limited returns a context that ends after -timeout.
func (c *call) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// arg returns an argument, or what is meant without it.
func (c *call) arg(i int, otherwise string) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return otherwise
}
