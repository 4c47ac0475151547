package lua

import (
	"hash/maphash"
	"slices"

	"flunq.io/flunq/sim/resp"
)

// course is the trace of a script that ran with the same arguments before. Its commands
// and its reply depend only on the arguments and on the answers to its commands. While
// the answers are the recorded ones, the commands are sent without running the script.
type course struct {
	script     *Script
	sha        string
	keys, argv []string
	begin      step
	size       int // of all steps, in words and answers
}

// step is the state of a script after an answer, and what it does next.
type step struct {
	answer resp.Reply // to the previous command
	words  []string   // of the next command; nil: the script ends and replies next.answer
	next   *step      // after an answer to that command …
	other  *step      // … and after another answer to the previous command
}

// after returns the step after an answer; nil if it is unknown.
func (s *step) after(answer *resp.Reply) *step {
	for next := s.next; next != nil; next = next.other {
		if same(answer, &next.answer) {
			return next
		}
	}
	return nil
}

// is reports whether the course belongs to a script with these arguments.
func (c *course) is(s *Script, sha string, keys, argv []string) bool {
	return c.script == s && c.sha == sha && slices.Equal(c.keys, keys) && slices.Equal(c.argv, argv)
}

// add records a step, if the size limit allows.
func (c *course) add(before *step, answer *resp.Reply) *step {
	next := &step{answer: keep(answer)}
	if c.reserve(extent(answer)) {
		before.next, next.other = next, before.next
	}
	return next
}

// reserve adds to the size. It returns false if the limit is exceeded.
func (c *course) reserve(size int) bool {
	c.size += size
	return c.size <= mostInCourse
}

// courses caches courses. Most simulations of a search begin alike, and those without
// faults also continue alike. The hash of a script's arguments determines the place of
// its course, which stays there until another one replaces it.
type courses struct {
	seed   maphash.Seed
	places []place
}

// place holds a course.
type place struct {
	sum    uint64 // of what was given last
	course *course
}

// The number of cached courses, and the maximum size of each in words and answers.
const (
	mostCourses  = 1024
	mostInCourse = 2048
)

// place returns the place for a script's arguments; nil if nothing is to be recorded yet.
func (r *Runner) place(s *Script, keys, argv []string) *place {
	c := &r.courses
	if !r.Recalls {
		if c.places != nil { // the next one will not, either: what is kept costs memory
			r.courses, r.taken = courses{}, nil
		}
		return nil
	}
	if c.places == nil {
		c.seed, c.places = maphash.MakeSeed(), make([]place, mostCourses)
	}
	const oddFactor = 0x9e3779b97f4a7c15
	sum := maphash.String(c.seed, s.SHA)
	for _, words := range [...][]string{keys, argv} {
		for _, word := range words {
			sum = (sum ^ maphash.String(c.seed, word)) * oddFactor
		}
	}
	p := &c.places[sum%mostCourses]
	if p.sum != sum {
		*p = place{sum: sum}
		return nil
	}
	return p
}

// walk follows a course.
type walk struct {
	*course

	redis func([]string) resp.Reply
	taken []*step
	said  int // number of commands sent by the script itself
}

// follow sends the recorded commands, and returns the script's reply if they lead to its
// end.
func (w *walk) follow() *resp.Reply {
	at := &w.begin
	w.taken = append(w.taken[:0], at)
	for at.words != nil {
		answer := w.redis(at.words)
		next := at.after(&answer)
		if next == nil {
			next = w.add(at, &answer)
		}
		w.taken, at = append(w.taken, next), next
	}
	if at.next == nil {
		return nil
	}
	return &at.next.answer
}

// say executes a command of the running script. The commands that follow has sent already
// return the recorded answers.
func (w *walk) say(words []string) resp.Reply {
	if w.said++; w.said < len(w.taken) {
		return w.taken[w.said].answer
	}
	answer := w.redis(words)
	at := w.taken[len(w.taken)-1]
	if w.reserve(len(words)) {
		at.words = slices.Clone(words)
	}
	w.taken = append(w.taken, w.add(at, &answer))
	return answer
}

// again runs a script that had the same arguments before.
func (r *Runner) again(p *place, s *Script, sha string, keys, argv []string) resp.Reply {
	if p.course == nil || !p.course.is(s, sha, keys, argv) {
		p.course = &course{script: s, sha: sha, keys: slices.Clone(keys), argv: slices.Clone(argv)}
	}
	w := walk{course: p.course, redis: r.Redis, taken: r.taken}
	reply := w.follow()
	if reply == nil {
		r.machine.redis = w.say
		out := r.machine.run(s.program, sha, keys, argv)
		reply = &w.add(w.taken[len(w.taken)-1], &out).answer
	}
	r.taken = w.taken
	return *reply
}

// same reports whether two replies are equal.
func same(a, b *resp.Reply) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case resp.Integer:
		return a.Int == b.Int
	case resp.Status, resp.Error, resp.Bulk:
		return a.Text == b.Text
	case resp.Array:
		return sameList(a.List, b.List)
	default:
		return a.Text == b.Text && (a.Texts == nil) == (b.Texts == nil) && slices.Equal(a.Texts, b.Texts)
	}
}

func sameList(a, b []resp.Reply) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// keep returns a copy of a reply that does not share its memory.
func keep(reply *resp.Reply) resp.Reply {
	out := *reply
	out.Texts, out.List = slices.Clone(out.Texts), slices.Clone(out.List)
	for i := range out.List {
		out.List[i] = keep(&out.List[i])
	}
	return out
}

// extent returns the size of a reply.
func extent(reply *resp.Reply) int {
	n := 1 + len(reply.Texts)
	for i := range reply.List {
		n += extent(&reply.List[i])
	}
	return n
}
