// SPDX-License-Identifier: Apache-2.0

// Package profile writes profiles for go tool pprof. The format is profile.proto of pprof, gzipped.
// Recipes have few things to say in it, so this is less than the requirement of a module would be.
package profile

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"time"
)

// Sample is the values of one stack.
type Sample struct {
	Stack  []string // names, the leaf first
	Values []int64
}

// Type says what a value counts, and in which unit.
type Type struct{ Name, Unit string }

// The numbers of fields in profile.proto.
const (
	fieldSampleType, fieldSample, fieldLocation, fieldFunction, fieldString = 1, 2, 4, 5, 6
	fieldTime, fieldDuration, fieldDefault                                  = 9, 10, 14
)

// Write writes samples that have a value of each type. pprof shows the last type unless it is told otherwise.
func Write(w io.Writer, types []Type, samples []Sample, from time.Time, lasted time.Duration) error {
	var b message
	texts := table{ids: map[string]uint64{"": 0}, new: []string{""}}
	functions := table{ids: make(map[string]uint64)} // and their locations, which have the same numbers, from 1
	for _, t := range types {
		var m message
		b = b.bytes(fieldSampleType, m.number(1, texts.id(t.Name)).number(2, texts.id(t.Unit)))
	}
	for _, s := range samples {
		var stack, values, m message
		for _, name := range s.Stack {
			stack = binary.AppendUvarint(stack, functions.id(name)+1)
		}
		for _, v := range s.Values {
			values = binary.AppendUvarint(values, uint64(v)) //nolint:gosec // as int64 is written
		}
		b = b.bytes(fieldSample, m.bytes(1, stack).bytes(2, values))
	}
	for i, name := range functions.new {
		var line, location, function message
		id := uint64(i) + 1 //nolint:gosec // a length
		b = b.bytes(fieldLocation, location.number(1, id).bytes(4, line.number(1, id)))
		b = b.bytes(fieldFunction, function.number(1, id).number(2, texts.id(name)))
	}
	b = b.number(fieldTime, uint64(from.UnixNano())).number(fieldDuration, uint64(lasted)) //nolint:forbidigo,gosec // a date, written as int64 is
	b = b.number(fieldDefault, texts.id(types[len(types)-1].Name))
	for _, text := range texts.new {
		b = b.bytes(fieldString, message(text))
	}
	out := gzip.NewWriter(w)
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Close()
}

// table numbers names in the order in which they come.
type table struct {
	ids map[string]uint64
	new []string
}

func (t *table) id(name string) uint64 {
	id, found := t.ids[name]
	if !found {
		id = uint64(len(t.ids))
		t.ids[name] = id
		t.new = append(t.new, name)
	}
	return id
}

// message is a message of Protocol Buffers.
type message []byte

func (m message) number(field int, value uint64) message {
	return binary.AppendUvarint(append(m, byte(field<<3)), value)
}

func (m message) bytes(field int, value message) message {
	return append(binary.AppendUvarint(append(m, byte(field<<3|2)), uint64(len(value))), value...)
}
