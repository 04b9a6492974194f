// SPDX-License-Identifier: Apache-2.0

// Package options applies the options of constructors.
package options

import "errors"

// Apply calls apply with the options in their order, until it fails. O is an interface, and a nil
// option is an error.
func Apply[O any](opts []O, apply func(O) error) error {
	for _, o := range opts {
		if any(o) == nil {
			return errors.New("a nil option")
		}
		if err := apply(o); err != nil {
			return err
		}
	}
	return nil
}
