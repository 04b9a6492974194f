// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
)

// underLock is the flags of lock run.
type underLock struct {
	noWait            bool
	wait              time.Duration
	conflict          int
	shared, exclusive bool
	permits           int
	once              string
	maxHold, grace    time.Duration
	label, policyName string
	election          bool
	revocable         bool

	policy framework.ErrorPolicy
}

func (u *underLock) register(fs *flag.FlagSet) {
	fs.BoolVar(&u.noWait, "n", false, "do not wait for the lock")
	fs.Var((*duration)(&u.wait), "w", "`time` to wait for the lock; 0 has no bound")
	fs.IntVar(&u.conflict, "E", exitNotAcquired, "exit `status` when the lock is not acquired")
	fs.Var((*duration)(&u.maxHold), "max-hold", "`time` after which the command is ended; 0 has no bound")
	u.grace = 10 * time.Second
	fs.Var((*duration)(&u.grace), "grace", "`time` between SIGTERM and SIGKILL at the end of -max-hold")
	fs.BoolVar(&u.revocable, "revocable", false, "end the command with SIGTERM when lock revoke asks for the lock")
	fs.Var((*text)(&u.label), "label", "`name` of the owner that all readers see; default: the base name of the command")
	fs.StringVar(&u.policyName, "policy", "quorum",
		"error `policy`: quorum writes a heartbeat at the root to be safe in every partition; session and standard do not")
}

func (u *underLock) validate(c *call) error {
	name := "lock run"
	if u.election {
		name = "elect"
	}
	kinds := 0
	for _, given := range []bool{u.shared, u.exclusive, u.permits != 0, u.once != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case len(c.command) == 0:
		return usage("%s: command missing, expected it after --", name)
	case kinds > 1:
		return usage("%s: expected one of -shared, -exclusive, -permits and -once", name)
	case u.noWait && (u.wait != 0 || u.once != ""):
		return usage("%s: -n together with -w or -once, expected one of them", name)
	case u.conflict < 0 || u.conflict > math.MaxUint8:
		return usage("%s: -E %d, expected 0 to 255", name, u.conflict)
	}
	for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy, framework.QuorumErrorPolicy} {
		if policy.String() == u.policyName {
			u.policy = policy
			return nil
		}
	}
	return usage("%s: -policy %q, expected standard, session or quorum", name, u.policyName)
}

// verbLockRun runs a command under a lock.
func verbLockRun(fs *flag.FlagSet) action {
	u := new(underLock)
	u.register(fs)
	fs.BoolVar(&u.shared, "shared", false, "take the read side of a read/write lock")
	fs.BoolVar(&u.exclusive, "exclusive", false, "take the write side of a read/write lock")
	permits := numberFlag(fs, "permits", "take a permit of a semaphore with this `maximum`", 1, 0)
	once := parsedFlag(fs, "once", "run the command once for this `key`, on any machine", "", parseName)
	return func(ctx context.Context, c *call) error {
		u.permits, u.once = *permits, *once
		return u.run(ctx, c)
	}
}

// verbElect runs a command while it leads.
func verbElect(fs *flag.FlagSet) action {
	u := &underLock{election: true}
	u.register(fs)
	listen := fs.Bool("l", false, "only name the leader, with a line for each change")
	return func(ctx context.Context, c *call) error {
		switch {
		case *listen && len(c.command) > 0:
			return usage("elect: %q after -l PATH, expected nothing; flags come before PATH", c.command[0])
		case *listen:
			ctx, stop := c.untilSignal(ctx, 0)
			defer stop()
			return c.connected(ctx, func() error { return c.observe(ctx) })
		}
		return u.run(ctx, c)
	}
}

func (u *underLock) run(ctx context.Context, c *call) error {
	if err := u.validate(c); err != nil {
		return err
	}
	if c.reports == nil {
		return c.front(c.line)
	}
	if err := findCommand(c.command[0]); err != nil {
		return err
	}
	connecting, stop := c.untilSignal(ctx, 0)
	defer stop()
	return c.connected(connecting, func() error {
		stop()
		if err := c.signalled(connecting); err != nil {
			return err
		}
		ctx, stop := c.untilSignal(ctx, u.wait)
		defer stop()
		if u.once != "" {
			return u.runOnce(ctx, c, stop)
		}
		return u.runLocked(ctx, c, stop)
	})
}

// findCommand returns an error with the status that shells have for it if there is no such command.
func findCommand(name string) error {
	_, err := exec.LookPath(name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return &exit{status: exitNotFound, err: err}
	default:
		return &exit{status: exitCannotRun, err: err}
	}
}

// connected runs an action with a client that is connected. A signal ends the wait for that.
func (c *call) connected(ctx context.Context, action func() error) error {
	limited, cancel := c.limited(ctx)
	defer cancel()
	err := c.with(limited, c.connect, action)
	if c.client == nil {
		return cmp.Or(c.signalled(ctx), err)
	}
	return err
}

func (u *underLock) runLocked(ctx context.Context, c *call, stopWaiting func()) error {
	lock, err := u.lock(c)
	if err != nil {
		return usage("%w", err)
	}
	acquire := lock.Acquire
	if u.noWait {
		acquire = lock.TryAcquire
	}
	lease, err := acquire(ctx)
	if err != nil {
		return u.notAcquired(ctx, c, err)
	}
	stopWaiting()
	if err = c.signalled(ctx); err == nil {
		err = u.supervise(c, lease)
	}
	return afterRelease(c, err, lease.Release(context.WithoutCancel(ctx)))
}

