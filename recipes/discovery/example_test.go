// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleClient returns a client of an embedded server. Programs connect to
// their ensemble: framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181").
func exampleClient() (client *framework.Framework, closeAll func()) {
	server, err := zkserver.Start()
	check(err)
	client, err = framework.Connect(context.Background(), server.Addr())
	check(err)
	return client, func() { check(errors.Join(client.Close(), server.Close())) }
}

func ExampleServiceDiscovery() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	check(err)
	instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
	check(services.Register(ctx, instance))

	found, err := services.Instances(ctx, "orders")
	check(err)
	fmt.Println(found[0].Address, *found[0].Port)
	check(services.Unregister(instance)) // the server has confirmed it
	found, err = services.Instances(ctx, "orders")
	check(err)
	fmt.Println("instances:", len(found))
	check(services.Close())
	// Output:
	// 10.0.0.7 8080
	// instances: 0
}

func ExampleServiceProvider() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	check(err)
	for _, address := range []string{"10.0.0.7", "10.0.0.8"} {
		instance := discovery.NewInstance[string]("orders", address, 8080)
		instance.ID = address
		check(services.Register(ctx, instance))
	}
	provider, err := services.NewProvider("orders", discovery.ProviderConfig[string]{
		Down: discovery.DownInstancePolicy{Threshold: 1},
	})
	check(err)
	check(provider.Start())
	check(provider.Wait(ctx))
	for range 2 {
		instance, err := provider.Instance() // sends nothing
		check(err)
		fmt.Println(instance.Address)
	}
	instance, err := provider.Instance()
	check(err)
	provider.NoteError(instance) // the call has failed
	next, err := provider.Instance()
	check(err)
	fmt.Println("instead of", instance.Address, "there is", next.Address)
	check(errors.Join(provider.Close(), services.Close()))
	// Output:
	// 10.0.0.7
	// 10.0.0.8
	// instead of 10.0.0.7 there is 10.0.0.8
}

func ExampleServiceCache() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	check(err)
	cache, err := services.NewCache("orders")
	check(err)
	check(cache.Start())
	check(cache.Wait(ctx))
	fmt.Println("instances:", len(cache.Instances()), "age:", cache.Age())
	changed := make(chan int, 10)
	cache.OnChange(func(instances []*discovery.ServiceInstance[string]) { changed <- len(instances) })
	check(services.Register(ctx, discovery.NewInstance[string]("orders", "10.0.0.7", 8080)))
	fmt.Println("instances:", <-changed)
	check(errors.Join(cache.Close(), services.Close()))
	// Output:
	// instances: 0 age: 0s
	// instances: 1
}

func ExampleTransport() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	})}
	go func() { _ = server.Serve(listener) }()
	host, text, err := net.SplitHostPort(listener.Addr().String())
	check(err)
	port, err := strconv.Atoi(text)
	check(err)
	instance := discovery.NewInstance[string]("orders", host, port)
	check(services.Register(ctx, instance))

	provider, err := services.NewProvider("orders", discovery.ProviderConfig[string]{})
	check(err)
	check(provider.Start())
	check(provider.Wait(ctx))
	base := &http.Transport{}
	response, err := (&http.Client{Transport: discovery.NewTransport(provider, base)}).Get("http://orders/v1/open")
	check(err)
	body, err := io.ReadAll(response.Body)
	check(errors.Join(err, response.Body.Close()))
	fmt.Println(string(body))

	check(services.Unregister(instance)) // no client calls it any more
	check(server.Shutdown(ctx))          // calls that are under way end
	base.CloseIdleConnections()
	check(errors.Join(provider.Close(), services.Close()))
	// Output:
	// /v1/open of orders
}

func ExampleParseUriSpec() {
	spec, err := discovery.ParseUriSpec("{scheme}://{address}:{port}/v1")
	check(err)
	instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
	instance.URI = spec
	fmt.Println(instance.BuildURI(nil))
	// Output:
	// http://10.0.0.7:8080/v1
}
