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
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Exit statuses; see the documentation of the command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitFound       = 2
	exitUsage       = 64
	exitUnavailable = 69
	exitLost        = 70
	exitNotAcquired = 75
	exitNoPerm      = 77
	exitMaxHold     = 124
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number
)

// program is one process, or what stands for one in a test.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	options        []framework.Option // of tests
	signals        <-chan os.Signal
	uncatch        func()          // gives the signals their own effect back; nil in tests
	reports        *os.File        // of a keeper, to its front; nil in other processes
	gone           <-chan struct{} // closed when the front of this keeper is gone
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case keepVerb:
			os.Exit(keep())
		case guardVerb:
			os.Exit(guard())
		}
	}
	signals := make(chan os.Signal, 16)
	catch(signals, forwarded...)
	p := program{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv,
		signals: signals, uncatch: func() { signal.Stop(signals) },
	}
	err := p.attempt(context.Background(), os.Args[1:])
	if s := signalOf(err); s != 0 {
		die(s) // so that a script that this program is part of ends, too
	}
	os.Exit(statusOf(err))
}

// verb is one thing that the command can do.
type verb struct {
	name     string // one word or two
	args     string
	least    int
	most     int // -1 for any number
	about    string
	lasts    bool // as long as its input or its work, or until it is stopped: -timeout bounds the connecting only
	verbatim bool // what comes after the first argument is a command with flags of its own; the verb connects, and sees to signals, itself
	offline  bool // needs no server
	apart    bool // asks servers one by one: its client is not connected
	numbers  bool // may append a number to its path, which may then end with a slash
	flags    func(fs *flag.FlagSet) func(ctx context.Context, c *call) error
}

// call is one run of a verb.
type call struct {
	program
	settings
	client  *framework.Framework
	line    []string // the command line
	args    []string
	command []string // of a verb that is verbatim
}

// exit is an error with a status of its own. Without an error it is silent.
type exit struct {
	status int
	err    error
	died   syscall.Signal // that has ended the command; 0 if none has
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exit{status: exitUsage, err: fmt.Errorf(format, args...)}
}

// statusOf returns the exit status for an error of a verb.
func statusOf(err error) int {
	var with *exit
	var lost *locks.LostError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &with):
		return with.status
	case errors.Is(err, framework.ErrInvalidPath), errors.Is(err, framework.ErrInvalidOption):
		return exitUsage
	case errors.As(err, &lost):
		return exitLost
	case errors.Is(err, locks.ErrNotAcquired):
		return exitNotAcquired
	case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrAuthFailed):
		return exitNoPerm
	case errors.Is(err, framework.ErrNotConnected), framework.Retryable(err), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	default:
		return exitFailed
	}
}

// signalOf returns the signal that has ended a verb or its command, 0 if none has.
func signalOf(err error) syscall.Signal {
	var with *exit
	var end signalError
	switch {
	case errors.As(err, &end):
		return end.number
	case errors.As(err, &with):
		return with.died
	default:
		return 0
	}
}

// run runs one command line and returns the exit status.
func (p program) run(ctx context.Context, args []string) int { return statusOf(p.attempt(ctx, args)) }

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

// inFlags has the flags for what the library calls its options.
var inFlags = map[string]string{
	"CreatingParentsIfNeeded": "-p", "DeletingChildrenIfNeeded": "-r", "WithTTL": "-ttl", "WithVersion": "-version",
	"WithMaxLeases": "-permits", "WithSessionTimeout": "-session-timeout", "WithConnectionTimeout": "-timeout",
	"WithLabel": "-label", "WithErrorPolicy": "-policy", "WithTLS": "-tls", "Joining": "-add", "Leaving": "-remove",
	"Keytab": "-sasl-keytab", "WithServerPrincipal": "-sasl-server",
}

// capitalized is a word with the text before it. A name in a path has a slash before it.
var capitalized = regexp.MustCompile(`(?:^|[ (])[A-Z][A-Za-z]+`)

// said returns an error as the user of a command reads it, on one line.
func said(err error) string {
	text := ofLocks.ReplaceAllString(packages.ReplaceAllString(oneLine(err.Error()), "$1"), "$1$2")
	return capitalized.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimLeft(found, " (")
		return strings.TrimSuffix(found, name) + cmp.Or(inFlags[name], name)
	})
}

