// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
)

// exampleMutex returns the mutex of a client of an embedded server. Programs connect to
// their ensemble.
func exampleMutex() (mutex *locks.InterProcessMutex, closeAll func()) {
	server, err := zkserver.Start()
	check(err)
	client, err := framework.Connect(context.Background(), server.Addr())
	check(err)
	mutex, err = locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	return mutex, func() { check(errors.Join(client.Close(), server.Close())) }
}

// One holder is paused with a write under way. When it goes on, the next holder has
// written already.
func ExampleRegister_Do() {
	mutex, closeAll := exampleMutex()
	defer closeAll()
	var register fence.Register // beside what it protects
	report := ""
	write := func(token int64, text string) error {
		return register.Do(context.Background(), token, func() error {
			report = text
			return nil
		})
	}
	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	check(err)
	paused := lease.Token()
	check(lease.Release(ctx)) // or its session expires

	lease, err = mutex.Acquire(ctx)
	check(err)
	fmt.Println(write(lease.Token(), "by the next holder"))
	fmt.Println(errors.Is(write(paused, "by the paused one"), fence.ErrStale))
	fmt.Println(report)
	check(lease.Release(ctx))
	// Output:
	// <nil>
	// true
	// by the next holder
}

// A server refuses the requests of a holder that has lost its lock.
func ExampleHandler() {
	server := httptest.NewServer(&fence.Handler{
		Register: &fence.Register{}, // NewRegister(stored) for what outlives the process
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, "written")
			check(err)
		}),
	})
	defer server.Close()
	mutex, closeAll := exampleMutex()
	defer closeAll()

	put := func(lease fence.Lease) {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: &fence.Transport{Lease: lease, Base: transport}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, server.URL, strings.NewReader("report"))
		check(err)
		response, err := client.Do(request)
		if err != nil {
			fmt.Println("stale:", errors.Is(err, fence.ErrStale), "released:", errors.Is(err, locks.ErrReleased))
			return
		}
		body, err := io.ReadAll(response.Body)
		check(errors.Join(err, response.Body.Close()))
		fmt.Println(string(body))
	}
	ctx := context.Background()
	first, err := mutex.Acquire(ctx)
	check(err)
	put(first)
	check(first.Release(ctx))
	put(first) // it knows by itself

	second, err := mutex.Acquire(ctx)
	check(err)
	put(second)
	put(unaware{first.Token()}) // it does not, and is told
	check(second.Release(ctx))
	// Output:
	// written
	// stale: false released: true
	// written
	// stale: true released: false
}

// unaware is a lease that was lost while its holder was paused.
type unaware struct{ token int64 }

func (u unaware) Token() int64 { return u.token }
func (unaware) Err() error     { return nil }

// A receiver that clients from outside can reach asks ZooKeeper whether a new token belongs
// to the holder of the lock.
func ExampleHandler_verify() {
	mutex, closeAll := exampleMutex()
	defer closeAll()
	handler := &fence.Handler{
		Register: &fence.Register{},
		Next:     http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Verify: func(ctx context.Context, token int64) (bool, error) {
			participants, err := mutex.Participants(ctx)
			isHolder := func(p locks.Participant) bool { return p.Holds && p.Token == token }
			return slices.ContainsFunc(participants, isHolder), err
		},
	}

	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	check(err)
	for _, token := range []int64{9223372036854775807, lease.Token()} {
		request := httptest.NewRequestWithContext(ctx, http.MethodPut, "/report", http.NoBody)
		request.Header.Set(fence.Header, strconv.FormatInt(token, 10))
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		fmt.Println(response.Code)
	}
	check(lease.Release(ctx))

	// Output:
	// 403
	// 200
}
