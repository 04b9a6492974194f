// Devserver serves ZooKeeper's protocol from memory, for development on a machine
// without Java: an embedded server of package zkserver as a process of its own.
//
//	go run ./examples/devserver -addr 127.0.0.1:2181
//
// Its first line is "listening on HOST:PORT", with the real port when -addr asks
// for port 0; from then on clients can connect, and the four-letter words such as
// srvr are answered on the same port. Data and sessions are gone when it ends, on
// SIGINT or SIGTERM, with status 0.
//
// The tick is ZooKeeper's tickTime: session timeouts are negotiated to between 2
// and 20 of them. It is shorter than on real servers, so that what happens when a
// session expires can be seen without a long wait. How often empty containers and
// outdated TTL nodes are looked for, ZooKeeper's znode.container.checkIntervalMs, is
// -container-check. With -version 3.6.3, say, it claims to be an older ZooKeeper, and
// knows no more than that.
//
// The exit status is 1 when the address cannot be listened on or no such version can
// be, and 2 when the flags are wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, err)
	case err != nil:
		fmt.Fprintf(os.Stderr, "devserver: %v\n", err)
	}
	os.Exit(exitStatus(err))
}

func exitStatus(err error) int {
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// run is the program: it serves until ctx ends. It returns a *usageError for bad
// flags, or what kept it from listening.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, err := parseFlags(args)
	if err != nil {
		return err
	}
	server, err := zkserver.Start(zkserver.WithAddr(cfg.addr), zkserver.WithTick(cfg.tick),
		zkserver.WithContainerCheckInterval(cfg.containerCheck), zkserver.WithVersion(cfg.version))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "listening on %s\nsession timeouts from %v to %v; data is in memory only; Ctrl-C ends it\n",
		server.Addr(), minTimeoutTicks*cfg.tick, maxTimeoutTicks*cfg.tick)
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, server.Close())
}

// The bounds of session timeouts, as in ZooKeeper.
const (
	minTimeoutTicks = 2
	maxTimeoutTicks = 20
)

// config is what the flags say.
type config struct {
	addr           string
	tick           time.Duration
	containerCheck time.Duration
	version        string
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
	flags := flag.NewFlagSet("devserver", flag.ContinueOnError)
	flags.SetOutput(&text) // Parse writes what is wrong, and the usage
	flags.StringVar(&cfg.addr, "addr", "127.0.0.1:2181", "`host:port` to listen on; port 0 is any free one")
	flags.DurationVar(&cfg.tick, "tick", 500*time.Millisecond, "tickTime, a `duration`")
	flags.DurationVar(&cfg.containerCheck, "container-check", time.Minute, "`duration` between two looks for empty containers")
	flags.StringVar(&cfg.version, "version", "3.8.0", "the `version` of ZooKeeper that it claims to be")
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
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q, expected flags only", rest[0])
	}
	if _, err := net.ResolveTCPAddr("tcp", c.addr); err != nil {
		return fmt.Errorf("-addr %q, expected host:port: %w", c.addr, err)
	}
	if c.tick < time.Millisecond {
		return fmt.Errorf("-tick is %v, expected 1ms or more", c.tick)
	}
	if c.containerCheck <= 0 {
		return fmt.Errorf("-container-check is %v, expected more than 0", c.containerCheck)
	}
	return nil
}
