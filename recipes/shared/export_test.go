// SPDX-License-Identifier: Apache-2.0

package shared

// Learn hands v a value that was read.
func (v *SharedValue) Learn(value VersionedValue) { v.learn(value) }
