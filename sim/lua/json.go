package lua

import (
	"encoding/json"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// luaJSON returns the table cjson with decode, the only function that the engine's scripts use.
func (r *Runner) luaJSON() *lua.LTable {
	null := r.state.NewUserData()
	table := r.state.SetFuncs(r.state.NewTable(), map[string]lua.LGFunction{
		"decode": func(l *lua.LState) int {
			decoder := json.NewDecoder(strings.NewReader(l.CheckString(1)))
			value, err := luaFromJSON(l, decoder, null)
			if err == nil && decoder.More() {
				err = fmt.Errorf("Expected the end but found invalid token at character %d", decoder.InputOffset()+1)
			}
			if err != nil {
				l.RaiseError("%s", err.Error())
			}
			l.Push(value)
			return 1
		},
	})
	table.RawSetString("null", null)
	return table
}

// luaFromJSON reads the next value, with fields in document order.
func luaFromJSON(l *lua.LState, decoder *json.Decoder, null *lua.LUserData) (lua.LValue, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, jsonProblem(decoder, err)
	}
	switch token := token.(type) {
	case bool:
		return lua.LBool(token), nil
	case float64:
		return lua.LNumber(token), nil
	case string:
		return lua.LString(token), nil
	case json.Delim:
		table := l.NewTable()
		for decoder.More() {
			if err := jsonElement(l, decoder, null, table, token); err != nil {
				return nil, err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return nil, jsonProblem(decoder, err)
		}
		return table, nil
	default:
		return null, nil
	}
}

// jsonElement reads one element of an array or one field of an object into table.
func jsonElement(l *lua.LState, decoder *json.Decoder, null *lua.LUserData, table *lua.LTable, open json.Delim) error {
	var key lua.LValue
	if open == '{' {
		var err error
		if key, err = luaFromJSON(l, decoder, null); err != nil {
			return err
		}
	}
	value, err := luaFromJSON(l, decoder, null)
	if err != nil {
		return err
	}
	if open == '{' {
		table.RawSet(key, value)
		return nil
	}
	table.Append(value)
	return nil
}

// jsonProblem returns an error that says where the input is not valid JSON.
func jsonProblem(decoder *json.Decoder, err error) error {
	return fmt.Errorf("Expected value but found invalid token at character %d: %w", decoder.InputOffset()+1, err)
}
