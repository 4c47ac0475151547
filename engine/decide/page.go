package decide

// page is memory that the data of events is written on, one behind the other: a
// transition that computes many tasks has many short ones.
type page struct {
	free []byte
	kept int // texts so far
}

// Of a page that is begun after so many texts.
const (
	pageSize = 4096
	fewTexts = 4
)

// room is an empty text with room for size bytes, and more if there is. It is the
// page's until it is kept.
func (p *page) room(size int) []byte {
	if len(p.free) < size {
		if p.kept >= fewTexts {
			size = max(size, pageSize)
		}
		p.free = make([]byte, size)
	}
	return p.free[:0]
}

// keep takes a text off the page, on which others may be written behind it. One that
// was written elsewhere, or has become too long for the page, stays as it is.
func (p *page) keep(text []byte) []byte {
	p.kept++
	n := len(text)
	if n > 0 && n <= len(p.free) && &text[0] == &p.free[0] {
		p.free = p.free[n:]
	}
	return text[:n:n]
}
