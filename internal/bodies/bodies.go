// SPDX-License-Identifier: Apache-2.0

// Package bodies bounds how long the body of a request may take to come. Package net/http reads what a handler leaves of a
// body before it sends the answer or closes the connection. So a client that announces a body and sends none would keep the
// connection of a refused request forever. A [http.Server.ReadTimeout] would bound it too, but ends the contexts of requests
// whose answers take longer.
package bodies

import (
	"io"
	"net/http"
	"time"
)

// Unread is the limit for handlers that read no body.
const Unread = time.Second

// Within returns a handler whose clients have d to send a whole body, counted from the call of the handler. A read of the body
// that comes later fails, and the connection ends after the answer.
func Within(d time.Duration, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			bounded, control := *r, http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(d)) // not every writer has deadlines
			bounded.Body = &body{r.Body, control}
			r = &bounded
		}
		handler.ServeHTTP(w, r)
	})
}

// body has no deadline after its end: net/http reads on to learn when the client is gone, and takes a deadline that passes
// for that.
type body struct {
	io.ReadCloser

	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
