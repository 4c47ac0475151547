package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSteps  = 400_000 // visits of a subschema with a value, or equivalent work
	maxParts  = 4_000   // objects in a document; the time of package jsonschema is quadratic in their number
	maxStates = 20_000  // states of one regular expression, with all repetitions expanded
	maxAll    = 200_000 // states of all regular expressions of a document
)

// The prices of what package jsonschema does. They are fitted: TestRandomSchemas requires that, whatever
// the schema and the data, the steps are used up within seconds.
const (
	levelsPerStep  = 16  // levels of nesting that make each step cost one more: errors contain their path
	inPlacePerStep = 32  // schemas that were applied to a value before this one
	unionsPerStep  = 4   // schemas that are applied in place, for each member: the evaluated ones are merged
	bytesPerStep   = 16  // of a string
	statesPerStep  = 32  // of a regular expression, for each byte of text
	manyStates     = 200 // regular expressions with more states use an algorithm that takes four times as long
	pairwise       = 20  // items that uniqueItems compares with each other; it hashes more of them
)

// errSteps is shown to users unchanged.
var errSteps = fmt.Errorf("takes too long to check: more than %d steps (limit schema-steps)", maxSteps)

// instance is a compiled schema with its own meter, for one validation at a time.
type instance struct {
	compiled *jsonschema.Schema
	left     int                         // steps until check gives up
	price    int                         // of a step: errors contain their path, whose memory grows with its depth
	inPlace  map[*jsonschema.Schema]int  // number of schemas that may be applied to the same value before this one
	walked   map[*jsonschema.Schema]bool // subschemas that prepare has visited; nil afterwards
}

// exhausted is the value with which the meter panics: package jsonschema offers no other way to stop
// it.
type exhausted struct{}

// newInstance installs the meter in every subschema, as its format: package jsonschema checks the
// format of each value before it validates the contents.
func newInstance(compiled *jsonschema.Schema, anchors []*jsonschema.Schema) *instance {
	i := &instance{compiled: compiled, inPlace: map[*jsonschema.Schema]int{}, walked: map[*jsonschema.Schema]bool{}}
	i.prepare(compiled, 0)
	for _, s := range anchors {
		i.prepare(s, 1)
	}
	i.walked = nil
	return i
}

// prepare visits each subschema again for each greater depth, up to a bound.
func (i *instance) prepare(s *jsonschema.Schema, depth int) {
	type visit struct {
		schema *jsonschema.Schema
		depth  int
	}
	const deepest = 10_000
	todo := []visit{{s, depth}}
	visits := 0
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v.schema == nil || i.walked[v.schema] && i.inPlace[v.schema] >= v.depth {
			continue
		}
		if i.inPlace[v.schema] = v.depth; !i.walked[v.schema] {
			i.walked[v.schema] = true
			i.meter(v.schema)
		}
		if visits++; v.depth < deepest && visits < 20*deepest {
			for _, sub := range sameValue(v.schema) {
				todo = append(todo, visit{sub, v.depth + 1})
			}
		}
		for _, sub := range otherValues(v.schema) {
			if !i.walked[sub] {
				todo = append(todo, visit{sub, 0})
			}
		}
	}
}

// sameValue returns the subschemas that apply to the value itself.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	out = slices.AppendSeq(out, maps.Values(s.DependentSchemas))
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return withoutNil(out)
}

// otherValues returns the subschemas that apply to values inside the value.
func otherValues(s *jsonschema.Schema) []*jsonschema.Schema {
	out := append([]*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}, s.PrefixItems...)
	out = slices.AppendSeq(out, maps.Values(s.Properties))
	out = slices.AppendSeq(out, maps.Values(s.PatternProperties))
	for _, one := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			out = append(out, one)
		case []*jsonschema.Schema:
			out = append(out, one...)
		}
	}
	return withoutNil(out)
}

