package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/spelling"
)

// Caller performs calls to other systems.
type Caller struct {
	Transport http.RoundTripper // how requests go out; never nil
	Limits    Limits            // zero members mean their defaults
	Version   string            // of flunq, for the User-Agent
	Breakers  *Breakers         // shared by all executors of a process; nil: no call is refused
	Memory    *Memory           // likewise; nil: no bound
}

// Call performs a call task and returns its raw output. A failure of the call is a
// *event.Problem (errors.As) that shows no secret; any other error is the engine's. The
// scope is that of the task's definition. ctx and the transport set the deadlines.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, err error) {
	output, _, err = c.Perform(ctx, task, scope, from)
	return output, err
}

// Perform is like Call, and also returns the last request that was sent; nil if there was
// none.
func (c *Caller) Perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, made *event.Call, err error) {
	reserved := c.reserve(from)
	defer reserved.release()
	return c.perform(ctx, task, scope, from, reserved)
}

// reserve returns an empty reservation of memory for the answers of a call. The caller
// releases it.
func (c *Caller) reserve(from Origin) *reservation {
	return &reservation{memory: c.Memory, tenant: from.Tenant}
}

func (c *Caller) perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin, reserved *reservation) (output any, made *event.Call, err error) {
	if task.Call == nil {
		return nil, nil, fmt.Errorf("perform %s: not a call", task.Ref)
	}
	run := &run{Caller: c, limits: c.Limits.filled(), origin: from, redactor: newRedactor(scope), reserved: reserved}
	switch {
	case task.Call.HTTP != nil:
		output, err = run.http(ctx, task.Call.HTTP)
	case task.Call.OpenAPI != nil:
		output, err = run.openAPI(ctx, task.Call.OpenAPI)
	default:
		err = configuration("call: %s cannot be performed yet", task.Call.Protocol)
	}
	if err != nil {
		return nil, run.presentableCall(), run.presentable(err)
	}
	return output, run.presentableCall(), nil
}

// run is one performance of a call task.
type run struct {
	*Caller
	*redactor
	limits   Limits
	origin   Origin
	reserved *reservation // memory for answers

	sent       *message // the last request that was sent; nil for none
	first      *url.URL // the URL requested before any redirect
	sentStatus int      // status of the answer, 0 for none
}

// presentableCall returns the last request that was sent, with secrets redacted.
func (r *run) presentableCall() *event.Call {
	if r.sent == nil {
		return nil
	}
	made := &event.Call{Method: r.sent.method, URL: r.redactURL(r.sent.uri), Status: r.sentStatus}
	if r.first != r.sent.uri {
		made.First = r.redactURL(r.first)
	}
	return made
}

// presentable returns err with its texts on one line and secrets redacted.
func (r *run) presentable(err error) error {
	problem, ok := errors.AsType[*event.Problem](err)
	if !ok {
		return err
	}
	shown := *problem
	shown.Detail = printable(r.redactValue(problem.Detail))
	shown.Title = printable(r.redactValue(problem.Title))
	return &shown
}

// authorization returns the value of an Authorization header, empty without a policy.
func (r *run) authorization(policy *dsl.Authentication) (string, error) {
	if policy == nil {
		return "", nil
	}
	scheme, parameter, err := decide.Authorize(policy, r.scope)
	if err != nil {
		return "", err
	}
	r.redactCredentials(scheme, parameter)
	return scheme + " " + parameter, nil
}

func configuration(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Configuration, fmt.Sprintf(format, args...))
}

func expression(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Expression, fmt.Sprintf(format, args...))
}

func validation(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Validation, fmt.Sprintf(format, args...))
}

func communication(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Communication, fmt.Sprintf(format, args...))
}

// Limits bound what a call may cost. A zero member means its default.
type Limits struct {
	// Timeout bounds one request from dialling to the last byte of the answer.
	// NewTransport enforces it. Default 60 s; simulated 1 s to 120 s.
	Timeout time.Duration

	// Body is the maximum size of a response in bytes, decompressed. Default 10 MiB;
	// simulated 1 KiB to 16 MiB.
	Body int64

	// Document is the maximum size of an OpenAPI document in bytes. Default 10 MiB;
	// simulated 64 KiB to 16 MiB.
	Document int64

	// Headers is the maximum size of a response's headers in bytes. Default 64 KiB;
	// simulated 4 KiB to 1 MiB.
	Headers int64

	// Redirects is how many redirects of one request are followed. Default 10; simulated
	// 1 to 20.
	Redirects int

	// AllowLoopback permits calls to this machine; AllowPrivate permits calls to private,
	// link-local and other networks that are not the public internet.
	AllowLoopback, AllowPrivate bool
}

// DefaultLimits are the limits of an ordinary deployment.
func DefaultLimits() Limits { return Limits{}.filled() }

// filled replaces zero members with their defaults.
func (l Limits) filled() Limits {
	if l.Timeout <= 0 {
		l.Timeout = time.Minute
	}
	if l.Body <= 0 {
		l.Body = 10 << 20
	}
	if l.Document <= 0 {
		l.Document = 10 << 20
	}
	if l.Headers <= 0 {
		l.Headers = 64 << 10
	}
	if l.Redirects <= 0 {
		l.Redirects = 10
	}
	return l
}

// printable returns text on one line, without characters that control a terminal.
func printable(text string) string {
	var out strings.Builder
	space := false
	for _, r := range text {
		switch {
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r):
		case unicode.IsSpace(r):
			space = true
		case unicode.IsControl(r):
		default:
			if space && out.Len() > 0 {
				out.WriteByte(' ')
			}
			space = false
			out.WriteRune(r)
		}
	}
	return out.String()
}

// shortened cuts text to at most limit bytes, between two characters.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}

// didYouMean returns a suggestion for the end of a message, if a known name is similar.
func didYouMean(name string, known []string) string {
	if found := spelling.Word(name, known); found != "" {
		return fmt.Sprintf(" (did you mean %q?)", found)
	}
	return ""
}
