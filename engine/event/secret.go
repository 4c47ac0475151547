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

// SecretForms are the texts in which a secret can be kept or shown, itself first: as it
// is, in a URL, in base64, and each of these inside JSON, up to three levels deep.
func SecretForms(secret string) []string {
	var out []string
	plain := append(urlForms(secret), base64Forms(secret)...)
	if lower := strings.ToLower(secret); lower != secret { // as in the name of a host
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

// urlForms are a text and what it becomes in the parts of a URL.
func urlForms(text string) []string {
	query := url.QueryEscape(text)
	return []string{
		text, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(text),
		(&url.URL{Path: text}).EscapedPath(), strings.ReplaceAll(text, " ", "%20"),
	}
}

// base64Forms are what base64 makes of a text, and what it makes of it behind any other,
// such as the name of a user.
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

// insideJSON are the forms that a text has as it stands, in JSON, and in JSON that is a
// text in JSON again: encoders differ about what to escape for HTML. Most texts have one.
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

// escapedJSON is a text as it stands between the quotes of JSON.
func escapedJSON(text string, html bool) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// piece is the length in bytes from which on a part of a secret is redacted, too.
const piece = 8

// Redactor puts asterisks in the place of secrets in text that is shown: of each of their
// forms, in capital letters or small ones, and of pieces of eight bytes and more, since
// messages cut and split what they quote. A nil Redactor knows no secrets. It is safe for
// concurrent use.
type Redactor struct {
	mu      sync.Mutex
	secrets []string
	ready   int                 // how many of the secrets whole and pieces have
	whole   map[string][]string // texts to look for, in small letters, by their first ShortestSecret bytes, the longest first
	pieces  map[string]struct{} // of secrets, in small letters
}

// NewRedactor knows the texts inside secrets; nil if there are none.
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

// Add makes a secret known. What is shorter than ShortestSecret is left out.
func (r *Redactor) Add(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(secret) >= ShortestSecret && !slices.Contains(r.secrets, secret) {
		r.secrets = append(r.secrets, secret)
	}
}

// AddWhole makes a text known that is to be redacted as a whole only, because parts of
// it are no secret: what was made with one.
func (r *Redactor) AddWhole(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(text) < ShortestSecret || !r.find(text) {
		return
	}
	for _, form := range append(urlForms(text), asQuoted(text)) {
		r.find(form)
	}
}

// find makes the redactor look for a text; false if it does so already.
func (r *Redactor) find(text string) (added bool) {
	text = small(text)
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

// prepare finds out what to look for. It waits until there is a text to be redacted:
// most workflows never show one.
func (r *Redactor) prepare() {
	for _, secret := range r.secrets[r.ready:] {
		if r.pieces == nil {
			r.pieces = map[string]struct{}{}
		}
		for _, form := range append(SecretForms(secret), asQuoted(secret)) {
			r.find(form)
			form = small(form)
			for i := 0; i+piece <= len(form); i++ {
				if part := form[i : i+piece]; distinctive(part) {
					r.pieces[part] = struct{}{}
				}
			}
		}
	}
	r.ready = len(r.secrets)
}

// distinctive reports whether a piece is more than what escapes and separates.
func distinctive(part string) bool {
	n := 0
	for _, c := range []byte(part) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c >= 0x80 {
			n++
		}
	}
	return n >= piece/2
}

// Holds reports whether a secret stands in a text as a whole, in any of its forms.
func (r *Redactor) Holds(text string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepare()
	text = small(text)
	for _, some := range r.whole {
		if slices.ContainsFunc(some, func(secret string) bool { return strings.Contains(text, secret) }) {
			return true
		}
	}
	return false
}

// Redact is a text with asterisks in the place of secrets and of their pieces.
func (r *Redactor) Redact(text string) string {
	if r == nil || len(text) < ShortestSecret {
		return text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepare()
	lower, end := small(text), 0
	var out strings.Builder
	for i := 0; i < len(text); {
		n := r.secretAt(lower[i:])
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

// secretAt is the length of the secret, or of the pieces of one, that a text begins with.
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

// asQuoted is a text as Go quotes it, without the quotes.
func asQuoted(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

// small is a text in small letters, as far as these are ASCII: its bytes keep their places.
func small(text string) string {
	out := []byte(text)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + ('a' - 'A')
		}
	}
	return string(out)
}
