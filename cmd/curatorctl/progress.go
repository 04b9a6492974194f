// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// redraw is the shortest time between two lines of progress.
const redraw = 100 * time.Millisecond

// clearLine begins a line of a terminal again, without what it had.
const clearLine = "\r\x1b[K"

// progress counts what a long verb has done. While the standard error is a terminal the count
// stands in its last line; it is gone when the verb ends, which then says what it has done.
type progress struct {
	verb  string // in the past tense
	total int
	out   io.Writer // nil without a terminal

	mu    sync.Mutex
	done  int
	drawn time.Time // zero while nothing is on the line
}

// newProgress returns a progress whose finish must be called.
func (c *call) newProgress(verb string, total int) *progress {
	p := &progress{verb: verb, total: total}
	// A device that is no terminal, such as /dev/null, takes the lines too.
	if file, ok := c.stderr.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.out = c.stderr
		}
	}
	return p
}

func (p *progress) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.out != nil && time.Since(p.drawn) >= redraw {
		p.drawn = time.Now()
		_, _ = fmt.Fprint(p.out, clearLine, p.line()) // a terminal that is gone has no reader
	}
}

func (p *progress) line() string { return fmt.Sprintf("%s %d of %d znodes", p.verb, p.done, p.total) }

// finish clears the line. It gives the error of a verb that has ended early what had been done
// by then, and the signal's status.
func (p *progress) finish(ctx context.Context, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.drawn.IsZero() {
		_, _ = fmt.Fprint(p.out, clearLine)
		p.drawn = time.Time{}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.line(), cmp.Or(context.Cause(ctx), err))
}
