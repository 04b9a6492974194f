package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	// lockPath names the lock. Whoever uses this path on these servers, in Go or
	// in Java, uses the same lock.
	lockPath = "/quickstart/nightly-report"

	// sessionTimeout is how long the lock stays taken when its holder's process
	// dies without a word. 18 s is the least with which a holder that is cut off
	// with its server learns it in time, on ZooKeeper's usual settings; see
	// framework.StandardErrorPolicy.
	sessionTimeout = 20 * time.Second

	connectTimeout = 15 * time.Second
)

// replica is one instance of a service of which several run. Here they are
// goroutines of one process; on machines of their own they would do just the same.
type replica struct {
	name    string
	connect string // host:port,host:port,...
	rounds  int    // how many reports it is to complete
	archive *archive

	journal *journal // tells and checks what happens; not part of a service
	work    workFunc // stands for the work
}

// run connects, and runs the report until it has completed its rounds. It returns
// an error when it could not, because ZooKeeper was out of reach for too long or ctx
// has ended.
func (r *replica) run(ctx context.Context) (err error) {
	// One client for the whole process. It keeps a session, and opens another
	// when that one is lost.
	client, err := connect(ctx, r.connect)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	// Nothing is sent yet, and a mutex need not be closed.
	mutex, err := locks.NewInterProcessMutex(client, lockPath)
	if err != nil {
		return err
	}

	for round := 1; round <= r.rounds; {
		asked := time.Now()
		lease, err := mutex.Acquire(ctx) // ctx bounds the wait, nothing else does
		if err != nil {
			return fmt.Errorf("report %d: %w", round, err)
		}
		hold := r.journal.acquired(r.name, round, lease, asked)

		err = r.reportAndRelease(ctx, client, lease, hold, round)
		var lost *locks.LostError
		switch {
		case err == nil:
			r.journal.completed(r.name, round)
			round++
		case errors.As(err, &lost):
			// The lock was lost while we held it, and the report may be half done. The
			// client is already getting a new session: queue again.
			r.journal.lost(r.name, round, lost)
		default:
			return fmt.Errorf("report %d: %w", round, err)
		}
	}
	return nil
}

// reportAndRelease runs the report under the lease, and gives the lease back
// whatever happens. A *locks.LostError in its error says that the lock was lost.
//
// It needs the lease for the token. Without that, all from Acquire to Release
// would be one call:
//
//	err := mutex.Do(ctx, func(ctx context.Context) error { return report(ctx) })
func (r *replica) reportAndRelease(
	ctx context.Context, client *framework.Framework, lease *locks.Lease, hold *hold, round int,
) (err error) {
	defer func() {
		hold.end(time.Now())
		err = errors.Join(err, lease.Release(ctx))
	}()

	// This context ends when the lock is lost. All the work must be done with it.
	leased := lease.Context(ctx)
	if err := r.work(leased, client, lease, round); err != nil {
		return err
	}
	// The lock may be lost at any moment, even between a look at the context and the
	// next statement. So what we change gets our token, and judges for itself.
	return r.archive.file(lease.Token(), fmt.Sprintf("report %d of %s", round, r.name))
}

// connect returns a client that is connected. It gives up when no server answers;
// a service may prefer to wait as long as it takes.
func connect(ctx context.Context, servers string) (*framework.Framework, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	// The replicas tell on standard output what happens to them. A service leaves
	// the logger as it is.
	return framework.Connect(ctx, servers, framework.WithSessionTimeout(sessionTimeout),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
}
