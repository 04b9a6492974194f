// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// limit bounds the search of the history of one lock. A history with narrow
// intervals takes milliseconds.
const limit = time.Minute

// Check returns nil if the operations on each lock can be put into an order that
// agrees with their intervals and with the model. It returns a [*ViolationError] for
// the first lock, by name, where they cannot, or where the search did not end within
// a minute. An impossible operation, such as one that returns before its call, is an
// error of another type.
func Check(model Model, ops []Op) error {
	if model.admits == nil {
		return errors.New("checker: the zero Model, expected one such as Mutex")
	}
	byLock := make(map[string][]Op)
	for _, op := range ops {
		if err := op.validate(); err != nil {
			return err
		}
		byLock[op.Lock] = append(byLock[op.Lock], op)
	}
	for _, lock := range slices.Sorted(maps.Keys(byLock)) {
		if err := checkOne(model, lock, byLock[lock]); err != nil {
			return err
		}
	}
	return nil
}

func checkOne(model Model, lock string, ops []Op) error {
	slices.SortStableFunc(ops, byCall)
	searched, operations := model.porcupine(), make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		operations[i] = porcupine.Operation{ClientId: i, Input: op, Call: op.Call, Return: op.Return}
	}
	first := porcupine.CheckOperationsTimeout(searched, operations, limit)
	if first == porcupine.Ok {
		return nil
	}
	second, info := porcupine.CheckOperationsVerbose(searched, operations, limit) // says where it got stuck
	result := decided(first, second)
	if result == porcupine.Ok {
		return nil
	}
	violation := &ViolationError{
		Model: model, Lock: lock, Undecided: result == porcupine.Unknown, searched: searched, info: info,
	}
	placed := make(map[int]bool)
	for _, operation := range longest(info) {
		placed[operation.ClientId] = true
		violation.Fits = append(violation.Fits, operation.Input.(Op))
	}
	for i, op := range ops {
		if !placed[i] {
			violation.Rest = append(violation.Rest, op)
		}
	}
	return violation
}

// decided returns the result of the search of two that has come to an end.
func decided(first, second porcupine.CheckResult) porcupine.CheckResult {
	if first == porcupine.Unknown {
		return second
	}
	return first
}

// longest returns the longest beginning of an order that was found.
func longest(info porcupine.LinearizationInfo) (order []porcupine.Operation) {
	for _, found := range info.PartialLinearizationsOperations() {
		for _, other := range found {
			if len(other) > len(order) {
				order = other
			}
		}
	}
	return order
}

// porcupine returns the model as porcupine takes it.
func (m Model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return m.start },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := m.step(s.(state), input.(Op))
			return ok, next
		},
		Equal:             func(a, b any) bool { return a.(state).equal(b.(state)) },
		DescribeOperation: func(input, _ any) string { return input.(Op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// ViolationError is a history that no lock of its model can have.
type ViolationError struct {
	Model     Model
	Lock      string
	Undecided bool // the search took too long, so there may be an order

	Fits []Op // the longest beginning of an order that was found
	Rest []Op // what does not go on from there, in the order of the calls

	searched porcupine.Model
	info     porcupine.LinearizationInfo
}

// Error lists the operations: first the operations that fit, in an order in which
// they do, and then the rest.
func (v *ViolationError) Error() string {
	var b strings.Builder
	what := "no order of these operations"
	if v.Undecided {
		what = fmt.Sprintf("no order found within %v of these operations", limit)
	}
	fmt.Fprintf(&b, "checker: %s is not what a %s can have gone through: %s", v.Lock, v.Model, what)
	for _, op := range v.Fits {
		fmt.Fprintf(&b, "\n    %v", op)
	}
	for _, op := range v.Rest {
		fmt.Fprintf(&b, "\n  ! %v", op)
	}
	return b.String()
}

// WriteHTML writes a picture of the history, which a browser shows.
func (v *ViolationError) WriteHTML(w io.Writer) error {
	if err := porcupine.Visualize(v.searched, v.info, w); err != nil {
		return fmt.Errorf("checker: picture of %s: %w", v.Lock, err)
	}
	return nil
}

func byCall(a, b Op) int { return cmp.Compare(a.Call, b.Call) }
