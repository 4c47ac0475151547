package executor

// share estimates how many events to read, from how many of the recent ones were calls
// (requests that occupy an executor each) and how long these took.
type share struct {
	events, calls int
	tenants       int   // with events in the last read
	stay          int64 // milliseconds from read to reply, on average; 0: unknown
}

const (
	fewest = 10 // events are read at least, as most of them are no requests
	fewer  = 2  // of each tenant, if there are many
	short  = 50 // milliseconds: below this, a request may wait here although other processes are idle
)

// count returns how many events of each tenant to read when free of size executors are
// idle. It aims at two requests for each idle executor, one to begin now and one to begin
// next: more would wait here while other processes are idle. If requests take only
// moments, it aims at one more for every executor. Events that are no calls occupy no
// executor and are read in full, as far as the recent reads predict. Tenants with events
// share the total.
func (s *share) count(free, size, most int) int {
	ahead := free
	if s.stay > 0 && s.stay <= short {
		ahead = size
	}
	all := min(max((free+ahead)*(1+s.events)/(1+s.calls), fewest), most)
	return max(all/max(s.tenants, 1), min(fewer, most))
}

// saw records a read. The latest read counts as much as all before it.
func (s *share) saw(events, calls, tenants int) {
	if events > 0 {
		s.events, s.calls, s.tenants = s.events/2+events, s.calls/2+calls, tenants
	}
}

// stayed records how long a request took from read to reply.
func (s *share) stayed(ms int64) {
	if s.stay == 0 {
		s.stay = ms
	}
	s.stay = max(1, (3*s.stay+ms)/4)
}