// packages are the names of the library's packages in its errors. They say nothing to the user of a command.
var packages = regexp.MustCompile(`(^|: )(?:(?:framework|gssapi|inspect|leader|page|partition|zk): )+`)

// ofLocks is an error of package locks, whose name is also a verb.
var ofLocks = regexp.MustCompile(`(^|: )locks: ([a-z]+ /)`)

// oneLine makes one line of an error, in which a terminal obeys nothing.
func oneLine(text string) string {
	var line strings.Builder
	for _, r := range strings.ReplaceAll(text, "\n", "; ") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return line.String()
}

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
		return p.helpful(usage("verb missing; see curatorctl help"))
	}
	switch args[0] {
	case "help":
		return p.help(args[1:])
	case completeVerb:
		return p.complete(ctx, args[1:])
	}
	v, rest := findVerb(args)
	if v == nil && len(args) > 1 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[1]) {
		return p.help(args[:1]) // of a family
	}
	if v == nil {
		return unknown(args[:min(2, len(args))])
	}
	return (&call{program: p, settings: s, line: line}).run(ctx, v, rest)
}

// unknown is the error of words that are no verb.
func unknown(words []string) error {
	if len(nextWords(words[0])) > 0 { // of two words
		if len(words) == 1 {
			return usage("%s: second word missing, expected %s; see curatorctl help %s", words[0], strings.Join(nextWords(words[0]), ", "), words[0])
		}
	} else {
		words = words[:1]
	}
	typed := strings.Join(words, " ")
	return usage("unknown verb %q; %s", typed, suggestion(typed))
}

// findVerb returns the verb at the beginning of the arguments, and what follows.
func findVerb(args []string) (*verb, []string) {
	for _, words := range []int{2, 1} {
		if len(args) < words {
			continue
		}
		for _, v := range verbs() {
			if v.name == strings.Join(args[:words], " ") {
				return v, args[words:]
			}
		}
	}
	return nil, nil
}

// takesPath reports whether an argument of the verb is the path of a znode.
func (v *verb) takesPath(index int) bool {
	words := strings.Fields(v.args)
	if len(words) == 0 || index >= v.most && v.most >= 0 {
		return false
	}
	word := strings.Trim(words[min(index, len(words)-1)], "[].")
	return slices.Contains([]string{"PATH", "FROM", "TO", "NODE"}, word)
}

// checkPaths refuses arguments that cannot be paths of znodes, before any server is asked.
func (v *verb) checkPaths(args []string) error {
	for i, arg := range args {
		if !v.takesPath(i) {
			continue
		}
		if v.numbers && arg != "/" {
			arg = strings.TrimSuffix(arg, "/")
		}
		if err := framework.ValidatePath(arg); err != nil {
			return err
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
	if err := v.checkPaths(c.args); err != nil {
		return usage("%s: %w", v.name, err)
	}
	ctx, stop := c.untilSignal(ctx, v)
	defer stop()
	if v.offline || v.verbatim {
		return action(ctx, c)
	}
	limited, cancel := c.limited(ctx)
	defer cancel()
	connect := c.connect
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

// signalError ends a verb that was interrupted.
type signalError struct{ number syscall.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.number.String() }

// untilSignal returns a context that ends with the first signal that ends programs. The second
// such signal kills the process. A verb that is verbatim sees to signals itself.
func (c *call) untilSignal(ctx context.Context, v *verb) (context.Context, func()) {
	if v.verbatim || c.signals == nil {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-c.signals:
				number, _ := s.(syscall.Signal)
				if !endsWait(number) {
					continue
				}
				if c.uncatch != nil {
					c.uncatch()
				}
				end(&exit{status: exitSignal + int(number), err: signalError{number}})
			case <-done:
			}
			return
		}
	}()
	return ctx, func() {
		close(done)
		end(nil)
	}
}

// interruptible returns what f returns, or the cause when ctx ends first. f goes on then.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type returned struct {
		value T
		err   error
	}
	done := make(chan returned, 1)
	go func() {
		value, err := f()
		done <- returned{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// flagSet returns the flags of a verb, including the flags of the connection.
func (c *call) flagSet(v *verb) (*flag.FlagSet, func(context.Context, *call) error) {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.register(fs)
	return fs, v.flags(fs)
}

// duration is the value of a flag for a time.
type duration time.Duration

// Set implements [flag.Value].
func (d *duration) Set(text string) error {
	parsed, err := parseTime(text)
	*d = duration(parsed)
	return err
}

// parseTime reads a time. A bare number has seconds, as in flock(1) and timeout(1).
func parseTime(text string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("expected seconds, or a number with a unit, such as 90s")
	}
	return d, nil
}

// String implements [flag.Value].
func (d *duration) String() string { return time.Duration(*d).String() }

// textFlag adds a flag whose value is not empty. An empty one comes from a variable of a script that is not set, and must not
// mean what no flag means.
func textFlag(fs *flag.FlagSet, name, about string) *string {
	value := new(string)
	fs.Func(name, about, func(text string) error {
		if text == "" {
			return errors.New("expected some text")
		}
		*value = text
		return nil
	})
	return value
}

// numberFlag adds a flag for a number that has a least value where it is given.
func numberFlag(fs *flag.FlagSet, name, about string, least, otherwise int) *int {
	value := otherwise
	fs.Func(name, about, func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return fmt.Errorf("expected %d or more", least)
		}
		value = n
		return nil
	})
	return &value
}

