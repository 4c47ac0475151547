// Package report writes an HTML file about runs of a workflow: their timelines, the paths
// through the workflow, the data at each step, and the failures. The file is
// self-contained. Equal runs produce equal bytes.
package report

// Report is the content of the file.
type Report struct {
	Verb    string // run, replay or sim
	Version string // of flunq
	Command string // the command line that repeats the run

	Verdict Verdict
	Facts   []Fact // about all runs
	Notes   []string

	Runs     []*Recording // the first one is shown first
	Files    []File       // replayed files, if there were several
	Findings []*Finding   // of a search
	Hints    []string     // of a search
}

// Verdict summarizes the result in a few words.
type Verdict struct {
	Text   string
	Rating Rating
}

// Rating rates a verdict.
type Rating string

// The ratings, which are also CSS classes.
const (
	Good    Rating = "good"
	Bad     Rating = "bad"
	Careful Rating = "careful"
)

// Fact is a name and a value.
type Fact struct{ Name, Value string }

// File is a replayed recording.
type File struct {
	Name    string
	Verdict Verdict
	Text    string
}

// Difference is the first difference between a recording and its replay.
type Difference struct {
	Where              string
	Recorded, Replayed string
	Now                string // name of the other side, such as "replayed"
	Path               string // into the data
	RecordedValue      string
	ReplayedValue      string
	Frames             []Frame
	Hint               string

	Event          int    // of the recording, from 1; 0: none
	Execution, Run string // of the task concerned
}

// Finding is a finding of a search.
type Finding struct {
	Heading string
	Rating  Rating
	Rule    string
	Detail  string
	Counts  string // in how many runs it occurred
	Meaning string
	Story   []Line
	Sides   []Side // two orders, side by side
	Differ  []Change
	Repeat  string // the command that repeats it
	Runs    []int  // indexes of the runs that show it
}

// Line is a line of a story.
type Line struct {
	Text  string
	Fault bool
}

// Side is one of two runs with different orders.
type Side struct {
	Head  string
	Steps []Step
}

// Step is an event of a Side.
type Step struct {
	At, Text string
	Marked   bool
}

// Change is a value that differs from the usual outcome.
type Change struct{ Path, Usual, Here string }
