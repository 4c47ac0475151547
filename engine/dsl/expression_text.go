package dsl

import (
	"regexp"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// plainText warns about text that looks like an expression but is literal.
func (p *expressions) plainText(n *yaml.Node, src string, s scope) {
	switch {
	case n.Style == 0 && curlyQuotes().MatchString(src):
		inner := []rune(src)
		p.Warn(ruleText, n.Pos, "write: "+yaml.InSingleQuotes(string(inner[1:len(inner)-1])), "these quotes are part of the text: YAML only recognizes \" and '")
	case almostExpression().MatchString(src):
		inner := almostExpression().FindStringSubmatch(src)
		p.Warn(ruleText, n.Pos, "to use its value, write: "+computing(strings.TrimSpace(inner[1])), "this is the text %s, not the value of an expression", yaml.Quote(src))
	case variablePattern().MatchString(src) && s.has(leadingName(src)):
		p.Warn(ruleText, n.Pos, "to use its value, write: ${ "+src+" }", "this is the text %s, not the variable's value", yaml.Quote(src))
	case p.resembles(src, s):
		p.Warn(ruleText, n.Pos, "to use its value, write: "+computing(src), "this is the text %s, not the value of an expression", yaml.Quote(src))
	case goTemplate().MatchString(src):
		p.Warn(ruleText, n.Pos, "write: "+interpolated(src, goTemplate()), "{{ }} is not filled in: this is plain text")
	case otherTemplate().MatchString(src):
		p.Warn(ruleText, n.Pos, "an expression is written in jq, within ${ }", "{{ }} is not filled in: this is plain text")
	case jqFilling().MatchString(src):
		p.Warn(ruleText, n.Pos, "write: "+yamlQuoted(`${ "`+src+`" }`), `\( ) is filled in within ${ "…" } only: this is plain text`)
	default:
		if inner := shellFilling().FindStringSubmatch(src); inner != nil && s.has(inner[1]) {
			p.Warn(ruleText, n.Pos, "write: "+interpolated(src, shellFilling()), "%s inside longer text is not filled in", yaml.Quote(inner[0]))
		}
	}
}

var (
	curlyQuotes      = lazyregexp.New(`^[“”„‘’«].*[“”‘’»]$`)
	almostExpression = lazyregexp.New(`^(?:\$\s+\{|\$\(|#\{|%\{)(\s*[.$][^{}]*)[})]$`)
	goTemplate       = lazyregexp.New(`\{\{-?\s*([.$][^{}]*?)\s*-?\}\}`)
	otherTemplate    = lazyregexp.New(`^\{\{[^{}]+\}\}$`) // such as {{ inputs.name }}
	jqFilling        = lazyregexp.New(`\\\(\s*[.$][\w.$]*.*\)`)
	shellFilling     = lazyregexp.New(`\$([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)+`)
	startsPath       = lazyregexp.New(`^\(*[.$][A-Za-z_"\[]`)
	usesPath         = lazyregexp.New(`(?:^|[\s(\[|+*/<>=-])\.[A-Za-z_"\[]`)
	fileEnding       = lazyregexp.New(`(?i)^\.[a-z0-9_-]*(json|ya?ml|xml|html?|csv|txt|md|pdf|png|jpe?g|gif|svg|zip|gz|tar|log|env|exe|sh|js|ts|py|go|docx?|xlsx?|ignore)$|^\.[a-z0-9.-]+\.(com|org|net|io|dev|local|internal|example|test)$`)
)

// resembles reports whether text is certainly meant as an expression: it looks like one, compiles,
// and reads data. So do file names such as .gitignore, which are excluded.
func (p *expressions) resembles(src string, s scope) bool {
	if !startsPath().MatchString(src) && !usesPath().MatchString(src) || fileEnding().MatchString(src) {
		return false
	}
	return len(p.Warnings) < yaml.MaxMistakes && !p.overBudget(len(src)) && expr.ReadsData(src, s.has)
}

// computing returns the expression, in ${ }, that a string resembles.
func computing(src string) string {
	return yamlQuoted("${ " + excerpt.Of(strings.TrimSpace(src), 200) + " }")
}

// yamlQuoted quotes a string that YAML would not read unchanged.
func yamlQuoted(src string) string {
	if strings.Contains(src, ": ") || strings.Contains(src, " #") || strings.Count(src, "{") > 1 || strings.ContainsAny(src, "\"'\n") {
		return "'" + strings.ReplaceAll(src, "'", "''") + "'"
	}
	return src
}

// interpolated replaces the matches of a pattern with jq interpolations.
func interpolated(src string, places *regexp.Regexp) string {
	var b strings.Builder
	at := 0
	for _, m := range places.FindAllStringSubmatchIndex(src, -1) {
		path := src[m[0]:m[1]]
		if places == goTemplate() {
			path = src[m[2]:m[3]]
		}
		if m[0] == 0 && m[1] == len(src) {
			return computing(path)
		}
		b.WriteString(unquoted(src[at:m[0]]) + `\(` + path + ")")
		at = m[1]
	}
	b.WriteString(unquoted(src[at:]))
	return yamlQuoted(`${ "` + excerpt.Of(b.String(), 200) + `" }`)
}
