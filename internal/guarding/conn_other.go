// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package guarding

import (
	"context"
	"errors"
)

// Dial fails: no other kernel shows the end of a process to any other process.
func Dial(context.Context, string, string) (Keeper, *Registration, error) {
	return nil, nil, errors.New("guards need Linux, which this system is not")
}

// OpenFile fails: sessions in files need locks that end with the process.
func OpenFile(string) (Keeper, *Registration, error) {
	return nil, nil, errors.New("session files need Linux, which this system is not")
}
