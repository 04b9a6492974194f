// Package page shows locks, elections, queues and services in a browser: a handler to mount in
// a service of your own, like net/http/pprof. It only reads.
//
//	http.Handle("/debug/locks", page.Handler(client, "/"))
//
// The page is readable without JavaScript and asks no other host for anything. It shows what is
// in ZooKeeper to every viewer, so mount it where such pages belong. Beside what ZooKeeper has
// it lists the locks that this process has lost.
package page

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // for the template
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/partition"
)

//go:embed page.html
var text string

var shape = template.Must(template.New("page").Funcs(template.FuncMap{
	"age": age, "name": name, "client": inspect.Client,
	"seconds": func(t time.Time) int { return int(time.Since(t).Seconds()) },
	"utc":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"session": func(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }, //nolint:gosec // as ZooKeeper prints it
	"hold":    func(r inspect.Recipe) *locks.Participant { return found(r.OldestHold()) },
	"wait": func(r inspect.Recipe) *locks.Participant {
		if r.Waiters == 0 {
			return nil
		}
		return found(r.LongestWait())
	},
	"ahead": func(p locks.Participant, of []locks.Participant) string {
		for _, q := range of {
			if len(p.WaitsFor) > 0 && q.Path == p.WaitsFor[0] {
				return name(q)
			}
		}
		return ""
	},
}).Parse(text))

func found(p locks.Participant, found bool) *locks.Participant {
	if !found {
		return nil
	}
	return &p
}

const (
	fresh     = time.Second      // how long a survey is shown to all that ask
	readLimit = 10 * time.Second // bounds one survey
)

// Handler returns the page for what is at a path and below it. It answers GET and HEAD.
//
// The page is a list. With ?lock=PATH it shows the queue of one lock, or who has which partition
// of a group. That path must be the handler's or below it; for others the status is 404. With ?format=json it is
// the [inspect.Survey], or the array of recipes at the path of the lock. While no server can be
// reached the status is 503.
//
// In a browser with JavaScript the page follows changes: a stream of events, ?events, tells it
// when to load again. The client has one recursive watch while there is such a viewer, and no
// request is made while nothing changes. Any number of viewers cost at most one walk per
// second, see [inspect.Walk]. Where the watch is not to be had, as before ZooKeeper 3.6 and
// while there is no server, the page loads again every two seconds. A handler serves at most 100
// streams at a time; the pages of further viewers load again every two seconds too.
func Handler(client *framework.Framework, path string) http.Handler {
	return &handler{client: client, path: path}
}

type handler struct {
	client *framework.Framework
	path   string

	streams atomic.Int64 // that are served, at most maxStreams

	mu     sync.Mutex
	newest *survey
}

// survey is one walk, shared by all that ask while it is fresh.
type survey struct {
	done  chan struct{}
	begun time.Time
	found inspect.Survey
	err   error
}

// view is what the template gets.
type view struct {
	Path    string
	Lock    string
	Servers string
	At      time.Time
	Nonce   string
	Queues  []inspect.Recipe // at the path of one lock
	Locks   []inspect.Recipe // that some participants hold or wait for
	Others  []inspect.Recipe
	Group   partition.Assignment // at the path of the lock, if there are partitions
	Seen    []session
	Losses  []locks.Loss
	Denied  []string
	Error   string
}

// session is what the participants that were read tell of a session.
type session struct {
	ID           int64
	Name, Client string
	Holds, Waits []string // paths of recipes
}

