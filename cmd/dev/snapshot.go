package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// snapshotScript reads all keys atomically. It returns the name, the type, the time of expiry (-1: never)
// and the value of each; for a stream its entries, its last id and its groups. It omits KEYS[1], the
// registry of processes, since no process runs when the data is restored. The script may
// block Redis, which is that of flunq dev inside this process.
//
//nolint:gochecknoglobals // a script is constant
var snapshotScript = redis.NewScript(`
local function named(reply)
  local out = {}
  for i = 1, #reply, 2 do out[reply[i]] = reply[i + 1] end
  return out
end
local function groups(key)
  local out = {}
  for _, reply in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local g = named(reply)
    local pending = {}
    if g['pending'] > 0 then
      pending = redis.call('XPENDING', key, g['name'], '-', '+', g['pending'])
    end
    out[#out + 1] = {g['name'], g['last-delivered-id'], pending}
  end
  return out
end
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do if key ~= KEYS[1] then
  local kind = redis.call('TYPE', key)['ok']
  local item = {key, kind, redis.call('PEXPIRETIME', key)}
  if kind == 'string' then item[4] = {redis.call('GET', key)}
  elseif kind == 'hash' then item[4] = redis.call('HGETALL', key)
  elseif kind == 'list' then item[4] = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then item[4] = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then item[4] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then
    item[4] = redis.call('XRANGE', key, '-', '+')
    item[5] = named(redis.call('XINFO', 'STREAM', key))['last-generated-id']
    item[6] = groups(key)
  end
  out[#out + 1] = item
end end
return out
`)

// Save writes the data file, if there is one and data has changed. It skips the write if
// the last one took long, since Redis blocks meanwhile.
func (r *Redis) Save(ctx context.Context) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	if time.Since(r.last) < saveFactor*r.took || !r.changed.Swap(false) {
		return nil
	}
	return r.save(ctx)
}

// SaveAll writes the data file, if there is one, including the time of the clock.
func (r *Redis) SaveAll(ctx context.Context) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.saved = [32]byte{}
	return r.save(ctx)
}

// saveFactor is the minimum interval of saves as a multiple of the duration of a save.
const saveFactor = 20

func (r *Redis) save(ctx context.Context) error {
	if r.opts.Data == "" {
		return nil
	}
	f := file{Format: format}
	began := time.Now()
	var err error
	if f.Keys, err = r.snapshot(ctx); err != nil {
		return err
	}
	hash, err := sum(f.Keys)
	if err == nil && hash != r.saved {
		err = r.write(f, hash)
	}
	r.last = time.Now()
	r.took = r.last.Sub(began)
	if err != nil {
		r.changed.Store(true)
	}
	return err
}

func (r *Redis) write(f file, hash [32]byte) error {
	c := r.clock.show()
	f.Saved = c.Now
	if c.Mode == Virtual {
		f.Clock = &kept{Now: c.Now, Paused: c.Paused}
	}
	if now := stampOf(r.opts.Data); now != r.stamp {
		return fmt.Errorf("%s: %w", r.opts.Data, ErrChanged)
	}
	if err := f.write(r.opts.Data); err != nil {
		return err
	}
	r.saved, r.stamp = hash, stampOf(r.opts.Data)
	return nil
}

// ErrChanged is wrapped by the error of Save if another process has changed the data file.
var ErrChanged = errors.New("another process has changed the data file: it is not overwritten, and nothing is saved")

// snapshot returns all keys in a deterministic order.
func (r *Redis) snapshot(ctx context.Context) ([]key, error) {
	reply, err := snapshotScript.Run(ctx, wire.WithTimeout(r.rdb, snapshotTime), []string{store.ProcessesKey}).Slice()
	if err != nil {
		return nil, fmt.Errorf("read all keys: %w", err)
	}
	keys := make([]key, 0, len(reply))
	for _, item := range reply {
		k, err := keyOf(list(item))
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.Name, b.Name) })
	return keys, nil
}

// snapshotTime is the maximum duration of a snapshot.
const snapshotTime = time.Minute

// keyOf converts a key as the script returns it.
func keyOf(item []any) (key, error) {
	if len(item) < 4 {
		return key{}, fmt.Errorf("read all keys: unexpected reply %v", item)
	}
	k := key{Name: word(item[0]), Kind: string(word(item[1]))}
	if expires, _ := item[2].(int64); expires > 0 {
		k.Expires = expires
	}
	switch k.Kind {
	case "stream":
		if len(item) < 6 {
			return k, fmt.Errorf("read the stream %s: unexpected reply %v", k.Name, item)
		}
		for _, e := range list(item[3]) {
			if parts := list(e); len(parts) == 2 {
				k.Entries = append(k.Entries, line{string(word(parts[0])), words(parts[1])})
			}
		}
		k.Last, k.Groups = string(word(item[4])), groupsOf(list(item[5]))
	case "hash":
		k.Values = sortedPairs(words(item[3]))
	case "set":
		k.Values = words(item[3])
		slices.Sort(k.Values)
	default:
		k.Values = words(item[3])
	}
	return k, nil
}

func groupsOf(items []any) []group {
	var out []group
	for _, item := range items {
		parts := list(item)
		if len(parts) != 3 {
			continue
		}
		g := group{Name: word(parts[0]), Last: string(word(parts[1]))}
		for _, p := range list(parts[2]) {
			if entry := list(p); len(entry) == 4 {
				count, _ := entry[3].(int64)
				g.Pending = append(g.Pending, pendingEntry{string(word(entry[0])), word(entry[1]), count})
			}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b group) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func word(v any) text {
	s, _ := v.(string)
	return text(s)
}

func words(v any) []text {
	items := list(v)
	out := make([]text, 0, len(items))
	for _, item := range items {
		out = append(out, word(item))
	}
	return out
}

// sortedPairs sorts pairs by their first element.
func sortedPairs(flat []text) []text {
	pairs := slices.Collect(slices.Chunk(flat, 2))
	slices.SortFunc(pairs, func(a, b []text) int { return cmp.Compare(a[0], b[0]) })
	return slices.Concat(pairs...)
}
