package leader

import (
	"context"
	"time"
)

// PurgeOlderThan purges as a run of key does, with another retention.
func (o *Once) PurgeOlderThan(ctx context.Context, key string, retention time.Duration) error {
	o.cfg.retention = retention
	return o.purge(ctx, key)
}