func withoutNil(all []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// meter makes a subschema charge for its work on a value.
func (i *instance) meter(s *jsonschema.Schema) {
	own := s.Format
	same := 0
	for _, sub := range sameValue(s) {
		same += entry(sub)
	}
	fields, others, items := prices(s)
	tracked := len(sameValue(s)) / unionsPerStep
	format := &jsonschema.Format{Name: "steps"}
	if own != nil {
		format.Name = own.Name
	}
	format.Validate = func(v any) error {
		cost := same + i.inPlace[s]/inPlacePerStep // the visit itself is charged outside
		switch v := v.(type) {
		case map[string]any:
			cost += len(v) * (1 + others + tracked)
			if len(fields) > 0 {
				for name := range v {
					cost += fields[name]
				}
			}
		case []any:
			cost += len(v) * (items + tracked)
			if s.UniqueItems {
				cost += min(len(v), pairwise) * weight(v, i.left) / 2
			}
		case string:
			cost += len(v) / bytesPerStep
			if s.Pattern != nil {
				cost += len(v) * matching(s.Pattern) / statesPerStep
			}
		}
		i.charge(cost)
		if own == nil {
			return nil
		}
		if own.Name == "regex" {
			if text, ok := v.(string); ok {
				_, err := pattern(text)
				return err
			}
		}
		return own.Validate(v)
	}
	s.Format = format
}

// prices returns the cost of an object's members by name, in addition to a step, the cost
// of each other member, and that of each item of a list.
func prices(s *jsonschema.Schema) (fields map[string]int, others, items int) {
	for name, sub := range s.Properties {
		if cost := entry(sub) - 1; cost > 0 {
			if fields == nil {
				fields = map[string]int{}
			}
			fields[name] = cost
		}
	}
	price := func(sub *jsonschema.Schema) int {
		if sub == nil {
			return 0
		}
		return entry(sub)
	}
	for pattern, sub := range s.PatternProperties {
		others += entry(sub) + matching(pattern)/4
	}
	others += price(s.PropertyNames) + price(s.UnevaluatedProperties)
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		others += entry(sub) - 1
	}
	items += price(s.Items2020) + price(s.Contains) + price(s.UnevaluatedItems)
	dearest := 0
	for _, sub := range s.PrefixItems {
		dearest = max(dearest, entry(sub))
	}
	for _, one := range []any{s.Items, s.AdditionalItems} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			items += entry(one)
		case []*jsonschema.Schema:
			for _, sub := range one {
				dearest = max(dearest, entry(sub))
			}
		}
	}
	return fields, others, items + dearest
}

func (i *instance) charge(cost int) {
	if i.left -= cost * i.price; i.left < 0 {
		panic(exhausted{})
	}
}

// entry returns the cost of what package jsonschema does with a subschema before it checks the format.
func entry(s *jsonschema.Schema) int {
	cost := 1
	if s.Const != nil {
		cost += constant(*s.Const)
	}
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			cost += constant(value)
		}
	}
	return cost
}

// constant returns the cost of a comparison with a value of the schema; numbers are slow.
func constant(v any) int {
	switch v := v.(type) {
	case []any, map[string]any:
		return 4 * weight(v, maxSteps)
	case nil, bool, string:
		return 0
	default:
		return 4
	}
}

// weight returns the number of parts of a value, up to a maximum.
func weight(v any, limit int) int {
	sum := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if sum += weight(item, limit-sum); sum > limit {
				break
			}
		}
	case map[string]any:
		for _, item := range v {
			if sum += weight(item, limit-sum); sum > limit {
				break
			}
		}
	case string:
		sum += len(v) / 64
	}
	return sum
}

// check validates within the limits of the meter.
func (i *instance) check(data any) (err error) {
	i.left, i.price = maxSteps, 1+depth(data)/levelsPerStep
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exhausted:
			err = errSteps
		default:
			panic(r)
		}
	}()
	return i.compiled.Validate(data)
}

// depth returns the nesting depth of lists and objects.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			deepest = max(deepest, 1+depth(item))
		}
	case map[string]any:
		for _, item := range v {
			deepest = max(deepest, 1+depth(item))
		}
	}
	return deepest
}

// errParts is shown to users unchanged.
var errParts = fmt.Errorf("JSON schema: more than %d objects (limit schema-parts)", maxParts)

// errStates is shown to users unchanged.
var errStates = fmt.Errorf("regular expression of more than %d states, all repetitions written out (limit schema-states)", maxStates)

// errAllStates is shown to users unchanged.
var errAllStates = errors.New("regular expressions of too many states in one schema, all repetitions written out (limit schema-states)")

// states estimates the number of states of a schema's regular expression.
func states(r jsonschema.Regexp) int {
	if r, ok := r.(regex); ok {
		return r.states
	}
	return maxStates
}

// matching returns the cost of a regular expression for each byte of text, in parts of statesPerStep.
func matching(r jsonschema.Regexp) int {
	n := states(r)
	if n > manyStates {
		return 4 * n
	}
	return n
}

// stateCount estimates the number of states of a parsed regular expression.
func stateCount(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += stateCount(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, 10*maxStates)
}
