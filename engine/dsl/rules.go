package dsl

import "flunq.io/flunq/engine/expr"

// The rules that a valid document may break. Each warning names its rule.
const (
	ruleText          = "text"
	ruleMethod        = "http-method"
	ruleEndpoint      = "endpoint"
	ruleTemplate      = "uri-template"
	ruleUnreachable   = "unreachable"
	ruleEndless       = "endless"
	ruleRetryLimit    = "retry-limit"
	ruleJitter        = "jitter"
	ruleErrorType     = "error-type"
	ruleSchema        = "json-schema"
	ruleUnknownKey    = "unknown-key"
	ruleVersion       = "dsl-version"
	ruleUnsupported   = "unsupported"
	ruleSkippedThen   = "skipped-then"
	ruleExitInLoop    = "exit-in-loop"
	ruleBranchExports = "branch-exports"
	ruleGoDuration    = "go-duration"
	ruleAttribute     = "event-attribute"
	ruleShadowed      = "variable-name"
	ruleCaseName      = "case-name"
)

// Rule is a rule that a valid document may break.
type Rule struct{ Name, About string }

// Rules returns the rules of the warnings of Parse.
func Rules() []Rule {
	return []Rule{
		{ruleText, "text that looks like an expression: .name, {{ name }}"},
		{expr.RuleAssignment, "= in a condition, which sets a value, instead of =="},
		{expr.RuleConstant, "a condition that is always true or always false"},
		{expr.RuleMeaning, "an expression that jq reads differently than it looks"},
		{ruleUnreachable, "a task that is never reached"},
		{ruleEndless, "tasks that never end"},
		{ruleRetryLimit, "a retry without a limit"},
		{ruleJitter, "a jitter from more to less"},
		{ruleMethod, "an unknown HTTP method"},
		{ruleEndpoint, "an endpoint that is relative or has no host"},
		{ruleTemplate, "a URI template with an empty or unknown variable"},
		{ruleErrorType, "a standard error that does not exist, or two spellings"},
		{ruleSchema, "a keyword of JSON Schema that does nothing"},
		{ruleUnknownKey, "a key that is ignored"},
		{ruleVersion, "a version of the language that flunq does not know"},
		{ruleUnsupported, "what flunq cannot run yet"},
		{ruleSkippedThen, "then of a task that its if skips: runtimes disagree"},
		{ruleExitInLoop, "exit in a loop: runtimes disagree what it leaves"},
		{ruleBranchExports, "two branches that export: runtimes disagree"},
		{ruleGoDuration, "a duration such as 1h30m, which only flunq accepts"},
		{ruleShadowed, "a variable whose name is taken: input, context"},
		{ruleCaseName, "two cases of a switch with one name"},
		{ruleAttribute, "an event attribute that is dropped, or invalid"},
	}
}
