package store

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// DeadLetter gives a message up: it goes to the dead letters, and the events to the
// stream. It reports false, and does nothing, if the message is not the
// consumer's any more.
func (s *Store) DeadLetter(ctx context.Context, m Message, d event.Dead, publish []event.Event) (mine bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	deadLetter := s.deadLetterArgs(m, d, now)
	args := append([]any{m.Group, m.ID, m.Consumer, len(deadLetter)}, deadLetter...)
	for _, e := range publish {
		args = s.appendEvent(args, e)
	}
	keys := []string{s.keys.stream(m.Tenant), s.keys.dead(m.Tenant)}
	n, err := deadLetterScript.Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, failed("bury", err)
}

// deadLetterArgs are the fields of the letter of a message that is given up.
func (s *Store) deadLetterArgs(m Message, d event.Dead, now time.Time) []any {
	last := now.Format(time.RFC3339Nano)
	first := m.field(firstFailureField)
	if first == "" {
		first = last
	}
	return append(anys(m.sent()),
		"reason", string(s.sealer.Seal([]byte(d.Reason))), "attempts", strconv.Itoa(d.Attempts), "service", d.Service,
		"source_stream", s.keys.stream(m.Tenant), "source_id", m.ID, "first_failure", first, "last_failure", last)
}

// GiveUp writes a transition and gives up the message that it answers, both or neither.
func (s *Store) GiveUp(ctx context.Context, c Commit, d event.Dead) (Outcome, error) {
	c.Ack = true
	b := s.newCommitBatch([]Commit{c})
	defer b.end()
	deadLetter := s.deadLetterArgs(*c.Message, d, c.Now)
	b.deadLetter = append(deadLetter, len(deadLetter))
	b.add(&c, false)
	b.keys = append(b.keys, s.keys.dead(c.Tenant))
	done, err := b.run(ctx, nil)
	if err != nil {
		return Fenced, err
	}
	return done[0].Outcome, done[0].Err
}

// deadLetterScript gives a message up. KEYS: stream, dead letters. ARGV: group, entry,
// consumer, then the dead letter and each event to publish, each as the count of its
// fields and these.
//
//nolint:gochecknoglobals // see commitScript
var deadLetterScript = redis.NewScript(mine + `
if not mine() then return 0 end
local at, key = 4, KEYS[2]
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call('XADD', key, '*', unpack(ARGV, at + 1, at + n))
  at, key = at + n + 1, KEYS[1]
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// giveUpScript does what commitScript does with a single transition, and if that comes
// about writes the dead letter of its message. It is a script of its own, so that
// those who commit without one have nothing to look at.
//
// KEYS: those of commitScript, and the dead letters. ARGV: those of commitScript, with
// the letter's fields and their count before the transition.
//
//nolint:gochecknoglobals // see commitScript
var giveUpScript = redis.NewScript(`
local letters, at = KEYS[#KEYS], ARGV[7] - 1
local is = redis.call('TYPE', letters)['ok']
if is ~= 'none' and is ~= 'stream' then return {'WRONGTYPE ' .. letters .. ' is a ' .. is .. ', want a stream'} end
local function commit()
` + transitions + `
end
local out = commit()
if out[1] == 0 then redis.call('XADD', letters, '*', unpack(ARGV, at - ARGV[at], at - 1)) end
return out
`)
