// SPDX-License-Identifier: Apache-2.0

//go:build !race

package zksim

func oneProcessor() (release func()) { return func() {} }
