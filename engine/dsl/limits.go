package dsl

// What a document may hold. Each limit is far above what people write, and
// low enough that a document made to hurt is refused in well under a second.
const (
	// MaxSize is the size of a document's text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how deep lists and maps may be nested.
	MaxDepth = 100
	// MaxNodes is the number of values in a document, those that aliases repeat included.
	MaxNodes = 50_000
	// MaxKeys is the number of keys of one map.
	MaxKeys = 10_000
	// MaxAliases is the number of YAML aliases (*name) in a document.
	MaxAliases = 1_000
	// MaxDigits is the length of a whole number.
	MaxDigits = 400
	// MaxCompiled is the size of all expressions together, those of shared
	// policies counted for each place that uses them.
	MaxCompiled = 2 << 20
	// MaxMistakes is the number of mistakes, and of warnings, that are told of one document.
	MaxMistakes = 200
)
