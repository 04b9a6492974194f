// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"NewServiceDiscovery":          "it makes no request",
	"ServiceDiscovery.NewCache":    "it makes no request",
	"ServiceDiscovery.NewProvider": "it makes no request",
	"ServiceDiscovery.Registered":  "it makes no request",
	"ServiceProvider.Instance":     "it makes no request",
	"Transport.RoundTrip":          "it makes no request of ZooKeeper",
	"JSONSerializer.Serialize":     "it makes no request",
	"JSONSerializer.Deserialize":   "it makes no request",
	"ParseUriSpec":                 "it makes no request",
	"LocalAddress":                 "it makes no request",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), map[string]string{}) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

// scene is one run of a call, with a discovery of the caller and one of a rival.
type scene struct {
	*hardship.Stage

	ours, theirs *services
	count        atomic.Int64
}

func newScene(s *hardship.Stage) *scene {
	c := &scene{Stage: s}
	open := func(client *framework.Framework) *services {
		d := must.Get(discovery.NewServiceDiscovery[string](client, s.Path, nil))(s.T)
		return d
	}
	c.ours, c.theirs = open(s.Ours), open(s.Theirs)
	s.End = func(error) {
		require.NoError(s.T, c.ours.Close(), s.Name)
		require.NoError(s.T, c.theirs.Close(), s.Name)
		c.requireNothing()
	}
	s.Rival = func() {
		_ = c.ours.Close() // the client may be closed
		require.NoError(s.T, c.theirs.Close(), s.Name)
		c.requireNothing()
	}
	return c
}

// requireNothing waits until no instance is left. The instance of a closed client
// goes with its session.
func (c *scene) requireNothing() {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		left, err := c.theirs.Instances(context.Background(), "orders")
		require.NoError(c.T, err, c.Name)
		if len(left) == 0 {
			return
		}
		require.True(c.T, time.Now().Before(deadline), "%s: %v are left", c.Name, left)
	}
}

// next returns an instance that no other participant has.
func (c *scene) next() instance { return newInstance(fmt.Sprintf("instance-%d", c.count.Add(1))) }

// registered has a discovery register an instance before the call.
func (c *scene) registered(d *services) instance {
	i := c.next()
	require.NoError(c.T, d.Register(context.Background(), i), c.Name)
	return i
}

func registering(kind discovery.ServiceType) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		require.NoError(s.T, s.Theirs.CreateContainers(context.Background(), s.Path+"/orders"))
		return func(ctx context.Context) error {
			i := c.next()
			i.Type = kind
			err := c.ours.Register(ctx, i)
			if err == nil && s.Crowd {
				return hardship.WithoutContext(func() error { return c.ours.Unregister(i) })(ctx)
			}
			if kept, _ := c.ours.Registered(i); kept != (err == nil) && !s.Crowd {
				s.T.Errorf("%s: registered: %t, and Register returned %v", s.Name, kept, err)
			}
			return err
		}
	}
}

// putting puts an instance, and removes it in the end.
func putting(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	require.NoError(s.T, s.Theirs.CreateContainers(context.Background(), s.Path+"/orders"))
	i := c.next()
	i.Type = discovery.Static
	remove := func() {
		_, err := c.theirs.Remove(context.Background(), i.Name, i.ID)
		require.NoError(s.T, err, s.Name)
	}
	end, rival := s.End, s.Rival
	s.End = func(err error) {
		if err == nil && !s.Crowd {
			c.requireInstance(i)
		}
		remove()
		end(err)
	}
	s.Rival = func() {
		remove()
		rival()
	}
	return func(ctx context.Context) error { return c.ours.Put(ctx, i) }
}

// removing removes an instance that a rival has put.
func removing(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	i := c.next()
	i.Type = discovery.Static
	require.NoError(s.T, c.theirs.Put(context.Background(), i))
	end, rival := s.End, s.Rival
	s.End = func(err error) {
		existed, failed := c.theirs.Remove(context.Background(), i.Name, i.ID)
		require.NoError(s.T, failed, s.Name)
		if err == nil && existed {
			s.T.Errorf("%s: it is still there", s.Name)
		}
		end(err)
	}
	s.Rival = func() {
		_, err := c.theirs.Remove(context.Background(), i.Name, i.ID)
		require.NoError(s.T, err, s.Name)
		rival()
	}
	return func(ctx context.Context) error {
		_, err := c.ours.Remove(ctx, i.Name, i.ID)
		return err
	}
}

func updating(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	c.ours.OnEdit(func(instance) {})
	i := c.registered(c.ours)
	port := 9090
	i.Port = &port
	end := s.End
	s.End = func(err error) {
		if err == nil && !s.Crowd {
			c.requireInstance(i)
		}
		end(err)
	}
	return func(ctx context.Context) error { return c.ours.Update(ctx, i) }
}

