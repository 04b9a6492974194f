// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/bodies"
	"github.com/gocurator/curator/recipes/internal/profile"
)

// The times of a profile, in seconds.
const (
	profileTime     = 30
	longestProfile  = 600
	profiledAtMost  = 20_000 // locks and places in the code; the others are one
	thisPackage     = "github.com/gocurator/curator/recipes/locks."
	otherAcquirings = "(others)"
)

// Profile returns a handler that watches the locks of this process, for 30 seconds or ?seconds=N, up to 600. Then it
// answers with a profile:
//
//	http.Handle("/debug/locks", locks.Profile())
//	go tool pprof 'http://localhost:8080/debug/locks?seconds=60'
//
// Each lock is the leaf of a stack, below the function that has acquired or released it. The values are the
// acquisitions, the holds that have ended, and how long both took. An acquisition counts when its call returns, even
// with an error. With ?format=json the same is an array. Nothing is recorded while no request waits. The answer has the
// paths of the locks at the server.
func Profile() http.Handler { return bodies.Within(bodies.Unread, http.HandlerFunc(serveProfile)) }

func serveProfile(w http.ResponseWriter, r *http.Request) {
	seconds, err := profileTime, error(nil)
	if text := r.URL.Query().Get("seconds"); text != "" {
		seconds, err = strconv.Atoi(text)
	}
	if err != nil || seconds < 1 || seconds > longestProfile {
		http.Error(w, fmt.Sprintf("locks: seconds %.20q, expected 1 to %d", r.URL.Query().Get("seconds"), longestProfile), http.StatusBadRequest)
		return
	}
	p := &recording{at: make(map[site]*profiled)}
	recordings.add(p)
	began := time.Now()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	}
	recordings.remove(p)
	lasted := time.Since(began)
	if r.Context().Err() != nil {
		return
	}
	found := p.done()
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found) //nolint:errchkjson // a client that has gone needs nothing, and the numbers are finite
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	var samples []profile.Sample
	for _, s := range found {
		samples = append(samples, profile.Sample{
			Stack: []string{s.Path, s.Code}, Values: []int64{int64(s.Acquisitions), int64(s.Holds), int64(s.Hold * 1e9), int64(s.Wait * 1e9)},
		})
	}
	_ = profile.Write(w, []profile.Type{
		{Name: "acquisitions", Unit: "count"}, {Name: "holds", Unit: "count"}, {Name: "hold", Unit: "nanoseconds"}, {Name: "wait", Unit: "nanoseconds"},
	}, samples, began, lasted)
}

// site is a lock, at the server, and a function that uses it.
type site struct{ path, code string }

// profiled is what a function of this process had of a lock, as [Profile] writes it in JSON.
type profiled struct {
	Path         string  `json:"path"`
	Code         string  `json:"code"`
	Acquisitions int     `json:"acquisitions"`
	Wait         float64 `json:"wait"` // seconds, of all acquisitions together
	Holds        int     `json:"holds"`
	Hold         float64 `json:"hold"`
	Losses       int     `json:"losses"` // of holds
}

// recording is one profile that is under way.
type recording struct {
	mu sync.Mutex
	at map[site]*profiled
}

func (p *recording) done() []profiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := []profiled{}
	for _, s := range p.at {
		found = append(found, *s)
	}
	slices.SortFunc(found, func(a, b profiled) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code))
	})
	return found
}

// note adds to what is recorded of a lock and the calling function.
func (p *recording) note(at site, add func(*profiled)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at[at] == nil && len(p.at) >= profiledAtMost {
		at = site{otherAcquirings, otherAcquirings}
	}
	if p.at[at] == nil {
		p.at[at] = &profiled{Path: at.path, Code: at.code}
	}
	add(p.at[at])
}

// recordings are all that are under way.
var recordings = new(recordingSet)

type recordingSet struct {
	any atomic.Bool

	mu  sync.Mutex
	all []*recording
}

func (s *recordingSet) add(p *recording) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	s.any.Store(true)
}

func (s *recordingSet) remove(p *recording) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other *recording) bool { return other == p })
	s.any.Store(len(s.all) > 0)
}

// note adds to all recordings. It runs on the goroutine of the function that it is about.
func (s *recordingSet) note(l *lock, add func(*profiled)) {
	at := site{l.fullPath, caller()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		p.note(at, add)
	}
}

// beginning is when an acquisition begins, zero if nothing is recorded.
func (s *recordingSet) beginning() time.Time {
	if !s.any.Load() {
		return time.Time{}
	}
	return time.Now()
}

// acquired notes an acquisition that has begun at a time, and is over.
func (s *recordingSet) acquired(l *lock, began time.Time) {
	if !began.IsZero() && s.any.Load() {
		wait := time.Since(began).Seconds()
		s.note(l, func(p *profiled) { p.Acquisitions, p.Wait = p.Acquisitions+1, p.Wait+wait })
	}
}

// ended notes the end of a hold.
func (s *recordingSet) ended(h *hold, cause error) {
	if s.any.Load() && h.l.recipe != "" {
		held, lost := time.Since(h.since).Seconds(), 0
		if cause != nil {
			lost = 1
		}
		s.note(h.l, func(p *profiled) { p.Holds, p.Hold, p.Losses = p.Holds+1, p.Hold+held, p.Losses+lost })
	}
}

// caller is the function that has called this package.
func caller() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, thisPackage) {
			if frame.Function == "runtime.goexit" {
				return "(lost)" // on a goroutine of ours
			}
			return frame.Function
		}
		if !more {
			return otherAcquirings
		}
	}
}
