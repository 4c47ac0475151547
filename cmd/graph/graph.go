// Package graph draws a workflow as a Mermaid flowchart, as a tree for the terminal, or as
// nodes and edges in JSON.
package graph

import "flunq.io/flunq/engine/dsl"

// Graph is the flow of a workflow.
type Graph struct {
	Workflow Workflow `json:"workflow"`
	Nodes    []Node   `json:"nodes"`
	Edges    []Edge   `json:"edges"`
	Groups   []Group  `json:"groups"`
}

// Workflow identifies the workflow.
type Workflow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// Node is a task or a point where the flow begins, splits, joins or ends.
type Node struct {
	ID          string `json:"id"` // the reference of a task; other nodes add a suffix such as #if
	Kind        string `json:"kind"`
	Name        string `json:"name,omitempty"`
	Detail      string `json:"detail,omitempty"`
	Group       string `json:"group,omitempty"`
	Line        int    `json:"line,omitempty"`
	Unsupported bool   `json:"unsupported,omitempty"`
}

// The kinds of nodes that are not tasks.
const (
	kindStart   = "start"
	kindEnd     = "end"
	kindFaulted = "faulted"
	kindIf      = "if"
	kindJoin    = "join"
	kindCatch   = "catch"
)

// The ids of the first and last nodes. They differ from all references.
const (
	startID   = "start"
	endID     = "end"
	faultedID = "faulted"
)

// Edge leads from one node to another.
type Edge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"`
	Kind  string `json:"kind"` // next, jump, case, error or retry
}

// The kinds of edges.
const (
	next    = "next"
	jump    = "jump"
	caseOf  = "case"
	onError = "error"
	retried = "retry"
)

// Group is a task that contains other tasks, or the tasks of a catch.
type Group struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
}

// Of returns the flow of a definition.
func Of(def *dsl.Definition) *Graph {
	b := &builder{graph: &Graph{
		Workflow: Workflow{Namespace: def.Document.Namespace, Name: def.Document.Name, Version: def.Document.Version},
		Edges:    []Edge{},
		Groups:   []Group{},
	}}
	name := def.Document.Name + " " + def.Document.Version
	b.node(Node{ID: startID, Kind: kindStart, Name: name, Detail: documentDetail(def)})
	open := []openEdge{{from: startID, kind: next}}
	if len(def.Do) > 0 {
		b.connect(open, entry(def.Do[0]))
		open = b.list(def.Do, scope{handler: faultedID})
	}
	b.node(Node{ID: endID, Kind: kindEnd})
	b.connect(open, endID)
	for _, e := range b.graph.Edges {
		if e.To == faultedID {
			b.node(Node{ID: faultedID, Kind: kindFaulted})
			break
		}
	}
	return b.graph
}
