package recording

import (
	"bytes"
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// The kinds of secret values in the header of a recording.
const (
	textSecret   = "text"
	numberSecret = "number"
	truthSecret  = "boolean"
)

// mapped returns a copy of JSON data with every value other than a map or list replaced by the
// result of leaf, which gets its path, such as ".db.password".
func mapped(path string, v any, leaf func(path string, v any) any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = mapped(path+"."+name, inner, leaf)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = mapped(path+"."+strconv.Itoa(i), inner, leaf)
		}
		return out
	default:
		return leaf(path, v)
	}
}

// shapeOf returns the names of secrets and the kinds of their values, without the values.
func shapeOf(secrets map[string]any) any {
	return mapped("", secrets, func(_ string, v any) any {
		switch v.(type) {
		case nil:
			return nil
		case string:
			return textSecret
		case bool:
			return truthSecret
		default:
			return numberSecret
		}
	})
}

// The encodings in which secrets can appear in a recording. Each is the name of a member next to
// the secret itself.
const (
	inForm   = "~form"
	inQuery  = "~query"
	inPath   = "~path"
	inBase64 = "~base64"
)

// withEncodings returns secrets together with their encoded forms so that a Sealer also finds
// those.
func withEncodings(secrets map[string]any) map[string]any {
	if len(secrets) == 0 {
		return nil
	}
	out := maps.Clone(secrets)
	for name, encode := range map[string]func(string) string{
		inForm: url.QueryEscape, inPath: url.PathEscape,
		inQuery:  func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") },
		inBase64: func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) },
	} {
		out[name] = mapped("", secrets, func(_ string, v any) any {
			// A short string is not sealed, and neither is its encoding.
			if text, ok := v.(string); ok && encode(text) != text && len(text) >= event.ShortestSecret {
				return encode(text)
			}
			return nil
		})
	}
	return out
}

// unsealer replaces the tokens in a recording by the given secrets, and the tokens of other
// secrets by placeholders. No encoding changes the characters of a placeholder, so data that a
// replay computes from it matches the recording.
type unsealer struct {
	given  *store.Sealer
	token  *regexp.Regexp
	seen   bool            // there was a token
	tokens bool            // there was a token of an unknown secret
	found  map[string]bool // the paths of the unknown secrets
}

func newUnsealer(secrets map[string]any) *unsealer {
	return &unsealer{given: store.NewSealer(withEncodings(secrets)), found: map[string]bool{}}
}

// tokenMark begins and ends the token of a secret.
const tokenMark = "\ue000"

// open returns a line of a recording with its tokens replaced.
func (u *unsealer) open(line []byte) []byte {
	if !bytes.Contains(line, []byte(tokenMark)) {
		return line
	}
	u.seen = true
	line = u.given.Unseal(line)
	if u.token == nil {
		u.token = regexp.MustCompile(tokenMark + `secret([^` + tokenMark + `]*)#[0-9a-f]{12}` + tokenMark)
	}
	return u.token.ReplaceAllFunc(line, func(token []byte) []byte {
		path, text := placeholderFor(string(u.token.FindSubmatch(token)[1]))
		u.tokens, u.found[path] = true, true
		return []byte(text)
	})
}

// placeholderFor returns the placeholder for a token's path, in the encoding that the path
// names.
func placeholderFor(path string) (plain, text string) {
	for _, name := range []string{inForm, inQuery, inPath, inBase64} {
		if rest, ok := strings.CutPrefix(path, "."+name); ok {
			if text = placeholder(rest); name == inBase64 {
				text = base64.StdEncoding.EncodeToString([]byte(text))
			}
			return rest, text
		}
	}
	return path, placeholder(path)
}

// placeholder returns the string that replaces the unknown secret at a path such as
// ".db.password".
func placeholder(path string) string {
	return "sealed" + strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, path)
}

// secrets returns the secrets for a replay: the given ones, and placeholders for all others
// in the recording.
func (u *unsealer) secrets(given map[string]any, shape any) map[string]any {
	out := map[string]any{}
	if members, ok := placeholders(shape).(map[string]any); ok {
		out = members
	} else {
		for path := range u.found {
			setPath(out, path)
		}
	}
	maps.Copy(out, given)
	return out
}

// placeholders returns a value with the shape of the secrets.
func placeholders(shape any) any {
	return mapped("", shape, func(path string, kind any) any {
		switch kind {
		case textSecret:
			return placeholder(path)
		case numberSecret:
			return 0
		case truthSecret:
			return false
		default:
			return nil
		}
	})
}

// setPath sets a placeholder at its path.
func setPath(into map[string]any, path string) {
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := into[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			into[name] = inner
		}
		into = inner
	}
	into[names[len(names)-1]] = placeholder(path)
}
