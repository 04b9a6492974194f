// SPDX-License-Identifier: Apache-2.0

package discovery

import "math/rand/v2"

// RandomFrom is Random with random numbers of the test.
func RandomFrom(r *rand.Rand) Strategy { return random{r.IntN} }
