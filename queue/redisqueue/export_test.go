package redisqueue

// Keys are all keys of a line, for tests that wipe one.
func Keys(line string) []string { return keysOf(line).all }
