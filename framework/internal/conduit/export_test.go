// SPDX-License-Identifier: Apache-2.0

package conduit

// Reset cuts the current connection.
func (c *Conduit) Reset(why error) {
	if conn := c.current(); conn != nil {
		conn.fail(why)
	}
}
