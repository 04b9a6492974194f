package locks

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Option is a setting of a lock.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	policy       framework.ErrorPolicy
	data         []byte
	label        string       // in the default data
	recipe       string       // in the telemetry
	onRevocation func(*Lease) // may be nil
	handoff      int          // holds in a row under one node
}

func newConfig(client *framework.Framework, opts []Option) (config, error) {
	c := config{policy: client.ErrorPolicy(), recipe: defaultRecipe}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("a nil option")
		}
		if err := o.apply(&c); err != nil {
			return c, err
		}
	}
	switch {
	case c.data == nil:
		c.data = defaultLockData(c.label)
	case c.label != "":
		return c, fmt.Errorf("WithLabel(%q) and WithLockData, expected one of them: the label is part of the default data", c.label)
	}
	return c, nil
}

// WithErrorPolicy sets which trouble ends the leases of this lock. Default: the
// client's policy.
func WithErrorPolicy(p framework.ErrorPolicy) Option {
	return optionFunc(func(c *config) error {
		if p < framework.StandardErrorPolicy || p > framework.QuorumErrorPolicy {
			return fmt.Errorf("error policy %d, expected framework.StandardErrorPolicy, SessionErrorPolicy or QuorumErrorPolicy", p)
		}
		c.policy = p
		return nil
	})
}

// WithLockData sets what the lock's nodes contain, and Participants show as
// the identity: anything but the message of [AttemptRevoke]. Default: host name,
// slash, process id, and after a space the label, see [WithLabel].
func WithLockData(data []byte) Option {
	return optionFunc(func(c *config) error {
		if string(data) == revokeMessage {
			return fmt.Errorf("lock data %s, which asks for the lock to be given back, expected other data", data)
		}
		c.data = append([]byte{}, data...)
		return nil
	})
}

// defaultRecipe is the recipe of a LockInternals that was not given another.
const defaultRecipe = "custom"

// WithRecipeName sets the attribute curator.recipe in the telemetry of the lock, so
// that its waits and holds can be told from those of others without telling its
// path. Default: the name of the recipe, "custom" for a [LockInternals].
func WithRecipeName(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" {
			return errors.New("recipe name \"\", expected one such as \"mutex\"")
		}
		c.recipe = name
		return nil
	})
}

// named puts the name of a recipe before the options, which may say another.
func named(recipe string, opts []Option) []Option {
	return append([]Option{WithRecipeName(recipe)}, opts...)
}
