package interop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
)

// contest is a folder in which the holders of locks leave evidence, in Go as
// java/Contest.java does in Java.
type contest struct{ folder string }

func newContest(tb testing.TB) contest {
	tb.Helper()
	c := contest{tb.TempDir()}
	require.NoError(tb, os.WriteFile(c.counter(), []byte("0"), 0o600))
	return c
}

func (c contest) counter() string { return filepath.Join(c.folder, "counter") }

// contend takes turns at a lock that excludes everybody else.
func (c contest) contend(ctx context.Context, who string, lock locks.InterProcessLock, turns int) error {
	for range turns {
		lease, err := lock.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := c.exclusive(who, lease.Token()); err != nil {
			return err
		}
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c contest) exclusive(who string, token int64) error {
	if err := c.log("begin exclusive", who, token); err != nil {
		return err
	}
	text, err := os.ReadFile(c.counter())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	time.Sleep(rand.N(time.Millisecond / 2)) // the work, not a wait
	if err := os.WriteFile(c.counter(), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	return c.log("end exclusive", who, token)
}

// log appends a line in one write, which the kernel puts in order with all others.
func (c contest) log(what, who string, token int64) error {
	file, err := os.OpenFile(filepath.Join(c.folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %s %d\n", what, who, token)
	return err
}

// finding is what the evidence of a contest shows.
type finding struct {
	counter  int
	holds    map[string]int // of each contender
	overlaps []string       // holds that began while an exclusive one, or before one, had not ended
	overtook []string       // holds that began after one whose node is younger
}

func (c contest) find(tb testing.TB) finding {
	tb.Helper()
	counter, err := os.ReadFile(c.counter())
	require.NoError(tb, err)
	f := finding{holds: make(map[string]int)}
	f.counter, err = strconv.Atoi(strings.TrimSpace(string(counter)))
	require.NoError(tb, err)
	log, err := os.ReadFile(filepath.Join(c.folder, "log"))
	require.NoError(tb, err)
	require.NoError(tb, f.read(string(log)))
	return f
}

// read goes through the log.
func (f *finding) read(log string) error {
	inside := map[string]string{} // who: exclusive or shared
	var youngest int64
	for line := range strings.Lines(log) {
		var event, kind, who string
		var czxid int64
		if _, err := fmt.Sscanf(line, "%s %s %s %d\n", &event, &kind, &who, &czxid); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		if event == "end" {
			delete(inside, who)
			continue
		}
		for other, held := range inside {
			if kind == "exclusive" || held == "exclusive" {
				f.overlaps = append(f.overlaps, fmt.Sprintf("%s %s during %s %s", who, kind, other, held))
			}
		}
		inside[who] = kind
		f.holds[who]++
		if czxid < youngest {
			f.overtook = append(f.overtook, fmt.Sprintf("%s's 0x%x after 0x%x", who, czxid, youngest))
		}
		youngest = max(youngest, czxid)
	}
	return nil
}

func TestTheFindingsOfAContest(t *testing.T) {
	for _, test := range []struct {
		name, log          string
		overlaps, overtook int
	}{
		{"one after the other", "begin exclusive a 1\nend exclusive a 1\nbegin exclusive b 2\nend exclusive b 2\n", 0, 0},
		{"two at once", "begin exclusive a 1\nbegin exclusive b 2\nend exclusive a 1\nend exclusive b 2\n", 1, 0},
		{"readers at once", "begin shared a 1\nbegin shared b 2\nend shared a 1\nend shared b 2\n", 0, 0},
		{"a reader during a writer", "begin exclusive a 1\nbegin shared b 2\nend exclusive a 1\nend shared b 2\n", 1, 0},
		{"a writer during a reader", "begin shared a 1\nbegin exclusive b 2\nend shared a 1\nend exclusive b 2\n", 1, 0},
		{"out of order", "begin exclusive a 2\nend exclusive a 2\nbegin exclusive b 1\nend exclusive b 1\n", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := finding{holds: make(map[string]int)}
			require.NoError(t, f.read(test.log))
			require.Len(t, f.overlaps, test.overlaps)
			require.Len(t, f.overtook, test.overtook)
			require.Equal(t, map[string]int{"a": 1, "b": 1}, f.holds)
		})
	}
	require.Error(t, (&finding{}).read("begin exclusive a\n"))
}
