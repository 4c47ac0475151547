package decide

// arena allocates the data of events from shared chunks: a transition that computes many
// tasks needs many short texts.
type arena struct {
	free []byte
	size int // of the current chunk
}

// Chunks double in size from the first, up to the largest.
const (
	firstChunk = 512
	chunkSize  = 4096
)

// reserve returns an empty slice with a capacity of at least size bytes. Until keep is
// called, the next reserve may return the same memory.
func (a *arena) reserve(size int) []byte {
	if len(a.free) < size {
		a.size = max(firstChunk, min(2*a.size, chunkSize))
		a.free = make([]byte, max(size, a.size))
	}
	return a.free[:0]
}

// keep claims the memory of a text that was written to a reserved slice. A text that was
// allocated elsewhere, or has outgrown the chunk, is returned as it is.
func (a *arena) keep(text []byte) []byte {
	n := len(text)
	if n > 0 && n <= len(a.free) && &text[0] == &a.free[0] {
		a.free = a.free[n:]
	}
	return text[:n:n]
}
