package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/locks"
)

// journal tells the story of a run, a line for each event, and passes it on to the
// checker.
type journal struct {
	checker checker
	start   time.Time

	mu       sync.Mutex
	out      io.Writer // gets whole lines
	writeErr error     // the first of out
}

func newJournal(out io.Writer) *journal { return &journal{start: time.Now(), out: out} }

// acquired is called with what Acquire has just returned. The hold is to be ended
// before Release is called; should the lease be lost, it ends by itself.
func (j *journal) acquired(who string, round int, lease *locks.Lease, asked time.Time) *hold {
	h := j.checker.granted(lease.Token(), lease.Done(), asked)
	j.sayf(who, "has the lock, token %d, for report %d", lease.Token(), round)
	return h
}

func (j *journal) completed(who string, round int) {
	j.sayf(who, "released the lock, report %d is done", round)
}

func (j *journal) lost(who string, round int, reason *locks.LostError) {
	j.checker.lost()
	j.sayf(who, "LOST the lock during report %d (%s), will try again", round, reason.Reason)
}

// sayf prints a line, with the seconds since the start.
func (j *journal) sayf(who, format string, args ...any) {
	event := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ") // joined errors have lines
	j.println(fmt.Sprintf("%7.3fs  %-10s  %s", time.Since(j.start).Seconds(), who, event))
}

// sum prints the last line and returns what it says. It returns an error when not
// all of the story could be printed.
func (j *journal) sum() (summary, error) {
	s := j.checker.summary()
	j.println(s.String())
	j.mu.Lock()
	defer j.mu.Unlock()
	return s, j.writeErr
}

func (j *journal) println(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := fmt.Fprintln(j.out, line); err != nil && j.writeErr == nil {
		j.writeErr = err
	}
}