// afterRelease returns what the release adds to the outcome of the command.
func afterRelease(c *call, err, release error) error {
	var lost *locks.LostError
	if errors.As(release, &lost) && statusOf(err) != exitLost {
		return &exit{status: exitLost, err: release}
	}
	if release != nil && lost == nil {
		c.complainf("curatorctl: the lock goes with the session: %s\n", said(release))
	}
	return err
}

// notAcquired gives the error of an acquisition the status that it has.
func (u *underLock) notAcquired(ctx context.Context, c *call, err error) error {
	if err := c.signalled(ctx); err != nil {
		return err
	}
	// A wait may end before the queue is known. That is not the same as an outage.
	tooLate := errors.Is(context.Cause(ctx), context.DeadlineExceeded) && c.client.State().IsConnected()
	if errors.Is(err, locks.ErrNotAcquired) || tooLate {
		return &exit{status: u.conflict, err: c.namingFirst(ctx, err)}
	}
	return err
}

// namingFirst adds to an error who is the first in the queue, if no waiter has read it. A try has not.
func (c *call) namingFirst(ctx context.Context, err error) error {
	var refused *locks.NotAcquiredError
	if !errors.As(err, &refused) || len(refused.Ahead()) == 0 || refused.Ahead()[0].Identity != "" {
		return err
	}
	ctx, cancel := c.limited(context.WithoutCancel(ctx))
	defer cancel()
	first, stat := refused.Ahead()[0], framework.Stat{}
	data, failure := c.client.Get(ctx, first.Path, framework.StoringStatIn(&stat))
	if failure != nil { // it has left, or may not be read
		return err
	}
	return fmt.Errorf("%w: %s", err, nameOf(locks.ParticipantOf(first.Path, first.LockName, data, stat)))
}

func (u *underLock) options(c *call) []locks.Option {
	label := u.label
	if label == "" {
		label = labelOf(c.command)
	}
	opts := []locks.Option{locks.WithLabel(label), locks.WithErrorPolicy(u.policy)}
	if c.verbose {
		opts = append(opts, locks.WithQueueListener(func(path string, position int) {
			c.complainf("curatorctl: waiting at %s, %d ahead\n", printable(path), position)
		}))
	}
	return opts
}

// maxLabel is the length in bytes of the longest label that a command gets.
const maxLabel = 100

// labelOf makes a label of a command: its base name, since arguments may be secret and a label
// is not.
func labelOf(command []string) string {
	label := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, filepath.Base(command[0]))
	if len(label) > maxLabel {
		end := maxLabel
		for !utf8.RuneStart(label[end]) {
			end--
		}
		label = label[:end]
	}
	return strings.TrimSpace(label)
}

func (u *underLock) lock(c *call) (locks.InterProcessLock, error) {
	path, opts := c.args[0], u.options(c)
	switch {
	case u.election:
		const latchName = "latch-" // Curator's LeaderLatch is in the same election
		return locks.NewLockInternals(c.client, locks.QueueDriver(latchName), path, latchName, 1, opts...)
	case u.permits > 0:
		return locks.NewInterProcessSemaphoreV2(c.client, path, locks.FixedLeases(u.permits), opts...)
	case u.shared, u.exclusive:
		lock, err := locks.NewInterProcessReadWriteLock(c.client, path, opts...)
		if err != nil {
			return nil, err
		}
		if u.shared {
			return lock.ReadLock(), nil
		}
		return lock.WriteLock(), nil
	default:
		return locks.NewInterProcessMutex(c.client, path, opts...)
	}
}

// runOnce runs the command unless the key is marked as done, and marks it.
func (u *underLock) runOnce(ctx context.Context, c *call, stopWaiting func()) error {
	once, err := leader.NewOnce(c.client, c.args[0], leader.WithRunOptions(u.options(c)...))
	if err != nil {
		return usage("%w", err)
	}
	began := false
	_, err = once.Do(ctx, u.once, func(ctx context.Context) error {
		began = true
		stopWaiting()
		if err := c.signalled(ctx); err != nil {
			return err
		}
		return u.supervise(c, locks.LeaseFrom(ctx))
	})
	if err != nil && !began {
		return u.notAcquired(ctx, c, err)
	}
	if err == nil && began {
		// A purge in the background would end with this process. The log has its failure.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), purgeTime)
		defer cancel()
		_ = once.Purge(ctx)
	}
	return err
}

// purgeTime bounds how long the command goes on to delete old markers.
const purgeTime = 10 * time.Second

// observe prints the leader, and each change.
func (c *call) observe(ctx context.Context) error {
	latch, err := leader.NewLeaderLatch(c.client, c.args[0])
	if err != nil {
		return usage("%w", err)
	}
	for p, err := range latch.Observe(ctx) {
		switch {
		case err != nil:
			return cmp.Or(c.signalled(ctx), err)
		case c.output == "json":
			err = c.json(p)
		case p == nil:
			err = c.println("no leader")
		default:
			err = c.println(fmt.Sprintf("%s leads, term %d", nameOf(*p), p.Token))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
