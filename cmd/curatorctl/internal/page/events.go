// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gocurator/curator/framework"
)

// heartbeat is how often a stream has a sign of life, and the server is asked for one.
const heartbeat = patience

// maxStreams bounds how many streams a handler serves at a time. Each takes a connection and a
// goroutine.
const maxStreams = 100

// serveEvents answers with a stream of events, one when something has changed and at most one
// per second, until the viewer goes.
func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	path, err := h.place(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), statusOf(err))
		return
	case path == "":
		path = h.path
	}
	defer h.streams.Add(-1)
	if h.streams.Add(1) > maxStreams {
		http.Error(w, fmt.Sprintf("page: %d viewers follow changes, no more can", maxStreams), http.StatusServiceUnavailable)
		return
	}
	n, err := h.subscribe(r.Context(), path)
	if err != nil {
		status := statusOf(err)
		if errors.Is(err, framework.ErrUnsupported) {
			status = http.StatusNotImplemented
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer n.cancel()
	h.stream(n, w, r)
}

// news tells of changes below a path, and of connection states.
type news struct {
	changed chan struct{}
	watch   *framework.PersistentWatch
	cancel  func()
}

// subscribe fails at once if there is no connection, or the viewer would wait as long as
// requests do.
func (h *handler) subscribe(ctx context.Context, path string) (*news, error) {
	n := &news{changed: make(chan struct{}, 1)}
	states := h.client.OnConnectionState(func(framework.ConnectionState) { n.tell() })
	if !h.client.State().IsConnected() {
		states.Remove()
		return nil, fmt.Errorf("page: %w", framework.ErrNotConnected)
	}
	select { // whoever comes second shares the watch of the first
	case h.joins <- struct{}{}:
		defer func() { <-h.joins }()
	case <-ctx.Done():
		states.Remove()
		return nil, context.Cause(ctx)
	}
	var err error
	if n.watch, err = h.client.AddWatch(ctx, path, framework.WatchPersistentRecursive); err != nil {
		states.Remove()
		return nil, err
	}
	events := n.watch.OnEvent(func(framework.Event) {
		now := time.Now()
		h.changed.Store(&now)
		n.tell()
	})
	n.cancel = func() {
		events.Remove()
		n.watch.Cancel()
		states.Remove()
	}
	n.tell() // the page may be older than the watch
	return n, nil
}

func (n *news) tell() {
	select {
	case n.changed <- struct{}{}:
	default: // it is told already
	}
}

// version changes with what is found out in the background. A viewer who asks is there.
func (h *handler) version() int { return h.cycles.version() + h.contention.version() }

// stream writes events until the viewer goes or the client is closed. A sign of life follows each
// beat, so that a viewer notices when the process of the page is gone.
func (h *handler) stream(n *news, w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	controller := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	silent, version := false, h.version()
	for text := ":\n\n"; ; {
		_ = controller.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has deadlines
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		if err := controller.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-n.watch.Done():
			return
		case <-beat.C:
			text = "event: alive\ndata:\n\n"
			if err := h.probe(r.Context()); (err != nil) != silent {
				silent = err != nil
				text = "data: changed\n\n"
			}
			if now := h.version(); now != version {
				version = now
				text = "data: changed\n\n"
			}
		case <-n.changed:
			text = "data: changed\n\n"
			if !h.client.State().IsConnected() {
				continue // an outage is shown at once
			}
			select { // gather what comes with it, and until no survey is shown that is older
			case <-time.After(fresh):
			case <-r.Context().Done():
				return
			}
		}
	}
}
