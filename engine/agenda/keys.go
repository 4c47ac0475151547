package agenda

import (
	"encoding/hex"
	"strconv"
)

// The keys that are no partition's.
const (
	partitionsKey = "scheduler:partitions" // hash: see set_partitions.lua
	membersKey    = "scheduler:members"    // sorted set of processes by the end of their registration
	wholeKey      = "scheduler:whole"      // whether an Index holds all open events
)

// prefix begins all keys of a partition. The braces keep them in one slot of a Redis Cluster.
func prefix(partition int) string { return "scheduler:{" + strconv.Itoa(partition) + "}" }

// streamPrefix begins the keys of streams, see StreamKey.
const streamPrefix = "scheduler:execute:"

// StreamKey returns the key of the stream in which the events of a topic are published.
func StreamKey(topic string) string { return streamPrefix + topic }

// eventKey is the key of an event's record.
func eventKey(prefix, id string) string { return prefix + ":event:" + id }

// Ids are UUIDs. An index holds them as 16 bytes.
const (
	idBytes  = 16
	idLength = 36
)

// packed returns the bytes of an id.
func packed(id string) string {
	var hexadecimal [2 * idBytes]byte
	n := 0
	for i := 0; i < len(id) && n < len(hexadecimal); i++ {
		if id[i] != '-' {
			hexadecimal[n] = id[i]
			n++
		}
	}
	var out [idBytes]byte
	_, _ = hex.Decode(out[:], hexadecimal[:n]) // callers have checked that it is a UUID
	return string(out[:])
}

// unpacked returns the id of bytes in an index.
func unpacked(b string) string {
	if len(b) != idBytes {
		return ""
	}
	out := make([]byte, 0, idLength)
	for i := range idBytes {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, []byte{b[i]})
	}
	return string(out)
}
