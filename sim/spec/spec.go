// Package spec is the form of test files: what they expect of a workflow's
// simulated runs, whether it holds, what to write where it does not, and which
// parts of the document no run has reached.
package spec

import (
	"encoding/json"
	"time"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

// Suite is a test file with all that it names, read once for all its cases.
type Suite struct {
	File     string
	Workflow *Document
	With     []*Document // further workflows that it may run
	Cases    []*Case

	trees map[string]*tree // the files that expectations stand in
	root  *yaml.Node
}

// Document is a workflow document and the file that it stands in.
type Document struct {
	File       string
	Definition *dsl.Definition
}

// Place is somewhere in a file; Line is 0 where it is not known.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"column"`
}

// Case is one run of the workflow, or one for each seed, and what is expected of it.
type Case struct {
	Name    string
	At      Place
	Input   json.RawMessage
	Mocks   *mock.Set
	Secrets map[string]any
	Seeds   []uint64
	Start   time.Time
	Until   time.Duration // of virtual time, after which the run is stopped; 0: none
	Network bool          // what no mock answers goes out
	Expect  Expect

	suite *Suite
	node  *yaml.Node
}

// Suite is the file that the case stands in.
func (c *Case) Suite() *Suite { return c.suite }

// document finds one of the suite's documents by the id of its workflow.
func (s *Suite) document(id string) *Document {
	for _, d := range append([]*Document{s.Workflow}, s.With...) {
		if d.Definition.ID() == id {
			return d
		}
	}
	return nil
}

// place is where a task of the tested workflow stands.
func (s *Suite) place(ref string) Place {
	t := s.Workflow.Definition.Task(ref)
	if t == nil {
		return Place{File: s.Workflow.File}
	}
	return Place{s.Workflow.File, t.Pos.Line, t.Pos.Column}
}

// Source is the text of a file that the suite's places point into, nil for others.
func (s *Suite) Source(file string) []byte {
	if t := s.trees[file]; t != nil {
		return t.source
	}
	for _, d := range append([]*Document{s.Workflow}, s.With...) {
		if d.File == file {
			return d.Definition.Source
		}
	}
	return nil
}
