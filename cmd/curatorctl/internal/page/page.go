// SPDX-License-Identifier: Apache-2.0

// Package page shows locks, elections, queues, services and jobs in a browser. It only reads.
//
// The page is readable without JavaScript and asks no other host for anything. It shows what is
// in ZooKeeper to every viewer.
package page

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // for the template
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/bodies"
	"github.com/gocurator/curator/internal/ownhost"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
)

//go:embed page.html
var text string

//go:embed page.css
var style string

//go:embed page.js
var script string

var shape = template.Must(template.New("page").Funcs(template.FuncMap{
	"since": since, "name": inspect.Name, "client": inspect.Client, "plain": inspect.Printable,
	"slot":    func(p locks.Participant) string { number, _ := inspect.Slot(p); return number },
	"short":   func(text string) string { return inspect.Printable(cut(text)) },
	"style":   func() template.CSS { return template.CSS(style) }, //nolint:gosec // our own
	"script":  func() template.JS { return template.JS(script) },  //nolint:gosec // our own
	"utc":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"session": func(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }, //nolint:gosec // as ZooKeeper prints it
	"add":     func(a, b int) int { return a + b },
	"tick":    tick,
	"measured": func(of inspect.Times, s float64) string {
		text := time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
		switch {
		case of.Count == 0:
			return "-"
		case of.AtLeast:
			return "≥\u00a0" + text // not at the end of a line
		default:
			return text
		}
	},
	"held":    func(t inspect.Turn, until time.Time) time.Duration { return cmp.Or(t.Left, until).Sub(t.Granted) },
	"reason":  func(f inspect.Finding) string { return cmp.Or(reasons[f.Reason], string(f.Reason)) },
	"percent": func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) },
	"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"span":    func(d time.Duration) string { return max(d, 0).Round(time.Millisecond).String() },
	"linked":  func(path string) bool { return len(path) <= maxLink },
}).Parse(roles.Replace(text)))

// reasons are the headings of findings.
var reasons = map[inspect.Reason]string{
	inspect.ReasonFree: "Free", inspect.ReasonHeld: "Held, and no client waits", inspect.ReasonTurn: "The first waiter waits for its turn",
	inspect.ReasonLimit: "All are given out", inspect.ReasonWriter: "Readers wait behind a writer", inspect.ReasonOther: "What is here",
	inspect.ReasonUnknown: "whether its client is alive", inspect.ReasonOverstays: "a wait is too long", inspect.ReasonAsked: "the holder was asked, and does not give way",
	inspect.ReasonSilent: "a client is silent", inspect.ReasonLost: "a client is gone", inspect.ReasonForeign: "a znode is in the way",
	inspect.ReasonUnreadable: "a znode may not be read", inspect.ReasonPaused: "no permit is given out", inspect.ReasonDeadlock: "a deadlock",
	inspect.ReasonMixed: "two kinds of lock at one path",
}

// roles say what a table is. Browsers forget that where the style makes boxes of its rows, on narrow screens.
var roles = strings.NewReplacer(
	"<table>", `<table role="table">`, "<thead>", `<thead role="rowgroup">`, "<tbody>", `<tbody role="rowgroup">`,
	"<tr", `<tr role="row"`, "<td", `<td role="cell"`, `<th scope="col"`, `<th role="columnheader" scope="col"`,
)

const (
	maxRequests = 32               // that are answered at a time, without streams
	maxQuery    = 8 << 10          // bytes
	maxLink     = 1 << 10          // bytes of a path in a link
	turnLimit   = 2 * time.Second  // of a request that waits until others are answered
	writeLimit  = 10 * time.Second // for an answer to a viewer
	queueShown  = 100              // contenders of one queue
	maxOthers   = 100              // registrations, queues and barriers that are shown
	maxDenied   = 100              // paths that may not be listed
)

