package page

import (
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
	news := make(chan struct{}, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default: // it is told already
		}
	}
	states := h.client.OnConnectionState(func(framework.ConnectionState) { tell() })
	defer states.Remove()
	if !h.client.State().IsConnected() { // or the viewer would wait as long as requests do
		http.Error(w, "page: "+framework.ErrNotConnected.Error(), http.StatusServiceUnavailable)
		return
	}
	watch, err := h.client.AddWatch(r.Context(), path, framework.WatchPersistentRecursive)
	if err != nil {
		status := statusOf(err)
		if errors.Is(err, framework.ErrUnsupported) {
			status = http.StatusNotImplemented
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer watch.Cancel()
	events := watch.OnEvent(func(framework.Event) { tell() })
	defer events.Remove()
	tell() // the page may be older than the watch

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
		case <-watch.Done(): // the client is closed
			return
		case <-beat.C:
			text = ":\n\n"
		case <-news:
			text = "data: changed\n\n"
			select { // gather what comes with it, and until no survey is shown that is older
			case <-time.After(fresh):
			case <-r.Context().Done():
				return
			}
		}
	}
}
