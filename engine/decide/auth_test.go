package decide_test

import (
	"errors"
	"strings"
	"testing"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// secretScope returns a scope with secrets of every shape.
func secretScope() *expr.Scope {
	secrets := map[string]any{
		"login":  map[string]any{"username": "ada", "password": "lovelace"},
		"token":  map[string]any{"token": "tok-123"},
		"text":   "hush",
		"nobody": map[string]any{},
	}
	return &expr.Scope{Dot: map[string]any{"user": "ada"}, Var: func(name string) (any, error) {
		if name == "secrets" {
			return secrets, nil
		}
		return nil, errors.New("no such variable")
	}}
}

func computed(t *testing.T, src string) *expr.Value {
	t.Helper()
	p, err := expr.Compile(src, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return expr.Computed(p)
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name              string
		policy            *dsl.Authentication
		scheme, parameter string
	}{
		{"no policy", nil, "", ""},
		{"basic", &dsl.Authentication{Scheme: "basic", Username: computed(t, ".user"), Password: expr.Literal(1234)}, "Basic", "YWRhOjEyMzQ="},
		{"basic from a secret", &dsl.Authentication{Scheme: "basic", Secret: "login"}, "Basic", "YWRhOmxvdmVsYWNl"},
		{"bearer", &dsl.Authentication{Scheme: "bearer", Token: computed(t, "$secrets.token.token")}, "Bearer", "tok-123"},
		{"bearer from a secret", &dsl.Authentication{Scheme: "bearer", Secret: "token"}, "Bearer", "tok-123"},
	}
	for _, tt := range tests {
		scheme, parameter, err := decide.Authorize(tt.policy, secretScope())
		if scheme != tt.scheme || parameter != tt.parameter || err != nil {
			t.Errorf("%s: %q %q %v, want %q %q", tt.name, scheme, parameter, err, tt.scheme, tt.parameter)
		}
	}
}

func TestAuthorizeProblems(t *testing.T) {
	t.Parallel()
	forbidden := event.NewProblem(event.Authorization, "secrets are closed")
	closed := &expr.Scope{Var: func(string) (any, error) { return nil, forbidden }}
	tests := []struct {
		name   string
		policy *dsl.Authentication
		scope  *expr.Scope
		short  string
		status int
		part   string
	}{
		{"oauth2", &dsl.Authentication{Scheme: "oauth2"}, secretScope(), event.Configuration, 400, "authentication: oauth2 cannot be used yet"},
		{"digest", &dsl.Authentication{Scheme: "digest"}, secretScope(), event.Configuration, 400, "authentication: digest cannot be used yet"},
		{"no such secret", &dsl.Authentication{Scheme: "bearer", Secret: "nil"}, secretScope(), event.Authorization, 403, `"nil"`},
		{"closed secrets", &dsl.Authentication{Scheme: "bearer", Secret: "nil"}, closed, event.Authorization, 403, "secrets are closed"},
		{"secret without variables", &dsl.Authentication{Scheme: "bearer", Secret: "nil"}, &expr.Scope{}, event.Authorization, 403, `"nil"`},
		{"text as a secret", &dsl.Authentication{Scheme: "basic", Secret: "text"}, secretScope(), event.Configuration, 400, "is a string, want an object with username"},
		{"empty secret", &dsl.Authentication{Scheme: "bearer", Secret: "nobody"}, secretScope(), event.Configuration, 400, `token of secret "nobody" is null`},
		{"list as a token", &dsl.Authentication{Scheme: "bearer", Token: expr.Literal([]any{"x"})}, secretScope(), event.Expression, 400, "token is a list"},
		{"no password", &dsl.Authentication{Scheme: "basic", Username: expr.Literal("a")}, secretScope(), event.Configuration, 400, "no password"},
		{"colon", &dsl.Authentication{Scheme: "basic", Username: expr.Literal("a:b"), Password: expr.Literal("c")}, secretScope(), event.Configuration, 400, "colon"},
		{"expression", &dsl.Authentication{Scheme: "bearer", Token: computed(t, "$secrets.text | tonumber")}, secretScope(), event.Expression, 400, "cannot evaluate $secrets.text | tonumber"},
	}
	for _, tt := range tests {
		_, _, err := decide.Authorize(tt.policy, tt.scope)
		p, ok := errors.AsType[*event.Problem](err)
		if !ok || p.Type != tt.short || p.Status != tt.status || !strings.Contains(p.Detail, tt.part) {
			t.Errorf("%s: %#v, want %s/%d with %q", tt.name, err, tt.short, tt.status, tt.part)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v shows the secret", tt.name, err)
		}
	}
}
