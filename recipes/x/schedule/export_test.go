// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

// SetClock gives the process of this replica a clock of its own.
func (s *Scheduler) SetClock(wall func() time.Time) { s.wall = wall }