// timeFlag adds a flag for a time that is above zero where it is given.
func timeFlag(fs *flag.FlagSet, name, about string) *time.Duration {
	value := new(time.Duration)
	fs.Func(name, about, func(text string) error {
		d, err := parseTime(text)
		if err != nil || d <= 0 {
			return errors.New("expected more than 0, such as 90s")
		}
		*value = d
		return nil
	})
	return value
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
			c.args, c.command = args[:1], args[1:]
			if len(c.command) > 0 && c.command[0] == "--" {
				c.command = c.command[1:]
			} else if len(c.command) > 0 && strings.HasPrefix(c.command[0], "-") {
				return fmt.Errorf("%q after PATH, expected flags before it", c.command[0])
			}
			return nil
		}
		c.args = append(c.args, args[0])
		args = args[1:]
	}
}

// helpful adds the list of the verbs to an error.
func (p program) helpful(err error) error {
	return errors.Join(err, p.help(nil))
}

// help writes what there is, or about one verb.
func (p program) help(words []string) error {
	if len(words) > 0 {
		v, rest := findVerb(words)
		switch {
		case v != nil && len(rest) == 0:
			return p.helpVerb(v)
		case len(words) > 1 || len(nextWords(words[0])) == 0:
			return unknown(words)
		}
	}
	of := strings.Join(words, " ")
	var b strings.Builder
	b.WriteString("curatorctl shows and changes what lives in a ZooKeeper ensemble.\n\n")
	for _, v := range verbs() {
		if !strings.HasPrefix(v.name+" ", strings.TrimLeft(of+" ", " ")) {
			continue
		}
		fmt.Fprintf(&b, "  %-28s %s\n", strings.TrimSpace(v.name+" "+v.args), v.about)
	}
	b.WriteString("\ncuratorctl help VERB lists the flags of a verb. -servers or CURATOR_SERVERS names the servers.\n")
	_, err := io.WriteString(p.stdout, b.String())
	return err
}

func (p program) helpVerb(v *verb) error {
	c := &call{program: p, settings: fromEnvironment(p.getenv)}
	own, common := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError)
	c.register(common)
	fs, _ := c.flagSet(v)
	fs.VisitAll(func(f *flag.Flag) {
		if common.Lookup(f.Name) == nil {
			own.Var(f.Value, f.Name, f.Usage)
		}
	})
	var b strings.Builder
	fmt.Fprintf(&b, "curatorctl %s: %s\n", strings.TrimSpace(v.name+" "+v.args), v.about)
	for _, flags := range []*flag.FlagSet{own, common} {
		title := "\nFlags:\n"
		if flags == common {
			title = "\nFlags of all verbs; credentials are in CURATOR_AUTH and CURATOR_SASL:\n"
		}
		var defaults strings.Builder
		flags.SetOutput(&defaults)
		flags.PrintDefaults()
		if defaults.Len() > 0 {
			b.WriteString(title + defaults.String())
		}
	}
	_, err := io.WriteString(p.stdout, b.String())
	return err
}
