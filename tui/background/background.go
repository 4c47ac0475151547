// Package background asks a terminal whether its background is light, without waiting for its reply:
// a terminal that does not know the question stays silent, and termenv waits 5 s for it.
package background

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Ask is the query to write to the terminal (OSC 11).
const Ask = "\x1b]11;?\x1b\\"

// Reader reads a terminal and removes its reply from the input, where it would look like keys.
type Reader struct {
	*os.File

	replied func(light bool)
	partial []byte // the beginning of an incomplete reply
}

// NewReader returns a Reader of a terminal, and false if the file is none. It calls replied with the
// reply, in Read.
func NewReader(f *os.File, replied func(light bool)) (*Reader, bool) {
	return &Reader{File: f, replied: replied}, term.IsTerminal(int(f.Fd()))
}

// Read reads the input without the reply.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) <= len(r.partial) {
		n := copy(p, r.partial)
		r.partial = r.partial[n:]
		return n, nil
	}
	n, err := r.File.Read(p[len(r.partial):])
	if n <= 0 {
		return n, err
	}
	copy(p, r.partial)
	n += len(r.partial)
	text, held, colour := withoutReply(p[:n])
	r.partial = append(r.partial[:0], held...)
	if light, ok := isLight(colour); ok {
		r.replied(light)
	}
	return copy(p, text), err
}

// FromEnvironment reports what COLORFGBG, such as "15;0", says about the background: its last number
// is the colour.
func FromEnvironment(colours string) (light, ok bool) {
	back := colours[strings.LastIndexByte(colours, ';')+1:]
	return back == "7" || back == "15", back != ""
}

// maxReply is how many bytes are held back while waiting for the end of a reply.
const maxReply = 64

// withoutReply removes a reply from the input, and holds back what may be the beginning of one
// at its end.
func withoutReply(read []byte) (text, held []byte, colour string) {
	const begin = "\x1b]11;"
	at := bytes.Index(read, []byte(begin))
	if at < 0 {
		// Two bytes may be a key: alt and a bracket.
		for n := min(len(begin)-1, len(read)); n > 2; n-- {
			if bytes.HasSuffix(read, []byte(begin[:n])) {
				return read[:len(read)-n], bytes.Clone(read[len(read)-n:]), ""
			}
		}
		return read, nil, ""
	}
	rest := read[at+len(begin):]
	end := bytes.IndexAny(rest, "\a\x1b")
	switch {
	case end < 0 && len(rest) > maxReply:
		return read, nil, ""
	case end < 0, rest[end] == '\x1b' && end+1 == len(rest):
		return read[:at], bytes.Clone(read[at:]), ""
	}
	colour = string(rest[:end])
	after := rest[end+1:]
	if rest[end] == '\x1b' {
		after = bytes.TrimPrefix(after, []byte(`\`))
	}
	return append(bytes.Clone(read[:at]), after...), nil, colour
}

// isLight reports whether a colour such as "rgb:ffff/ffff/ffff", whose components have one to four
// digits each, is light.
func isLight(colour string) (light, ok bool) {
	text, ok := strings.CutPrefix(colour, "rgb:")
	parts := strings.Split(text, "/")
	if !ok || len(parts) != 3 {
		return false, false
	}
	bright := 0.0
	for i, weight := range []float64{0.299, 0.587, 0.114} {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil {
			return false, false
		}
		most := uint64(1)<<(4*len(parts[i])) - 1
		bright += weight * float64(n) / float64(most)
	}
	return bright > 0.5, true
}
