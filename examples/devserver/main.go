// SPDX-License-Identifier: Apache-2.0

// Devserver is the embedded ZooKeeper server of package zkserver as a program, for
// development on a machine without Java. Its data is in memory.
//
//	go run ./examples/devserver -addr 127.0.0.1:2181
//
// Its first line is "listening on HOST:PORT", with the real port when -addr asks for
// port 0. From then on clients can connect, and the same port answers four-letter words
// such as srvr. SIGINT and SIGTERM end it with status 0; data and sessions are then gone.
//
// Its flags are the settings of a ZooKeeper server that make sense in memory:
//
//	-tick                    tickTime
//	-min-session-timeout     minSessionTimeout
//	-max-session-timeout     maxSessionTimeout
//	-max-client-connections  maxClientCnxns
//	-max-request             jute.maxbuffer
//	-container-check         znode.container.checkIntervalMs
//	-super-digest            zookeeper.DigestAuthenticationProvider.superDigest
//	-reconfig                reconfigEnabled
//
// The default tick is one second, half of ZooKeeper's. It grants sessions of up to 20
// seconds, which is long enough for every policy of this client. With a shorter tick
// sessions expire sooner, and clients warn that they are too short. -max-memory bounds the
// memory for connections. With -version 3.6.3, say, the server claims to be that version,
// and knows only the requests of that version.
//
// The exit status is 1 if the address is not available, and 2 if the flags are wrong.
package main

import (
	"cmp"
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
	server, err := zkserver.Start(cfg.options()...)
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return err
	case err != nil: // the server refuses a setting
		return &usageError{err, err.Error() + "\n" + cfg.usage}
	}
	smallest, largest := cfg.sessionTimeouts()
	_, err = fmt.Fprintf(stdout, "listening on %s\nsession timeouts from %v to %v; data is in memory only; Ctrl-C ends it\n",
		server.Addr(), smallest, largest)
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
	minTimeout     time.Duration // 0: 2 ticks
	maxTimeout     time.Duration // 0: 20 ticks
	maxClients     int
	maxRequest     int
	maxMemory      int
	containerCheck time.Duration
	superDigest    string
	reconfig       bool
	version        string

	usage string // of all flags
}

// options are the settings of the server, which checks them.
func (c config) options() []zkserver.Option {
	options := []zkserver.Option{
		zkserver.WithAddr(c.addr),
		zkserver.WithTick(c.tick),
		zkserver.WithSessionTimeouts(c.minTimeout, c.maxTimeout),
		zkserver.WithMaxClientConnections(c.maxClients),
		zkserver.WithMaxFrame(c.maxRequest),
		zkserver.WithMaxMemory(c.maxMemory),
		zkserver.WithContainerCheckInterval(c.containerCheck),
		zkserver.WithVersion(c.version),
	}
	if c.superDigest != "" {
		options = append(options, zkserver.WithSuperDigest(c.superDigest))
	}
	if c.reconfig {
		options = append(options, zkserver.WithReconfigEnabled())
	}
	return options
}

// sessionTimeouts returns the bounds of session timeouts.
func (c config) sessionTimeouts() (smallest, largest time.Duration) {
	return cmp.Or(c.minTimeout, minTimeoutTicks*c.tick), cmp.Or(c.maxTimeout, maxTimeoutTicks*c.tick)
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
	flags.DurationVar(&cfg.tick, "tick", time.Second, "tickTime, a `duration`")
	flags.DurationVar(&cfg.minTimeout, "min-session-timeout", 0, "smallest session timeout, a `duration` (default 2 ticks)")
	flags.DurationVar(&cfg.maxTimeout, "max-session-timeout", 0, "largest session timeout, a `duration` (default 20 ticks)")
	flags.IntVar(&cfg.maxClients, "max-client-connections", 0, "how `many` connections one address may have (default no limit)")
	flags.IntVar(&cfg.maxRequest, "max-request", 0xfffff, "size of the largest request in `bytes`")
	flags.IntVar(&cfg.maxMemory, "max-memory", 256<<20, "`bytes` of memory for all connections, without the data of znodes")
	flags.DurationVar(&cfg.containerCheck, "container-check", time.Minute, "`duration` between two looks for empty containers")
	flags.StringVar(&cfg.superDigest, "super-digest", "", "the `digest` of the super user, super:base64(sha1(super:password)) (default none)")
	flags.BoolVar(&cfg.reconfig, "reconfig", false, "answer reconfig as a server that allows it but is alone")
	flags.StringVar(&cfg.version, "version", "3.8.0", "the `version` of ZooKeeper that it claims to be")
	if err := flags.Parse(args); err != nil {
		return config{}, &usageError{err, strings.TrimSpace(text.String())}
	}
	flags.Usage()
	cfg.usage = strings.TrimSpace(text.String())
	if err := cfg.validate(flags.Args()); err != nil {
		return config{}, &usageError{err, err.Error() + "\n" + cfg.usage}
	}
	return cfg, nil
}

// validate checks what the server does not.
func (c config) validate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q, expected flags only", rest[0])
	}
	if _, err := net.ResolveTCPAddr("tcp", c.addr); err != nil {
		return fmt.Errorf("-addr %q, expected host:port: %w", c.addr, err)
	}
	return nil
}
