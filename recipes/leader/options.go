// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"fmt"

	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/locks"
)

// Option is a setting of a [LeaderLatch] or a [LeaderSelector].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	closeMode   CloseMode
	autoRequeue bool
	lock        []locks.Option
}

func newConfig(recipe string, opts []Option) (config, error) {
	c := config{lock: []locks.Option{locks.WithRecipeName(recipe), locks.WithoutReentry()}}
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	return c, err
}

// WithID sets the identity of this candidate, which Participants show as
// Identity and Java's candidates as the id. Default: host name, slash, process
// id, and the label of [locks.WithLabel] after a space. An empty id is written
// as it is, as Curator's LeaderLatch does.
func WithID(id string) Option {
	return WithLockOptions(locks.WithLockData([]byte(id)))
}

// WithLockOptions passes settings on to the lock of the election, such as
// [locks.WithErrorPolicy], [locks.WithLabel] and [locks.WithRevocationListener].
func WithLockOptions(opts ...locks.Option) Option {
	return optionFunc(options.Plain(func(c *config) { c.lock = append(c.lock, opts...) }))
}

// CloseMode says whether a latch that leads reports the end of its leadership
// to its listeners when it is closed. It is Curator's LeaderLatch.CloseMode.
type CloseMode int

const (
	// Silent closes without a word to the listeners. It is the default.
	Silent CloseMode = iota

	// NotifyLeader tells the listeners of a leading latch that its leadership has
	// ended.
	NotifyLeader
)

func (m CloseMode) check() error {
	if m != Silent && m != NotifyLeader {
		return fmt.Errorf("close mode %d, expected leader.Silent or leader.NotifyLeader", m)
	}
	return nil
}

// WithCloseMode sets what [LeaderLatch.Close] tells the listeners. Default:
// [Silent].
func WithCloseMode(mode CloseMode) Option {
	err := mode.check()
	return optionFunc(options.Checked(err == nil, func(c *config) { c.closeMode = mode }, "%w", err))
}

// WithAutoRequeue makes [LeaderSelector.Run] stand for election again after
// each leadership, until its context ends or the function returns [ErrStop].
func WithAutoRequeue() Option {
	return optionFunc(options.Plain(func(c *config) { c.autoRequeue = true }))
}
