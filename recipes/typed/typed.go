// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ErrCodec reports a value that could not be encoded, or data that could not be decoded.
var ErrCodec = errors.New("codec failed")

// Codec turns values into the data of znodes and back. Its functions are called by several
// goroutines at once. Decode must copy what it keeps of its argument: the data in the picture of a
// cache is shared.
type Codec[T any] struct {
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)
}

// JSON returns the codec of package encoding/json.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(value T) ([]byte, error) { return json.Marshal(value) },
		Decode: func(data []byte) (value T, err error) { err = json.Unmarshal(data, &value); return value, err },
	}
}

// StrictJSON is [JSON], but refuses data with fields that T does not have, such as misspelt ones. Programs of
// different releases that share a znode cannot use it when a release adds a field.
func StrictJSON[T any]() Codec[T] {
	codec := JSON[T]()
	codec.Decode = func(data []byte) (value T, err error) {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&value); err != nil {
			return value, err
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return value, errors.New("data after the JSON value, expected one value")
		}
		return value, nil
	}
	return codec
}

// Validating returns the codec with a check of each value, before it is written and after it was read. The error of the
// check comes with [ErrCodec]. A [Node.Follow] keeps the last value that was accepted. Without a check, or without both
// functions of c, the codec has no functions, and [NewNode] refuses it.
func (c Codec[T]) Validating(check func(T) error) Codec[T] {
	if check == nil || c.Encode == nil || c.Decode == nil {
		return Codec[T]{}
	}
	return Codec[T]{
		Encode: func(value T) ([]byte, error) {
			if err := check(value); err != nil {
				return nil, err
			}
			return c.Encode(value)
		},
		Decode: func(data []byte) (T, error) {
			value, err := c.Decode(data)
			if err == nil {
				err = check(value)
			}
			return value, err
		},
	}
}

// encode returns the data of the znode at path.
func (c Codec[T]) encode(path string, value T) ([]byte, error) {
	data, err := c.Encode(value)
	if err != nil {
		return nil, fmt.Errorf("typed: %s: %w: %w", path, ErrCodec, err)
	}
	return data, nil
}

// decode returns the value in the data of the znode at path, the zero value on failure.
func (c Codec[T]) decode(path string, data []byte) (T, error) {
	value, err := c.Decode(data)
	if err != nil {
		var none T
		return none, fmt.Errorf("typed: %s: %w: %w", path, ErrCodec, err)
	}
	return value, nil
}

// Node is a znode whose data is a value of type T.
type Node[T any] struct {
	client *framework.Framework
	path   string
	codec  Codec[T]
}

// NewNode returns a view of a znode. Nothing is sent.
func NewNode[T any](client *framework.Framework, path string, codec Codec[T]) (*Node[T], error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("typed: %w", err)
	}
	if codec.Encode == nil || codec.Decode == nil {
		return nil, fmt.Errorf("typed: %s: %w: a codec without Encode or Decode, expected both functions", path, framework.ErrInvalidOption)
	}
	return &Node[T]{client, path, codec}, nil
}

// Path returns the path of the znode.
func (n *Node[T]) Path() string { return n.path }

// Get returns the value and the stat it was read with. It fails with [framework.ErrNoNode] if
// there is no znode, and with [ErrCodec], but the stat, if the data cannot be decoded.
func (n *Node[T]) Get(ctx context.Context) (T, framework.Stat, error) {
	var stat framework.Stat
	data, err := n.client.Get(ctx, n.path, framework.StoringStatIn(&stat))
	if err != nil {
		var none T
		return none, framework.Stat{}, err
	}
	value, err := n.codec.decode(n.path, data)
	return value, stat, err
}

// Create creates the znode with a value, as [framework.Framework.Create] does, and returns its
// path.
func (n *Node[T]) Create(ctx context.Context, value T, opts ...framework.CreateOption) (string, error) {
	data, err := n.codec.encode(n.path, value)
	if err != nil {
		return "", err
	}
	return n.client.Create(ctx, n.path, data, opts...)
}

// Set replaces the value of a znode that exists, as [framework.Framework.Set] does.
func (n *Node[T]) Set(ctx context.Context, value T, opts ...framework.SetOption) error {
	data, err := n.codec.encode(n.path, value)
	if err != nil {
		return err
	}
	return n.client.Set(ctx, n.path, data, opts...)
}

// Put creates the znode with a value, or replaces the value of an existing znode. The options are those of a
// creation, such as [framework.CreatingParentsIfNeeded].
func (n *Node[T]) Put(ctx context.Context, value T, opts ...framework.CreateOption) error {
	_, err := n.Create(ctx, value, append(slices.Clip(opts), framework.OrSetData())...)
	return err
}

