package budget

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/itchyny/gojq"
)

const (
	maxMachine = 32 << 20 // bytes of gojq's stacks, which grow with recursion

	stride    = 64 // steps between two inspections of gojq's machine
	freeChain = 32 // enclosing scopes of a step that are free
	perChain  = 64 // scopes beyond those that cost one step
)

// errRecursion is shown to users unchanged.
var errRecursion = fmt.Errorf("recurses too deep: its calls need more than %d MiB (limit expression-recursion)", maxMachine>>20)

// layout holds the field indexes of gojq's stacks. Each step of gojq walks through all scopes
// around a call. Recursion may create many, and only the stacks themselves reveal their number.
// The stacks are only read.
type layout struct {
	stack, paths, scopes, values, forks int // fields of its machine
	data, index                         int // fields of a stack
	value, outer                        int // fields of a stack's member, and of a scope
}

// machineLayout determines the layout once. With an incompatible gojq, every test fails.
//
//nolint:gochecknoglobals // computed once, then read-only
var machineLayout = sync.OnceValue(func() layout {
	query, err := gojq.Parse(".")
	if err != nil {
		panic(err)
	}
	env := reflect.TypeOf(query.Run(nil)).Elem()
	field := func(t reflect.Type, name string) int {
		f, ok := t.FieldByName(name)
		if !ok {
			panic("budget: gojq's machine has no " + name)
		}
		return f.Index[0]
	}
	l := layout{
		stack: field(env, "stack"), paths: field(env, "paths"), scopes: field(env, "scopes"),
		values: field(env, "values"), forks: field(env, "forks"),
	}
	scopes := env.Field(l.scopes).Type.Elem()
	l.data, l.index = field(scopes, "data"), field(scopes, "index")
	block := scopes.Field(l.data).Type.Elem()
	l.value = field(block, "value")
	l.outer = field(block.Field(l.value).Type, "outerindex")
	return l
})

// inspect charges for the cost of the steps since the last inspection, in addition to their number.
func (m *Meter) inspect() error {
	l := machineLayout()
	env := reflect.ValueOf(m.iter).Elem()
	height := func(stack int) int { return env.Field(stack).Elem().Field(l.data).Len() }
	size := 16*env.Field(l.values).Len() + 72*env.Field(l.forks).Len() +
		24*height(l.stack) + 40*height(l.paths) + 48*height(l.scopes)
	if size > maxMachine {
		return errRecursion
	}
	scopes := env.Field(l.scopes).Elem()
	data, chain := scopes.Field(l.data), 0
	for at := int(scopes.Field(l.index).Int()); at >= 0; chain++ {
		at = int(data.Index(at).Field(l.value).Field(l.outer).Int())
	}
	if chain > freeChain && !m.charge((chain-freeChain)*stride/perChain) {
		return errSteps
	}
	return nil
}
