package locks

import (
	"errors"
	"fmt"
	"os"

	"github.com/gocurator/curator/framework"
)

// Option is a setting of a lock.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	policy framework.ErrorPolicy
	data   []byte
}

func newConfig(client *framework.Framework, opts []Option) (config, error) {
	c := config{policy: client.ErrorPolicy(), data: defaultLockData()}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("a nil option")
		}
		if err := o.apply(&c); err != nil {
			return c, err
		}
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
// the identity. Default: host name, slash, process id.
func WithLockData(data []byte) Option {
	return optionFunc(func(c *config) error {
		c.data = append([]byte{}, data...)
		return nil
	})
}

func defaultLockData() []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Appendf(nil, "%s/%d", host, os.Getpid())
}
