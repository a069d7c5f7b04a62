// Package redisqueue keeps a line in Redis, for any number of processes.
//
// Changes are Lua scripts (lua/*.lua), each one atomic step; reads are plain
// commands, so that those of concurrent polls travel in one pipeline. All keys
// of a line are described in keys.go.
//
// A line remembers the highest epoch, the last place and the settings it has
// seen. When Redis has forgotten them, because it was emptied or has failed
// over to an older copy, the next call puts them back before anything else.
package redisqueue
