// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/registries"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(zktest.WithSharedServers(m))
}

// TestDubboEscapesAreJavas: what java.net.URLEncoder of Java 17 makes of all characters of Latin 1, of some others, and of a URL.
func TestDubboEscapesAreJavas(t *testing.T) {
	var latin strings.Builder
	for c := range rune(256) {
		latin.WriteRune(c)
	}
	for location, java := range map[string]string{
		latin.String(): "%00%01%02%03%04%05%06%07%08%09%0A%0B%0C%0D%0E%0F%10%11%12%13%14%15%16%17%18%19%1A%1B%1C%1D%1E%1F" +
			"+%21%22%23%24%25%26%27%28%29*%2B%2C-.%2F0123456789%3A%3B%3C%3D%3E%3F" +
			"%40ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_%60abcdefghijklmnopqrstuvwxyz%7B%7C%7D%7E%7F" +
			"%C2%80%C2%81%C2%82%C2%83%C2%84%C2%85%C2%86%C2%87%C2%88%C2%89%C2%8A%C2%8B%C2%8C%C2%8D%C2%8E%C2%8F" +
			"%C2%90%C2%91%C2%92%C2%93%C2%94%C2%95%C2%96%C2%97%C2%98%C2%99%C2%9A%C2%9B%C2%9C%C2%9D%C2%9E%C2%9F" +
			"%C2%A0%C2%A1%C2%A2%C2%A3%C2%A4%C2%A5%C2%A6%C2%A7%C2%A8%C2%A9%C2%AA%C2%AB%C2%AC%C2%AD%C2%AE%C2%AF" +
			"%C2%B0%C2%B1%C2%B2%C2%B3%C2%B4%C2%B5%C2%B6%C2%B7%C2%B8%C2%B9%C2%BA%C2%BB%C2%BC%C2%BD%C2%BE%C2%BF" +
			"%C3%80%C3%81%C3%82%C3%83%C3%84%C3%85%C3%86%C3%87%C3%88%C3%89%C3%8A%C3%8B%C3%8C%C3%8D%C3%8E%C3%8F" +
			"%C3%90%C3%91%C3%92%C3%93%C3%94%C3%95%C3%96%C3%97%C3%98%C3%99%C3%9A%C3%9B%C3%9C%C3%9D%C3%9E%C3%9F" +
			"%C3%A0%C3%A1%C3%A2%C3%A3%C3%A4%C3%A5%C3%A6%C3%A7%C3%A8%C3%A9%C3%AA%C3%AB%C3%AC%C3%AD%C3%AE%C3%AF" +
			"%C3%B0%C3%B1%C3%B2%C3%B3%C3%B4%C3%B5%C3%B6%C3%B7%C3%B8%C3%B9%C3%BA%C3%BB%C3%BC%C3%BD%C3%BE%C3%BF",
		"€你😀": "%E2%82%AC%E4%BD%A0%F0%9F%98%80",
		"dubbo://10.20.153.10:20880/com.foo.BarService?anyhost=true&application=bar&interface=com.foo.BarService&methods=say*,~x&side=provider&timestamp=1408680863432&note=a b%2A": "dubbo%3A%2F%2F10.20.153.10%3A20880%2Fcom.foo.BarService%3Fanyhost%3Dtrue%26application%3Dbar%26interface%3Dcom.foo.BarService%26methods%3Dsay*%2C%7Ex%26side%3Dprovider%26timestamp%3D1408680863432%26note%3Da+b%252A",
	} {
		require.Equal(t, java, Escape(location))
		back, err := url.QueryUnescape(java)
		require.NoError(t, err)
		require.Equal(t, location, back)
	}
}

// TestDubboLayoutIsDubbos: a znode that Dubbo has made is found, and ours is where Dubbo looks.
func TestDubboLayoutIsDubbos(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ctx := zktest.Context(t)
		services := Registry{Client: client}
		// Java writes the address of its host, and dubbo-go nothing.
		_, err := client.Create(ctx, "/dubbo/com.foo.Bar/providers/dubbo%3A%2F%2F10.0.0.1%3A20880%2Fcom.foo.Bar%3Fside%3Dprovider", []byte("10.0.0.1"),
			framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral))
		require.NoError(t, err)
		provider, err := services.Register(ctx, "com.foo.Bar", Providers, "dubbo://10.0.0.2:20880/com.foo.Bar?side=provider")
		require.NoError(t, err)
		consumer, err := services.Register(ctx, "com.foo.Bar", Consumers, "consumer://10.0.0.3/com.foo.Bar?category=consumers&side=consumer")
		require.NoError(t, err)
		for urls, err := range services.Follow(ctx, "com.foo.Bar", Providers) {
			require.NoError(t, err)
			require.Equal(t, []string{"dubbo://10.0.0.1:20880/com.foo.Bar?side=provider", "dubbo://10.0.0.2:20880/com.foo.Bar?side=provider"}, urls)
			break
		}
		names, err := client.Children(ctx, "/dubbo/com.foo.Bar/providers")
		require.NoError(t, err)
		require.Contains(t, names, "dubbo%3A%2F%2F10.0.0.2%3A20880%2Fcom.foo.Bar%3Fside%3Dprovider")
		names, err = client.Children(ctx, "/dubbo/com.foo.Bar/consumers")
		require.NoError(t, err)
		require.Equal(t, []string{"consumer%3A%2F%2F10.0.0.3%2Fcom.foo.Bar%3Fcategory%3Dconsumers%26side%3Dconsumer"}, names)
		require.NoError(t, provider.Close())
		require.NoError(t, consumer.Close())
		for _, folder := range []string{"/dubbo", "/dubbo/com.foo.Bar", "/dubbo/com.foo.Bar/providers"} { // none is a container
			stat, err := client.Exists(ctx, folder)
			require.NoError(t, err)
			require.Zero(t, stat.EphemeralOwner, folder)
		}
	})
}

// one is the registry of one service.
type one struct{ Registry }

func (o one) Register(ctx context.Context, id string) (func() error, error) {
	node, err := o.Registry.Register(ctx, service, Providers, "dubbo://"+id+"/"+service)
	if err != nil {
		return nil, err
	}
	return node.Close, nil
}

func (o one) Follow(ctx context.Context, fn func(ids []string)) {
	for urls, err := range o.Registry.Follow(ctx, service, Providers) {
		if err != nil {
			continue
		}
		var ids []string
		for _, location := range urls {
			u, err := url.Parse(location)
			if err == nil {
				ids = append(ids, u.Host)
			}
		}
		fn(ids)
	}
}

func TestDubboSurvives(t *testing.T) {
	registries.TestSurvives(t, func(_ *testing.T, client *framework.Framework) registries.Registry {
		return one{Registry{Client: client}}
	})
}

// lines is what the program has written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestDubboProgram(t *testing.T) {
	server := zktest.NewServer(t)
	ctx, stop := context.WithCancel(t.Context())
	written, ended := make(lines, 100), make(chan error, 1)
	go func() { ended <- run(ctx, written, server.Addr(), 20880) }()
	line := zktest.Await(t, written, "the first list")
	require.Contains(t, line, "1 providers: [dubbo://127.0.0.1:20880/com.example.Greeter?")
	stop()
	require.NoError(t, zktest.Await(t, ended, "the end"))
}
