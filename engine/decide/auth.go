package decide

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Authorize returns the scheme and the parameter of the Authorization header for an
// authentication policy; they are also the value of $authorization. For a nil policy both are
// empty. Every error is an *event.Problem.
func Authorize(a *dsl.Authentication, s *expr.Scope) (scheme, parameter string, err error) {
	if a == nil {
		return "", "", nil
	}
	switch a.Scheme {
	case "basic":
		username, err := authMember(a, s, a.Username, "username")
		if err != nil {
			return "", "", err
		}
		password, err := authMember(a, s, a.Password, "password")
		if err != nil {
			return "", "", err
		}
		if strings.Contains(username, ":") {
			return "", "", event.NewProblem(event.Configuration, "authentication: basic: a username cannot contain a colon")
		}
		return "Basic", base64.StdEncoding.EncodeToString([]byte(username + ":" + password)), nil
	case "bearer":
		token, err := authMember(a, s, a.Token, "token")
		if err != nil {
			return "", "", err
		}
		return "Bearer", token, nil
	default:
		return "", "", event.NewProblem(event.Configuration, fmt.Sprintf("authentication: %s cannot be used yet", a.Scheme))
	}
}

// authMember returns one member of a policy, from its secret if it has one, otherwise from the
// document.
func authMember(a *dsl.Authentication, s *expr.Scope, v *expr.Value, member string) (string, error) {
	if a.Secret != "" {
		return authSecret(a.Secret, s, member)
	}
	if v == nil {
		return "", event.NewProblem(event.Configuration, fmt.Sprintf("authentication: %s: no %s", a.Scheme, member))
	}
	data, err := v.Eval(s)
	if err != nil {
		return "", authProblem(err, fmt.Sprintf("authentication: %s: %s", a.Scheme, member), v)
	}
	text, ok := canonical.Scalar(data)
	if !ok {
		return "", event.NewProblem(event.Expression,
			fmt.Sprintf("authentication: %s: %s is %s, want a string", a.Scheme, member, canonical.Kind(data)))
	}
	return text, nil
}

func authSecret(secret string, s *expr.Scope, member string) (string, error) {
	missing := event.NewProblem(event.Authorization, fmt.Sprintf("authentication: no secret %q to read", secret))
	if s.Var == nil {
		return "", missing
	}
	all, err := s.Var("secrets")
	if err != nil {
		return "", authProblem(err, fmt.Sprintf("authentication: secret %q", secret), nil)
	}
	secrets, _ := all.(map[string]any)
	value, ok := secrets[secret]
	if !ok {
		return "", missing
	}
	members, ok := value.(map[string]any)
	if !ok {
		return "", event.NewProblem(event.Configuration,
			fmt.Sprintf("authentication: secret %q is %s, want an object with %s", secret, canonical.Kind(value), member))
	}
	text, ok := canonical.Scalar(members[member])
	if !ok {
		return "", event.NewProblem(event.Configuration,
			fmt.Sprintf("authentication: %s of secret %q is %s, want a string", member, secret, canonical.Kind(members[member])))
	}
	return text, nil
}

// authProblem converts an error to a problem. An error message of jq may quote the value that
// caused it, so for an expression that reads secrets the problem shows only the expression.
func authProblem(err error, where string, v *expr.Value) error {
	if problem, ok := errors.AsType[*event.Problem](err); ok {
		return problem
	}
	if v != nil && v.Program() != nil && strings.Contains(v.Program().Source(), "$secrets") {
		return event.NewProblem(event.Expression, fmt.Sprintf("%s: cannot evaluate %s", where, v.Program().Source()))
	}
	return event.NewProblem(event.Expression, fmt.Sprintf("%s: %v", where, err))
}
