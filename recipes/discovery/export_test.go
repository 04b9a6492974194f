// SPDX-License-Identifier: Apache-2.0

package discovery

import "math/rand/v2"

// RandomFrom is Random with random numbers of the test.
func RandomFrom(r *rand.Rand) Strategy { return random{r.IntN} }

// LocalAddressOf is what LocalAddress chooses among the addresses of a machine.
var LocalAddressOf = localAddress

// OnFilled has a cache report, when callers of Wait may go on, whether the list that was made before is dropped.
func (c *ServiceCache[T]) OnFilled(fn func(dropped bool)) {
	fill := c.fill
	c.fill = func() {
		fill()
		fn(c.current.Load() == nil)
	}
}