// Delete deletes the znode, as [framework.Framework.Delete] does.
func (n *Node[T]) Delete(ctx context.Context, opts ...framework.DeleteOption) error {
	return n.client.Delete(ctx, n.path, opts...)
}

// Update reads the value, calls change with it, and writes the result if no client has written
// in between. Otherwise it begins again, until the context ends. So change may run several times.
// It runs on the caller's goroutine, and its error ends Update and is returned. Update creates
// no znode: if there is none, or no longer, it fails with [framework.ErrNoNode].
//
// A version tells whether a client has written. A znode that is deleted and created again may have the same one,
// and Update then writes over it.
//
// If [framework.OutcomeUnknown] is true of an error, the change may have been applied. Of n updates of one
// znode at once, one succeeds in each round of requests. Package atomic is for values that many clients
// change often.
func (n *Node[T]) Update(ctx context.Context, change func(*T) error) error {
	if change == nil {
		return fmt.Errorf("typed: update %s: %w: change nil, expected a function", n.path, framework.ErrInvalidOption)
	}
	for {
		history := n.client.History()
		value, stat, err := n.Get(ctx)
		if err != nil {
			return err
		}
		if err := change(&value); err != nil {
			return err
		}
		data, err := n.codec.encode(n.path, value)
		if err != nil {
			return err
		}
		if overtaken, err := attempt.Replace(ctx, n.client, n.path, data, stat.Version, history); !overtaken {
			return attempt.At("typed", n.path, err)
		}
	}
}

// CreateOp is [Node.Create] within a [framework.Framework.Transact].
func (n *Node[T]) CreateOp(value T, opts ...framework.CreateOption) (framework.Op, error) {
	data, err := n.codec.encode(n.path, value)
	if err != nil {
		return framework.Op{}, err
	}
	return framework.CreateOp(n.path, data, opts...), nil
}

// SetOp is [Node.Set] within a [framework.Framework.Transact].
func (n *Node[T]) SetOp(value T, opts ...framework.SetOption) (framework.Op, error) {
	data, err := n.codec.encode(n.path, value)
	if err != nil {
		return framework.Op{}, err
	}
	return framework.SetDataOp(n.path, data, opts...), nil
}

// Folder is the set of znodes whose paths have one form.
type Folder[T any] struct {
	client *framework.Framework
	form   []string // the names of the path; "{name}" is a parameter
	codec  Codec[T]
}

// NewFolder returns a view of all znodes with paths such as "/services/{service}/{id}". The
// last name must be a parameter, for the znodes of one list. Nothing is sent.
func NewFolder[T any](client *framework.Framework, form string, codec Codec[T]) (*Folder[T], error) {
	if _, err := NewNode(client, form, codec); err != nil {
		return nil, err
	}
	names := framework.PathNames(form)
	if len(names) == 0 || !isParameter(names[len(names)-1]) {
		return nil, fmt.Errorf("typed: folder %q: %w: the last name is no parameter, expected a form such as /services/{id}",
			form, framework.ErrInvalidOption)
	}
	return &Folder[T]{client, names, codec}, nil
}

func isParameter(name string) bool {
	return strings.HasPrefix(name, "{") && strings.HasSuffix(name, "}")
}

// Node returns the znode with these values of all parameters, in their order.
func (f *Folder[T]) Node(values ...string) (*Node[T], error) {
	path, err := f.resolve(f.form, values)
	if err != nil {
		return nil, err
	}
	return NewNode(f.client, path, f.codec)
}

// Children returns the names of the znodes of one list, in no particular order. They are the values of the
// last parameter, for the given values of the other parameters.
func (f *Folder[T]) Children(ctx context.Context, values ...string) ([]string, error) {
	path, err := f.resolve(f.form[:len(f.form)-1], values)
	if err != nil {
		return nil, err
	}
	return f.client.Children(ctx, path)
}

// resolve replaces the parameters by values.
func (f *Folder[T]) resolve(form, values []string) (string, error) {
	path := "/"
	left := values
	for _, name := range form {
		if isParameter(name) {
			if len(left) == 0 {
				return "", f.wrongNumber(form, values)
			}
			if strings.Contains(left[0], "/") || left[0] == "" {
				return "", fmt.Errorf("typed: folder /%s: %w: value %q, expected the name of a znode",
					strings.Join(f.form, "/"), framework.ErrInvalidOption, left[0])
			}
			name, left = left[0], left[1:]
		}
		path = framework.JoinPath(path, name)
	}
	if len(left) > 0 {
		return "", f.wrongNumber(form, values)
	}
	return path, nil
}

func (f *Folder[T]) wrongNumber(form, values []string) error {
	want := 0
	for _, name := range form {
		if isParameter(name) {
			want++
		}
	}
	return fmt.Errorf("typed: folder /%s: %w: %d values, expected %d",
		strings.Join(f.form, "/"), framework.ErrInvalidOption, len(values), want)
}
