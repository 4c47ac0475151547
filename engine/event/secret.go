package event

import "fmt"

// ShortestSecret is the length in bytes from which on a secret can be distinguished from
// other text. Shorter secrets are not redacted.
const ShortestSecret = 4

// EachSecret calls visit with each string inside secrets that is not too short, and its
// path, such as ".db.password".
func EachSecret(secrets any, visit func(path, text string)) { eachSecret("", secrets, visit) }

func eachSecret(path string, value any, visit func(path, text string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			eachSecret(path+"."+name, inner, visit)
		}
	case []any:
		for i, inner := range v {
			eachSecret(fmt.Sprintf("%s.%d", path, i), inner, visit)
		}
	case string:
		if len(v) >= ShortestSecret {
			visit(path, v)
		}
	}
}
