package decide

import (
	"encoding/json"
	"strconv"

	"flunq.io/flunq/engine/expr/canonical"
)

// snapshotHead begins every snapshot. Its number changes with the form of a State. If the number
// differs, Restore ignores the snapshot and the state is rebuilt from the history. Format 1 had no
// number and used Go's field names.
const snapshotHead = `{"format":2,`

// Snapshot encodes the state as JSON, for Restore. It writes the large values itself:
// encoding/json would validate and compact them a second time.
func (s *State) Snapshot() ([]byte, error) {
	light := *s
	light.Input, light.Context, light.Output, light.Root = Data{}, Data{}, Data{}, nil
	out, err := json.Marshal(&light)
	if err != nil {
		return nil, err
	}
	out = append([]byte(snapshotHead), out[1:len(out)-1]...)
	out = appendData(out, `,"input":`, s.Input)
	out = appendData(out, `,"context":`, s.Context)
	out = appendData(out, `,"output":`, s.Output)
	if s.Root != nil {
		if out, err = appendNode(append(out, `,"root":`...), s.Root); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendData appends a member, unless its value is null.
func appendData(out []byte, name string, d Data) []byte {
	if d.V == nil {
		return out
	}
	return canonical.Append(append(out, name...), d.V)
}

// appendNode appends a node and its children.
func appendNode(out []byte, n *Node) ([]byte, error) {
	light := *n
	light.Raw, light.Input, light.Children, light.For = Data{}, Data{}, nil, nil
	text, err := json.Marshal(&light)
	if err != nil {
		return nil, err
	}
	out = append(out, text[:len(text)-1]...)
	out = appendData(out, `,"raw":`, n.Raw)
	out = appendData(out, `,"input":`, n.Input)
	if f := n.For; f != nil {
		out = strconv.AppendInt(append(out, `,"for":{"index":`...), int64(f.Index), 10)
		out = append(appendData(out, `,"items":`, f.Items), '}')
	}
	before := `,"children":[`
	for _, child := range n.Children {
		if out, err = appendNode(append(out, before...), child); err != nil {
			return nil, err
		}
		before = ","
	}
	if len(n.Children) > 0 {
		out = append(out, ']')
	}
	return append(out, '}'), nil
}
