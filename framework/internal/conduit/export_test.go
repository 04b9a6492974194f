package conduit

// Reset cuts the current connection.
func (c *Conduit) Reset(why error) { c.reset(why) }
