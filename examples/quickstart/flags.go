package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// config is what the flags say.
type config struct {
	connect  string // empty for an embedded server
	replicas int
	rounds   int
	work     time.Duration
}

// usageError is a mistake in the flags, or the request for help.
type usageError struct {
	cause error
	text  string // what to tell, with the usage
}

func (e *usageError) Error() string { return e.text }
func (e *usageError) Unwrap() error { return e.cause }

// parseFlags returns what the arguments say, or a *usageError. That one matches
// flag.ErrHelp when help was asked for.
func parseFlags(args []string) (config, error) {
	var cfg config
	var text strings.Builder
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(&text) // Parse writes what is wrong, and the usage
	flags.StringVar(&cfg.connect, "connect", "",
		"ZooKeeper `servers`, host:port,... (default: a server in this process)")
	flags.IntVar(&cfg.replicas, "replicas", 4, "`number` of replicas that compete for the lock")
	flags.IntVar(&cfg.rounds, "rounds", 5, "`number` of reports that each replica completes")
	flags.DurationVar(&cfg.work, "work", 50*time.Millisecond, "`duration` of one report")
	if err := flags.Parse(args); err != nil {
		return config{}, &usageError{err, strings.TrimSpace(text.String())}
	}
	if err := cfg.validate(flags.Args()); err != nil {
		fmt.Fprintln(&text, err)
		flags.Usage()
		return config{}, &usageError{err, strings.TrimSpace(text.String())}
	}
	return cfg, nil
}

func (c config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q, expected flags only", rest[0])
	case c.replicas < 1:
		return fmt.Errorf("-replicas is %d, expected 1 or more", c.replicas)
	case c.rounds < 1:
		return fmt.Errorf("-rounds is %d, expected 1 or more", c.rounds)
	case c.work <= 0:
		return fmt.Errorf("-work is %v, expected a duration above 0 such as 50ms", c.work)
	}
	if c.connect == "" {
		return nil
	}
	// New checks the connection string and connects to nothing.
	if _, err := framework.New(c.connect); err != nil {
		return fmt.Errorf("-connect: %w", err)
	}
	return nil
}
