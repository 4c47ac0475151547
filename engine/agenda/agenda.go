// Package agenda keeps scheduled events in Redis, or only their ids if the records live in a
// table. It is the only package that knows the keys and scripts of the scheduler. The sorted
// sets of a partition hold its ids in the order of their due times; see partition.lua.
package agenda

import (
	"embed"
	"encoding/hex"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

//go:embed *.lua
var files embed.FS

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	addScript           = scripts.From(files, "partition", "add")
	moveScript          = scripts.From(files, "partition", "move")
	removeScript        = scripts.From(files, "partition", "remove")
	takeScript          = scripts.From(files, "partition", "take")
	pageScript          = scripts.From(files, "partition", "page")
	placeScript         = scripts.From(files, "partition", "place")
	claimScript         = scripts.From(files, "partition", "streams", "claim")
	settleScript        = scripts.From(files, "partition", "settle")
	changeScript        = scripts.From(files, "partition", "change")
	countsScript        = scripts.From(files, "partition", "counts")
	membersScript       = scripts.From(files, "partition", "members")
	setPartitionsScript = scripts.From(files, "partition", "set_partitions")
)

// keys builds the names of all keys. On a Redis Cluster they share one hash tag, and so one slot:
// scripts use keys of several partitions, and streams.
type keys struct{ cluster bool }

// named returns a key that belongs to no partition.
func (k keys) named(what string) string {
	if k.cluster {
		return "scheduler:{scheduler}:" + what
	}
	return "scheduler:" + what
}

// partitions is the key of a hash, see set_partitions.lua.
func (k keys) partitions() string { return k.named("partitions") }

// members is the key of the sorted set of processes by the time when their registration expires.
func (k keys) members() string { return k.named("members") }

// complete is the key that says whether an Index holds all open events.
func (k keys) complete() string { return k.named("whole") }

// streams is the prefix of the keys of streams, see StreamKey.
func (k keys) streams() string { return k.named("execute:") }

// prefix is the prefix of all keys of a partition.
func (k keys) prefix(partition int) string {
	if k.cluster {
		return k.named(strconv.Itoa(partition))
	}
	return "scheduler:{" + strconv.Itoa(partition) + "}"
}

// everyEvent is a pattern that matches the records of all partitions.
func (k keys) everyEvent() string {
	if k.cluster {
		return k.named("*:event:*")
	}
	return "scheduler:{*}:event:*"
}

// StreamKey returns the key of the stream that receives the events of a topic. On a Redis Cluster it
// has a hash tag.
func StreamKey(rdb wire.Redis, topic string) string {
	return keys{wire.Clustered(rdb)}.streams() + topic
}

// eventKey is the key of an event's record.
func eventKey(prefix, id string) string { return prefix + ":event:" + id }

// packed returns an id, a UUID, as the 16 bytes that an index holds.
func packed(id string) string {
	bytes, _ := hex.DecodeString(strings.ReplaceAll(id, "-", "")) // ids have been checked; a cursor may contain any text
	return string(bytes)
}

// unpacked returns the id for bytes of an index, "" if they are not a UUID.
func unpacked(bytes string) string {
	if len(bytes) != 16 {
		return ""
	}
	return schedule.FormatID([]byte(bytes))
}
