// Command worker shares partitions of work among its replicas. Each partition is worked on by
// one replica at a time, and each replica takes at most so many:
//
//	go run ./examples/devserver &
//	go run ./examples/worker -name a -most 3 &
//	go run ./examples/worker -name b -most 3 &
//
// When a replica ends, the others take its partitions as far as they may.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	name := flag.String("name", "worker", "`name` that others see")
	partitions := flag.Int("partitions", 4, "how many there are")
	most := flag.Int("most", 2, "how many this replica takes at most")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, *connect, *name, *partitions, *most)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run works until the context ends.
func run(ctx context.Context, w io.Writer, connect, name string, partitions, most int) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	slots := make(chan struct{}, most)
	var wg sync.WaitGroup
	for n := range partitions {
		mutex, err := locks.NewInterProcessMutex(client, fmt.Sprintf("/examples/partitions/%d", n), locks.WithLabel(name))
		if err != nil {
			return err
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				select {
				case slots <- struct{}{}:
					tryPartition(ctx, w, mutex, name, n)
					<-slots
				case <-ctx.Done():
				}
				select { // another partition gets the slot, or another replica this partition
				case <-time.After(50*time.Millisecond + rand.N(50*time.Millisecond)):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// tryPartition works on a partition if no other replica does.
func tryPartition(ctx context.Context, w io.Writer, mutex *locks.InterProcessMutex, name string, n int) {
	lease, err := mutex.TryAcquire(ctx)
	switch {
	case errors.Is(err, locks.ErrNotAcquired), ctx.Err() != nil && err != nil:
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "worker: %v\n", err)
		return
	}
	work(lease.Context(ctx), w, name, n, lease.Token())
	if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintf(os.Stderr, "worker: %v\n", err)
	}
}

// work must end soon after its context. What it writes elsewhere should carry the token.
func work(ctx context.Context, w io.Writer, name string, n int, token int64) {
	fmt.Fprintf(w, "%s works on partition %d, token %d\n", name, n, token)
	<-ctx.Done()
}
