// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// serve is the store until ctx ends.
func serve(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, Handler: new(store), ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// store keeps one object in memory. It knows no tokens, only the conditions of HTTP.
type store struct {
	mu   sync.Mutex
	etag string // empty while there is no object
	body []byte
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPut && !s.admits(r.Header):
		http.Error(w, "the object has changed", http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		s.body, s.etag = body, fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	case s.etag == "":
		http.NotFound(w, r)
	default:
		w.Header().Set("ETag", s.etag)
		_, _ = w.Write(s.body) // the client may have gone
	}
}

// admits decides about the conditions of a write; callers hold mu.
func (s *store) admits(header http.Header) bool {
	if header.Get("If-None-Match") == "*" && s.etag != "" {
		return false
	}
	match := header.Get("If-Match")
	return match == "" || match == s.etag
}