// Handler returns the page for what is at a path and below it. It answers GET and HEAD.
//
// The page is a list of at most 100 locks at a time, those waited for longest first. With ?q=TEXT
// it shows the locks whose path, kind, holder or first waiter has the text; ?sort= takes held,
// waited, waiters or path, and ?page= a number. With ?lock=PATH it shows the queue of one lock,
// or who has which partition of a group, or the jobs of a fleet, and with &job=NAME the last runs of one. That path must be the handler's or
// below it; for others the status is 404. It also says why the lock is stuck, or that it is not; see
// [inspect.Explain]. While no server answers the status is 503, with the last
// picture that was good.
//
// The list also has the clients that wait for each other in a cycle; see [inspect.Deadlocks]. After a viewer
// has seen the list the page searches for them, every ten seconds at most.
//
// The page also has the contention of the last minute, and of a lock a picture of who has held and who has
// waited. It follows the locks from the first view until a minute after the last viewer has left; see [inspect.Follow],
// which says what that costs. The first figures come after ten seconds.
//
// All viewers share one picture of at most 32 MB, which has more than 20,000 locks, and 1 MB of the queue of one
// lock; see [inspect.WithMemoryLimit]. While a lock is explained there are the answers of the servers as well. The page says when it shows a part. As much again is needed while the next
// picture is read, and while deadlocks are searched for. A page shows the first 160 bytes of what a znode says.
//
// Requests for host names that may not be the page's own get the status 421, because another
// site could have such a name point here. Its own are IP addresses, localhost, the name of the
// machine, and hosts.
//
// In a browser with JavaScript the page follows changes: a stream of events, ?events, tells it
// when to load again. The client has one recursive watch while there is such a viewer, and asks
// the server for a sign of life twice a second. Any number of viewers cost at most one walk
// per second, see [inspect.Walk], and no more than a quarter of the time is spent in walks.
// A search for deadlocks is a walk of its own, and another one if it has to prove one.
// Where the watch is not to be had, as before ZooKeeper 3.6, the page loads again every two
// seconds. A handler serves at most 100 streams and 32 other requests at a time, for at most
// 10 seconds each. Others wait for two seconds, and get the status
// 503 then. It refuses request bodies.
func Handler(client *framework.Framework, path string, hosts ...string) http.Handler {
	return bodies.Within(bodies.Unread, &handler{
		client: client, path: path, hosts: ownhost.New(hosts...),
		places: make(map[string]*place), reads: make(chan struct{}, maxReads), slots: make(chan struct{}, maxRequests),
		joins: make(chan struct{}, 1),
	})
}

type handler struct {
	client *framework.Framework
	path   string
	hosts  ownhost.Names

	streams atomic.Int64              // that are served, at most maxStreams
	changed atomic.Pointer[time.Time] // when a change was told last; nil before the first
	joins   chan struct{}             // of streams that set their watch
	slots   chan struct{}             // of requests
	reads   chan struct{}             // of surveys

	cycles     cycles
	contention contention

	mu     sync.Mutex
	places map[string]*place // by the path of a lock, "" for the list
	asked  *probe
	silent error     // what the last probe has found
	heard  time.Time // when it ended
}

// view is what the template gets.
type view struct {
	Path, Lock string
	Servers    string
	At         time.Time // of the view
	Now        time.Time // when ages are reckoned: At, or when the picture was read if it is out of date
	Taken      time.Time // when its picture was read, zero without one
	Again      bool      // a newer picture comes
	Nonce      string
	Error      string

	Contention figures
	Findings   []inspect.Finding // about one lock
	Minute     *minute           // of one lock, nil while nothing is known
	Unknown    string            // what the servers have not told of their sessions
	Queues     []queue           // at the path of one lock
	Group      partition.Assignment
	Jobs       []schedule.Entry
	Job        schedule.Entry // whose runs are shown, if it has a name

	Cycles  []inspect.Deadlock
	List    list
	Others  []inspect.Recipe
	More    int   // others that are not shown
	Denied  paths // that may not be listed
	Partial bool  // there is more than the list has
}

// queue is a recipe at the path of one lock, as it is drawn.
type queue struct {
	inspect.Recipe
	Shown []locks.Participant
}

// More is how many participants are not shown.
func (q queue) More() int { return q.Holders + q.Waiters - len(q.Shown) }

// Ahead is what a participant waits for.
func (q queue) Ahead(p locks.Participant) string {
	for _, other := range q.Participants {
		if len(p.WaitsFor) > 0 && other.Path == p.WaitsFor[0] {
			return inspect.Name(other)
		}
	}
	return ""
}

