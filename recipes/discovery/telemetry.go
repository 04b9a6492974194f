// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// logPath is the key of the path in log records.
const logPath = string(instruments.Path)

// telemetry is what one discovery measures; "Metrics" in doc.go has the table.
type telemetry struct {
	set                               *instruments.Set
	registrations, instances, leftOut *instruments.Count

	following sync.Mutex   // orders follow and unfollow, which call the meter; before mu
	stop      func() error // nil while no cache follows

	mu   sync.Mutex                   // the meter calls oldest under a lock of its own
	ages map[any]func() time.Duration // of the caches that follow
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	s := instruments.New(client, "discovery", path)
	t := &telemetry{
		set: s, ages: map[any]func() time.Duration{},
		registrations: s.UpDown("curator.discovery.registrations", "{instance}", "Instances that this process keeps registered."),
		instances:     s.UpDown("curator.discovery.instances", "{instance}", "Instances in the caches of services."),
		leftOut: s.Counter("curator.discovery.left_out", "{instance}",
			"Znodes among instances that were left out: not readable, or user code panicked on them."),
	}
	return t, s.Err()
}

// follow observes the age of a cache until unfollow is called.
func (t *telemetry) follow(cache any, age func() time.Duration) (err error) {
	t.following.Lock()
	defer t.following.Unlock()
	t.mu.Lock()
	t.ages[cache] = age
	t.mu.Unlock()
	if t.stop == nil {
		t.stop, err = t.set.Observe("curator.discovery.age",
			"How old the instances of the oldest cache may be, 0 while connected.", t.oldest)
	}
	return err
}

func (t *telemetry) unfollow(cache any) error {
	t.following.Lock()
	defer t.following.Unlock()
	t.mu.Lock()
	delete(t.ages, cache)
	last := len(t.ages) == 0
	t.mu.Unlock()
	if !last || t.stop == nil {
		return nil
	}
	stop := t.stop
	t.stop = nil
	return stop()
}

func (t *telemetry) oldest() (oldest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, age := range t.ages {
		oldest = max(oldest, age())
	}
	return oldest
}
