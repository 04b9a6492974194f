package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
)

// await waits until one of the contenders with these names has gone or changed, or
// until there is another reason to look again. It watches them and, in the same
// round trip, our own node if that is not watched. It returns a list of names if it
// has one.
//
// With exists in place of getData, a watch would be left on a node that has gone
// meanwhile.
func (q *queued) await(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return q.awaitFolder(ctx)
	}
	watches := make([]*framework.Watch, len(names))
	var reads []framework.Read
	for i, name := range names {
		reads = append(reads,
			framework.ReadData(framework.JoinPath(q.l.path, name), nil, framework.Watched(&watches[i])))
	}
	if q.own == nil || fired(q.own) {
		reads = append(reads, framework.ReadData(q.node.Path, &q.data, framework.Watched(&q.own)))
	}
	err := q.l.client.Pipeline(ctx, reads...)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil // the next look tells which of them has gone
	}
	if err != nil {
		return nil, err
	}
	wake := make(chan struct{})
	var once sync.Once
	for _, w := range watches {
		w.OnFired(func(framework.Event) { once.Do(func() { close(wake) }) })
	}
	defer func() {
		for _, w := range watches {
			w.Cancel()
		}
	}()
	err = q.sleep(ctx, wake)
	q.seen.woken(slices.Concat(watches, []*framework.Watch{q.own})...)
	return nil, err
}

// awaitFolder waits for any change of the folder. The first time it does not wait,
// as nobody has watched the list that the driver has decided on.
func (q *queued) awaitFolder(ctx context.Context) ([]string, error) {
	if q.folder != nil {
		if err := q.sleep(ctx, q.folder.Fired()); err != nil {
			return nil, err
		}
	}
	last := q.folder
	children, err := q.list(ctx, framework.Watched(&q.folder))
	if err == nil {
		last.Cancel()
	}
	return children, err
}

// sleep waits for the signal, an event of our own node, another maximum, or an end.
func (q *queued) sleep(ctx context.Context, wake <-chan struct{}) error {
	var own <-chan struct{}
	if q.own != nil {
		own = q.own.Fired()
	}
	select {
	case <-wake:
	case <-own:
	case <-q.max.changed:
	case <-q.session.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, context.Cause(ctx))
	}
	return nil
}

func fired(w *framework.Watch) bool {
	select {
	case <-w.Fired():
		return true
	default:
		return false
	}
}
