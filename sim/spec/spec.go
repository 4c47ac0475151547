// Package spec implements test files: it reads them, checks simulated runs against their
// expectations, updates the expectations, and measures the coverage of documents.
package spec

import (
	"encoding/json"
	"time"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

// Suite is a test file with all files that it names, read once for all its cases.
type Suite struct {
	File     string
	Workflow *Document
	With     []*Document // other workflows that it may run
	Cases    []*Case

	dataFiles map[string]*dataFile // the files that contain expectations
	root      *yaml3.Node
}

// Document is a workflow document and its file.
type Document struct {
	File       string
	Definition *dsl.Definition
}

// Place is a position in a file; Line is 0 if it is unknown.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"column"`
}

// Case is one run of the workflow, or one for each seed, with its expectations.
type Case struct {
	Name    string
	At      Place
	Input   json.RawMessage
	Mocks   *mock.Set
	Secrets map[string]any
	Seeds   []uint64
	Start   time.Time
	Until   time.Duration // maximum virtual time of a run; 0: no limit
	Network bool          // requests that no mock answers go out
	Expect  Expect

	suite *Suite
	node  *yaml3.Node
}

// Suite returns the test file of the case.
func (c *Case) Suite() *Suite { return c.suite }

// documents returns the tested document and those that it may run.
func (s *Suite) documents() []*Document { return append([]*Document{s.Workflow}, s.With...) }

// document finds a document by the id of its workflow.
func (s *Suite) document(id string) *Document {
	for _, d := range s.documents() {
		if d.Definition.ID() == id {
			return d
		}
	}
	return nil
}

// place returns the position of a task of the tested workflow.
func (s *Suite) place(ref string) Place {
	t := s.Workflow.Definition.Task(ref)
	if t == nil {
		return Place{File: s.Workflow.File}
	}
	return Place{s.Workflow.File, t.Pos.Line, t.Pos.Column}
}

// Source returns the content of a file that places refer to; nil for other files.
func (s *Suite) Source(file string) []byte {
	if t := s.dataFiles[file]; t != nil {
		return t.source
	}
	for _, d := range s.documents() {
		if d.File == file {
			return d.Definition.Source
		}
	}
	return nil
}
