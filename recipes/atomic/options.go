// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/locks"
)

// Option is a setting of a value or counter.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	client     *framework.Framework
	lock       *locks.InterProcessMutex // nil if a change is never promoted
	optimistic int                      // tries before it is
}

func newConfig(client *framework.Framework, opts []Option) (config, error) {
	c := config{client: client}
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	return c, err
}

// WithPromotedToLock makes a change that has failed this number of times, because other
// processes were faster, acquire the mutex at lockPath for its further tries. While
// changes wait for the mutex, other changes do not pass them but wait for it too, so that
// all make progress. It is Curator's PromotedToLock. All processes must use the same
// path, which must differ from the path of the value. Default: no mutex.
//
// A change returns when the mutex is released. While no server answers, that can
// be ten seconds after the end of the context of the change.
func WithPromotedToLock(lockPath string, tries int, opts ...locks.Option) Option {
	return optionFunc(func(c *config) (err error) {
		if tries < 0 {
			return fmt.Errorf("promotion to a lock after %d tries, expected 0 or more", tries)
		}
		c.optimistic = tries
		c.lock, err = locks.NewInterProcessMutex(c.client, lockPath, opts...)
		return err
	})
}
