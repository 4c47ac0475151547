package executor

// share is what the events that were read lately have come to: how many of them were
// requests that keep an executor each, and for how long these were here.
type share struct {
	events, calls int
	tenants       int   // of the last read, that had any
	stay          int64 // milliseconds from the read to the reply, on average; 0: not known
}

const (
	fewest = 10 // events are read at least: most of them are no requests
	fewer  = 2  // … of each tenant, where there are many
	short  = 50 // milliseconds that a request may be here although others could do it
)

// count is how many events of each tenant to read where so many executors are free of all: about
// as many as bring each free one two requests, one to begin and one for when that is
// done. More would wait here while other processes have nothing to do; where all are
// done within moments, that does not matter, and as many are read as there are
// executors beside. What is no such request keeps nobody, and is read in full, as far
// as it can be expected: tenants that have something share what is read.
func (s *share) count(free, size, most int) int {
	ahead := free
	if s.stay > 0 && s.stay <= short {
		ahead = size
	}
	all := min(max((free+ahead)*(1+s.events)/(1+s.calls), fewest), most)
	return max(all/max(s.tenants, 1), min(fewer, most))
}

// saw takes in a read. The latest counts as much as all before it.
func (s *share) saw(events, calls, tenants int) {
	if events > 0 {
		s.events, s.calls, s.tenants = s.events/2+events, s.calls/2+calls, tenants
	}
}

// stayed takes in how long a request was here.
func (s *share) stayed(ms int64) {
	if s.stay == 0 {
		s.stay = ms
	}
	s.stay = max(1, (3*s.stay+ms)/4)
}
