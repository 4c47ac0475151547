package lua

import (
	"fmt"
	"strconv"

	"flunq.io/flunq/sim/resp"
)

// machine runs programs.
type machine struct {
	redis func([]string) resp.Reply

	keys, argv value
	lists      [2]table // the tables of keys and argv
	frames     []*frame // of the active functions, and spare ones
	depth      int      // of the active function
	results    []value  // of the function that returned last
	pile       []value  // the evaluation stack
	words      []string // of the command that is being built
	joined     []byte   // the string that is being built
	found      []uint8  // where a field was found last, by the place in the script
	matching   pattern
	reserve    reserve
}

// frame holds the variables of an active function.
type frame struct {
	vars []value
	up   *frame // of the enclosing function
}

// out returns the frame level functions further out.
func (f *frame) out(level int) *frame {
	for ; level > 0; level-- {
		f = f.up
	}
	return f
}

// The maximum call depth, and the initial number of variables of a function.
const (
	deepest   = 10_000
	someSlots = 24
)

// enter prepares the frame of a function. Its variables are not cleared: each is set by
// its declaration.
func (m *machine) enter(fn *function, up *frame, line int) *frame {
	m.depth++
	if m.depth > deepest {
		fail(line, "stack overflow")
	}
	if m.depth == len(m.frames) {
		m.frames = append(m.frames, &frame{vars: make([]value, 0, max(someSlots, fn.slots))})
	}
	f := m.frames[m.depth]
	if cap(f.vars) < fn.slots {
		f.vars = make([]value, fn.slots)
	}
	f.vars, f.up = f.vars[:fn.slots], up
	return f
}

// of turns a table into a list of strings.
func (t *table) of(texts []string) value {
	t.empty()
	t.add(texts)
	t.kind = isTable
	return value{is: t}
}

// failure ends a script.
type failure struct {
	message string
	line    int
	table   bool // it is an error of Redis, with its prefix
}

// fail ends the script with a Lua error.
func fail(line int, layout string, args ...any) {
	where := chunk + ":" + strconv.Itoa(line) + ": "
	panic(&failure{message: where + fmt.Sprintf(layout, args...), line: line})
}

// reply formats a failure: first the message, then the place.
func (f *failure) reply(sha string) resp.Reply {
	prefix := "ERR "
	if f.table {
		prefix = ""
	}
	return resp.Fail(fmt.Sprintf("%s%s script: %s, on @%s:%d.", prefix, f.message, sha, chunk, f.line))
}

// run runs a program, and returns its reply.
func (m *machine) run(p *program, sha string, keys, argv []string) (reply resp.Reply) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*failure)
			if !ok {
				panic(r)
			}
			reply = f.reply(sha)
		}
	}()
	m.keys, m.argv = m.lists[0].of(keys), m.lists[1].of(argv)
	m.reserve.clear()
	if len(m.found) < p.sites {
		m.found = make([]uint8, p.sites)
	}
	m.depth, m.results, m.pile, m.words, m.joined = -1, m.results[:0], m.pile[:0], m.words[:0], m.joined[:0]
	f := m.enter(&function{slots: p.slots}, nil, 0)
	if run(m, f, p.body) != returned || len(m.results) == 0 {
		return resp.Reply{}
	}
	return m.results[0].reply()
}
