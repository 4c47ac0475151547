package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// meant returns the keys that correspond to a word of another workflow language, the likeliest first.
func meant(word string) []string {
	switch strings.ToLower(word) {
	case "url", "uri", "href", "address":
		return []string{"endpoint", "uri"}
	case "endpoint":
		return []string{"uri", "document"}
	case "next", "goto", "transition", "nextstate", "next_state":
		return []string{"then"}
	case "foreach", "each", "loop", "iterate":
		return []string{"for", "each", "foreach"}
	case "condition", "when", "if", "unless":
		return []string{"if", "when"}
	case "delay", "sleep", "pause":
		return []string{"wait", "delay"}
	case "retries", "retrypolicy", "retry_policy":
		return []string{"retry"}
	case "task", "tasks", "steps", "states", "actions", "flow":
		return []string{"do"}
	case "parallel", "branches", "concurrent":
		return []string{"fork", "branches"}
	case "assign", "var", "vars", "let":
		return []string{"set"}
	case "id":
		return []string{"name", "operationId"}
	case "parameters", "args", "arguments", "params":
		return []string{"with", "parameters", "arguments"}
	case "except", "rescue", "onerror", "onerrors":
		return []string{"catch"}
	case "user", "login":
		return []string{"username"}
	case "pass", "passwd", "pwd":
		return []string{"password"}
	case "desc", "description":
		return []string{"summary", "description"}
	case "index":
		return []string{"at"}
	case "item":
		return []string{"each", "item"}
	case "operation":
		return []string{"operationId"}
	case "from":
		return []string{"as"}
	case "taskqueue":
		return []string{"namespace"}
	case "workflowtype":
		return []string{"name"}
	case "details":
		return []string{"detail"}
	case "data", "content", "payload":
		return []string{"body", "payload", "data"}
	case "secret":
		return []string{"use", "secrets"}
	case "throw", "error":
		return []string{"raise"}
	default:
		return nil
	}
}

// closest returns the word of all that was probably meant, or "".
func closest(word string, all []string) string {
	for _, m := range meant(word) {
		if slices.Contains(all, m) {
			return m
		}
	}
	return spelling.Word(word, all)
}

// didYouMean suggests the closest word of all, or lists those allowed.
func didYouMean(word string, all []string) string {
	if found := closest(word, all); found != "" {
		return question(found)
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > 20:
		return "allowed: " + strings.Join(shortened(all[:20]), ", ") + " and others"
	default:
		return "allowed: " + strings.Join(shortened(all), ", ")
	}
}

// question suggests a word.
func question(word string) string { return "did you mean " + yaml.Quote(word) + "?" }

func shortened(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = yaml.Short(w)
	}
	return out
}
