// SPDX-License-Identifier: Apache-2.0

// Command fenced has a store refuse the late write of a holder that was stopped:
//
//	go run ./examples/devserver &
//	go run ./examples/fenced -store 127.0.0.1:8081 &
//	go build -o /tmp/fenced ./examples/fenced
//	/tmp/fenced -text first -think 5s & sleep 2; kill -STOP $!
//	/tmp/fenced -text second    # enters when the session of the first has expired
//	kill -CONT $!               # its write fails
//	curl 127.0.0.1:8081/report  # {"fence":...,"text":"second"}
//
// No lock can prevent a stopped process from going on with its next statement: often it
// learns of the loss first, and sometimes it does not. So each write carries the token of its
// lease, which rises from holder to holder, and the store keeps the newest. The store here is object storage with conditional writes (If-Match), as
// S3 has them. For a table see the documentation of recipes/fence: one UPDATE with the
// condition fence <= token, and fence.CheckUpdated.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	store := flag.String("store", "", "be the store, at this `address`")
	url := flag.String("url", "http://127.0.0.1:8081/report", "`URL` of the object to write")
	text := flag.String("text", "report", "`content` to write")
	think := flag.Duration("think", 0, "how `long` the writer has the lock before it writes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	var err error
	if *store != "" {
		err = serve(ctx, *store)
	} else {
		err = run(ctx, os.Stdout, *connect, object{http.DefaultClient, *url}, *text, *think)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fenced:", err)
		os.Exit(1)
	}
}

// run writes the text under the lock.
func run(ctx context.Context, w io.Writer, connect string, report object, text string, think time.Duration) error {
	client, err := framework.Connect(ctx, connect,
		framework.WithSessionTimeout(8*time.Second), framework.WithErrorPolicy(framework.QuorumErrorPolicy))
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/examples/fenced")
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(ctx context.Context) error {
		token := locks.LeaseFrom(ctx).Token()
		fmt.Fprintf(w, "%q has the lock, token %d\n", text, token)
		<-time.After(think)
		return report.write(ctx, token, text)
	})
}

// object is an object of a store with conditional writes.
type object struct {
	client *http.Client
	url    string
}

// content is what the object holds. The token is part of it, not of its metadata: an ETag of
// S3 shows the content only, and must differ when a newer holder writes the same text.
type content struct {
	Fence int64  `json:"fence"`
	Text  string `json:"text"`
}

// write writes the text unless a newer token has written: then its error matches
// fence.ErrStale. The condition makes one step of looking and writing.
func (o object) write(ctx context.Context, token int64, text string) error {
	body, err := json.Marshal(content{token, text})
	if err != nil {
		return err
	}
	for {
		status, header, data, err := o.do(ctx, http.MethodGet, nil, nil)
		if err != nil {
			return err
		}
		condition := make(http.Header)
		switch status {
		case http.StatusOK:
			var seen content
			if err := json.Unmarshal(data, &seen); err != nil {
				return fmt.Errorf("content of %s: %w", o.url, err)
			}
			if seen.Fence > token {
				return &fence.StaleError{Token: token, Newest: seen.Fence}
			}
			condition.Set("If-Match", header.Get("ETag"))
		case http.StatusNotFound:
			condition.Set("If-None-Match", "*")
		default:
			return fmt.Errorf("GET %s: status %d", o.url, status)
		}
		status, _, _, err = o.do(ctx, http.MethodPut, body, condition)
		switch {
		case err != nil:
			return err
		case status == http.StatusPreconditionFailed, status == http.StatusConflict:
			// Another write came between the two: look again.
		case status != http.StatusOK:
			return fmt.Errorf("PUT %s: status %d", o.url, status)
		default:
			return nil
		}
	}
}

func (o object) do(ctx context.Context, method string, body []byte, header http.Header) (
	status int, answer http.Header, data []byte, err error,
) {
	request, err := http.NewRequestWithContext(ctx, method, o.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	maps.Copy(request.Header, header)
	response, err := o.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header, data, err
}
