// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/rest"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A program that has no client of ZooKeeper registers itself over HTTP, and finds services there.
func Example() {
	server, err := zkserver.Start() // programs connect to their ensemble
	check(err)
	client, err := framework.Connect(context.Background(), server.Addr())
	check(err)
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	check(err)
	http.Handle("/discovery/", http.StripPrefix("/discovery", rest.Handler(services, nil)))
	site := httptest.NewServer(nil) // http.ListenAndServe
	defer func() {
		site.Close()
		check(errors.Join(services.Close(), client.Close(), server.Close()))
	}()

	const instance = `{"name":"orders","id":"one","address":"10.0.0.7","port":8080,"registrationTimeUTC":0,"serviceType":"STATIC"}`
	put, err := http.NewRequestWithContext(context.Background(), http.MethodPut, site.URL+"/discovery/v1/service/orders/one", strings.NewReader(instance))
	check(err)
	for _, request := range []*http.Request{put, get(site.URL + "/discovery/v1/service"), get(site.URL + "/discovery/v1/anyservice/orders")} {
		answer, err := http.DefaultClient.Do(request)
		check(err)
		body, err := io.ReadAll(answer.Body)
		check(errors.Join(err, answer.Body.Close()))
		fmt.Println(strings.TrimSpace(fmt.Sprint(answer.StatusCode, " ", string(body))))
	}
	// Output:
	// 201
	// 200 [{"name":"orders"}]
	// 200 {"name":"orders","id":"one","address":"10.0.0.7","port":8080,"registrationTimeUTC":0,"serviceType":"STATIC"}
}

func get(url string) *http.Request {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	check(err)
	return request
}
