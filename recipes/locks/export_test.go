package locks

// ReadWriteDrivers returns the drivers of the read side and of the write side.
func ReadWriteDrivers() [2]LockInternalsDriver {
	return [2]LockInternalsDriver{readDriver{}, writeDriver{}}
}

// SignalBatch is how many waiters of a condition are told in one transaction.
const SignalBatch = signalBatch
