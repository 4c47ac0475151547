package expr

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/itchyny/gojq"
)

const (
	maxMachine = 32 << 20 // bytes of gojq's stacks, which recursion makes grow

	stride    = 64 // steps between two looks at gojq's machine
	freeChain = 32 // scopes around a step that cost nothing
	perChain  = 64 // further ones that are worth a step
)

// errRecursion is told to people as it stands.
var errRecursion = fmt.Errorf("recurses too deep: its calls need more than %d MiB (limit expression-recursion)", maxMachine>>20)

// layout is where gojq keeps its stacks. One step of gojq walks through all scopes around
// a call, however many recursion has made of them, and nothing but the stacks themselves
// says how many there are. They are only read.
type layout struct {
	stack, paths, scopes, values, forks int // fields of its machine
	data, index                         int // fields of a stack
	value, outer                        int // fields of a stack's member, and of a scope
}

// machineLayout looks once; a gojq that is built differently fails every test.
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
			panic("expr: gojq's machine has no " + name)
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

// look charges for what the steps since the last look cost beyond their number.
func (m *meter) look() error {
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
