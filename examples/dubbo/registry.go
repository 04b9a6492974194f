// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
)

// The folders of a service that a Registry uses. Dubbo has "configurators" and "routers" beside them.
const (
	Providers = "providers"
	Consumers = "consumers"
)

// Registry registers and follows the providers and consumers of services where Dubbo does, below
// /dubbo: each is an ephemeral znode <service>/providers/<URL> or <service>/consumers/<URL>. The
// URL is the name of the znode, with the escapes of Java. Dubbo ignores its data.
type Registry struct{ Client *framework.Framework }

// Register registers a URL, and keeps it registered in every later session until the node is
// closed. It blocks until the server has the URL or ctx ends. It replaces a znode that a killed
// process has left: Dubbo avoids that by the parameter "timestamp", and has both URLs for a while.
func (r Registry) Register(ctx context.Context, service, category, location string) (*nodes.PersistentNode, error) {
	// A PersistentNode would make containers, which servers delete when they are empty.
	if err := r.Client.Mkdirs(ctx, folder(service, category)); err != nil {
		return nil, err
	}
	path := framework.JoinPath(folder(service, category), Escape(location))
	node, err := nodes.NewPersistentNode(r.Client, path, framework.Ephemeral, nil)
	if err != nil {
		return nil, err
	}
	if err = node.Start(); err == nil {
		err = node.WaitForInitialCreate(ctx)
	}
	if err != nil {
		_ = node.Close()
		return nil, err
	}
	return node, nil
}

// Follow yields the URLs of a service, the first time when there is one, and then each list that
// has changed, until ctx ends. When all URLs leave, it waits for one session timeout before it
// yields the empty list: their processes have lost their sessions, and come back in the next ones, or
// they are gone. An error comes with the last known URLs, as [framework.Framework.FollowChildren] says.
func (r Registry) Follow(ctx context.Context, service, category string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		given := false // the list that was yielded last has URLs
		for f, err := range r.Client.FollowChildren(ctx, folder(service, category)) {
			urls := make([]string, 0, len(f.Names))
			for _, name := range f.Names {
				if location, err := url.QueryUnescape(name); err == nil { // or it is not of Dubbo
					urls = append(urls, location)
				}
			}
			empty := err == nil && len(urls) == 0
			if empty && (!given || r.comesBack(ctx, service, category)) {
				continue
			}
			given = len(urls) > 0
			if !yield(urls, err) {
				return
			}
		}
	}
}

// comesBack waits for a URL, and reports whether one has come within a session timeout.
func (r Registry) comesBack(ctx context.Context, service, category string) bool {
	patient, stop := context.WithTimeout(ctx, r.Client.Session().Timeout())
	defer stop()
	for f, err := range r.Client.FollowChildren(patient, folder(service, category)) {
		if err == nil && len(f.Names) > 0 {
			return true
		}
	}
	return false
}

func folder(service, category string) string {
	return framework.JoinPath("/dubbo", service, category)
}

// Escape escapes a URL as java.net.URLEncoder does, so that the same URL is the same znode.
func Escape(location string) string {
	return strings.NewReplacer("%2A", "*", "~", "%7E").Replace(url.QueryEscape(location))
}
