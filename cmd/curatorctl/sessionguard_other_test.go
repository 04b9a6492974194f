// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

func isHolder() bool { return false }
