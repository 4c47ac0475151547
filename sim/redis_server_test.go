package sim_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/resp"
)

// redisServer is a redis-server for simulations, one at a time. Its clock is the machine's, so
// TIME and the ids of entries are replaced by virtual ones, in scripts, too.
type redisServer struct {
	t     *testing.T
	conn  net.Conn
	in    *bufio.Reader
	now   time.Time
	added func(key string, fields []string)

	virtual map[string]string // the names of the scripts that replace others
	known   map[string]string
}

func openRedisServer(t *testing.T) *redisServer {
	t.Helper()
	opts := redistest.Options(t)
	conn, err := net.Dial("tcp", opts.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &redisServer{t: t, conn: conn, in: bufio.NewReader(conn), virtual: map[string]string{}}
	if opts.Password != "" {
		s.do("AUTH", opts.Password)
	}
	s.do("SELECT", strconv.Itoa(opts.DB))
	return s
}

// open empties the server for the next simulation.
func (s *redisServer) open(start time.Time, added func(key string, fields []string)) (sim.InProcess, error) {
	s.added, s.known = added, nil
	clear(s.virtual)
	s.do("FLUSHDB")
	s.SetTime(start)
	return s, nil
}

// virtualTime is prepended to each script. It replaces the clock, and reports what was added.
const virtualTime = `
local server, clock = redis, redis.call('LRANGE', 'test:clock', 0, -1)
local function virtual(call)
  return function(...)
    local args = {...}
    local name = string.upper(args[1])
    if name == 'TIME' then return {clock[1], clock[2]} end
    local id = string.upper(args[3] or '') == 'NOMKSTREAM' and 4 or 3
    if name == 'XADD' and args[id] == '*' then args[id] = clock[3] .. '-*' end
    local reply = call(unpack(args))
    if name == 'ZADD' and type(reply) == 'number' then
      server.call('RPUSH', 'test:added', args[2], 0)
    elseif name == 'XADD' and type(reply) == 'string' then
      server.call('RPUSH', 'test:added', args[2], #args - id, unpack(args, id + 1))
    end
    return reply
  end
end
local redis = setmetatable({call = virtual(redis.call), pcall = virtual(redis.pcall)}, {__index = redis})
`

// Execute executes a command.
func (s *redisServer) Execute(args []string, replies []byte) ([]byte, error) {
	switch name := strings.ToUpper(args[0]); name {
	case "TIME":
		return (&resp.Reply{Kind: resp.Bulks, Texts: s.clock()[:2]}).Append(replies), nil
	case "SCRIPT":
		sha := s.load(args[2])
		return (&resp.Reply{Kind: resp.Bulk, Text: sha}).Append(replies), nil
	case "EVAL":
		return s.run(s.load(args[1]), args[2:], replies), nil
	case "EVALSHA":
		if source, ok := s.known[args[1]]; ok {
			s.load(source)
		}
		if s.virtual[args[1]] == "" {
			return append(replies, "-NOSCRIPT No matching script.\r\n"...), nil
		}
		return s.run(args[1], args[2:], replies), nil
	case "XADD":
		at := 2
		if strings.EqualFold(args[at], "nomkstream") {
			at++
		}
		if args[at] == "*" {
			args[at] = s.clock()[2] + "-*"
		}
		reply := s.send(args)
		if reply[0] == '$' && reply[1] != '-' {
			s.added(args[1], args[at+1:])
		}
		return append(replies, reply...), nil
	case "ZADD":
		defer s.added(args[1], nil)
	}
	return append(replies, s.send(args)...), nil
}

// load loads a script under its own name.
func (s *redisServer) load(source string) string {
	sum := sha1.Sum([]byte(source))
	name := hex.EncodeToString(sum[:])
	if s.virtual[name] == "" {
		s.virtual[name] = s.do("SCRIPT", "LOAD", virtualTime+source).Text
	}
	return name
}

// run runs a loaded script.
func (s *redisServer) run(name string, args []string, replies []byte) []byte {
	replies = append(replies, s.send(append([]string{"EVALSHA", s.virtual[name]}, args...))...)
	added := s.do("LRANGE", "test:added", "0", "-1").List
	if len(added) == 0 {
		return replies
	}
	s.do("DEL", "test:added")
	for len(added) > 0 {
		n, err := strconv.Atoi(added[1].Text)
		if err != nil {
			s.t.Fatal(err)
		}
		s.added(added[0].Text, textsOf(added[2:2+n]))
		added = added[2+n:]
	}
	return replies
}

// clock returns the time as seconds and microseconds, and as milliseconds.
func (s *redisServer) clock() []string {
	us := s.now.UnixMicro()
	return []string{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10), strconv.FormatInt(us/1e3, 10)}
}

// SetTime sets the virtual time.
func (s *redisServer) SetTime(now time.Time) {
	s.now = now
	s.do("DEL", "test:clock")
	s.do(append([]string{"RPUSH", "test:clock"}, s.clock()...)...)
}

// Preload makes scripts available.
func (s *redisServer) Preload(sources map[string]string) { s.known = sources }

// Open counts entries.
func (s *redisServer) Open(stream, group, consumer string, matches func([]string) bool) (unread, pending int) {
	last := ""
	for _, g := range s.do("XINFO", "GROUPS", stream).List {
		if texts := textsOf(g.List); texts[1] == group {
			last = texts[7]
		}
	}
	if last == "" {
		return 0, 0
	}
	count := func(from, to string) (n int) {
		for _, e := range s.do("XRANGE", stream, from, to).List {
			if matches(textsOf(e.List[1].List)) {
				n++
			}
		}
		return n
	}
	args := []string{"XPENDING", stream, group, "-", "+", "1000000"}
	if consumer != "" {
		args = append(args, consumer)
	}
	for _, p := range s.do(args...).List {
		pending += count(p.List[0].Text, p.List[0].Text)
	}
	return count("("+last, "+"), pending
}

// Close leaves the server running for the next simulation.
func (*redisServer) Close() {}

func textsOf(list []resp.Reply) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Text
	}
	return out
}

// do executes a command that has to succeed.
func (s *redisServer) do(args ...string) resp.Reply {
	r := resp.Reader{Text: string(s.send(args))}
	reply, err := r.Reply()
	if err != nil || reply.Kind == resp.Error && !strings.HasSuffix(reply.Text, "no such key") {
		s.t.Fatalf("%.80q: %v %s", args, err, reply.Text)
	}
	return reply
}

// send sends a command and returns the raw reply.
func (s *redisServer) send(args []string) []byte {
	list := resp.Strings(args)
	_, err := s.conn.Write(list.Append(nil))
	var reply []byte
	if err == nil {
		reply, err = s.receive(nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// receive appends the next reply.
func (s *redisServer) receive(reply []byte) ([]byte, error) {
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read a reply: %w", err)
	}
	kind, length := line[0], strings.TrimSpace(string(line[1:]))
	reply = append(reply, line...)
	n, _ := strconv.Atoi(length) // the others have no length
	switch {
	case kind == '$' && n >= 0:
		at := len(reply)
		reply = append(reply, make([]byte, n+2)...)
		_, err = io.ReadFull(s.in, reply[at:])
	case kind == '*':
		for ; n > 0 && err == nil; n-- {
			reply, err = s.receive(reply)
		}
	}
	return reply, err
}
