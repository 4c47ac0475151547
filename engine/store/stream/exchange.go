package stream

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	ownScript     = scripts.New("own")
	receiveScript = scripts.New("receive")
)

// Own makes a process the bridge of tenants for a lease, and returns the tenants that it now owns;
// the others belong to other processes. A lease of 0 gives them up. Ownership only saves work: a
// bridge is correct whatever other processes do.
func (s Streams) Own(ctx context.Context, tenants []string, process string, lease time.Duration) ([]string, error) {
	var own []string
	args := []any{process, lease.Milliseconds()}
	err := s.onEach(ctx, ownScript(), tenants, s.keys.BridgeOwner, args, func(tenant string, reply *redis.Cmd) error {
		n, err := reply.Int()
		if n == 1 {
			own = append(own, tenant)
		}
		return store.Failed("own tenant "+tenant, err)
	})
	return own, err
}

// FirstPending returns the id of the first entry of each tenant that the group has read and not
// acknowledged; "" for a tenant that has none. Tenants that cannot be read are left out, and err says why.
func (s Streams) FirstPending(ctx context.Context, group string, tenants []string) (first map[string]string, err error) {
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.XPendingCmd, len(tenants))
	for i, tenant := range tenants {
		replies[i] = pipe.XPending(ctx, s.keys.Stream(tenant), group)
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	first = map[string]string{}
	var errs []error
	for i, tenant := range tenants {
		pending, err := replies[i].Result()
		switch {
		case err == nil:
			first[tenant] = pending.Lower
		case redis.HasErrorPrefix(err, "NOGROUP"):
			first[tenant] = "" // the next read creates the group
		default:
			errs = append(errs, store.Failed("read the pending entries of "+tenant, err))
		}
	}
	return first, errors.Join(errs...)
}

// ReadPending returns up to count of the first entries of a tenant that the reader's group has read
// and not acknowledged, whichever consumer has read them.
func (s Streams) ReadPending(ctx context.Context, r Reader, tenant string, count int, now time.Time) ([]store.Message, error) {
	return s.claim(ctx, r, claim{tenant: tenant, first: "-", count: count}, now)
}

// Taken is a record of a broker for a tenant to take.
type Taken struct {
	Partition string // includes the topic
	Log       string // identifies the topic, in case it is deleted and created again
	Offset    int64
	Fields    []string // of its entry; empty: only advance the position
	Dead      bool     // append it to the dead letters
}

// Take appends records to a tenant's stream, or to its dead letters, each exactly once even if calls
// are repeated. It reports for each whether this was the first time. The records of a partition must
// be in order. After an error the caller repeats the call.
func (s Streams) Take(ctx context.Context, tenant string, records []Taken) ([]bool, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	first := make([]bool, 0, len(records))
	keys := []string{s.keys.Stream(tenant), s.keys.DeadLetters(tenant), s.keys.Positions(tenant)}
	for len(records) > 0 {
		var args []any
		n, size := 0, 0
		for ; n < len(records) && n < maxReplies && (n == 0 || size < maxData); n++ {
			r := &records[n]
			target := "stream"
			if r.Dead {
				target = "dlq"
			} else if len(r.Fields) == 0 {
				target = ""
			}
			args = append(args, r.Partition, r.Log, r.Offset, target, len(r.Fields))
			for _, text := range r.Fields {
				args, size = append(args, text), size+len(text)
			}
		}
		reply, err := receiveScript().Run(ctx, s.rdb, keys, args...).Int64Slice()
		if err == nil && len(reply) != n {
			err = wire.ErrReply
		}
		if err != nil {
			return first, store.Failed("take records of a broker", err)
		}
		for _, once := range reply {
			first = append(first, once == 1)
		}
		records = records[n:]
	}
	return first, nil
}

// Position is the last record of a partition that a tenant has taken.
type Position struct {
	Log    string
	Offset int64
}

// Positions returns the positions of a tenant by partition.
func (s Streams) Positions(ctx context.Context, tenant string) (map[string]Position, error) {
	all, err := s.rdb.HGetAll(ctx, s.keys.Positions(tenant)).Result()
	if err != nil {
		return nil, store.Failed("read the positions of the bridge", err)
	}
	out := make(map[string]Position, len(all))
	for partition, text := range all {
		log, offset, _ := strings.Cut(text, " ")
		if n, err := strconv.ParseInt(offset, 10, 64); err == nil {
			out[partition] = Position{log, n}
		}
	}
	return out, nil
}
