package dsl

import (
	"regexp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
)

func protocols() []string { return []string{"http", "openapi", "grpc", "asyncapi", "a2a", "mcp"} }

var cataloged = regexp.MustCompile(`^[^\s:@]+:[^\s:@]+@([^\s:@]+)$`)

// call parses a call task.
func (p *parser) call(t *Task, n *node, s scope) {
	t.Call = &CallTask{}
	callee, ok := p.text(n.get("call"), "call")
	if !ok {
		return
	}
	with := n.get("with")
	if !slices.Contains(protocols(), callee) {
		p.callFunction(t, n, callee, s)
		return
	}
	t.Call.Protocol = callee
	if with == nil {
		if !p.misspelt(n, "with", append(commonKeys(), "call", "with")) {
			p.mistake(n.Pos, "add `with: …`", "task %s: call: %s has no with", quote(t.Name), callee)
		}
		return
	}
	switch callee {
	case "http":
		t.Call.HTTP = p.callHTTP(with, s)
		return
	case "openapi":
		t.Call.OpenAPI = p.callOpenAPI(with, s)
		return
	case "grpc":
		p.callGRPC(with, s)
	case "asyncapi":
		p.callAsyncAPI(t, with, s)
	case "a2a":
		p.callA2A(with, s)
	default:
		p.callMCP(with, s)
	}
	t.Unsupported = "call: " + callee
	p.cannotRun(n.get("call").Pos, t.Unsupported, instead(callee))
	t.Call.With = p.valueWithoutNotes(with, s)
}

// valueWithoutNotes parses data whose expressions were checked before, without reporting
// anything.
func (p *parser) valueWithoutNotes(n *node, s scope) *expr.Value {
	said := p.notes
	p.notes = &notes{said: map[Mistake]bool{}}
	defer func() { p.notes = said }()
	return p.value(n, s)
}

// callFunction parses a call of a function that use.functions or a catalog defines.
func (p *parser) callFunction(t *Task, n *node, callee string, s scope) {
	t.Call.Protocol = "function"
	if with := n.get("with"); with != nil {
		p.mapOf(with, "with")
		t.Call.With = p.value(with, s)
	}
	if f, ok := p.def.Use.Functions[callee]; ok {
		t.Call.Function = f
		return
	}
	at := n.get("call").Pos
	if strings.Contains(callee, "://") {
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+short(callee),
			"define the function in use.functions; to send a request, write call: http, with: {method: get, endpoint: "+cut(callee, 200)+"}")
		return
	}
	if m := cataloged.FindStringSubmatch(callee); m != nil {
		if _, known := p.shared.catalogs.find(m[1]); !known && m[1] != "default" {
			p.mistake(at, reference(m[1], "use.catalogs", p.shared.catalogs.names), "unknown catalog %s", quote(m[1]))
		}
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+short(callee), instead("catalog"))
		return
	}
	suggestion := p.guess(callee, slices.Concat(protocols(), p.shared.functions))
	if closest(callee, slices.Concat(protocols(), p.shared.functions)) == "" && suggestion != "" {
		suggestion += "; or define it in use.functions"
	}
	p.mistake(at, suggestion, "unknown call %s", quote(callee))
}

func (p *parser) callHTTP(n *node, s scope) *HTTPCall {
	c := &HTTPCall{}
	if !p.object(n, "with of call: http", keys("method", "endpoint", "headers", "body", "query", "output", "redirect").
		need("method", "endpoint")) {
		return c
	}
	c.Method = p.textOrExpression(n.get("method"), "method", s)
	p.method(n.get("method"))
	c.Endpoint = p.endpoint(n.get("endpoint"), "endpoint", s)
	p.target(n.get("endpoint"), "endpoint", s)
	c.Headers = p.pairs(n.get("headers"), "headers", s)
	c.Body = p.value(n.get("body"), s)
	c.Query = p.pairs(n.get("query"), "query", s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

// answer parses what to do with a response.
func (p *parser) answer(n *node) (output string, redirect bool) {
	output = p.word(n.get("output"), "output", "content", "content", "response", "raw")
	return output, p.flag(n.get("redirect"), "redirect")
}

// pairs parses headers or a query: a map of scalars, or one expression.
func (p *parser) pairs(n *node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if whole(n.text()).is {
		return p.value(n, s)
	}
	for _, f := range p.mapOf(n, what) {
		switch f.value.shape {
		case null, list, object:
			p.wrong(f.value, what+"."+short(f.key), "text")
		default:
		}
	}
	return p.value(n, s)
}

func (p *parser) callOpenAPI(n *node, s scope) *OpenAPICall {
	c := &OpenAPICall{}
	if !p.object(n, "with of call: openapi", keys("document", "operationId", "parameters", "authentication", "output", "redirect").
		need("document", "operationId")) {
		return c
	}
	c.Document = p.externalResource(n.get("document"), "document", s)
	p.target(n.get("document").get("endpoint"), "document.endpoint", s)
	c.OperationID = p.textOrExpression(n.get("operationId"), "operationId", s)
	p.mapOf(n.get("parameters"), "parameters")
	c.Parameters = p.value(n.get("parameters"), s)
	c.Authentication = p.authentication(n.get("authentication"), s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

// externalResource parses the location of a document.
func (p *parser) externalResource(n *node, what string, s scope) (e Endpoint) {
	if n == nil {
		return e
	}
	if n.shape == text {
		p.mistake(n.Pos, "write it as {endpoint: …}", "%s: want a map, this is text", what)
		return e
	}
	if !p.object(n, what, keys("name", "endpoint").need("endpoint")) {
		return e
	}
	p.text(n.get("name"), what+".name")
	return p.endpoint(n.get("endpoint"), what+".endpoint", s)
}

// endpoint parses a URI, or a map that contains one.
func (p *parser) endpoint(n *node, what string, s scope) (e Endpoint) {
	switch {
	case n == nil:
		return e
	case n.shape != object || unquotedTemplate(n) != "" && n.get("uri") == nil:
		e.URI = p.uri(n, what, s)
		return e
	}
	if p.object(n, what, keys("uri", "authentication").need("uri")) {
		e.URI = p.uri(n.get("uri"), what+".uri", s)
		e.Authentication = p.authentication(n.get("authentication"), s)
	}
	return e
}

// uri parses a URI, a URI template or an expression. It returns nil for a nil node.
func (p *parser) uri(n *node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	_, mixed := interpolation(src)
	switch {
	case whole(src).is, strings.HasPrefix(src, "${") && !closes(src), mixed && p.loose:
	case mixed:
		rewritten, _ := interpolation(src)
		p.mistake(n.Pos, "write it as '${ "+cut(rewritten, 200)+" }', or as a template: https://host/{name}",
			"%s: the ${ } inside of longer text is not evaluated", what)
		return expr.Literal(src)
	case src == "":
		p.mistake(n.Pos, "", "%s is empty", what)
	case strings.ContainsAny(src, " \t\r\n\v\f"):
		p.mistake(n.Pos, "", "%s: %s is not a URI: it has spaces", what, quote(src))
	default:
		// Even in loose mode a plain URI is literal.
		return expr.Literal(src)
	}
	return p.value(n, s)
}
