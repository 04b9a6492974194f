// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// ErrCorrupted reports that the data of a count's znode is not four bytes long.
var ErrCorrupted = errors.New("corrupted count")

// SharedCount is a 32-bit number that every process sees. It shares its znode
// with Curator's class of that name.
//
// Layout: a [SharedValue] of four bytes, big-endian.
//
// It is safe for concurrent use.
type SharedCount struct{ value *SharedValue } //nolint:revive // Curator's name

// VersionedCount is a number with its version.
type VersionedCount struct {
	Count   int32
	Version int32 // of the znode, the condition of TrySetCount
	Zxid    int64 // of the transaction that has set it; later counts have a greater Zxid, until servers are restored

	history int64 // as in VersionedValue
}

// NewSharedCount returns the number at path. If the znode is missing at Start, Start
// creates it with the number seed. NewSharedCount checks its arguments and sends nothing.
func NewSharedCount(client *framework.Framework, path string, seed int32) (*SharedCount, error) {
	value, err := NewSharedValue(client, path, encode(seed))
	if err != nil {
		return nil, err
	}
	return &SharedCount{value}, nil
}

func encode(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func decode(data []byte) (int32, error) {
	if len(data) != 4 {
		return 0, fmt.Errorf("%w: %d bytes, expected 4", ErrCorrupted, len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}

// Path returns the path of the znode.
func (c *SharedCount) Path() string { return c.value.Path() }

// Start is [SharedValue.Start]. It fails with [ErrCorrupted] if the znode is
// not a count.
func (c *SharedCount) Start(ctx context.Context) error {
	return c.value.startChecked(ctx, func(data []byte) error {
		_, err := decode(data)
		return err
	})
}

// Close is [SharedValue.Close].
func (c *SharedCount) Close() error { return c.value.Close() }

// Err is [SharedValue.Err].
func (c *SharedCount) Err() error { return c.value.Err() }

// Count returns the newest number that this process knows, 0 before Start. If another
// program has written other data since, the error matches [ErrCorrupted]. After Close it
// fails with [ErrClosed].
func (c *SharedCount) Count() (int32, error) {
	v, err := c.VersionedCount()
	return v.Count, err
}

// VersionedCount returns the newest number that this process knows; see Count.
func (c *SharedCount) VersionedCount() (VersionedCount, error) {
	if err := c.value.usable(false); errors.Is(err, ErrClosed) {
		return VersionedCount{}, fmt.Errorf("shared: count %s: %w", c.Path(), err)
	}
	v := c.value.VersionedValue()
	if v.Zxid == 0 {
		return VersionedCount{}, nil
	}
	n, err := decode(v.Value)
	if err != nil {
		return VersionedCount{}, fmt.Errorf("shared: count %s: %w", c.Path(), err)
	}
	return counted(n, v), nil
}

func counted(n int32, v VersionedValue) VersionedCount {
	return VersionedCount{Count: n, Version: v.Version, Zxid: v.Zxid, history: v.history}
}

// OnChange calls fn with each newer number, as [SharedValue.OnChange] does. Data that is not
// a count is logged and left out.
func (c *SharedCount) OnChange(fn func(VersionedCount)) *listen.Registration {
	if fn == nil {
		return c.value.OnChange(nil) // panics here, where the caller's mistake shows
	}
	return c.value.OnChange(func(v VersionedValue) {
		n, err := decode(v.Value)
		if err != nil {
			c.value.client.Logger().Warn("a shared count has data that is not a count", logPath, c.Path(), "error", err)
			return
		}
		fn(counted(n, v))
	})
}

// SetCount is [SharedValue.SetValue].
func (c *SharedCount) SetCount(ctx context.Context, n int32) error {
	return c.value.SetValue(ctx, encode(n))
}

// TrySetCount is [SharedValue.TrySetValue].
func (c *SharedCount) TrySetCount(ctx context.Context, previous VersionedCount, n int32) (bool, error) {
	return c.value.TrySetValue(ctx, VersionedValue{
		Value: encode(previous.Count), Version: previous.Version, Zxid: previous.Zxid, history: previous.history,
	}, encode(n))
}
