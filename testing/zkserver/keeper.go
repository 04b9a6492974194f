// SPDX-License-Identifier: Apache-2.0

package zkserver

// WithKeeper makes the server differ from ZooKeeper as ClickHouse Keeper 25.12 to 26.2 does, as far as Keeper's public issues and
// pull requests say. No Keeper was run to compare. Numbers are those of github.com/ClickHouse/ClickHouse:
//
//   - A deletion leaves the pzxid of the parent as it is, and setData of a child raises the parent's cversion (115457, measured
//     with 26.8).
//   - There are no containers, and no znodes with a time to live (59489 and 108908, 55595 and 100397: since 26.7 and 26.6).
//   - Of later requests there are neither getEphemerals nor getAllChildrenNumber nor whoAmI (59489).
//   - A request that is unknown ends the connection without an answer (48141, 55595).
//   - The Stat in the reply to create2 says 0 bytes of data (108909: until 26.7).
//   - The reply to addWatch has no body (98499: until 26.2).
//   - A client that comes back with a session gets another one (44571, 116690).
//   - Sessions have the numbers 1, 2 and so on (48141, 75752), and no passwords.
//
// Keeper before 25.12 lacks create2, setWatches and addWatch as well (88813): this module refuses it.
func WithKeeper() Option {
	return plain(func(c *config) { c.keeper = true })
}

// keeperVersion is what Keeper's four-letter words say of it.
const keeperVersion = "v26.2.1.1-zkserver"

func (c *config) firstSessionID(server int) int64 {
	if c.keeper {
		return 1
	}
	return newSessionID(server)
}
