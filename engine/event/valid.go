package event

import (
	"encoding/binary"
	"encoding/json"
)

// Valid reports whether data is JSON, as json.Valid does, which takes several times as
// long over what the engine writes itself.
func Valid(data []byte) bool {
	end := value(data, deepest)
	return end == len(data) && end > 0 || json.Valid(data)
}

// deepest is how deep values stand within one another at most that are looked at here.
const deepest = 64

// value is where the value ends that data begins with; 0 if that is none, or has blanks
// or anything else that is rare.
func value(data []byte, depth int) int {
	if len(data) == 0 || depth == 0 {
		return 0
	}
	switch c := data[0]; {
	case c == '"':
		return textEnd(data)
	case c == '{':
		return objectEnd(data, depth)
	case c == '[':
		return listEnd(data, depth)
	case c == '-' || c >= '0' && c <= '9':
		return numberEnd(data)
	case c == 't':
		return word(data, "true")
	case c == 'f':
		return word(data, "false")
	case c == 'n':
		return word(data, "null")
	default:
		return 0
	}
}

func word(data []byte, want string) int {
	if len(data) >= len(want) && string(data[:len(want)]) == want {
		return len(want)
	}
	return 0
}

// textEnd is where the text ends that data begins with.
func textEnd(data []byte) int {
	for at := 1; at < len(data); at++ {
		for len(data)-at >= 8 && plainEight(binary.LittleEndian.Uint64(data[at:])) {
			at += 8
		}
		if at == len(data) {
			return 0
		}
		switch c := data[at]; {
		case c == '"':
			return at + 1
		case c < ' ':
			return 0
		case c == '\\':
			if at++; at == len(data) || !escapes(data[at]) {
				return 0
			}
		}
	}
	return 0
}

// plainEight reports whether of eight bytes none is a quote, a backslash or a control
// character. It may say no of others, too.
func plainEight(word uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := word^'"'*ones, word^'\\'*ones
	return ((word-' '*ones)|(quote-ones)|(slash-ones))&^word&tops == 0
}

// escapes reports whether a character stands behind a backslash by itself.
func escapes(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	default:
		return false
	}
}

func objectEnd(data []byte, depth int) int {
	if len(data) > 1 && data[1] == '}' {
		return 2
	}
	for at := 1; at < len(data); {
		if data[at] != '"' {
			return 0
		}
		name := textEnd(data[at:])
		if at += name; name == 0 || at == len(data) || data[at] != ':' {
			return 0
		}
		at++
		end := value(data[at:], depth-1)
		if at += end; end == 0 || at == len(data) {
			return 0
		}
		if at++; data[at-1] == '}' {
			return at
		}
		if data[at-1] != ',' {
			return 0
		}
	}
	return 0
}

func listEnd(data []byte, depth int) int {
	if len(data) > 1 && data[1] == ']' {
		return 2
	}
	for at := 1; at < len(data); {
		end := value(data[at:], depth-1)
		if at += end; end == 0 || at == len(data) {
			return 0
		}
		if at++; data[at-1] == ']' {
			return at
		}
		if data[at-1] != ',' {
			return 0
		}
	}
	return 0
}

// numberEnd is where the number ends that data begins with; one with an exponent is
// rare.
func numberEnd(data []byte) int {
	at := 0
	if data[0] == '-' {
		at++
	}
	whole := digits(data[at:])
	if whole == 0 || whole > 1 && data[at] == '0' {
		return 0
	}
	at += whole
	if at < len(data) && data[at] == '.' {
		part := digits(data[at+1:])
		if part == 0 {
			return 0
		}
		at += 1 + part
	}
	if at < len(data) && (data[at] == 'e' || data[at] == 'E') {
		return 0
	}
	return at
}

// digits is how many digits data begins with.
func digits(data []byte) (n int) {
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		n++
	}
	return n
}
