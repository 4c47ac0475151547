// Package agenda keeps scheduled events in Redis, or only their ids if the records live in a
// table. It is the only package that knows the keys and scripts of the scheduler. Each script
// works on one partition, whose sorted sets hold the ids in the order of their due times; see
// leaves.lua.
package agenda

import (
	"context"
	"embed"
	"slices"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

//go:embed *.lua
var files embed.FS

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	addScript           = scripts.From(files, "leaves", "add")
	moveScript          = scripts.From(files, "leaves", "move")
	removeScript        = scripts.From(files, "leaves", "remove")
	takeScript          = scripts.From(files, "leaves", "take")
	pageScript          = scripts.From(files, "leaves", "page")
	placeScript         = scripts.From(files, "leaves", "place")
	claimScript         = scripts.From(files, "leaves", "records", "streams", "claim")
	settleScript        = scripts.From(files, "leaves", "records", "settle")
	changeScript        = scripts.From(files, "leaves", "records", "change")
	countsScript        = scripts.From(files, "leaves", "counts")
	membersScript       = scripts.From(files, "leaves", "members")
	setPartitionsScript = scripts.From(files, "leaves", "set_partitions")
)

// request holds the keys and arguments of a script call.
type request struct {
	keys []string
	args []any
}

// entry appends the arguments for an entry.
func (r *request) entry(e schedule.Entry) { r.args = append(r.args, packed(e.ID), e.Next.UnixMilli()) }

// batch collects the requests of several partitions.
type batch struct {
	keys     keys
	requests []*request
	at       map[int]int // index of each partition's request
}

// of returns the request for a partition, and begins one with the partition's prefix as its key.
func (b *batch) of(partition int) *request {
	i, ok := b.at[partition]
	if !ok {
		if b.at == nil {
			b.at = map[int]int{}
		}
		i = len(b.requests)
		b.at[partition] = i
		b.requests = append(b.requests, &request{keys: []string{b.keys.prefix(partition)}})
	}
	return b.requests[i]
}

// callAll runs a script for several requests in one round trip. It returns the first error of a call;
// the calls are nil only if the script cannot be loaded.
func callAll(ctx context.Context, rdb *wire.Client, script *redis.Script, requests []*request) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(requests))
	err := send(ctx, rdb, script, requests, cmds)
	if slices.ContainsFunc(cmds, notLoaded) {
		// Redis has not run these calls: load the script and repeat them.
		if err := script.Load(ctx, rdb).Err(); err != nil {
			return nil, err
		}
		err = send(ctx, rdb, script, requests, cmds)
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return cmds, err
		}
	}
	return cmds, err
}

// send sends the calls that have no reply yet, or failed because the script was not loaded.
func send(ctx context.Context, rdb *wire.Client, script *redis.Script, requests []*request, cmds []*redis.Cmd) error {
	pipe := rdb.Pipeline()
	for i, r := range requests {
		if cmds[i] == nil || notLoaded(cmds[i]) {
			cmds[i] = script.EvalSha(ctx, pipe, r.keys, r.args...)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// notLoaded reports whether a call failed because the script was not loaded.
func notLoaded(cmd *redis.Cmd) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") }
