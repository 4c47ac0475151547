package memory

// glob reports whether a text matches a pattern: * matches any text, ? any byte, [a-z]
// and [^a-z] one byte of a class, and \ escapes the next byte.
func glob(pattern, text string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			for i := range len(text) + 1 {
				if glob(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		case '[':
			rest, ok := class(pattern[1:], text)
			if !ok {
				return false
			}
			pattern, text = rest, text[1:]
			continue
		case '?':
			if text == "" {
				return false
			}
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if text == "" || text[0] != pattern[0] {
				return false
			}
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}

// class matches the first byte of text with a class, and returns the pattern after the
// class.
func class(pattern, text string) (rest string, ok bool) {
	if text == "" {
		return "", false
	}
	not := pattern != "" && pattern[0] == '^'
	if not {
		pattern = pattern[1:]
	}
	found := false
	for pattern != "" && pattern[0] != ']' {
		low := pattern[0]
		if low == '\\' && len(pattern) > 1 {
			pattern = pattern[1:]
			low = pattern[0]
		}
		high := low
		if len(pattern) > 2 && pattern[1] == '-' {
			high = pattern[2]
			pattern = pattern[2:]
		}
		low, high = min(low, high), max(low, high)
		found = found || low <= text[0] && text[0] <= high
		pattern = pattern[1:]
	}
	if pattern != "" {
		pattern = pattern[1:]
	}
	return pattern, found != not
}
