// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package conduit

import "time"

// systemSuspended returns nil: the system is not asked for how long it was suspended.
func systemSuspended() func() time.Duration { return nil }
