// SPDX-License-Identifier: Apache-2.0

// Package options checks the arguments of constructors, and applies their options.
package options

import (
	"errors"
	"fmt"
	"reflect"
)

// IsNil reports whether an argument is nil, or an interface with a nil pointer or function, which would panic
// at a later call, far from the mistake.
func IsNil(argument any) bool {
	v := reflect.ValueOf(argument)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// Plain returns an option of the configuration C that cannot be refused.
func Plain[C any](set func(*C)) func(*C) error { return Checked(true, set, "") }

// Checked returns an option of the configuration C that is refused with the text unless its argument is valid.
func Checked[C any](valid bool, set func(*C), refusal string, args ...any) func(*C) error {
	return func(c *C) error {
		if !valid {
			return fmt.Errorf(refusal, args...)
		}
		set(c)
		return nil
	}
}

// Apply calls apply with the options in their order, until it fails. A nil option is an error.
func Apply[O any](opts []O, apply func(O) error) error {
	for _, o := range opts {
		if IsNil(o) {
			return errors.New("a nil option")
		}
		if err := apply(o); err != nil {
			return err
		}
	}
	return nil
}
