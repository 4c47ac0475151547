package call

import (
	"encoding/base64"
	"errors"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// redactDerived redacts a string that was made from secrets, and strings directly in an object.
func (r *Run) redactDerived(data any) {
	switch data := data.(type) {
	case string:
		r.secrets.AddWhole(data)
	case map[string]any:
		for _, member := range data {
			if text, ok := member.(string); ok {
				r.secrets.AddWhole(text)
			}
		}
	}
}

// redactSecrets redacts everything in the secrets except user names, which are common
// words.
func (r *Run) redactSecrets(secrets map[string]any) {
	for _, secret := range secrets {
		members, ok := secret.(map[string]any)
		if !ok {
			r.redactAll(secret)
			continue
		}
		for name, member := range members {
			if name != "username" {
				r.redactAll(member)
			}
		}
	}
}

// redactAll redacts every scalar of a value at any depth.
func (r *Run) redactAll(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			r.redactAll(member)
		}
	case []any:
		for _, item := range value {
			r.redactAll(item)
		}
	default:
		if text, ok := canonical.Scalar(value); ok {
			r.redact(text)
		}
	}
}

// RedactCredentials redacts the credentials in an Authorization header.
func (r *Run) RedactCredentials(scheme, parameter string) {
	r.redact(parameter)
	if scheme != "Basic" {
		return
	}
	if pair, err := base64.StdEncoding.DecodeString(parameter); err == nil {
		_, password, _ := strings.Cut(string(pair), ":")
		r.redact(password)
	}
}

// redact redacts text in everything that is shown.
func (r *Run) redact(text string) { r.secrets.Add(text) }

// RedactSecrets redacts all secrets of the workflow, even those that no expression of this
// task reads: data may have brought them here.
func (r *Run) RedactSecrets() {
	if variable := r.scope.Var; variable != nil {
		_, _ = variable("secrets") // reads all secrets, and so redacts them
	}
}

// Redact replaces secrets with asterisks.
func (r *Run) Redact(text string) string { return r.secrets.Redact(text) }

// RedactError returns err with the fields of a problem on one line each and secrets redacted.
func (r *Run) RedactError(err error) error {
	problem, ok := errors.AsType[*event.Problem](err)
	if !ok {
		return err
	}
	shown := *problem
	shown.Detail = Printable(r.Redact(problem.Detail))
	shown.Title = Printable(r.Redact(problem.Title))
	return &shown
}