// paths are some of many.
type paths struct {
	Some []string
	More int
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "expected GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	if status, err := h.refuses(r); err != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, err.Error(), status)
		return
	}
	if r.Method == http.MethodGet && r.URL.Query().Has("events") {
		h.serveEvents(w, r)
		return
	}
	lock, err := h.place(r)
	turn, cancel := context.WithTimeout(r.Context(), turnLimit)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-turn.Done():
		w.Header().Set("Retry-After", "2")
		http.Error(w, fmt.Sprintf("page: %d such requests are being answered, no more can", cap(h.slots)), http.StatusServiceUnavailable)
		return
	}
	v := view{Path: h.path, Lock: lock, Servers: h.client.String(), Nonce: rand.Text()}
	var s *survey
	if err == nil {
		s, err = h.survey(r.Context(), lock)
	}
	v.At = time.Now()
	v.Now = v.At
	status := http.StatusOK
	if err != nil {
		status, v.Error = statusOf(err), err.Error()
		if s != nil {
			v.Now = s.begun
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has deadlines
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; "+
		"connect-src 'self'; style-src 'nonce-%s'; script-src 'nonce-%s'", v.Nonce, v.Nonce))
	if s != nil {
		h.fill(&v, s, choiceOf(r))
	}
	w.WriteHeader(status)
	_ = shape.Execute(w, v) // a viewer that has gone needs nothing
}

// refuses returns why a request is not for this page.
func (h *handler) refuses(r *http.Request) (status int, err error) {
	switch {
	case r.ContentLength != 0:
		return http.StatusRequestEntityTooLarge, errors.New("page: a request with a body, expected none")
	case len(r.URL.RawQuery) > maxQuery:
		return http.StatusRequestURITooLong, fmt.Errorf("page: a query of %d bytes, expected %d at most", len(r.URL.RawQuery), maxQuery)
	}
	if !h.hosts.Has(r.Host) {
		return http.StatusMisdirectedRequest, fmt.Errorf("page: host %q, expected an IP address, localhost or a name that this page was given", cut(r.Host))
	}
	return 0, nil
}

// errElsewhere refuses a lock that is not below the handler's path. It does not say whether there is one.
var errElsewhere = errors.New("no such lock on this page")

// place returns the path that a viewer asks for.
func (h *handler) place(r *http.Request) (lock string, err error) {
	lock = r.URL.Query().Get("lock") // and never FormValue, which reads bodies
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

// fill puts a picture into the view.
func (h *handler) fill(v *view, s *survey, c choice) {
	v.Taken, v.Group, v.Partial = s.begun, s.group, s.found.Partial
	changed := h.changed.Load()
	v.Contention = h.contention.shown(h)
	v.Again = v.Error == "" && changed != nil && s.begun.Before(*changed)
	if v.Lock == "" {
		v.Cycles = h.cycles.shown(h)
		v.List = c.of(s.picture)
		v.Others = s.picture.others[:min(len(s.picture.others), maxOthers)]
		v.More = len(s.picture.others) - len(v.Others)
		v.Denied.Some = s.found.Unreadable[:min(len(s.found.Unreadable), maxDenied)]
		v.Denied.More = len(s.found.Unreadable) - len(v.Denied.Some)
		return
	}
	v.Findings, v.Unknown, v.Jobs, v.Minute = s.findings, s.unknown, s.jobs, s.minute
	v.Contention.Locks = slices.DeleteFunc(slices.Clone(v.Contention.Locks), func(l inspect.Load) bool { return l.Path != v.Lock })
	if i := slices.IndexFunc(s.jobs, func(e schedule.Entry) bool { return e.Name == c.Job }); i >= 0 {
		v.Job = s.jobs[i]
	}
	for _, r := range s.found.Recipes {
		v.Queues = append(v.Queues, queue{Recipe: r, Shown: r.Participants[:min(len(r.Participants), queueShown)]})
	}
}

// moment is when something began, with its age.
type moment struct {
	time.Time
	Age time.Duration
}

func since(now, t time.Time) moment { return moment{t, max(now.Sub(t), 0).Round(time.Second)} }

// tick is the time of a tick. All are in UTC.
func tick(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
