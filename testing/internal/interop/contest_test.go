// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
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
	if _, err := c.increment(); err != nil {
		return err
	}
	return c.log("end exclusive", who, token)
}

// share takes turns at what others may hold at the same time, with as many leases
// together as acquire returns. Each of them is one contender in the log.
func (c contest) share(
	ctx context.Context, who string, acquire func(context.Context) ([]*locks.Lease, error), turns int,
) error {
	for range turns {
		leases, err := acquire(ctx)
		if err != nil {
			return err
		}
		for i, lease := range leases {
			if err := c.log("begin shared", nth(who, i), lease.Token()); err != nil {
				return err
			}
		}
		work()
		for i, lease := range leases {
			if err := c.log("end shared", nth(who, i), lease.Token()); err != nil {
				return err
			}
			if err := lease.Release(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// nth names the contender that stands for one of several leases.
func nth(who string, i int) string { return who + "." + strconv.Itoa(i) }

// downgrade writes, and goes on to read what it has written, without a gap.
func (c contest) downgrade(ctx context.Context, who string, lock *locks.InterProcessReadWriteLock, turns int) error {
	for range turns {
		write, err := lock.WriteLock().Acquire(ctx)
		if err != nil {
			return err
		}
		if err := c.log("begin exclusive", who, write.Token()); err != nil {
			return err
		}
		written, err := c.increment()
		if err != nil {
			return err
		}
		read, err := lock.ReadLock().Acquire(write.Context(ctx))
		if err != nil {
			return err
		}
		if err := errors.Join(
			c.log("end exclusive", who, write.Token()),
			c.log("begin shared", who, read.Token()),
			write.Release(ctx),
		); err != nil {
			return err
		}
		if err := c.stays(written); err != nil {
			return err
		}
		if err := errors.Join(c.log("end shared", who, read.Token()), read.Release(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// stays tells whether the counter still has the number after some work.
func (c contest) stays(written int) error {
	work()
	n, err := c.count()
	if err == nil && n != written {
		err = fmt.Errorf("read %d after the downgrade, wrote %d", n, written)
	}
	return err
}

// increment adds one to the counter, and returns what it has written.
func (c contest) increment() (int, error) {
	n, err := c.count()
	if err != nil {
		return 0, err
	}
	work()
	return n + 1, os.WriteFile(c.counter(), []byte(strconv.Itoa(n+1)), 0o600)
}

func (c contest) count() (int, error) {
	text, err := os.ReadFile(c.counter())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// work takes up to half a millisecond. It is what the lock is held for, not a wait.
func work() { time.Sleep(rand.N(time.Millisecond / 2)) }

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
	overtook []string       // holds that began after one, not shared with it, whose node is younger
	most     int            // holds at one time
}

func (c contest) find(tb testing.TB) finding {
	tb.Helper()
	f := finding{holds: make(map[string]int)}
	var err error
	f.counter, err = c.count()
	require.NoError(tb, err)
	log, err := os.ReadFile(filepath.Join(c.folder, "log"))
	require.NoError(tb, err)
	require.NoError(tb, f.read(string(log)))
	return f
}

// read goes through the log.
func (f *finding) read(log string) error {
	inside := map[string]string{} // who: exclusive or shared
	var youngest, youngestExclusive int64
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
		f.most = max(f.most, len(inside))
		before := youngestExclusive
		if kind == "exclusive" {
			before = youngest
			youngestExclusive = max(youngestExclusive, czxid)
		}
		if czxid < before {
			f.overtook = append(f.overtook, fmt.Sprintf("%s's 0x%x after 0x%x", who, czxid, before))
		}
		youngest = max(youngest, czxid)
	}
	return nil
}

func TestContestFindings(t *testing.T) {
	for _, test := range []struct {
		name, log          string
		overlaps, overtook int
		most               int
	}{
		{"one after the other", "begin exclusive a 1\nend exclusive a 1\nbegin exclusive b 2\nend exclusive b 2\n", 0, 0, 1},
		{"two at once", "begin exclusive a 1\nbegin exclusive b 2\nend exclusive a 1\nend exclusive b 2\n", 1, 0, 2},
		{"readers at once", "begin shared a 1\nbegin shared b 2\nend shared a 1\nend shared b 2\n", 0, 0, 2},
		{"a reader during a writer", "begin exclusive a 1\nbegin shared b 2\nend exclusive a 1\nend shared b 2\n", 1, 0, 2},
		{"a writer during a reader", "begin shared a 1\nbegin exclusive b 2\nend shared a 1\nend exclusive b 2\n", 1, 0, 2},
		{"out of order", "begin exclusive a 2\nend exclusive a 2\nbegin exclusive b 1\nend exclusive b 1\n", 0, 1, 1},
		{"readers out of order", "begin shared a 2\nbegin shared b 1\nend shared b 1\nend shared a 2\n", 0, 0, 2},
		{"a reader after a younger writer", "begin exclusive a 2\nend exclusive a 2\nbegin shared b 1\nend shared b 1\n", 0, 1, 1},
		{"a writer after a younger reader", "begin shared a 2\nend shared a 2\nbegin exclusive b 1\nend exclusive b 1\n", 0, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := finding{holds: make(map[string]int)}
			require.NoError(t, f.read(test.log))
			require.Len(t, f.overlaps, test.overlaps)
			require.Len(t, f.overtook, test.overtook)
			require.Equal(t, test.most, f.most)
			require.Equal(t, map[string]int{"a": 1, "b": 1}, f.holds)
		})
	}
	require.Error(t, (&finding{}).read("begin exclusive a\n"))
}
