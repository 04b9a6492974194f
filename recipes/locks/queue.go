package locks

import (
	"context"
	"reflect"
	"slices"

	"github.com/gocurator/curator/framework"
)

// queue is the queue of one lock: where its nodes are, how they are ordered, and how many
// have the lock. It does not change.
type queue struct {
	client    *framework.Framework
	driver    LockInternalsDriver
	path      string // the folder
	fullPath  string // of the folder, at the server
	lockName  string // the part of a node's name before the number
	basePath  string // path and lockName, as the driver gets it
	maxLeases MaxLeases
	orderKey  orderKey // equal for locks that share what is known of the queue
}

func newQueue(client *framework.Framework, driver LockInternalsDriver, path, lockName string, maxLeases MaxLeases) *queue {
	q := &queue{
		client: client, driver: driver, path: path, fullPath: client.FullPath(path),
		lockName: lockName, basePath: framework.JoinPath(path, lockName), maxLeases: maxLeases,
	}
	q.orderKey = q.newOrderKey()
	return q
}

// orderKey distinguishes the locks of one folder that sort the names, or conclude from the
// departure of a contender, in different ways.
type orderKey struct {
	driver any // a LockInternalsDriver, or the queue of one that cannot be compared
	fixed  bool
}

func (q *queue) newOrderKey() orderKey {
	if !reflect.ValueOf(q.driver).Comparable() {
		return orderKey{driver: q} // it shares an order with no other
	}
	_, fixed := q.maxLeases.(FixedLeases)
	return orderKey{q.driver, fixed}
}

// sorted returns the contenders among the children, in the order of the queue. It does not
// change children, and may return them.
func (q *queue) sorted(children []string) []string {
	if len(children) == 1 && q.driver.Contends(children[0]) {
		return children
	}
	contenders := slices.DeleteFunc(slices.Clone(children), func(name string) bool { return !q.driver.Contends(name) })
	slices.SortFunc(contenders, q.driver.Compare)
	return contenders
}

// pathsOf returns the paths of nodes in the folder.
func (q *queue) pathsOf(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = framework.JoinPath(q.path, name)
	}
	return paths
}

// currentMax returns the number as it is now.
func (q *queue) currentMax(ctx context.Context) (int, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	n, _, err := q.maxLeases.MaxLeases(ctx)
	return max(n, 0), err
}
