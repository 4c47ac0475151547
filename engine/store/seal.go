package store

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Sealer replaces secrets in JSON text with tokens, and tokens with secrets. A nil Sealer changes
// nothing.
//
// A token is the secret's path and a keyed hash between two marks, a private-use rune: the hash
// cannot be guessed without the secret. A mark in the data itself is doubled.
type Sealer struct {
	seal   *strings.Replacer
	values map[string]string // form of a secret by token, without the marks
}

// mark is U+E000, a private-use character.
const mark = "\ue000"

// NewSealer returns a Sealer for the strings inside secrets, or nil if there are none.
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
	// The longest first so that a secret inside another one does not split it.
	texts := slices.SortedFunc(maps.Keys(found), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, mark+found[text].token+mark)
	}
	// After the secrets, since one may begin with a mark.
	s.seal = strings.NewReplacer(append(pairs, mark, mark+mark)...)
	return s
}

// sealed is a form in which a secret may occur.
type sealed struct {
	token string
	whole bool // the form is the secret itself
}

// before decides between two secrets with the same form.
func (s sealed) before(other sealed) bool {
	if s.whole != other.whole {
		return s.whole
	}
	return s.token < other.token
}

// plain replaces the characters of a path that need an escape in JSON with _.
func plain(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, path)
}

// Redact replaces secrets with ***, for display.
func (s *Sealer) Redact(text string) string {
	if s == nil {
		return text
	}
	parts := strings.Split(string(s.Seal([]byte(text))), mark)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "***"
	}
	return strings.Join(parts, "")
}

// Seal replaces secrets with tokens. In JSON it searches only strings: a number with the digits of
// a secret stays a number.
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

// text replaces secrets with tokens in a string that is not JSON.
func (s *Sealer) text(text string) string {
	if s == nil {
		return text
	}
	return s.seal.Replace(text)
}

// sealEvent returns an event whose data, id, source and extension attributes are sealed. Its type is
// not, since listeners find the event by its type.
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

// Unseal replaces tokens with their secrets, and leaves other text unchanged.
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
