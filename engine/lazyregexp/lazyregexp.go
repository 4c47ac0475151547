// Package lazyregexp has regular expressions that are compiled when they are first used. Compiling
// those of documents and expressions whenever flunq starts would take 7 % of the time of 'flunq version'.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled regular expression. It panics if the text is not
// one.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
