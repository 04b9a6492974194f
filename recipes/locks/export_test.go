package locks

// ReadWriteDrivers returns the drivers of the read side and of the write side.
func ReadWriteDrivers() [2]LockInternalsDriver {
	return [2]LockInternalsDriver{readDriver{}, writeDriver{}}
}