// requireInstance waits until the server has the instance: its session may just
// have ended.
func (c *scene) requireInstance(want instance) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, found, err := c.theirs.Instance(context.Background(), want.Name, want.ID)
		require.NoError(c.T, err, c.Name)
		if found && *got.Port == *want.Port {
			return
		}
		require.True(c.T, time.Now().Before(deadline), "%s: %v, expected %v", c.Name, got, want)
	}
}

func unregistering(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	i := c.registered(c.ours)
	return hardship.WithoutContext(func() error { return c.ours.Unregister(i) })
}

func closing(s *hardship.Stage) func(context.Context) error {
	c := newScene(s)
	c.registered(c.ours)
	return hardship.WithoutContext(c.ours.Close)
}

// asking asks for what a rival has registered.
func asking(ask func(ctx context.Context, d *services, i instance) (found bool, err error)) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		i := c.registered(c.theirs)
		return func(ctx context.Context) error {
			found, err := ask(ctx, c.ours, i)
			if err == nil && !found {
				s.T.Errorf("%s: not found", s.Name)
			}
			return err
		}
	}
}

// follower is a cache or a provider.
type follower interface {
	Start() error
	Wait(ctx context.Context) error
	Close() error
}

type opener func(d *services) (follower, error)

func openCache(d *services) (follower, error) { return d.NewCache("orders") }

func openProvider(d *services) (follower, error) {
	return d.NewProvider("orders", discovery.ProviderConfig[string]{})
}

// following starts a cache or a provider, and closes it in the end.
func following(open opener) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		c.registered(c.theirs)
		return func(ctx context.Context) error {
			f := must.Get(open(c.ours))(s.T)
			defer func() {
				if err := f.Close(); err != nil {
					s.T.Errorf("%s: close: %v", s.Name, err)
				}
			}()
			require.NoError(s.T, f.Start())
			return f.Wait(ctx)
		}
	}
}

func unfollowing(open opener) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		c := newScene(s)
		c.registered(c.theirs)
		f := must.Get(open(c.ours))(s.T)
		require.NoError(s.T, f.Start(), s.Name)
		require.NoError(s.T, f.Wait(context.Background()), s.Name)
		end, rival := s.End, s.Rival
		s.End = func(err error) {
			require.NoError(s.T, f.Close(), s.Name)
			end(err)
		}
		s.Rival = func() {
			require.NoError(s.T, f.Close(), s.Name)
			rival()
		}
		return hardship.WithoutContext(f.Close)
	}
}

func hardshipCalls() []hardship.Call {
	return []hardship.Call{
		{Name: "Register", Of: []string{"ServiceDiscovery.Register"}, Requests: 2, Prepare: registering(discovery.Dynamic)},
		{Name: "Register, sequential", Of: []string{"ServiceDiscovery.Register"}, Requests: 3, Prepare: registering(discovery.DynamicSequential)},
		{Name: "Update", Of: []string{"ServiceDiscovery.Update"}, Requests: 4, Prepare: updating},
		{Name: "Unregister", Of: []string{"ServiceDiscovery.Unregister"}, Requests: 3, Prepare: unregistering},
		{Name: "Put", Of: []string{"ServiceDiscovery.Put"}, Requests: 2, Prepare: putting},
		{Name: "Remove", Of: []string{"ServiceDiscovery.Remove"}, Requests: 2, Prepare: removing},
		{Name: "Close of a discovery", Of: []string{"ServiceDiscovery.Close"}, Requests: 3, Prepare: closing},
		{
			Name: "Names", Of: []string{"ServiceDiscovery.Names"}, Requests: 1,
			Prepare: asking(func(ctx context.Context, d *services, _ instance) (bool, error) {
				names, err := d.Names(ctx)
				return len(names) == 1, err
			}),
		},
		{
			Name: "Instances", Of: []string{"ServiceDiscovery.Instances"}, Requests: 2,
			Prepare: asking(func(ctx context.Context, d *services, i instance) (bool, error) {
				instances, err := d.Instances(ctx, i.Name)
				if err == nil && len(instances) == 0 { // a refused one is left out
					instances, err = d.Instances(ctx, i.Name)
				}
				return len(instances) == 1, err
			}),
		},
		{
			Name: "Instance", Of: []string{"ServiceDiscovery.Instance"}, Requests: 1,
			Prepare: asking(func(ctx context.Context, d *services, i instance) (bool, error) {
				_, found, err := d.Instance(ctx, i.Name, i.ID)
				return found, err
			}),
		},
		{Name: "Start and Wait of a cache", Of: []string{"ServiceCache.Start", "ServiceCache.Wait"}, Requests: 4, Prepare: following(openCache)},
		{Name: "Close of a cache", Of: []string{"ServiceCache.Close"}, Requests: 1, Prepare: unfollowing(openCache)},
		{Name: "Start and Wait of a provider", Of: []string{"ServiceProvider.Start", "ServiceProvider.Wait"}, Requests: 4, Prepare: following(openProvider)},
		{Name: "Close of a provider", Of: []string{"ServiceProvider.Close"}, Requests: 1, Prepare: unfollowing(openProvider)},
	}
}
