// Package report writes one HTML file about runs of a workflow: their timeline, the path through
// the workflow, the data at each step, and the failures. The file is self-contained, and equal runs
// give equal bytes.
package report

// Report is the content of the file.
type Report struct {
	Verb    string // run, replay or sim
	Version string // of flunq
	Command string // that repeats it

	Verdict Verdict
	Facts   []Fact // about everything
	Notes   []string

	Runs     []*Recording // the first one is shown first
	Files    []File       // replayed files, if there were several
	Findings []*Finding   // of a search
	Hints    []string     // likewise
}

// Verdict summarizes the result in a few words.
type Verdict struct {
	Text string
	Mood Mood
}

// Mood is how good a verdict is.
type Mood string

// The moods, which are also CSS classes.
const (
	Good    Mood = "good"
	Bad     Mood = "bad"
	Careful Mood = "careful"
	Neutral Mood = "neutral"
)

// Fact is a name with a value.
type Fact struct{ Name, Value string }

// File is a recording that was replayed.
type File struct {
	Name    string
	Verdict Verdict
	Text    string
}

// Difference is where a replay differs from the recording, from both sides.
type Difference struct {
	Where              string
	Recorded, Replayed string
	Now                string // the name of the other side: replayed, or new
	Path               string // into the data
	RecordedValue      string
	ReplayedValue      string
	Frames             []Frame
	Hint               string

	Event          int    // of the recording, from 1; 0: none
	Execution, Run string // of the task concerned
}

// Finding is a way in which runs of a search fail.
type Finding struct {
	Heading string
	Mood    Mood
	Rule    string
	Detail  string
	Counts  string // in how many runs, and with which faults
	Meaning string
	Story   []Line
	Sides   []Side // two orders, side by side
	Differ  []Change
	Repeat  string // the command that repeats it
	Runs    []int  // runs of the report that show it
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

// Step is an event in one of them.
type Step struct {
	At, Text string
	Marked   bool
}

// Change is a value that differs from the usual one.
type Change struct{ Path, Usual, Here string }
