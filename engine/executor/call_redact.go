package executor

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// redactor evaluates values and remembers the secrets they read, so that nothing shown
// later contains them.
type redactor struct {
	scope    *expr.Scope // the task's scope, observing which variables are read
	read     bool        // a secret was read since this was last set to false
	redacted event.Redactor
}

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

// eval returns a value's data; where names the member in errors. A text made from secrets
// is redacted as a whole, also as a direct member of an object.
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
			// jq's message may quote part of the secret, which redaction would not find.
			return nil, expression("%s: cannot evaluate the expression, which reads a secret", where)
		}
		return nil, expression("%s: %v", where, err)
	}
	if d.read {
		d.redactDerived(data)
	}
	return data, nil
}

// redactDerived redacts a text that was made from secrets, and texts directly in an
// object.
func (d *redactor) redactDerived(data any) {
	switch data := data.(type) {
	case string:
		d.redacted.AddWhole(data)
	case map[string]any:
		for _, member := range data {
			if text, ok := member.(string); ok {
				d.redacted.AddWhole(text)
			}
		}
	}
}

// redactSecrets redacts everything in the secrets except user names, which are common
// words.
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

// redactAll redacts every scalar of a value at any depth.
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

// redact keeps text out of everything that is shown.
func (d *redactor) redact(text string) { d.redacted.Add(text) }

// redactURL returns a URL for display: without its user, with all secrets redacted, even
// those that arrived through data, and without the values of parameters named like
// credentials.
func (d *redactor) redactURL(u *url.URL) string {
	if variable := d.scope.Var; variable != nil {
		_, _ = variable("secrets") // reads all secrets, and so redacts them
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

// longestURL is how many bytes of a URL a history keeps.
const longestURL = 1000

// redactValue replaces secrets with asterisks.
func (d *redactor) redactValue(text string) string { return d.redacted.Redact(text) }
