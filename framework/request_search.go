package framework

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework/internal/wire"
)

// findProtected returns the path of the child with this prefix, "" when there is
// none. Calls that search the same folder share a list.
func (f *Framework) findProtected(ctx context.Context, parent, prefix string) (string, error) {
	search := f.searches.Join(f.root.full(parent), func() (map[string]string, error) { return f.protectedNames(parent) })
	if search == nil {
		return "", ErrClosed
	}
	select {
	case <-search.Done():
	case <-ctx.Done():
		return "", interrupted(ctx)
	}
	name, err := search.Find(prefix)
	if err != nil || name == "" {
		return "", err
	}
	return JoinPath(parent, name), nil
}

// protectedNames returns the protected names in a folder by their prefixes. A sync goes
// first in the same write: this server may not yet have applied what another has accepted.
func (f *Framework) protectedNames(parent string) (map[string]string, error) {
	sync, err := pathCall(f.root, opSync, parent, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	list, err := ReadChildren(parent, nil).build(f)
	if err != nil {
		return nil, err
	}
	list.refused = answeringNoNode(func() {})
	list.decode = func(d *wire.Decoder) error { names = d.Strings(); return nil }
	// In the client's context: the search serves more callers than the one that began it.
	if err := f.exchange(f.ctx, append(sync, list)...); isReply(err, ErrNoAuth) {
		return nil, fmt.Errorf("%w: %w", errUnsearchable, err)
	} else if err != nil {
		return nil, err
	}
	byPrefix := make(map[string]string)
	for _, name := range names {
		if IsProtectedName(name) {
			byPrefix[name[:protectedPrefixLen]] = name
		}
	}
	return byPrefix, nil
}
