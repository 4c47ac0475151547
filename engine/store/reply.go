package store

import (
	"context"
	"errors"
	"strings"
	"time"

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
// to look at, the tenant, how many answers, and where they begin; then words, which many
// of them say. Each is its entry, a shape, which says in bytes how many fields its event
// has, and these; or, as each argument costs, which words are its source, type, time,
// workflow and task, and what its id has behind that of the execution, and then only
// the execution and the data. It returns what went wrong, ” for nothing, and then for
// each answer the entry that it is, 0 if it was not given.
//
//nolint:gochecknoglobals // see commitScript
var replyScript = redis.NewScript(ours + `
local args, stream, group, me = ARGV, KEYS[1], ARGV[1], ARGV[2]
local all = look(stream, group, me, args[3], args[4], args[5]) < tonumber(args[5])
local shapes = {}

local function read(shape)
  local places = {string.byte(shape, 1, 12)}
  local s = {}
  for i = 1, #places / 2 do s[i] = places[2 * i - 1] * 256 + places[2 * i] end
  if #s == 1 then
    s = {fields = s[1], length = s[1] + 2}
  else
    s = {source = args[s[1]], kind = args[s[2]], time = args[s[3]], workflow = args[s[4]], task = args[s[5]], suffix = args[s[6]], length = 4}
  end
  shapes[shape] = s
  return s
end

local function add(s, at)
  if s.fields then return redis.pcall('XADD', stream, '*', unpack(args, at, at + s.fields - 1)) end
  return redis.pcall('XADD', stream, '*', 'id', args[at] .. s.suffix, 'source', s.source, 'specversion', '1.0', 'type', s.kind,
    'time', s.time, 'tenantid', args[6], 'workflowid', s.workflow, 'executionid', args[at], 'taskid', s.task, 'data', args[at + 1])
end

local at, wrong, out, acks = tonumber(args[8]), '', {''}, {}
for i = 1, tonumber(args[7]) do
  local id, s = args[at], shapes[args[at + 1]] or read(args[at + 1])
  local given = 0
  if wrong == '' and not all and not mine[id] then look(stream, group, me, id, id, 1) end
  if wrong == '' and mine[id] then
    local entry = add(s, at + 2)
    if type(entry) == 'table' and entry['err'] then
      wrong = entry['err']
    else
      given, acks[#acks + 1], mine[id] = entry, id, nil
    end
  end
  out[i + 1] = given
  at = at + s.length
end
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
out[1] = wrong
return out
`)

// acknowledgeScript acknowledges a message. KEYS: stream. ARGV: group, entry, consumer.
//
//nolint:gochecknoglobals // see commitScript
var acknowledgeScript = redis.NewScript(mine + `
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
	w := words{before: replyArguments, places: map[string]int{}}
	own := make([]any, 0, 4*len(answers)) // their own arguments
	for _, a := range answers {
		own = s.appendAnswer(own, &w, a)
	}
	begin := replyArguments + len(w.texts) + 1
	args := append(make([]any, 0, begin+len(own)), m.Group, m.Consumer, first, last, lookedAt(len(answers)),
		m.Tenant, len(answers), begin)
	args = append(append(args, w.texts...), own...)
	out, err := replyScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, args...).Slice()
	if err != nil {
		return err
	}
	if len(out) != 1+len(answers) {
		return errReply
	}
	for i, was := range out[1:] {
		_, given[i] = was.(string)
	}
	if wrong, _ := out[0].(string); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// replyArguments are those of a replyScript before its words.
const replyArguments = 8

// appendAnswer appends one of the answers. Texts are handed over where they are: each
// would be copied otherwise.
func (s *Store) appendAnswer(args []any, w *words, a Answer) []any {
	e := a.Event
	args = append(args, &a.Message.ID)
	if shape := shapeOf(w, a); shape != "" {
		return append(args, shape, &e.Execution, s.sealer.Seal(e.Data))
	}
	fields := s.fields(*e)
	args = append(args, string(appendWords(nil, len(fields))))
	for i := range fields {
		args = append(args, &fields[i])
	}
	return args
}

// shapeOf says of which words an answer is, if it is an event of an execution like
// most; else it is empty.
func shapeOf(w *words, a Answer) string {
	e := a.Event
	suffix, ok := strings.CutPrefix(e.ID, e.Execution)
	if !ok || e.Execution == "" || e.Tenant != a.Message.Tenant || e.Time.IsZero() || len(e.Data) == 0 || len(e.Ext) > 0 {
		return ""
	}
	var buffer [6 * wordBytes]byte
	shape := buffer[:0]
	for _, text := range [...]string{e.Source, string(e.Type), e.Time.UTC().Format(time.RFC3339Nano), e.Workflow, e.Task, suffix} {
		if text == "" {
			return ""
		}
		shape = appendWords(shape, w.place(text))
	}
	return string(shape)
}

// lookedAt is how many pending entries are looked at to find n at once: those of
// them that are being worked on lie between.
func lookedAt(n int) int {
	if n == 1 {
		return 2 // one more than there can be
	}
	return 2*n + 16
}

// AcknowledgeOwned acknowledges a message that means nothing more, as far as it is still the
// consumer's: one that is another's by now may mean something to it.
func (s *Store) AcknowledgeOwned(ctx context.Context, m Message) error {
	err := acknowledgeScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
	return failed("acknowledge", err)
}
