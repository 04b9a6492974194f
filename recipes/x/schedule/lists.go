// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// lists knows which of several jobs with one name is run: the one that New was given first, a Job before each list. Otherwise chance
// would decide, as they have one state and one lease.
type lists struct {
	names map[string]bool // of the Jobs

	mu      sync.Mutex
	of      map[string][]string // the names in the znode of an Each; none before it was read
	changed chan struct{}       // closed when that changes
}

func newLists(jobs []Job) *lists {
	l := &lists{names: make(map[string]bool), of: make(map[string][]string), changed: make(chan struct{})}
	for _, job := range jobs {
		l.names[job.Name] = job.Name != ""
	}
	return l
}

// follow follows the znodes of an Each, until ctx ends.
func (l *lists) follow(ctx context.Context, client *framework.Framework, each string) {
	loop := attempt.Loop{Client: client, Path: each, Warning: "the names of jobs cannot be followed, trying again"}
	_ = loop.Follow(ctx, func(node framework.Node) { // until ctx ends
		names := []string{}
		for line := range strings.Lines(string(attempt.Plain(client, each, node.Data))) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t") // what follows is a load
			names = append(names, strings.TrimSpace(name))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.of[each] = names
		close(l.changed)
		l.changed = make(chan struct{})
	}, framework.Undecompressed())
}

// before returns what has a name before the job of an Each, "" if nothing has it, and a channel that is closed when that may change. It is not
// known before the lists of earlier were read.
func (l *lists) before(name string, earlier []string) (other string, known bool, changed <-chan struct{}) {
	if l.names[name] {
		return "a job of that name", true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range earlier {
		names, known := l.of[each]
		if !known || slices.Contains(names, name) {
			return each, known, l.changed
		}
	}
	return "", true, l.changed
}
