// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// A transaction of puts stays well below the size that a server and the client accept, unless
// a single item is larger.
const (
	putsAtOnce  = 100
	bytesAtOnce = 256 << 10
	besidePut   = 100 // bytes of a put in a transaction, without its path and its data
)

// wrap names the package and the call that has failed.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queues: %s: %w", what, err)
}

// list returns the names of the items below path, none if it does not exist.
// With into it sets a watch that ends when the list changes.
func list(
	ctx context.Context, client *framework.Framework, path, prefix string, into **framework.Watch, opts ...framework.ReadOption,
) ([]string, error) {
	for {
		opts := slices.Clone(opts)
		if into != nil {
			opts = append(opts, framework.Watched(into))
		}
		names, err := client.Children(ctx, path, opts...)
		if err == nil {
			return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), nil
		}
		if !errors.Is(err, framework.ErrNoNode) {
			return nil, err
		}
		if into == nil {
			return nil, nil
		}
		// No list of children shows that their parent was created again.
		stat, err := client.Exists(ctx, path, framework.Watched(into))
		if err != nil || stat == nil {
			return nil, err
		}
		(*into).Cancel()
	}
}

// remove deletes an item that was read in a history. It fails with an
// error that matches [attempt.Overtaken] if another consumer was faster. In another history the servers may be
// restored ones, where another item has the name, so the error matches [attempt.NotSent] then.
func remove(ctx context.Context, client *framework.Framework, path string, read *framework.Stat, history int64) error {
	repeated := false
	return attempt.Conditional(func() error {
		if repeated {
			if err := findAgain(ctx, client, path, read); err != nil {
				return err
			}
		}
		repeated = true
		return client.Delete(ctx, path, framework.WithVersion(read.Version), framework.InHistory(history))
	})
}

// unchanged makes a write on condition of the version of an item that was read some time ago.
func unchanged(ctx context.Context, client *framework.Framework, path string, read *framework.Stat, write func() error) error {
	return attempt.Conditional(func() error {
		if err := findAgain(ctx, client, path, read); err != nil {
			return err
		}
		return write()
	})
}

// findAgain fails if the item that was read is gone. A container that was empty may have gone, and its
// numbers begin again.
func findAgain(ctx context.Context, client *framework.Framework, path string, read *framework.Stat) error {
	now, err := client.Exists(ctx, path)
	if err == nil && (now == nil || now.Czxid != read.Czxid) {
		err = fmt.Errorf("%s was removed by another consumer: %w", path, framework.ErrNoNode)
	}
	return err
}

// ensure creates the folder of a queue as a persistent znode, not as a container. Some of
// Curator's consumers and producers do not create the folder and expect it to stay. Also, a
// server removes an empty container, and the numbers of its successor begin again. A consumer
// that deletes an item that it has read could then delete a new item with the same name.
func ensure(ctx context.Context, client *framework.Framework, path string) error {
	if path == "/" { // of a chroot that does not exist yet
		return client.Mkdirs(ctx, path)
	}
	_, err := client.Create(ctx, path, nil, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
	if errors.Is(err, framework.ErrNodeExists) {
		return nil
	}
	return err
}

// afterGrace is how long a request that an ended context must not tear apart
// goes on.
const afterGrace = time.Second

// graceful returns a context that ends a second after ctx.
func graceful(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(afterGrace):
			cancel(context.Cause(ctx))
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel(nil)
	}
}

// isOfElement reports whether an error is about one znode, so that other items may be consumed.
func isOfElement(err error) bool {
	return errors.Is(err, framework.ErrTooLarge) || errors.Is(err, framework.ErrNoAuth) ||
		errors.Is(err, framework.ErrCompression) || errors.Is(err, framework.ErrNoChildrenForEphemerals)
}
