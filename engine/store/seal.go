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
	values map[string]string // form of a secret by token, without the marks
}

// mark is U+E000, which no text that means something has.
const mark = "\ue000"

// NewSealer seals the texts inside secrets; nil if there are none.
func NewSealer(secrets map[string]any) *Sealer {
	found := map[string]sealed{}
	s := &Sealer{values: map[string]string{}}
	event.EachSecret(secrets, func(path, secret string) {
		for _, text := range event.SecretForms(secret) {
			sum := hmac.New(sha256.New, []byte(secret))
			sum.Write([]byte(path + "\x00" + text))
			token := fmt.Sprintf("secret%s#%s", strings.ReplaceAll(plain(path), mark, ""), hex.EncodeToString(sum.Sum(nil)[:6]))
			s.values[token] = text
			this := sealed{token, text == secret}
			if old, ok := found[text]; !ok || this.before(old) {
				found[text] = this
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
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, mark+found[text].token+mark)
	}
	// Behind the secrets, of which one may begin with a mark.
	s.seal = strings.NewReplacer(append(pairs, mark, mark+mark)...)
	return s
}

// sealed is a text in which a secret may stand.
type sealed struct {
	token string
	whole bool // it is the secret itself
}

// before says which of two secrets with the same form the text is taken for.
func (f sealed) before(other sealed) bool {
	if f.whole != other.whole {
		return f.whole
	}
	return f.token < other.token
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

// sealEvent returns an event whose data, id, source and further attributes are sealed. Its
// type is not: by this it is found.
func (s *Sealer) sealEvent(e event.Event) event.Event {
	if s == nil {
		return e
	}
	e.Data, e.ID, e.Source = s.Seal(e.Data), s.text(e.ID), s.text(e.Source)
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
	e.Data, e.ID, e.Source = s.Unseal(e.Data), string(s.Unseal([]byte(e.ID))), string(s.Unseal([]byte(e.Source)))
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
