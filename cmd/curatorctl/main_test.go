// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// run runs one command line and returns the exit status.
func (p program) run(ctx context.Context, args []string) int { return statusOf(p.attempt(ctx, args)) }

// asProgram in the environment makes the test binary the program.
const asProgram = "CURATORCTL_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && (os.Args[1] == keepVerb || os.Args[1] == guardVerb) {
		main()
	}
	if isHolder() {
		return
	}
	// The race detector has programs wait for a second at their end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	// The programs and shells of tests would inherit what this process ignores: SIGHUP under nohup, and SIGINT and
	// SIGQUIT when a script has started it in the background.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	zktest.Main(m)
}

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

// outcome is what one command line has done.
type outcome struct {
	stdout, stderr string
	status         int
}

// output is what a program has written, together with the processes that it has started.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// curatorctl runs a command line in this process.
func curatorctl(tb testing.TB, servers, stdin string, args ...string) outcome {
	tb.Helper()
	return program{stdin: strings.NewReader(stdin)}.in(tb, map[string]string{"CURATOR_SERVERS": servers}, args...)
}

// in runs a command line in an environment.
func (p program) in(tb testing.TB, env map[string]string, args ...string) outcome {
	tb.Helper()
	var stdout, stderr output
	own := p
	own.verbs = verbs()
	own.stdout, own.stderr, own.getenv = &stdout, &stderr, func(name string) string { return env[name] }
	if own.stdin == nil {
		own.stdin = strings.NewReader("")
	}
	status := own.run(zktest.Context(tb), args)
	return outcome{stdout.String(), stderr.String(), status}
}

// step is a command line of a script, and what it must do.
type step struct {
	args   []string
	stdin  string
	stdout string
	stderr string
	status int
}

// readScript reads lines of four kinds: "$ " begins a command line, whose words are quoted
// as in Go where they must be; "< " is a line of its standard input; "[status] " is its exit
// status and standard error; all others are its standard output,
// whose last line may lack its end.
func readScript(tb testing.TB, text string) []*step {
	tb.Helper()
	var steps []*step
	var s *step
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		input, isInput := strings.CutPrefix(line, "< ")
		status := regexp.MustCompile(`^\[(\d+)\] ?(.*)$`).FindStringSubmatch(line)
		switch {
		case isCommand:
			s = &step{}
			for _, word := range regexp.MustCompile("`[^`]*`|\"(?:[^\"\\\\]|\\\\.)*\"|\\S+").FindAllString(command, -1) {
				if word[0] == '"' || word[0] == '`' {
					word = must.Get(strconv.Unquote(word))(tb)
				}
				s.args = append(s.args, word)
			}
			steps = append(steps, s)
		case s == nil: // a comment before the first command
		case strings.HasPrefix(line, "#"):
		case isInput:
			s.stdin += input + "\n"
		case status != nil:
			s.status, _ = strconv.Atoi(status[1])
			s.stderr = status[2]
		default:
			s.stdout += line + "\n"
		}
	}
	return steps
}

// like reports whether a text is the pattern, in which * stands for anything in one line.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}

// play runs a script against a server.
func play(t *testing.T, servers, text string) {
	t.Helper()
	steps := readScript(t, text)
	require.NotEmpty(t, steps)
	for _, s := range steps {
		got := curatorctl(t, servers, s.stdin, s.args...)
		line := strings.Join(s.args, " ")
		require.Equal(t, s.status, got.status, "%s: %s", line, got.stderr)
		require.True(t, like(strings.TrimSuffix(s.stdout, "\n"), strings.TrimSuffix(got.stdout, "\n")), "%s\nexpected:\n%s\ngot:\n%s", line, s.stdout, got.stdout)
		if s.stderr != "" || s.status == 0 {
			require.True(t, like(s.stderr, oneLine(strings.TrimSpace(got.stderr))), "%s\nexpected:\n%s\ngot:\n%s", line, s.stderr, got.stderr)
		}
	}
}
