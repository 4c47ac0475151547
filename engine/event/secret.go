package event

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ShortestSecret is the minimum length of a secret in bytes. Shorter ones cannot be
// distinguished from other text and are not redacted.
const ShortestSecret = 4

// EachSecret calls visit with each string in secrets of at least ShortestSecret bytes, and
// its path, such as ".db.password".
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

// SecretForms returns the forms that a secret can have in stored or displayed text: first the
// secret itself, then as part of a URL, in base64, and each of these in JSON, encoded up to three
// times.
func SecretForms(secret string) []string {
	var out []string
	plain := append(urlForms(secret), base64Forms(secret)...)
	if lower := strings.ToLower(secret); lower != secret { // as in a host name
		plain = append(plain, urlForms(lower)...)
	}
	for _, form := range plain {
		for _, inside := range insideJSON(form) {
			if !slices.Contains(out, inside) {
				out = append(out, inside)
			}
		}
	}
	return out
}

// urlForms returns a string and its escaped forms in the parts of a URL.
func urlForms(text string) []string {
	query := url.QueryEscape(text)
	return []string{
		text, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(text),
		(&url.URL{Path: text}).EscapedPath(), strings.ReplaceAll(text, " ", "%20"),
	}
}

// base64Forms returns the base64 encodings of a string, alone and after another string such as a
// user name.
func base64Forms(text string) []string {
	var out []string
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		out = append(out, encoding.EncodeToString([]byte(text)))
		for skip := range min(3, len(text)) {
			inner := text[skip:]
			if form := encoding.EncodeToString([]byte(inner[:len(inner)/3*3])); len(form) >= piece {
				out = append(out, form)
			}
		}
	}
	return out
}

// insideJSON returns a string and its forms in JSON, encoded up to three times. Encoders differ in
// what they escape for HTML. Most strings have only one form.
func insideJSON(text string) []string {
	out := []string{text}
	for level, from := 0, 0; level < 3; level++ {
		known := out[from:]
		from = len(out)
		for _, inner := range known {
			for _, html := range []bool{false, true} {
				if form := escapedJSON(inner, html); !slices.Contains(out, form) {
					out = append(out, form)
				}
			}
		}
	}
	return out
}

// escapedJSON returns a string as JSON, without the quotes.
func escapedJSON(text string, html bool) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// piece is the minimum length in bytes of a part of a secret that is redacted.
const piece = 8

// Redactor replaces secrets in text with asterisks: in each of their forms, in upper or lower case,
// and also parts of eight or more bytes, since messages truncate and split what they quote. A nil
// Redactor has no secrets. It is safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	secrets []string
	ready   int                 // number of secrets whose forms are in whole and pieces
	whole   map[string][]string // strings to replace, in lower case, by their first ShortestSecret bytes, the longest first
	pieces  map[string]struct{} // parts of secrets, in lower case
}

// NewRedactor returns a Redactor of the strings in secrets, or nil if there are none.
func NewRedactor(secrets map[string]any) *Redactor {
	var r *Redactor
	EachSecret(secrets, func(_, text string) {
		if r == nil {
			r = &Redactor{}
		}
		r.Add(text)
	})
	return r
}

// Add adds a secret. It ignores secrets shorter than ShortestSecret.
func (r *Redactor) Add(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(secret) >= ShortestSecret && !slices.Contains(r.secrets, secret) {
		r.secrets = append(r.secrets, secret)
	}
}

// AddWhole adds a string that contains a secret. It is redacted only as a whole, because not all
// of its parts are secret.
func (r *Redactor) AddWhole(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(text) < ShortestSecret || !r.addForm(text) {
		return
	}
	for _, form := range append(urlForms(text), asQuoted(text)) {
		r.addForm(form)
	}
}

// addForm adds a string to replace. It returns false if the string is already known or too short.
func (r *Redactor) addForm(text string) (added bool) {
	text = lowerASCII(text)
	if len(text) < ShortestSecret {
		return false
	}
	start := text[:ShortestSecret]
	at, found := slices.BinarySearchFunc(r.whole[start], text, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	if found {
		return false
	}
	if r.whole == nil {
		r.whole = map[string][]string{}
	}
	r.whole[start] = slices.Insert(r.whole[start], at, text)
	return true
}

// prepare computes the forms of new secrets. It is called only when there is text to redact,
// because most workflows never have any.
func (r *Redactor) prepare() {
	for _, secret := range r.secrets[r.ready:] {
		if r.pieces == nil {
			r.pieces = map[string]struct{}{}
		}
		for _, form := range append(SecretForms(secret), asQuoted(secret)) {
			r.addForm(form)
			form = lowerASCII(form)
			for i := 0; i+piece <= len(form); i++ {
				if part := form[i : i+piece]; distinctive(part) {
					r.pieces[part] = struct{}{}
				}
			}
		}
	}
	r.ready = len(r.secrets)
}

// distinctive reports whether a part consists of more than escapes and separators.
func distinctive(part string) bool {
	n := 0
	for _, c := range []byte(part) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c >= 0x80 {
			n++
		}
	}
	return n >= piece/2
}

// Holds reports whether text contains a whole secret, in any of its forms.
func (r *Redactor) Holds(text string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepare()
	text = lowerASCII(text)
	for _, some := range r.whole {
		if slices.ContainsFunc(some, func(secret string) bool { return strings.Contains(text, secret) }) {
			return true
		}
	}
	return false
}

// Redact replaces secrets and their parts in text with asterisks.
func (r *Redactor) Redact(text string) string {
	if r == nil || len(text) < ShortestSecret {
		return text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepare()
	folded, end := lowerASCII(text), 0
	var out strings.Builder
	for i := 0; i < len(text); {
		n := r.secretAt(folded[i:])
		if n == 0 {
			i++
			continue
		}
		out.WriteString(text[end:i])
		out.WriteString("***")
		i += n
		end = i
	}
	if end == 0 {
		return text
	}
	return out.String() + text[end:]
}

// secretAt returns the length of the secret, or part of one, at the start of text, or 0.
func (r *Redactor) secretAt(text string) (n int) {
	for i := 0; i+piece <= len(text); i++ {
		if _, ok := r.pieces[text[i:i+piece]]; !ok {
			break
		}
		n = i + piece
	}
	if len(text) < ShortestSecret {
		return n
	}
	for _, secret := range r.whole[text[:ShortestSecret]] {
		if len(secret) > n && strings.HasPrefix(text, secret) {
			return len(secret)
		}
	}
	return n
}

// asQuoted returns a string as %q formats it, without the quotes.
func asQuoted(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

// lowerASCII returns text with its ASCII letters in lower case so that offsets stay the same.
func lowerASCII(text string) string {
	out := []byte(text)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + ('a' - 'A')
		}
	}
	return string(out)
}
