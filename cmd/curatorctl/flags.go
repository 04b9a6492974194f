// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// flagSet returns the flags of a verb, including the flags of the connection.
func (c *call) flagSet(v *verb) (*flag.FlagSet, action) {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.register(fs)
	if v.flags == nil {
		return fs, v.do
	}
	return fs, v.flags(fs)
}

// parse takes flags before, between and after the arguments. After -- all are arguments, also
// those that begin with a dash.
func (c *call) parse(fs *flag.FlagSet, v *verb, args []string) error {
	for {
		if err := fs.Parse(args); err != nil {
			return err
		}
		read := len(args) - fs.NArg()
		ended := read > 0 && args[read-1] == "--" // Parse takes it
		args = fs.Args()
		switch {
		case ended && !v.verbatim: // no flags follow
			c.args = append(c.args, args...)
			return nil
		case len(args) == 0:
			return nil
		case v.verbatim && v.most == 0 && ended:
			c.command = args
			return nil
		case v.verbatim && v.most > 0:
			c.args = args[:1]
			return c.takeCommand(args[1:])
		}
		c.args = append(c.args, args[0])
		args = args[1:]
	}
}

// takeCommand takes the words after the path of a verb that runs a command, with -- before it or without.
func (c *call) takeCommand(words []string) error {
	c.command = words
	if len(words) == 0 {
		return nil
	}
	switch {
	case words[0] == "--":
		c.command = words[1:]
	case strings.HasPrefix(words[0], "-"):
		return fmt.Errorf("%q after PATH, expected flags before it", words[0])
	}
	return nil
}