// sessionsOf returns the sessions that hold or wait, in the order of their first recipes.
func sessionsOf(recipes []inspect.Recipe) []session {
	var sessions []session
	at := make(map[int64]int)
	for _, r := range recipes {
		for _, p := range r.Participants {
			if p.Session == 0 {
				continue // not an ephemeral node, or one that may not be read
			}
			i, known := at[p.Session]
			if !known {
				i = len(sessions)
				at[p.Session] = i
				sessions = append(sessions, session{ID: p.Session, Name: name(p), Client: inspect.Client(p)})
			}
			if s := &sessions[i]; p.Holds {
				s.Holds = append(s.Holds, r.Path)
			} else {
				s.Waits = append(s.Waits, r.Path)
			}
		}
	}
	return sessions
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "expected GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	if r.Method == http.MethodGet && r.URL.Query().Has("events") {
		h.serveEvents(w, r)
		return
	}
	lock, err := h.place(r)
	v := view{Path: h.path, Lock: lock, Servers: h.client.String(), At: time.Now(), Nonce: rand.Text(), Losses: locks.RecentLosses()}
	var value any
	if err == nil {
		value, err = h.read(r.Context(), &v)
	}
	status := http.StatusOK
	if err != nil {
		status, v.Error = statusOf(err), err.Error()
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	var body bytes.Buffer
	if r.FormValue("format") == "json" {
		header.Set("Content-Type", "application/json")
		if err != nil {
			value = map[string]string{"error": v.Error}
		}
		err = json.NewEncoder(&body).Encode(value)
	} else {
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "+
			"connect-src 'self'; style-src 'nonce-%s'; script-src 'nonce-%s'", v.Nonce, v.Nonce))
		err = shape.Execute(&body, v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // a viewer that has gone needs nothing
}

// errElsewhere refuses a lock that is not below the handler's path. It does not say whether there is one.
var errElsewhere = errors.New("no such lock on this page")

// place returns the path that a viewer asks for.
func (h *handler) place(r *http.Request) (lock string, err error) {
	lock = r.FormValue("lock")
	isBelow := lock == "" || lock == h.path || strings.HasPrefix(lock, strings.TrimSuffix(h.path, "/")+"/")
	if err := framework.ValidatePath(lock); lock != "" && err != nil {
		return lock, fmt.Errorf("page: %s: %w", lock, err)
	}
	if !isBelow {
		return lock, fmt.Errorf("page: %s: %w", lock, errElsewhere)
	}
	return lock, nil
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, errElsewhere):
		return http.StatusNotFound
	case errors.Is(err, framework.ErrInvalidPath):
		return http.StatusBadRequest
	case errors.Is(err, framework.ErrNoAuth):
		return http.StatusForbidden
	default:
		return http.StatusServiceUnavailable
	}
}

// read fills in the recipes, and returns what is shown as JSON.
func (h *handler) read(ctx context.Context, v *view) (any, error) {
	if !h.client.State().IsConnected() { // or a viewer would wait as long as requests do
		return nil, fmt.Errorf("page: %w", framework.ErrNotConnected)
	}
	if v.Lock != "" {
		ctx, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		recipes, err := inspect.At(ctx, h.client, v.Lock)
		v.Queues = recipes
		for _, r := range recipes {
			if r.Kind == inspect.Partitions && err == nil {
				v.Group, err = partition.Read(ctx, h.client, v.Lock)
			}
		}
		return append([]inspect.Recipe{}, recipes...), err
	}
	found, err := h.survey(ctx)
	for _, r := range found.Recipes {
		if r.Kind.IsLock() {
			v.Locks = append(v.Locks, r)
		} else {
			v.Others = append(v.Others, r)
		}
	}
	v.Seen, v.Denied = sessionsOf(found.Recipes), found.Unreadable
	return found, err
}

// survey returns a walk that is fresh, or waits for one.
func (h *handler) survey(ctx context.Context) (inspect.Survey, error) {
	h.mu.Lock()
	s := h.newest
	if s == nil || time.Since(s.begun) >= fresh { // an event of serveEvents is no sooner
		s = &survey{done: make(chan struct{}), begun: time.Now()}
		h.newest = s
		// Other viewers wait for it as well, and stay when this viewer leaves.
		walk, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		go func() {
			defer cancel()
			defer close(s.done)
			s.err = attempt.Guard(h.client, func() (err error) {
				s.found, err = inspect.Walk(walk, h.client, h.path, inspect.HeadsOnly())
				return err
			})
		}()
	}
	h.mu.Unlock()
	select {
	case <-s.done:
		return s.found, s.err
	case <-ctx.Done():
		return inspect.Survey{}, context.Cause(ctx)
	}
}

// age is how long ago something was.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return max(time.Since(t), 0).Round(time.Second).String()
}

// name is what people call a participant.
func name(p locks.Participant) string {
	switch {
	case p.RevocationRequested():
		return "(asked to give way)"
	case p.Label != "":
		return fmt.Sprintf("%s (%s/%d)", p.Label, p.Host, p.PID)
	case p.Identity != "":
		return strings.ToValidUTF8(p.Identity, "\uFFFD")
	default:
		return p.Path
	}
}
