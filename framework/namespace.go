package framework

import (
	"errors"
	"fmt"
)

var errView = errors.New("it is a view: the client that it was made from is started and closed")

// ViewOption is an option of [Framework.UsingNamespace].
type ViewOption interface{ applyView(*Framework) error }

// UsingNamespace returns a view of this client whose paths are all below
// /namespace, in arguments, results and events: the view's /a is the client's
// /namespace/a. A namespace may contain slashes. It is Curator's usingNamespace. As
// there, namespaces do not nest: a view of a view is a view of the whole client.
//
// A view shares everything else with the client, including its session and listeners, and
// lives as long as the client: only the client itself can be started and closed. Recipes
// accept a view like any client.
//
// UsingNamespace sends nothing. The namespace's znodes are created, as containers, with
// the first znode directly below, and by [CreatingParentsIfNeeded].
func (f *Framework) UsingNamespace(namespace string, opts ...ViewOption) (*Framework, error) {
	path := "/" + namespace
	if err := ValidatePath(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	if path == "/" {
		return nil, fmt.Errorf("framework: namespace %q: %w: empty; use WithoutNamespace for the whole client", namespace, ErrInvalidPath)
	}
	// Checked now, or each write of the view would fail for the same reason.
	if _, err := f.base.root.writable(path); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	view := &Framework{f.client, f.cfg.root + chroot(path), f.base.compressed}
	if err := applyAll(opts, func(o ViewOption) error { return o.applyView(view) }); err != nil {
		return nil, fmt.Errorf("framework: namespace %q: %w", namespace, err)
	}
	return view, nil
}

// WithoutNamespace returns the client that a view was made from, or f itself if it is not
// a view. Two values with the same result share a session.
func (f *Framework) WithoutNamespace() *Framework { return f.base }

// Namespace returns the namespace of a view, or "" if f is not a view.
func (f *Framework) Namespace() string {
	if f == f.base {
		return ""
	}
	return string(f.root)[len(f.cfg.root)+1:]
}

// FullPath returns the server's path of a path of this client, with chroot and namespace.
// The path need not be valid.
func (f *Framework) FullPath(path string) string { return f.root.full(path) }

// unrooted returns a view for paths outside of every chroot.
func (f *Framework) unrooted() *Framework { return &Framework{f.client, "", false} }

// isNamespace reports whether a server's path is a part of the namespace. Neither the root
// nor the chroot is.
func (f *Framework) isNamespace(full string) bool {
	return len(full) > max(len(f.cfg.root), 1) && isBelow(string(f.root), full)
}
