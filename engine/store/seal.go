package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Sealer puts tokens in the place of secrets in JSON text, and back. A nil
// Sealer leaves everything as it is.
//
// A token stands between two marks, a rune for private use, and carries a keyed
// hash: who does not know the secret cannot make its token. A mark in the data
// itself is written twice.
type Sealer struct {
	seal   *strings.Replacer
	values map[string]string // secret by token, without the marks
}

// mark is U+E000, which no text that means something has.
const mark = "\ue000"

// NewSealer seals the texts inside secrets; nil if there are none.
func NewSealer(secrets map[string]any) *Sealer {
	found := map[string]string{} // token by JSON text of the secret
	event.EachSecret(secrets, func(path, secret string) {
		for _, text := range spellings(secret) {
			sum := hmac.New(sha256.New, []byte(secret))
			sum.Write([]byte(path + "\x00" + text))
			token := fmt.Sprintf("secret%s#%s", strings.ReplaceAll(plain(path), mark, ""), hex.EncodeToString(sum.Sum(nil)[:6]))
			if old, ok := found[text]; !ok || token < old {
				found[text] = token
			}
		}
	})
	if len(found) == 0 {
		return nil
	}
	texts := make([]string, 0, len(found)+1)
	for text := range found {
		texts = append(texts, text)
	}
	// The longest first, so that a secret inside another does not break it up.
	slices.SortFunc(texts, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	s := &Sealer{values: map[string]string{}}
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, mark+found[text]+mark)
		s.values[found[text]] = text
	}
	// Behind the secrets, of which one may begin with a mark.
	s.seal = strings.NewReplacer(append(pairs, mark, mark+mark)...)
	return s
}

// spellings are the forms that a text has as it stands, in JSON, and in JSON that
// is a text in JSON again: encoders differ about what to escape for HTML. Most
// texts have one.
func spellings(text string) []string {
	out := []string{text}
	for range 2 {
		for _, known := range out {
			for _, html := range []bool{false, true} {
				if form := escaped(known, html); !slices.Contains(out, form) {
					out = append(out, form)
				}
			}
		}
	}
	return out
}

// plain keeps of a path what needs no escape in JSON.
func plain(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, path)
}

// escaped is a text as it stands between the quotes of JSON.
func escaped(text string, html bool) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		return text
	}
	return trimQuotes(out.String())
}

// Seal puts tokens in the place of secrets. In JSON these are only looked for inside of
// texts: a number that has the digits of one stays a number.
func (s *Sealer) Seal(text []byte) []byte {
	if s == nil || len(text) == 0 {
		return text
	}
	sealed := s.seal.Replace(string(text))
	if sealed == string(text) {
		return text
	}
	if !json.Valid(text) {
		return []byte(sealed)
	}
	var out strings.Builder
	for rest := string(text); ; {
		before, after, found := strings.Cut(rest, `"`)
		out.WriteString(before)
		if !found {
			return []byte(out.String())
		}
		end := 0
		for after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		out.WriteString(`"` + s.seal.Replace(after[:end]) + `"`)
		rest = after[end+1:]
	}
}

// text is a text that is no JSON with tokens in the place of secrets.
func (s *Sealer) text(text string) string {
	if s == nil {
		return text
	}
	return s.seal.Replace(text)
}

// sealEvent returns an event whose data, source and further attributes are sealed. Its type
// and its id are not: by these it is found.
func (s *Sealer) sealEvent(e event.Event) event.Event {
	if s == nil {
		return e
	}
	e.Data, e.Source = s.Seal(e.Data), s.text(e.Source)
	if len(e.Ext) > 0 {
		ext := make(map[string]string, len(e.Ext))
		for name, value := range e.Ext {
			ext[name] = s.text(value)
		}
		e.Ext = ext
	}
	return e
}

// unsealEvent undoes sealEvent in place.
func (s *Sealer) unsealEvent(e *event.Event) {
	if s == nil {
		return
	}
	e.Data, e.Source = s.Unseal(e.Data), string(s.Unseal([]byte(e.Source)))
	for name, value := range e.Ext {
		e.Ext[name] = string(s.Unseal([]byte(value)))
	}
}

// Unseal puts secrets in the place of their tokens; other text stays as it is.
func (s *Sealer) Unseal(text []byte) []byte {
	if s == nil || !bytes.Contains(text, []byte(mark)) {
		return text
	}
	var out strings.Builder
	rest := string(text)
	for {
		before, after, ok := strings.Cut(rest, mark)
		out.WriteString(before)
		if !ok {
			return []byte(out.String())
		}
		token, tail, closed := strings.Cut(after, mark)
		value, known := s.values[token]
		switch {
		case closed && token == "":
			out.WriteString(mark)
			rest = tail
		case closed && known:
			out.WriteString(value)
			rest = tail
		case closed: // the token of a secret that is not known here
			out.WriteString(mark + token + mark)
			rest = tail
		default:
			out.WriteString(mark)
			rest = after
		}
	}
}

// trimQuotes takes the quotes and the line's end off a JSON text.
func trimQuotes(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(text, "\n"), `"`), `"`)
}
