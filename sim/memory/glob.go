package memory

// glob reports whether text matches a pattern: * matches anything, and \ escapes the next byte.
// The engine uses no other wildcards.
func glob(pattern, text string) bool {
	for pattern != "" {
		switch {
		case pattern[0] == '*':
			for i := range len(text) + 1 {
				if glob(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		case pattern[0] == '\\' && len(pattern) > 1:
			pattern = pattern[1:]
		}
		if text == "" || text[0] != pattern[0] {
			return false
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}
