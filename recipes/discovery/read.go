// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// fields are the members of a JSON object by their exact names, and the first error of reading them. They are read as Jackson reads
// them for Java, which takes scalars of other kinds where they can be converted. encoding/json would ignore the case of names, and
// take no text for a number.
type fields struct {
	of  map[string]json.RawMessage
	err error
}

// readFields reads an object. What follows it is ignored, as a byte order mark is that precedes it.
func readFields(data []byte) (*fields, error) {
	f := new(fields)
	if err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))).Decode(&f.of); err != nil {
		return nil, err
	}
	return f, nil
}

// misfit notes that a field has another kind of value.
func (f *fields) misfit(name, wanted string) {
	if f.err == nil {
		f.err = fmt.Errorf("field %s is %.80s, expected %s", name, f.of[name], wanted)
	}
}

// scalar returns the text of a field that is a text, a number or a truth value. A field that is missing or null is none.
func (f *fields) scalar(name, wanted string) (text string, isText, found bool) {
	raw := f.of[name]
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return "", false, false
	case raw[0] == '{', raw[0] == '[':
		f.misfit(name, wanted)
		return "", false, false
	case raw[0] == '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			f.misfit(name, wanted)
		}
		return text, true, true
	default:
		return string(raw), false, true
	}
}

// text returns a text, or a number or truth value as it is written.
func (f *fields) text(name string) (text string, found bool) {
	text, _, found = f.scalar(name, "a text")
	return text, found
}

// integer returns a number of so many bits. A fraction is cut off. A text may have a whole number, or nothing.
func (f *fields) integer(name string, bits int) (n int64, found bool) {
	wanted := fmt.Sprintf("a number of %d bits", bits)
	text, isText, found := f.scalar(name, wanted)
	text = strings.TrimSpace(text)
	if !found || isText && (text == "" || text == "null") {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if limit := math.Ldexp(1, bits-1); err != nil && !isText {
		var x float64
		if x, err = strconv.ParseFloat(text, 64); err == nil && math.Trunc(x) >= -limit && x < limit {
			return int64(x), true
		}
		err = strconv.ErrRange
	}
	if err != nil {
		f.misfit(name, wanted)
	}
	return n, err == nil
}

// truth returns a truth value, a text that says one, or whether a whole number is not 0. A text may be empty, for false.
func (f *fields) truth(name string) (value, found bool) {
	text, isText, found := f.scalar(name, "true or false")
	if !found {
		return false, f.of[name] != nil // null is false
	}
	switch strings.TrimSpace(text) {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	case "":
		return false, isText
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || isText {
		f.misfit(name, "true or false")
	}
	return n != 0, true
}

// serviceType returns a type by its name, or by its place among Java's.
func (f *fields) serviceType(name string) ServiceType {
	const wanted = "DYNAMIC, STATIC, PERMANENT or DYNAMIC_SEQUENTIAL"
	text, _, found := f.scalar(name, wanted)
	if !found {
		return Dynamic
	}
	text = strings.TrimSpace(text)
	for i, t := range []ServiceType{Dynamic, Static, Permanent, DynamicSequential} {
		if text == string(t) || text == strconv.Itoa(i) {
			return t
		}
	}
	f.misfit(name, wanted)
	return ""
}

var errNoParts = errors.New(`expected an object with "parts"`)

// uriSpec returns a template of a URI.
func (f *fields) uriSpec(name string) *UriSpec {
	raw := f.of[name]
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	spec, err := readUriSpec(raw)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("field %s: %w", name, err)
	}
	return spec
}

func readUriSpec(raw json.RawMessage) (*UriSpec, error) { //nolint:revive // Curator's name
	if raw[0] != '{' {
		return nil, errNoParts
	}
	whole, err := readFields(raw)
	if err != nil {
		return nil, err
	}
	spec := &UriSpec{Parts: []Part{}}
	var parts []json.RawMessage
	if list := whole.of["parts"]; len(list) > 0 {
		if err := json.Unmarshal(list, &parts); err != nil {
			return nil, errNoParts
		}
	}
	for _, raw := range parts {
		of, err := readFields(raw)
		if err != nil {
			return nil, err
		}
		var part Part
		part.Value, _ = of.text("value")
		part.Variable, _ = of.truth("variable")
		if of.err != nil {
			return nil, of.err
		}
		spec.Parts = append(spec.Parts, part)
	}
	return spec, nil
}
