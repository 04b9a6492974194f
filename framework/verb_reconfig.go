package framework

import (
	"context"
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework/internal/wire"
)

// configPath is the znode with the ensemble's configuration, outside of any chroot.
const configPath = reserved + "/config"

// Config returns the configuration of the ensemble as ZooKeeper writes it: a line
// "server.1=host:port:port:participant;port" for each server, and a last line
// "version=" with a number in hexadecimal. A standalone server has none, or an empty
// one. Config takes the options of Get. It is Curator's getConfig().
func (f *Framework) Config(ctx context.Context, opts ...GetOption) ([]byte, error) {
	var data []byte
	read := ReadData(configPath, &data, opts...)
	build := read.build
	read.build = func(f *Framework) (*call, error) { return build(f.unrooted()) }
	err := f.Pipeline(ctx, read)
	return data, err
}

// reconfigConfig is what the options of Reconfig set.
type reconfigConfig struct {
	common
	joining, leaving, members []string
	from                      int64
}

// ReconfigOption is an option of [Framework.Reconfig].
type ReconfigOption interface{ applyReconfig(*reconfigConfig) error }

type reconfigOption func(*reconfigConfig) error

func (o reconfigOption) applyReconfig(c *reconfigConfig) error { return o(c) }

// Joining adds servers, each in the form "5=host:2888:3888:observer;2181", or changes the
// servers with the same numbers.
func Joining(servers ...string) ReconfigOption {
	return reconfigOption(func(c *reconfigConfig) error { return appendServers(&c.joining, servers) })
}

// Leaving removes the servers with these numbers.
func Leaving(ids ...string) ReconfigOption {
	return reconfigOption(func(c *reconfigConfig) error { return appendServers(&c.leaving, ids) })
}

// WithNewMembers replaces all servers; not together with [Joining] or [Leaving].
func WithNewMembers(servers ...string) ReconfigOption {
	return reconfigOption(func(c *reconfigConfig) error { return appendServers(&c.members, servers) })
}

// FromConfig makes the change only if the current configuration has this version.
// Default: any.
func FromConfig(version int64) ReconfigOption {
	return reconfigOption(func(c *reconfigConfig) error { c.from = version; return nil })
}

func appendServers(into *[]string, servers []string) error {
	for _, s := range servers {
		// The servers go out as one list with commas, where a slip would name another server.
		if s == "" || strings.ContainsAny(s, ",\n") {
			return fmt.Errorf("server %q, expected one server without a comma", s)
		}
	}
	*into = append(*into, servers...)
	return nil
}

// Reconfig changes the servers of the ensemble and returns the new configuration. It needs
// servers with reconfigEnabled=true and permission to write /zookeeper/config. It is not
// repeated after a try whose outcome is unknown. It is Curator's reconfig().
func (f *Framework) Reconfig(ctx context.Context, opts ...ReconfigOption) ([]byte, error) {
	var data []byte
	cfg, err := newReconfigConfig(opts)
	calls := []*call{{
		operation: opReconfig, path: configPath, body: cfg.encode(),
		decode: func(d *wire.Decoder) error {
			data = d.Buffer()
			d.Stat()
			return nil
		},
	}}
	err = f.run(ctx, opReconfig, configPath, plan{common: cfg.common, calls: calls}, err)
	return data, err
}

func newReconfigConfig(opts []ReconfigOption) (reconfigConfig, error) {
	cfg := reconfigConfig{from: -1}
	err := applyAll(opts, func(o ReconfigOption) error { return o.applyReconfig(&cfg) })
	switch changes := len(cfg.joining) + len(cfg.leaving); {
	case err != nil:
	case changes == 0 && len(cfg.members) == 0:
		err = fmt.Errorf("%w: Reconfig without Joining, Leaving or WithNewMembers", ErrInvalidOption)
	case changes > 0 && len(cfg.members) > 0:
		err = fmt.Errorf("%w: WithNewMembers together with Joining or Leaving", ErrInvalidOption)
	}
	return cfg, err
}

func (c *reconfigConfig) encode() []byte {
	var e wire.Encoder
	for _, servers := range [][]string{c.joining, c.leaving, c.members} {
		if servers == nil {
			e.Int32(-1) // the null string
			continue
		}
		e.String(strings.Join(servers, ","))
	}
	e.Int64(c.from)
	return e.Bytes()
}
