// SPDX-License-Identifier: Apache-2.0

package conduit

// Reset cuts the current connection.
func (c *Conduit) Reset(why error) { c.reset(why) }
