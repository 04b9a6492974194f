// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// The kinds of operations, which are hashed.
const (
	create  = "create"
	setData = "set"
	remove  = "delete"
	check   = "check"
)

// maxTTL is the longest time to live that a server takes, in milliseconds.
const maxTTL = 1<<40 - 1

// Operation is one operation of a migration, made by [Create], [SetData], [Delete] or [Check]. Its methods return an
// operation with another setting. They take part in the hash.
type Operation struct {
	kind string
	path string
	data []byte

	mode       framework.CreateMode
	ttl        time.Duration
	acl        []framework.ACL
	compressed bool
	version    int32
	err        error // of a setting
}

// Create creates a znode, a persistent one without [Operation.WithMode]. Its parent must exist.
func Create(path string, data []byte) Operation {
	return Operation{kind: create, path: path, data: bytes.Clone(data), version: framework.AnyVersion}
}

// SetData sets the data of a znode that exists.
func SetData(path string, data []byte) Operation {
	return Operation{kind: setData, path: path, data: bytes.Clone(data), version: framework.AnyVersion}
}

// Delete deletes a znode that exists and has no children.
func Delete(path string) Operation {
	return Operation{kind: remove, path: path, version: framework.AnyVersion}
}

// Check changes nothing. Unless the znode exists and its data has this version, which may be [framework.AnyVersion],
// its migration is not applied.
func Check(path string, version int32) Operation {
	return Operation{kind: check, path: path, version: version}
}

// WithMode creates a container, or a znode that is sequential or has a time to live. Modes that end with a session are
// refused. It is for [Create].
func (o Operation) WithMode(mode framework.CreateMode) Operation {
	return o.with("WithMode", func(next *Operation) {
		next.mode = mode
		if mode == framework.Ephemeral || mode == framework.EphemeralSequential || mode < 0 || mode > framework.PersistentSequentialWithTTL {
			next.err = fmt.Errorf("WithMode(%d), expected a mode of a znode that outlives its session", mode)
		}
	}, create)
}

// WithTTL sets the time to live for a mode that has one; see [framework.WithTTL].
func (o Operation) WithTTL(ttl time.Duration) Operation {
	return o.with("WithTTL", func(next *Operation) { next.ttl = ttl }, create)
}

// WithACL sets the access control list. It is for [Create]. Default: the list of the client's provider.
func (o Operation) WithACL(acl ...framework.ACL) Operation {
	return o.with("WithACL", func(next *Operation) {
		if len(acl) == 0 {
			next.err = errors.New("WithACL(), expected one entry or more")
		}
		next.acl = slices.Clone(acl)
	}, create)
}

// WithVersion applies the migration only if the data of the znode has this version. It is for [SetData] and [Delete].
func (o Operation) WithVersion(version int32) Operation {
	return o.with("WithVersion", func(next *Operation) { next.version = version }, setData, remove)
}

// Compressed stores the data compressed. It is for [Create] and [SetData].
func (o Operation) Compressed() Operation {
	return o.with("Compressed", func(next *Operation) { next.compressed = true }, create, setData)
}

// with returns the operation with a setting, and with an error unless the setting is for its kind.
func (o Operation) with(setting string, set func(*Operation), kinds ...string) Operation {
	next := o
	set(&next)
	if !slices.Contains(kinds, o.kind) {
		next.err = fmt.Errorf("%s of a %s, expected of a %s", setting, o.kind, strings.Join(kinds, " or a "))
	}
	return next
}

func (o Operation) isSequential() bool {
	return o.mode == framework.PersistentSequential || o.mode == framework.PersistentSequentialWithTTL
}

// validate says what is wrong with the operation alone.
func (o Operation) validate() error {
	hasTTL := o.mode == framework.PersistentWithTTL || o.mode == framework.PersistentSequentialWithTTL
	path := o.path
	if o.isSequential() && strings.HasSuffix(path, "/") {
		path += "0" // which the server appends
	}
	switch {
	case o.kind == "":
		return fmt.Errorf("%w: the zero Operation, expected one of Create, SetData, Delete or Check", framework.ErrInvalidOption)
	case o.err != nil:
		return fmt.Errorf("%w: %w", framework.ErrInvalidOption, o.err)
	case hasTTL && (o.ttl < time.Millisecond || o.ttl.Milliseconds() > maxTTL), !hasTTL && o.ttl != 0:
		return fmt.Errorf("%w: mode %d with a time to live of %v, expected WithTTL of 1ms to 2^40 - 1 ms for the modes with one, and for no other",
			framework.ErrInvalidOption, o.mode, o.ttl)
	default:
		return framework.ValidatePath(path)
	}
}

// isAbove reports whether the operation creates or deletes a folder of path. It could never be applied,
// because path exists by then.
func (o Operation) isAbove(path string) bool {
	return (o.kind == create && !o.isSequential() || o.kind == remove) && isIn(path, o.path)
}

func (o Operation) op() framework.Op {
	switch o.kind {
	case create:
		opts := []framework.CreateOption{framework.WithMode(o.mode)}
		if o.ttl != 0 {
			opts = append(opts, framework.WithTTL(o.ttl))
		}
		if o.acl != nil {
			opts = append(opts, framework.WithACL(o.acl...))
		}
		if o.compressed {
			opts = append(opts, framework.Compressed())
		}
		return framework.CreateOp(o.path, o.data, opts...)
	case setData:
		opts := []framework.SetOption{framework.WithVersion(o.version)}
		if o.compressed {
			opts = append(opts, framework.Compressed())
		}
		return framework.SetDataOp(o.path, o.data, opts...)
	case remove:
		return framework.DeleteOp(o.path, framework.WithVersion(o.version))
	default:
		return framework.CheckOp(o.path, o.version)
	}
}

// settings is the text of the settings in the hash, "" for none.
func (o Operation) settings() string {
	var text strings.Builder
	if o.mode != framework.Persistent {
		fmt.Fprintf(&text, " mode %d", o.mode)
	}
	if o.ttl != 0 {
		fmt.Fprintf(&text, " ttl %d", o.ttl.Milliseconds())
	}
	for _, acl := range o.acl {
		fmt.Fprintf(&text, " acl %d %q %q", acl.Perms, acl.Scheme, acl.ID)
	}
	if o.compressed {
		text.WriteString(" compressed")
	}
	if o.version != framework.AnyVersion {
		fmt.Fprintf(&text, " version %d", o.version)
	}
	return text.String()
}
