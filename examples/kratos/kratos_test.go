// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kratos/kratos/v2"
	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-kratos/kratos/v2/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/registries"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.WithSharedServers(m)) }

func newRegistry(t *testing.T, client *framework.Framework) *Registry {
	t.Helper()
	services, err := New(client, DefaultRoot)
	require.NoError(t, err)
	return services
}

// theirs is what Kratos' own registry writes for a service without metadata: encoding/json's form of the instance.
const theirs = `{"id":"7f6a","name":"greeter","version":"v1","metadata":null,"endpoints":["http://10.0.0.1:8000?isSecure=false","grpc://10.0.0.1:9000?isSecure=false"]}`

func theService(t *testing.T) *registry.ServiceInstance {
	t.Helper()
	service := new(registry.ServiceInstance)
	require.NoError(t, json.Unmarshal([]byte(theirs), service))
	return service
}

// TestKratosLayoutIsKratos: an instance of Kratos' own registry is found, and ours is where that looks, with the same bytes.
func TestKratosLayoutIsKratos(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		client := zktest.Client(t, server)
		services := newRegistry(t, client)
		for _, folder := range []string{"/microservices", "/microservices/greeter"} {
			_, err := client.Create(ctx, folder, []byte(""), framework.CreatingParentsIfNeeded()) // of the test's chroot
			require.NoError(t, err)
		}
		_, err := client.Create(ctx, "/microservices/greeter/7f6a", []byte(theirs), framework.WithMode(framework.Ephemeral))
		require.NoError(t, err)
		_, err = client.Create(ctx, "/microservices/greeter/broken", []byte("{")) // it hides no other
		require.NoError(t, err)
		found, err := services.GetService(ctx, "greeter")
		require.NoError(t, err)
		require.Equal(t, []*registry.ServiceInstance{theService(t)}, found)

		ours := theService(t)
		ours.ID, ours.Name = "8a11", "clock" // a service without a folder
		require.NoError(t, services.Register(ctx, ours))
		data, err := client.Get(ctx, "/microservices/clock/8a11")
		require.NoError(t, err)
		require.JSONEq(t, `{"id":"8a11","name":"clock","version":"v1","metadata":null,"endpoints":["http://10.0.0.1:8000?isSecure=false","grpc://10.0.0.1:9000?isSecure=false"]}`, string(data))
		written, err := json.Marshal(ours)
		require.NoError(t, err)
		require.Equal(t, written, data)
		require.NoError(t, services.Deregister(ctx, ours))
		stat, err := client.Exists(ctx, "/microservices/clock") // an old service registers again only if it stays
		require.NoError(t, err)
		require.Zero(t, stat.EphemeralOwner, "it is no container")
	})
}

// one is the registry of one service.
type one struct{ *Registry }

func (o one) Register(ctx context.Context, id string) (func() error, error) {
	service := &registry.ServiceInstance{ID: id, Name: "greeter"}
	return func() error { return o.Deregister(context.Background(), service) }, o.Registry.Register(ctx, service)
}

func (o one) Follow(ctx context.Context, fn func(ids []string)) {
	w, err := o.Watch(ctx, "greeter")
	if err != nil {
		panic(err)
	}
	for {
		found, err := w.Next()
		if err != nil {
			return
		}
		var ids []string
		for _, service := range found {
			ids = append(ids, service.ID)
		}
		fn(ids)
	}
}

func TestKratosSurvives(t *testing.T) {
	registries.TestSurvives(t, func(t *testing.T, client *framework.Framework) registries.Registry {
		return one{newRegistry(t, client)}
	})
}

// TestKratosWatcherEnds with its context, when it is stopped, and with the client; it starts without a server.
func TestKratosWatcherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		require.NoError(t, server.Stop())
		services := newRegistry(t, client)
		next := func(end func(registry.Watcher, context.CancelFunc)) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := services.Watch(ctx, "greeter")
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				_, err := w.Next()
				ended <- err
			}()
			synctest.Wait()
			require.Empty(t, ended)
			end(w, cancel)
			return zktest.Await(t, ended, "the end of the watcher")
		}
		require.ErrorIs(t, next(func(_ registry.Watcher, cancel context.CancelFunc) { cancel() }), context.Canceled)
		require.ErrorIs(t, next(func(w registry.Watcher, _ context.CancelFunc) { assert.NoError(t, w.Stop()) }), context.Canceled)
		require.NoError(t, server.Restart())
		zktest.AwaitState(t, client, framework.Reconnected)
		require.ErrorIs(t, next(func(registry.Watcher, context.CancelFunc) { assert.NoError(t, client.Close()) }), framework.ErrClosed)
	})
}

// TestKratosDeregisterEndsInTime: without a server it ends with its context, and the znode is removed later.
func TestKratosDeregisterEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		services := newRegistry(t, zktest.Client(t, server))
		service := theService(t)
		require.NoError(t, services.Register(t.Context(), service))
		require.NoError(t, server.Stop())
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, services.Deregister(ctx, service), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, server.Restart())
		other := zktest.Client(t, server)
		require.Eventually(t, func() bool {
			stat, err := other.Exists(t.Context(), "/microservices/greeter/7f6a")
			return err == nil && stat == nil
		}, time.Minute, time.Second)
	})
}

// TestKratosProgram: a client of Kratos calls two services of Kratos by their name. One leaves, and no call fails once it has.
func TestKratosProgram(t *testing.T) {
	server := zktest.NewServer(t)
	services := newRegistry(t, zktest.Client(t, server))
	apps, ended := make(map[string]*kratos.App), make(chan error, 2)
	for range 2 {
		app := greeter(newRegistry(t, zktest.Client(t, server)))
		apps[app.ID()] = app
		go func() { ended <- app.Run() }()
	}
	conn, err := http.NewClient(zktest.Context(t), http.WithEndpoint("discovery:///greeter"), http.WithDiscovery(services), http.WithBlock())
	require.NoError(t, err)
	defer conn.Close()
	answers := func() string {
		var reply map[string]string
		if err := conn.Invoke(zktest.Context(t), "GET", "/hello", nil, &reply); err != nil {
			return err.Error()
		}
		require.Contains(t, apps, reply["from"])
		return reply["from"]
	}
	first := answers()
	require.Eventually(t, func() bool { return answers() != first }, time.Minute, time.Millisecond, "the other one answers, too")
	require.NoError(t, apps[first].Stop())
	require.NoError(t, zktest.Await(t, ended, "the end of the service"))
	require.Eventually(t, func() bool { return answers() != first }, time.Minute, time.Millisecond)
	for range 100 {
		require.NotEqual(t, first, answers())
	}
	for id, app := range apps {
		if id != first {
			require.NoError(t, app.Stop())
		}
	}
	require.NoError(t, zktest.Await(t, ended, "the end of the service"))
}
