// Package page shows locks, elections, queues and services in a browser: a handler to mount in
// a service of your own, like net/http/pprof. It only reads.
//
//	http.Handle("/debug/locks", page.Handler(client, "/"))
//
// The page is readable without JavaScript and asks no other host for anything. It shows what is
// in ZooKeeper to every viewer, so mount it where such pages belong.
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
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

//go:embed page.html
var text string

var shape = template.Must(template.New("page").Funcs(template.FuncMap{
	"age": age, "name": name, "seconds": func(t time.Time) int { return int(time.Since(t).Seconds()) }, "client": inspect.Client,
	"session": func(p locks.Participant) string { return fmt.Sprintf("0x%x", uint64(p.Session)) }, //nolint:gosec // as ZooKeeper prints it
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
// The page is a list. With ?lock=PATH it shows the queue of one lock. With ?format=json it is
// the [inspect.Survey], or the array of recipes at the path of the lock. Any number of viewers
// cost one walk per second, see [inspect.Walk]. While no server can be reached the status is
// 503.
func Handler(client *framework.Framework, path string) http.Handler {
	return &handler{client: client, path: path}
}

type handler struct {
	client *framework.Framework
	path   string

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
	Recipes []inspect.Recipe
	Denied  []string
	Error   string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "expected GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	v := view{Path: h.path, Lock: r.FormValue("lock"), Servers: h.client.String(), At: time.Now(), Nonce: rand.Text()}
	value, err := h.read(r.Context(), &v)
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

func statusOf(err error) int {
	switch {
	case errors.Is(err, framework.ErrNoNode):
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
		v.Recipes = recipes
		return append([]inspect.Recipe{}, recipes...), err
	}
	found, err := h.survey(ctx)
	v.Recipes, v.Denied = found.Recipes, found.Unreadable
	return found, err
}

// survey returns a walk that is fresh, or waits for one.
func (h *handler) survey(ctx context.Context) (inspect.Survey, error) {
	h.mu.Lock()
	s := h.newest
	if s == nil || time.Since(s.begun) > fresh {
		s = &survey{done: make(chan struct{}), begun: time.Now()}
		h.newest = s
		// Other viewers wait for it as well, and stay when this viewer leaves.
		walk, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		go func() {
			defer cancel()
			defer close(s.done)
			s.found, s.err = inspect.Walk(walk, h.client, h.path, inspect.HeadsOnly())
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
