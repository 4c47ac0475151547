package decide

// arena is memory that the data of events is written on, one behind the other: a
// transition that computes many tasks has many short ones.
type arena struct {
	free []byte
	size int // of the whole
}

// Each page is twice as large as the one before.
const (
	firstChunk = 512
	chunkSize  = 4096
)

// reserve is an empty text with room for size bytes, and more if there is. It is the
// page's until it is kept.
func (p *arena) reserve(size int) []byte {
	if len(p.free) < size {
		p.size = max(firstChunk, min(2*p.size, chunkSize))
		p.free = make([]byte, max(size, p.size))
	}
	return p.free[:0]
}

// keep takes a text off the page, on which others may be written behind it. One that
// was written elsewhere, or has become too long for the page, stays as it is.
func (p *arena) keep(text []byte) []byte {
	n := len(text)
	if n > 0 && n <= len(p.free) && &text[0] == &p.free[0] {
		p.free = p.free[n:]
	}
	return text[:n:n]
}
