package decide

// page is memory that the data of events is written on, one behind the other: a
// transition that computes many tasks has many short ones.
type page struct {
	free []byte
	size int // of the whole
}

// Each page is twice as large as the one before.
const (
	firstPage = 512
	pageSize  = 4096
)

// room is an empty text with room for size bytes, and more if there is. It is the
// page's until it is kept.
func (p *page) room(size int) []byte {
	if len(p.free) < size {
		p.size = max(firstPage, min(2*p.size, pageSize))
		p.free = make([]byte, max(size, p.size))
	}
	return p.free[:0]
}

// keep takes a text off the page, on which others may be written behind it. One that
// was written elsewhere, or has become too long for the page, stays as it is.
func (p *page) keep(text []byte) []byte {
	n := len(text)
	if n > 0 && n <= len(p.free) && &text[0] == &p.free[0] {
		p.free = p.free[n:]
	}
	return text[:n:n]
}
