package lua

import "github.com/yuin/gopher-lua/ast"

// iteration runs the body of a loop once. It reports whether the loop is over, and how
// the script continues then.
func iteration(m *machine, f *frame, body []statement) (how flow, over bool) {
	switch run(m, f, body) {
	case broken:
		return onward, true
	case returned:
		return returned, true
	default:
		return onward, false
	}
}

func (c *compiler) while(s *ast.WhileStmt) statement {
	condition, body := c.condition(s.Condition), c.block(s.Stmts)
	return func(m *machine, f *frame) flow {
		for condition(m, f) {
			if how, over := iteration(m, f, body); over {
				return how
			}
		}
		return onward
	}
}

// count compiles for i = a, b, c.
func (c *compiler) count(s *ast.NumberForStmt) statement {
	first, last := c.expression(s.Init), c.expression(s.Limit)
	step := constant(number(1))
	if s.Step != nil {
		step = c.expression(s.Step)
	}
	known, slots, line := len(c.names), c.slots, s.Line()
	slot := c.declare(s.Name)
	body := c.block(s.Stmts)
	c.names, c.slots = c.names[:known], slots
	return func(m *machine, f *frame) flow {
		i := numeric(first(m, f), "'for' initial value must be a number", line)
		end := numeric(last(m, f), "'for' limit must be a number", line)
		by := numeric(step(m, f), "'for' step must be a number", line)
		for ; by > 0 && i <= end || by <= 0 && i >= end; i += by {
			f.vars[slot] = number(i)
			if how, over := iteration(m, f, body); over {
				return how
			}
		}
		return onward
	}
}

// each compiles for i, v in ipairs(list).
func (c *compiler) each(s *ast.GenericForStmt) statement {
	if len(s.Exprs) != 1 || len(s.Names) > 2 {
		leave("a loop over more than a list")
	}
	call, ok := s.Exprs[0].(*ast.FuncCallExpr)
	if !ok || c.builtin(call) != "ipairs" || len(call.Args) != 1 {
		leave("a loop over what is no list")
	}
	list, line := c.expression(call.Args[0]), s.Line()
	known, slots := len(c.names), c.slots
	index, element := c.declare(s.Names[0]), c.declare("")
	if len(s.Names) > 1 {
		c.names[len(c.names)-1].name = s.Names[1]
	}
	body := c.block(s.Stmts)
	c.names, c.slots = c.names[:known], slots
	return func(m *machine, f *frame) flow {
		t := tabled(list(m, f), "ipairs", line)
		for i := 1; i <= len(t.list) && t.list[i-1].is != nil; i++ {
			f.vars[index], f.vars[element] = number(float64(i)), t.list[i-1]
			if how, over := iteration(m, f, body); over {
				return how
			}
		}
		return onward
	}
}
