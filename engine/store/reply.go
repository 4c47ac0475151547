package store

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// ours is for scripts that answer many messages of a consumer: which of them are
// its own, by what it has pending between two entries.
const ours = `
local mine = {}
local function look(stream, group, me, first, last, most)
  local p = redis.pcall('XPENDING', stream, group, first, last, most, me)
  if p['err'] then
    if string.find(p['err'], 'NOGROUP', 1, true) then return 0 end
    error(p['err'], 0)
  end
  for i = 1, #p do mine[p[i][1]] = true end
  return #p
end
`

// replyScript answers messages of one consumer with an event each, in their order:
// one that is not the consumer's any more, because another has claimed it, or it
// was acknowledged, or its group is gone, is left out and keeps no other. Of what
// cannot be written, and all behind it, nothing is.
//
// The entries are looked for among what the consumer has pending between the first
// and the last of them, and by themselves where there is too much of that.
//
// KEYS: stream. ARGV: group, consumer, first and last entry, how many pending ones
// to look at, how many answers, the tenant, the source and the type that they have in
// common; then each as its entry, and its event as the count of its fields and these,
// or, since each argument costs, ” and only what is its own: id, time, workflow,
// execution, task and data. It returns what went wrong, ” for nothing, and then for
// each answer whether it was given.
//
//nolint:gochecknoglobals // see commitScript
var replyScript = redis.NewScript(ours + `
local group, me = ARGV[1], ARGV[2]
local all = look(KEYS[1], group, me, ARGV[3], ARGV[4], ARGV[5]) < tonumber(ARGV[5])

local function add(at)
  local n = ARGV[at]
  if n ~= '' then return redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, at + 1, at + n)) end
  local id, time, workflow, execution, task, data = unpack(ARGV, at + 1, at + 6)
  return redis.pcall('XADD', KEYS[1], '*', 'id', id, 'source', ARGV[8], 'specversion', '1.0', 'type', ARGV[9], 'time', time,
    'tenantid', ARGV[7], 'workflowid', workflow, 'executionid', execution, 'taskid', task, 'data', data)
end

local at, wrong, out, acks = 10, '', {''}, {}
for i = 1, tonumber(ARGV[6]) do
  local id, n = ARGV[at], ARGV[at + 1]
  local given = 0
  if wrong == '' and not all and not mine[id] then look(KEYS[1], group, me, id, id, 1) end
  if wrong == '' and mine[id] then
    local entry = add(at + 1)
    if type(entry) == 'table' and entry['err'] then
      wrong = entry['err']
    else
      given, acks[#acks + 1], mine[id] = 1, id, nil
    end
  end
  out[i + 1] = given
  at = at + 2 + (n == '' and 6 or tonumber(n))
end
if #acks > 0 then redis.call('XACK', KEYS[1], group, unpack(acks)) end
out[1] = wrong
return out
`)

// settleScript acknowledges a message. KEYS: stream. ARGV: group, entry, consumer.
//
//nolint:gochecknoglobals // see commitScript
var settleScript = redis.NewScript(mine + `
if not mine() then return 0 end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// Answer is a message and the event that it is answered with.
type Answer struct {
	Message *Message
	Event   *event.Event
}

// How much one replyScript is given to do: Redis does nothing else meanwhile.
const (
	mostAnswers = 100
	mostData    = 1 << 20
)

// Reply answers a message with an event. It reports false, and does nothing, if
// the message is not the consumer's any more.
func (s *Store) Reply(ctx context.Context, m Message, e event.Event) (mine bool, err error) {
	given, err := s.Replies(ctx, []Answer{{&m, &e}})
	return given[0], err
}

// Replies answers messages that were delivered to one consumer, all of one tenant,
// and reports of each whether the answer was given: one that is not the consumer's
// any more is left out. With an error those that were not given may be given again;
// one that was given after all is left out then.
func (s *Store) Replies(ctx context.Context, answers []Answer) ([]bool, error) {
	given := make([]bool, len(answers))
	for from := 0; from < len(answers); {
		n, data := 0, 0
		for _, a := range answers[from:] {
			if n == mostAnswers || n > 0 && data+len(a.Event.Data) > mostData {
				break
			}
			n, data = n+1, data+len(a.Event.Data)
		}
		if err := s.replies(ctx, answers[from:from+n], given[from:]); err != nil {
			return given, failed("reply", err)
		}
		from += n
	}
	return given, nil
}

// replies has one script answer, and notes which answers were given.
func (s *Store) replies(ctx context.Context, answers []Answer, given []bool) error {
	m := answers[0].Message
	first, last := m.ID, m.ID
	for _, a := range answers[1:] {
		if compareIDs(a.Message.ID, first) < 0 {
			first = a.Message.ID
		}
		if compareIDs(a.Message.ID, last) > 0 {
			last = a.Message.ID
		}
	}
	const arguments = 8 // of an answer, mostly
	args := append(make([]any, 0, 9+arguments*len(answers)), m.Group, m.Consumer, first, last, lookedAt(len(answers)),
		len(answers), m.Tenant, answers[0].Event.Source, string(answers[0].Event.Type))
	for _, a := range answers {
		args = s.appendAnswer(args, a, answers[0].Event)
	}
	out, err := replyScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, args...).Slice()
	if err != nil {
		return err
	}
	if len(out) != 1+len(answers) {
		return errReply
	}
	for i, was := range out[1:] {
		given[i] = was == int64(1)
	}
	if wrong, _ := out[0].(string); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// appendAnswer appends one of the answers that begin with a first one. Texts are
// handed over where they are: each would be copied otherwise.
func (s *Store) appendAnswer(args []any, a Answer, first *event.Event) []any {
	e := a.Event
	args = append(args, &a.Message.ID)
	common := e.Source == first.Source && e.Type == first.Type && e.Tenant == a.Message.Tenant
	whole := !slices.Contains([]string{e.ID, e.Source, string(e.Type), e.Workflow, e.Execution, e.Task}, "") &&
		!e.Time.IsZero() && len(e.Data) > 0
	if !common || !whole || len(e.Ext) > 0 {
		fields := s.fields(*e)
		args = append(args, len(fields))
		for i := range fields {
			args = append(args, &fields[i])
		}
		return args
	}
	return append(args, "", &e.ID, e.Time.UTC(), &e.Workflow, &e.Execution, &e.Task, s.sealer.Seal(e.Data))
}

// lookedAt is how many pending entries are looked at to find n at once: those of
// them that are being worked on lie between.
func lookedAt(n int) int {
	if n == 1 {
		return 2 // one more than there can be
	}
	return 2*n + 16
}

// Settle acknowledges a message that means nothing more, as far as it is still the
// consumer's: one that is another's by now may mean something to it.
func (s *Store) Settle(ctx context.Context, m Message) error {
	err := settleScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
	return failed("acknowledge", err)
}
