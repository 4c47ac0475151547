package executor

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// redactor evaluates values and remembers the secrets that it came across, so
// that nothing that is shown later contains them.
type redactor struct {
	scope    *expr.Scope // the task's, with an eye on its variables
	read     bool        // a secret was read since this was last set to false
	redacted []string
}

// leastSecret is the length below which a text is no secret, but would blot out half of a message.
const leastSecret = 4

func newRedactor(scope *expr.Scope) *redactor {
	d := &redactor{}
	watched := *scope
	if variable := scope.Var; variable != nil {
		watched.Var = func(name string) (any, error) {
			value, err := variable(name)
			switch members, _ := value.(map[string]any); name {
			case "secrets":
				d.read = true
				d.redactSecrets(members)
			case "authorization":
				d.read = true
				d.redactAll(members["parameter"])
			}
			return value, err
		}
	}
	d.scope = &watched
	return d
}

// eval yields a value's data; where names the member for the error. Data made
// with secrets is hidden as a whole if it is one text, or an object's member is.
func (d *redactor) eval(where string, v *expr.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	if fields := v.Fields(); fields != nil {
		out := make(map[string]any, len(fields))
		for _, f := range fields {
			data, err := d.eval(where+"."+f.Key, f.Value)
			if err != nil {
				return nil, err
			}
			out[f.Key] = data
		}
		return out, nil
	}
	d.read = false
	data, err := v.Eval(d.scope)
	if err != nil {
		if problem, ok := errors.AsType[*event.Problem](err); ok {
			return nil, problem
		}
		if d.read {
			// What jq says may quote a part of the secret, which no mask would find.
			return nil, expression("%s: cannot evaluate the expression, which reads a secret", where)
		}
		return nil, expression("%s: %v", where, err)
	}
	if d.read {
		d.redactDerived(data)
	}
	return data, nil
}

// redactDerived hides a text that was made with secrets, and those directly in an object.
func (d *redactor) redactDerived(data any) {
	switch data := data.(type) {
	case string:
		d.redact(data)
	case map[string]any:
		for _, member := range data {
			if text, ok := member.(string); ok {
				d.redact(text)
			}
		}
	}
}

// redactSecrets hides all that the secrets hold but the names of users, which
// are common words.
func (d *redactor) redactSecrets(secrets map[string]any) {
	for _, secret := range secrets {
		members, ok := secret.(map[string]any)
		if !ok {
			d.redactAll(secret)
			continue
		}
		for name, member := range members {
			if name != "username" {
				d.redactAll(member)
			}
		}
	}
}

// redactAll hides every scalar of a value, however deep.
func (d *redactor) redactAll(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			d.redactAll(member)
		}
	case []any:
		for _, item := range value {
			d.redactAll(item)
		}
	default:
		if text, ok := expr.Scalar(value); ok {
			d.redact(text)
		}
	}
}

func (d *redactor) redactCredentials(scheme, parameter string) {
	d.redact(parameter)
	if scheme != "Basic" {
		return
	}
	if pair, err := base64.StdEncoding.DecodeString(parameter); err == nil {
		_, password, _ := strings.Cut(string(pair), ":")
		d.redact(password)
	}
}

// redact keeps text out of all that is shown, in its usual encodings too.
func (d *redactor) redact(text string) {
	if len(text) < leastSecret || slices.Contains(d.redacted, text) {
		return
	}
	d.redacted = append(d.redacted, text)
	quoted := strings.Trim(fmt.Sprintf("%q", text), `"`)
	for _, form := range []string{url.QueryEscape(text), url.PathEscape(text), escape(text, ""), quoted} {
		if form != text && !slices.Contains(d.redacted, form) {
			d.redacted = append(d.redacted, form)
		}
	}
}

// redactURL is a URL as it may be shown: without its user, without what any secret holds,
// even one that came here through data, and without parameters that are named like one.
func (d *redactor) redactURL(u *url.URL) string {
	if variable := d.scope.Var; variable != nil {
		_, _ = variable("secrets") // which hides them; without secrets there is nothing to hide
	}
	shown := *u
	shown.User = nil
	if shown.RawQuery != "" {
		parameters := strings.Split(shown.RawQuery, "&")
		for i, parameter := range parameters {
			name, value, _ := strings.Cut(parameter, "=")
			if plain, err := url.QueryUnescape(name); err == nil && value != "" && credential(plain) {
				parameters[i] = name + "=***"
			}
		}
		shown.RawQuery = strings.Join(parameters, "&")
	}
	return shortened(printable(d.redactValue(shown.String())), longestURL)
}

// longestURL is how much of a URL is kept in a history, in bytes.
const longestURL = 1000

// redactValue puts asterisks where secrets would be, longer ones first because they may contain others.
func (d *redactor) redactValue(text string) string {
	longest := slices.SortedFunc(slices.Values(d.redacted), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for _, secret := range longest {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}
