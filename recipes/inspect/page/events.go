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

// heartbeat is how often a stream without news has a comment, so that proxies keep it open and
// a viewer that has gone is noticed.
const heartbeat = 15 * time.Second

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
	n.stream(w, r)
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
	var err error
	if n.watch, err = h.client.AddWatch(ctx, path, framework.WatchPersistentRecursive); err != nil {
		states.Remove()
		return nil, err
	}
	events := n.watch.OnEvent(func(framework.Event) { n.tell() })
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

// stream writes events until the viewer goes or the client is closed.
func (n *news) stream(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	controller := http.NewResponseController(w)
	_ = controller.SetWriteDeadline(time.Time{}) // a writer without deadlines needs none lifted
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for text := ":\n\n"; ; {
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
			text = ":\n\n"
		case <-n.changed:
			text = "data: changed\n\n"
			select { // gather what comes with it, and until no survey is shown that is older
			case <-time.After(fresh):
			case <-r.Context().Done():
				return
			}
		}
	}
}
