package framework

import (
	"errors"
	"fmt"
)

var errView = errors.New("it is a view: the client that it was made from is started and closed")

// UsingNamespace returns a view of this client whose paths are all below
// /namespace, in arguments, results and events: the view's /a is the client's
// /namespace/a. A namespace may have slashes within. It is Curator's
// usingNamespace, and what that returns for a view is a view of the whole client as
// well: namespaces do not nest.
//
// A view shares everything else with the client, its session and listeners
// included, and lives as long as the client: only the client itself can be started
// and closed. Recipes take it as they take a client.
//
// The namespace's znodes are made as containers when the first znode directly below
// is created, and with [CreatingParentsIfNeeded]; nothing is sent before.
func (f *Framework) UsingNamespace(namespace string) (*Framework, error) {
	path := "/" + namespace
	if err := ValidatePath(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	if path == "/" {
		return nil, fmt.Errorf("framework: namespace %q: %w: it is empty, WithoutNamespace has the client", namespace, ErrInvalidPath)
	}
	if _, err := f.base.writable(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	return &Framework{f.client, f.cfg.root + chroot(path)}, nil
}

// WithoutNamespace returns the client that a view was made from, and the client
// itself if it is none. Two values with the same one share a session.
func (f *Framework) WithoutNamespace() *Framework { return f.base }

// Namespace returns the namespace of a view, "" for a client that is none.
func (f *Framework) Namespace() string {
	if f == f.base {
		return ""
	}
	return string(f.root)[len(f.cfg.root)+1:]
}

// FullPath returns a path of this client as the server knows it, with chroot and
// namespace. The path need not be valid.
func (f *Framework) FullPath(path string) string { return f.root.full(path) }

// unrooted is a view for what is outside of every chroot.
func (f *Framework) unrooted() *Framework { return &Framework{f.client, ""} }

// isNamespace tells whether a node, named as at the server, is one of those that
// make up the namespace. Neither the root nor the chroot is.
func (f *Framework) isNamespace(full string) bool {
	return len(full) > max(len(f.cfg.root), 1) && isBelow(string(f.root), full)
}
