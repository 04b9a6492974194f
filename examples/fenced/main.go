// SPDX-License-Identifier: Apache-2.0

// Command fenced has a store refuse the late write of a holder that was stopped:
//
//	go run ./examples/devserver & go run ./examples/fenced -store &
//	go build -o /tmp/fenced ./examples/fenced
//	/tmp/fenced -text first -think 5s & sleep 2; kill -STOP $!
//	/tmp/fenced -text second    # enters when the session of the first has expired
//	kill -CONT $!               # its write fails
//
// A stopped process may go on before it learns of the loss. So each write carries the token
// of its lease, which rises from holder to holder, and the store refuses older ones.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	store := flag.Bool("store", false, "be the store, at 127.0.0.1:8081")
	text := flag.String("text", "report", "the `word` to write")
	think := flag.Duration("think", 0, "how `long` the writer has the lock before it writes")
	flag.Parse()
	if *store {
		panic((&http.Server{Addr: "127.0.0.1:8081", Handler: newStore(os.Stdout), ReadTimeout: time.Second}).ListenAndServe())
	}
	if err := run(context.Background(), "127.0.0.1:2181", "http://127.0.0.1:8081", *text, *think); err != nil {
		panic(err)
	}
}

// newStore returns a store that shows what it stores. It knows tokens, and no lock.
func newStore(w io.Writer) http.Handler {
	return &fence.Handler{Register: new(fence.Register), Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "token %s stores %q\n", r.Header.Get(fence.Header), r.URL.Path)
	})}
}

func run(ctx context.Context, connect, store, text string, think time.Duration) error {
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(20*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/examples/fenced")
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(ctx context.Context) error {
		<-time.After(think)
		return put(ctx, locks.LeaseFrom(ctx), store, text)
	})
}

// put sends the text with the token. Its error matches fence.ErrStale if the token is too old.
func put(ctx context.Context, lease fence.Lease, store, text string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, store+"/"+text, http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &fence.Transport{Lease: lease}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the store answers %s", response.Status)
	}
	return err
}
