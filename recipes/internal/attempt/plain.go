// SPDX-License-Identifier: Apache-2.0

package attempt

import "github.com/gocurator/curator/framework"

// Plain returns the data of a znode that was read [framework.Undecompressed], as the client reads all data. Data
// that cannot be decompressed is returned as it is: any program can write it, and it must fail no call that also
// concerns other znodes.
func Plain(client *framework.Framework, path string, stored []byte) []byte {
	if !client.CompressionEnabled() {
		return stored
	}
	data := stored
	err := Catch(func() (err error) {
		data, err = client.Decompress(path, stored)
		return err
	})
	if err != nil {
		return stored
	}
	return data
}
